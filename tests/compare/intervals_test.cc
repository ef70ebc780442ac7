#include "compare/differences.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "stats/distributions.h"
#include "tests/compare/made.h"

namespace xplane_time::compare {
namespace {

using stats::HolmAdjusted, stats::Variance;
using testing::Noise;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

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
