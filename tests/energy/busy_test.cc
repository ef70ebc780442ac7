#include "energy/busy.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "stats/random.h"

namespace xplane_time::energy {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Pointwise;

constexpr int64_t kS = 1'000'000'000'000;

TEST(BusyCurve, CountsTheUnion) {
  const BusyCurve curve({{1 * kS, 3 * kS}, {0, 2 * kS}, {5 * kS, 6 * kS}});
  EXPECT_DOUBLE_EQ(curve.total_s(), 4);
  const std::vector<double> instants_s = {-1, 0, 0.5, 3, 4, 5.25, 6, 7};
  EXPECT_THAT(curve.At(instants_s), ElementsAre(0, 0, 0.5, 3, 3, 3.25, 4, 4));
}

TEST(BusyCurve, OfNothingIsZero) {
  const BusyCurve curve({});
  EXPECT_EQ(curve.total_s(), 0);
  EXPECT_THAT(curve.At(std::vector<double>{1, 2}), ElementsAre(0, 0));
}

// Compares with the number of milliseconds in which the kernel ran.
TEST(BusyCurve, AgreesWithCounting) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    stats::Random random = stats::RandomFor(seed, 1, 0);
    std::vector<Interval> intervals;
    std::vector<int> runs(60, 0);
    for (uint64_t i = random.Below(8); i > 0; --i) {
      const auto from = static_cast<int64_t>(random.Below(50));
      const auto length = static_cast<int64_t>(random.Below(10));
      intervals.push_back({from * kS, (from + length) * kS});
      std::fill_n(runs.begin() + from, length, 1);
    }
    std::vector<double> instants_s, expected_s;
    double sum_s = 0;
    for (size_t i = 0; i < runs.size(); ++i) {
      instants_s.push_back(static_cast<double>(i));
      expected_s.push_back(sum_s);
      sum_s += runs[i];
    }
    const BusyCurve curve(intervals);
    ASSERT_THAT(curve.At(instants_s), Pointwise(DoubleNear(1e-9), expected_s)) << "seed " << seed;
    ASSERT_NEAR(curve.total_s(), sum_s, 1e-9);
  }
}

TEST(IdleShares, AreEqualWhereKernelsOverlap) {
  const std::vector<BusyCurve> kernels = {BusyCurve({{0, 12 * kS}}),
                                          BusyCurve({{8 * kS, 16 * kS}})};
  const std::vector<std::vector<double>> shares = IdleShares(kernels, /*capture_s=*/16, /*bins=*/4);
  EXPECT_THAT(shares[0], ElementsAre(4, 4, 2, 0));
  EXPECT_THAT(shares[1], ElementsAre(0, 0, 2, 4));
}

// Each time with executions is counted exactly once.
TEST(IdleShares, AddUpToTheUnion) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    stats::Random random = stats::RandomFor(seed, 2, 0);
    std::vector<BusyCurve> kernels;
    std::vector<Interval> all;
    for (int kernel = 0; kernel < 4; ++kernel) {
      std::vector<Interval> intervals;
      for (uint64_t i = random.Below(20); i > 0; --i) {
        const auto from_ps = static_cast<int64_t>(random.Below(9 * kS));
        intervals.push_back({from_ps, from_ps + static_cast<int64_t>(random.Below(kS))});
      }
      all.insert(all.end(), intervals.begin(), intervals.end());
      kernels.emplace_back(std::move(intervals));
    }
    double sum_s = 0;
    for (const std::vector<double>& of_kernel : IdleShares(kernels, /*capture_s=*/10, 7)) {
      for (const double each_s : of_kernel) sum_s += each_s;
    }
    ASSERT_NEAR(sum_s, BusyCurve(all).total_s(), 1e-9) << "seed " << seed;
  }
}

}  // namespace
}  // namespace xplane_time::energy
