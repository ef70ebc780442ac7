// Order statistics, centres, distributions and random numbers, each against a slow and obvious
// reference, or a table.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <vector>

#include "stats/distributions.h"
#include "stats/location.h"
#include "stats/order_statistics.h"
#include "stats/random.h"
#include "tests/compare/made.h"

namespace xplane_time::stats {
namespace {

using ::testing::DoubleNear;
using testing::Noise;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<double> Normals(size_t n, Random& random) {
  std::vector<double> values(n);
  for (double& value : values) value = random.Normal();
  return values;
}

double SlowMedian(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

// The median of all means of two: the classical estimate that a biweight must agree with.
double HodgesLehmann(const std::vector<double>& values) {
  std::vector<double> means;
  for (size_t i = 0; i < values.size(); ++i) {
    for (size_t j = i; j < values.size(); ++j) means.push_back((values[i] + values[j]) / 2);
  }
  return SlowMedian(means);
}

TEST(Robust, MediansAgreeWithSorting) {
  Random random(1);
  for (size_t n = 1; n < 40; ++n) {
    const std::vector<double> values = Normals(n, random);
    std::vector<double> scratch = values, sorted = values;
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(Median(scratch), SlowMedian(values));
    EXPECT_EQ(LowerMedian(scratch), sorted[(n - 1) / 2]);
    EXPECT_EQ(UpperMedian(scratch), sorted[n / 2]);
    EXPECT_EQ(sorted[NearestRank(n, 0.5)], sorted[(n - 1) / 2]);
    EXPECT_NEAR(InterpolatedQuantile(sorted, 0.5), SlowMedian(values), 1e-15);
    std::vector<double> distances;
    for (const double value : values) distances.push_back(std::abs(value - 0.25));
    EXPECT_EQ(MedianAbsoluteDeviation(values, 0.25), SlowMedian(distances));
  }
}

TEST(Quantiles, EachByItsDefinition) {
  const std::vector<double> sorted = {0.1, 0.2, 0.3, 0.7};
  EXPECT_EQ(sorted[NearestRank(4, 0.5)], 0.2);
  EXPECT_EQ(sorted[NearestRank(4, 0.51)], 0.3);
  EXPECT_EQ(NearestRank(4, 0), 0);
  EXPECT_EQ(NearestRank(4, 1), 3);
  EXPECT_EQ(InterpolatedQuantile(sorted, 0), 0.1);
  EXPECT_EQ(InterpolatedQuantile(sorted, 1), 0.7);
  EXPECT_DOUBLE_EQ(InterpolatedQuantile(sorted, 0.5), 0.25);
  EXPECT_DOUBLE_EQ(InterpolatedQuantileFromBelow(sorted, 0.5), 0.25);
  EXPECT_DOUBLE_EQ(InterpolatedQuantileFromBelow(sorted, 0.95), 0.64);
}

TEST(Quantiles, TheDeviationOfSortedIntegersIsThatOfNumbers) {
  Random random(9);
  for (size_t n = 1; n < 40; ++n) {
    std::vector<int64_t> sorted;
    for (size_t i = 0; i < n; ++i) sorted.push_back(static_cast<int64_t>(random.Below(50)));
    std::sort(sorted.begin(), sorted.end());
    const std::vector<double> numbers(sorted.begin(), sorted.end());
    const double median = InterpolatedQuantile(sorted, 0.5);
    EXPECT_EQ(SortedMedianAbsoluteDeviation(sorted, median),
              MedianAbsoluteDeviation(numbers, median));
  }
}

TEST(Robust, MeanSkipsWhatIsFarAway) {
  const std::vector<double> values = {1, 2, 3, 100};
  const SkippedMean mean = MeanWithin(values, 2, 5);
  EXPECT_EQ(mean.kept, 3u);
  EXPECT_EQ(mean.mean, 2);
  EXPECT_EQ(mean.squares, 2);
  EXPECT_EQ(MeanWithin(values, 50, 5).kept, 0u);
}

TEST(Robust, BiweightAgreesWithHodgesLehmannOnCleanSamplesAndIgnoresSpikes) {
  Random random(2);
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<double> values = Normals(40, random);
    const double clean = Biweight(values, SlowMedian(values), 1);
    EXPECT_THAT(clean, DoubleNear(HodgesLehmann(values), 0.12));
    for (const double spike : {30.0, 40.0, 50.0}) values.push_back(spike);
    EXPECT_THAT(Biweight(values, SlowMedian(values), 1), DoubleNear(clean, 1e-6));
  }
  EXPECT_EQ(Biweight(std::vector<double>{1, 2, 9}, 2, 0), 2);
}

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

// Powers of two-sided t tests, by sample size and standardized effect, as published tables have
// them.
TEST(NoncentralStudentTest, PowersAreThoseOfTheTables) {
  const auto power = [](double n, double effect) {
    const double df = 2 * n - 2;
    return NoncentralStudentTail(StudentQuantile(0.025, df), df, effect * std::sqrt(n / 2));
  };
  EXPECT_NEAR(power(64, 0.5), 0.8015, 1e-4);
  EXPECT_NEAR(power(17, 1), 0.8070, 1e-4);
}

TEST(NoncentralStudentTest, WithoutAShiftItIsStudents) {
  for (const double df : {1.0, 1.7, 2.0, 5.0, 30.0, 1000.0}) {
    for (const double t : {-3.0, -0.5, 0.0, 0.1, 1.0, 4.0, 40.0}) {
      EXPECT_NEAR(NoncentralStudentTail(t, df, 0), StudentTail(t, df), 1e-4) << t << " " << df;
    }
  }
}

TEST(NoncentralStudentTest, AgreesWithDraws) {
  Random random(7);
  constexpr int kDraws = 20000;
  for (const int df : {1, 3, 12}) {
    for (const double shift : {-1.0, 2.0, 8.0}) {
      for (const double t : {-1.0, 1.5, 9.0}) {
        int beyond = 0;
        for (int i = 0; i < kDraws; ++i) {
          double squares = 0;
          for (int j = 0; j < df; ++j) squares += std::pow(random.Normal(), 2);
          beyond += (random.Normal() + shift) / std::sqrt(squares / df) > t;
        }
        EXPECT_NEAR(NoncentralStudentTail(t, df, shift), static_cast<double>(beyond) / kDraws,
                    0.016)
            << t << " " << df << " " << shift;
      }
    }
  }
}

TEST(FisherTest, TailsAreThoseOfTheTables) {
  EXPECT_NEAR(FisherTail(4.10, 2, 10), 0.05, 5e-4);
  EXPECT_NEAR(FisherTail(5.32, 1, 8), 0.05, 5e-4);
  EXPECT_NEAR(FisherTail(10.04, 1, 10), 0.01, 5e-4);
  // F(1, n) is t(n) squared.
  EXPECT_NEAR(FisherTail(2.5 * 2.5, 1, 9), 2 * StudentTail(2.5, 9), 1e-12);
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

TEST(Random, IsSplitMix64) {
  Random random(1234567);  // the vector of the reference implementation
  EXPECT_EQ(random.Next(), 6457827717110365317u);
  EXPECT_EQ(random.Next(), 3203168211198807973u);
}

}  // namespace
}  // namespace xplane_time::stats
