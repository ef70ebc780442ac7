#include "compare/intervals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "tests/compare/made.h"

namespace xplane_time::compare {
namespace {

using testing::Noise;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(StudentTest, QuantilesAreThoseOfTheTables) {
  struct Case {
    double tail, df, t;
  };
  // Any table of Student's t; the last column of each tail is the normal.
  constexpr Case kCases[] = {
      {0.025, 1, 12.7062},         {0.025, 2, 4.30265},   {0.025, 10, 2.22814},
      {0.025, 30, 2.04227},        {0.005, 1, 63.6567},   {0.005, 4, 4.60409},
      {0.005, 18, 2.87844},        {0.0005, 1, 636.619},  {0.0005, 2, 31.5991},
      {0.0005, 5, 6.86883},        {0.0005, 18, 3.92165}, {0.1, 7, 1.41492},
      {0.25, 3, 0.764892},         {0.4, 1, 0.324920},    {0.025, kInfinity, 1.95996},
      {0.0005, kInfinity, 3.29053}};
  for (const Case& at : kCases) {
    EXPECT_NEAR(StudentQuantile(at.tail, at.df) / at.t, 1, 1e-5) << at.tail << " " << at.df;
    EXPECT_NEAR(StudentTail(at.t, at.df) / at.tail, 1, 1e-4) << at.tail << " " << at.df;
  }
}

TEST(StudentTest, ClosedFormsOfOneAndTwoDegrees) {
  for (double t = 0.01; t < 1e4; t *= 1.7) {
    const double one = 0.5 - std::atan(t) / std::numbers::pi;
    const double two = 0.5 - t / (2 * std::sqrt(2 + t * t));
    EXPECT_NEAR(StudentTail(t, 1), one, 1e-12) << t;
    EXPECT_NEAR(StudentTail(t, 2), two, 1e-12) << t;
    EXPECT_NEAR(StudentTail(-t, 2), 1 - two, 1e-12) << t;
  }
}

// Simpson's rule on the density, from t to where nothing is left.
double IntegratedTail(double t, double df) {
  const double scale =
      std::exp(std::lgamma((df + 1) / 2) - std::lgamma(df / 2)) / std::sqrt(df * std::numbers::pi);
  const auto density = [&](double x) { return scale * std::pow(1 + x * x / df, -(df + 1) / 2); };
  // x = t + u / (1 - u) maps [0, 1) to the whole tail.
  constexpr int kSteps = 20000;
  double sum = 0;
  for (int i = 0; i < kSteps; ++i) {
    const double u = static_cast<double>(i) / kSteps, weight = i == 0 ? 1 : i % 2 == 1 ? 4 : 2;
    sum += weight * density(t + u / (1 - u)) / ((1 - u) * (1 - u));
  }
  return sum / (3 * kSteps);
}

TEST(StudentTest, TailIsTheIntegralOfTheDensity) {
  for (const double df : {2.5, 3.0, 7.3, 18.0, 57.0}) {
    for (const double t : {0.0, 0.5, 2.0, 4.0}) {
      EXPECT_NEAR(StudentTail(t, df), IntegratedTail(t, df), 1e-7) << t << " " << df;
    }
  }
}

TEST(StudentTest, QuantileInvertsTheTail) {
  for (const double df : {1.0, 1.3, 2.0, 4.7, 18.0, 200.0, 1e6, 1e9}) {
    for (double tail = 0.49; tail > 1e-12; tail /= 3) {
      EXPECT_NEAR(StudentTail(StudentQuantile(tail, df), df) / tail, 1, 1e-7) << tail << " " << df;
    }
  }
}

TEST(StudentTest, NoDegreesOfFreedomIsNoInterval) {
  EXPECT_EQ(StudentQuantile(0.025, 0), kInfinity);
  EXPECT_EQ(StudentQuantile(0.5, 3), 0);
}

TEST(FisherTest, TailsAreThoseOfTheTables) {
  EXPECT_NEAR(FisherTail(4.10, 2, 10), 0.05, 5e-4);
  EXPECT_NEAR(FisherTail(5.32, 1, 8), 0.05, 5e-4);
  EXPECT_NEAR(FisherTail(10.04, 1, 10), 0.01, 5e-4);
  // F(1, n) is t(n) squared.
  EXPECT_NEAR(FisherTail(2.5 * 2.5, 1, 9), 2 * StudentTail(2.5, 9), 1e-12);
}

// By definition: p of rank i is the largest of (m - j) p_(j) over ranks up to i.
std::vector<double> SlowHolm(const std::vector<double>& p_values) {
  std::vector<double> out;
  for (const double own : p_values) {
    double largest = 0;
    for (const double p : p_values) {
      if (p > own) continue;
      const auto smaller =
          std::count_if(p_values.begin(), p_values.end(), [p](double other) { return other < p; });
      largest = std::max(largest,
                         static_cast<double>(p_values.size() - static_cast<size_t>(smaller)) * p);
    }
    out.push_back(std::min(1.0, largest));
  }
  return out;
}

TEST(HolmTest, AgreesWithTheDefinition) {
  Noise noise(7);
  for (int repetition = 0; repetition < 200; ++repetition) {
    std::vector<double> p_values(1 + static_cast<size_t>(repetition % 9));
    for (double& p : p_values) p = std::pow(noise.Uniform(), 3);
    const std::vector<double> want = SlowHolm(p_values), got = HolmAdjusted(p_values);
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-15);
  }
  EXPECT_TRUE(HolmAdjusted({}).empty());
}

// All tiny inputs: the centre minimizes Huber's loss, found on a grid.
TEST(HuberTest, CentreMinimizesTheLoss) {
  const auto median = [](std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const size_t n = values.size();
    return (values[(n - 1) / 2] + values[n / 2]) / 2;
  };
  for (int code = 0; code < 5 * 5 * 5 * 5; ++code) {
    const std::vector<double> values = {
        static_cast<double>(code % 5), static_cast<double>(code / 5 % 5),
        static_cast<double>(code / 25 % 5), static_cast<double>(code / 125)};
    std::vector<double> deviations;
    for (const double value : values) deviations.push_back(std::abs(value - median(values)));
    const double bound = 1.345 * 1.4826 * median(deviations);
    const auto loss = [&](double at) {
      double sum = 0;
      for (const double value : values) {
        const double off = std::abs(value - at);
        sum += off < bound ? off * off / 2 : bound * off - bound * bound / 2;
      }
      return sum;
    };
    double least = loss(0);
    for (double at = 0; at <= 4; at += 0.01) least = std::min(least, loss(at));
    EXPECT_LE(loss(HuberCentre(values).value), least + 1e-9) << code;
  }
}

TEST(HuberTest, ASpikeHardlyMovesTheCentre) {
  std::vector<double> values(21);
  std::iota(values.begin(), values.end(), -10.0);
  values.back() = 1e6;
  EXPECT_NEAR(HuberCentre(values).value, 0, 2);
  EXPECT_LT(HuberCentre(values).variance, 10);
}

TEST(HuberTest, EqualValuesHaveNoScatter) {
  EXPECT_EQ(HuberCentre({3, 3, 3}).value, 3);
  EXPECT_EQ(HuberCentre({3, 3, 3}).variance, 0);
  EXPECT_EQ(HuberCentre({3}).df, 0);
}

TEST(HuberTest, VarianceIsThatOfRepeatedCentres) {
  Noise noise(11);
  std::vector<double> centres, variances;
  for (int repetition = 0; repetition < 2000; ++repetition) {
    std::vector<double> values(20);
    for (double& value : values) value = noise.Normal();
    const Centre centre = HuberCentre(values);
    centres.push_back(centre.value);
    variances.push_back(centre.variance);
  }
  EXPECT_NEAR(Mean(variances) / Variance(centres), 1, 0.12);
}

std::vector<Centre> Exact(const std::vector<double>& values) {
  std::vector<Centre> out;
  for (const double value : values) out.push_back({value, 0, 10});
  return out;
}

TEST(DifferenceTest, EqualSidesGiveStudentsTwoSampleTest) {
  const auto d = UnpairedDifference(Exact({1, 2, 3}), Exact({2, 3, 4}), std::nullopt);
  EXPECT_DOUBLE_EQ(d.estimate, 1);
  EXPECT_DOUBLE_EQ(d.standard_error, std::sqrt(2.0 / 3));
  EXPECT_DOUBLE_EQ(d.df, 4);
}

TEST(DifferenceTest, OneCaptureASideKnowsNothing) {
  EXPECT_EQ(UnpairedDifference(Exact({1}), Exact({2}), std::nullopt).df, 0);
  EXPECT_EQ(PairedDifference(Exact({1}), Exact({2}), std::nullopt).df, 0);
}

TEST(DifferenceTest, OneCaptureBorrowsTheOtherSidesScatter) {
  const auto d = UnpairedDifference(Exact({1, 2, 3}), Exact({5}), std::nullopt);
  EXPECT_DOUBLE_EQ(d.standard_error, std::sqrt(1 + 1.0 / 3));
  EXPECT_DOUBLE_EQ(d.df, 2);
}

TEST(DifferenceTest, NeverSurerThanThePooledOrWelchsTest) {
  Noise noise(3);
  for (int repetition = 0; repetition < 300; ++repetition) {
    std::vector<double> base(2 + static_cast<size_t>(repetition % 5)),
        head(2 + static_cast<size_t>(repetition % 3));
    for (double& value : base) value = noise.Normal();
    for (double& value : head) value = 3 * noise.Normal();
    const double nb = static_cast<double>(base.size()), nh = static_cast<double>(head.size());
    const double vb = Variance(base), vh = Variance(head);
    const double pooled = ((nb - 1) * vb + (nh - 1) * vh) / (nb + nh - 2) * (1 / nb + 1 / nh);
    const double welch = vb / nb + vh / nh;
    const double welch_df =
        welch * welch / (vb * vb / nb / nb / (nb - 1) + vh * vh / nh / nh / (nh - 1));
    const auto d = UnpairedDifference(Exact(base), Exact(head), std::nullopt);
    EXPECT_NEAR(d.standard_error, std::sqrt(std::max(pooled, welch)), 1e-12);
    EXPECT_NEAR(d.df, std::min(nb + nh - 2, welch_df), 1e-9);
  }
}

TEST(DifferenceTest, CapturesThatAgreeAreNotSurerThanTheirSamples) {
  const std::vector<Centre> base = {{1, 0.04, 9}, {1, 0.04, 9}},
                            head = {{1, 0.04, 9}, {1, 0.04, 9}};
  const auto d = UnpairedDifference(base, head, std::nullopt);
  EXPECT_NEAR(d.standard_error, std::sqrt(0.04), 1e-12);
}

TEST(DifferenceTest, AGivenOffsetIsCountedOnBothSides) {
  const auto d = UnpairedDifference(Exact({0}), Exact({0.02}), 0.01);
  EXPECT_NEAR(d.standard_error, 0.01 * std::sqrt(2.0), 1e-12);
  EXPECT_EQ(d.df, kInfinity);
  const auto paired = PairedDifference(Exact({0, 0}), Exact({0.02, 0.03}), 0.01);
  EXPECT_NEAR(paired.standard_error, 0.01, 1e-12);
}

}  // namespace
}  // namespace xplane_time::compare
