// Boundary, Holm and orders, each against a slow and obvious reference.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "decide/comparer.h"
#include "decide/race.h"
#include "stats/distributions.h"
#include "stats/random.h"

namespace xplane_time::decide {
namespace {

using stats::NormalScore, stats::NormalTail, stats::Random, stats::RandomFor;
using ::testing::DoubleNear;
using ::testing::ElementsAre;

TEST(Boundary, NormalScoreIsNearTheTailOfT) {
  // Tails of Student's t, from tables: P(T > t) and the normal z of the same tail.
  struct Case {
    double df, t, z;
  };
  for (const Case& c :
       {Case{3, 4.541, 2.326}, Case{5, 3.365, 2.326}, Case{5, 5.893, 3.090}, Case{10, 2.764, 2.326},
        Case{10, 4.144, 3.090}, Case{30, 3.385, 3.090}, Case{100, 3.174, 3.090}}) {
    EXPECT_THAT(NormalScore(c.t, c.df), DoubleNear(c.z, 0.05)) << c.df << " " << c.t;
    EXPECT_EQ(NormalScore(-c.t, c.df), -NormalScore(c.t, c.df));
  }
  // Below, where it is not near: cautious.
  EXPECT_LT(NormalScore(31.82, 1), 2.326);
  EXPECT_THAT(NormalTail(1.96), DoubleNear(0.025, 1e-4));
}

// Every set of hypotheses by its own Bonferroni test: what Holm's step-down is the short cut of.
std::vector<bool> ClosedTest(const std::vector<double>& evidence, double alpha) {
  const size_t n = evidence.size();
  std::vector<bool> rejected(n, true);
  for (unsigned set = 1; set < 1u << n; ++set) {
    double strongest = 0, size = 0;
    for (size_t i = 0; i < n; ++i) {
      if (set >> i & 1) strongest = std::max(strongest, evidence[i]), ++size;
    }
    if (strongest * alpha >= size) continue;
    for (size_t i = 0; i < n; ++i) {
      if (set >> i & 1) rejected[i] = false;
    }
  }
  return rejected;
}

TEST(Boundary, HolmIsTheClosedTest) {
  Random random(3);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<double> evidence(random.Below(7));
    for (double& value : evidence) value = std::exp(3 * random.Normal() + 3);
    std::vector<uint32_t> variants(evidence.size());
    std::iota(variants.begin(), variants.end(), 0);
    std::vector<bool> rejected(evidence.size());
    for (const uint32_t v : Rejected(variants, 0.05, [&](uint32_t v) { return evidence[v]; })) {
      rejected[v] = true;
    }
    EXPECT_EQ(rejected, ClosedTest(evidence, 0.05));
  }
}

Comparison OfSamples(double log_ratio, uint32_t rounds) {
  const double se = 0.014 / std::sqrt(rounds);
  return {.rounds = rounds,
          .kept = rounds,
          .log_ratio = log_ratio,
          .sd = 0.014,
          .se = se,
          .df = static_cast<double>(rounds) - 1,
          .usable = true};
}

TEST(Boundary, EvidenceGrowsWithDistanceAndRounds) {
  for (const uint32_t rounds : {4u, 10u, 40u}) {
    double last = 0;
    for (double log_ratio = 0; log_ratio < 0.05; log_ratio += 0.001) {
      const double evidence = Evidence(OfSamples(log_ratio, rounds), {-0.005, 0.01});
      EXPECT_GE(evidence, last);
      last = evidence;
    }
  }
  EXPECT_GT(Evidence(OfSamples(0.01, 40), {-0.005, 0.01}),
            Evidence(OfSamples(0.01, 10), {-0.005, 0.01}));
  EXPECT_EQ(Evidence(OfSamples(-0.01, 40), {-0.005, 0.01}), 0);
  EXPECT_EQ(Evidence(Comparison{}, {-1, 0.01}), 0);
}

TEST(Boundary, LowerBoundIsWhereEvidenceIsOneOverAlpha) {
  for (const uint32_t rounds : {6u, 20u, 200u}) {
    const Comparison comparison = OfSamples(0.01, rounds);
    const auto lo = LowerBound(comparison, 0.01, 0.01);
    ASSERT_TRUE(lo.has_value());
    EXPECT_LT(*lo, 0.01);
    EXPECT_THAT(Evidence(comparison, {*lo, 0.01}), DoubleNear(100, 1e-3));
    const auto hi = LowerBound(Mirrored(comparison), 0.01, 0.01);
    ASSERT_TRUE(hi.has_value());
    EXPECT_THAT(-*hi - 0.01, DoubleNear(0.01 - *lo, 1e-9));
  }
  EXPECT_FALSE(LowerBound(Comparison{}, 0.01, 0.01).has_value());
}

TEST(Boundary, SpikesAloneNeverSuffice) {
  Comparison lone{.rounds = 2, .kept = 2, .log_ratio = 1, .sd = 0.014, .se = 0.01, .df = 40};
  lone.screening = lone.pooled = lone.usable = true;
  lone.spike_chance = kMaxSpikeChance;
  EXPECT_GT(Evidence(lone, {-0.005, 0.01}), 1e6);
  lone.spike_chance = 2 * kMaxSpikeChance;
  EXPECT_EQ(Evidence(lone, {-0.005, 0.01}), 0);
}

// The whole boundary at its null, by simulation: walks of 400 rounds whose spread is estimated as
// they go, looked at in every round. At most alpha of them may ever cross.
TEST(Boundary, CrossesAtTheNullNoMoreOftenThanAlpha) {
  constexpr int kWalks = 4000;
  constexpr double kAlpha = 0.05, kSd = 0.014, kNull = -0.005;
  int crossed = 0;
  for (int walk = 0; walk < kWalks; ++walk) {
    Random random = RandomFor(4, 0, static_cast<uint64_t>(walk));
    double n = 0, mean = 0, squares = 0;
    bool has_crossed = false;
    while (n < 400 && !has_crossed) {
      const double value = kNull + kSd * random.Normal();
      const double step = value - mean;
      mean += step / ++n;
      squares += step * (value - mean);
      if (n < kScreeningRounds) continue;
      Comparison comparison{.kept = static_cast<uint32_t>(n), .log_ratio = mean, .df = n - 1};
      comparison.sd = std::sqrt(squares / (n - 1));
      comparison.se = comparison.sd / std::sqrt(n);
      comparison.usable = true;
      has_crossed = Evidence(comparison, {kNull, 0.01}) * kAlpha >= 1;
    }
    crossed += has_crossed;
  }
  EXPECT_LE(crossed, kAlpha * kWalks);
  EXPECT_GE(crossed, 0.2 * kAlpha * kWalks);  // and is not so cautious as to waste runs
}

TEST(Comparison, BorrowsTheSpreadOfOthersUnlessItsOwnRefutesIt) {
  using decide::FromRatios;
  const std::vector<double> calm = {0.010, 0.012, 0.009, 0.011};
  const std::vector<double> wild = {0.010, 0.060, -0.050, 0.030};
  constexpr double kOthersDf = 12, kOthersSd = 0.002;
  EXPECT_EQ(FromRatios(calm, kOthersDf, kOthersSd).df, kOthersDf + 3);
  const decide::Comparison own = FromRatios(wild), lent = FromRatios(wild, kOthersDf, kOthersSd);
  EXPECT_EQ(lent.df, 3);
  EXPECT_EQ(lent.sd, own.sd);
  EXPECT_EQ(lent.log_ratio, own.log_ratio);
}

TEST(Orders, EachIsFirstAndFollowsEachOtherEquallyOften) {
  EXPECT_THAT(WilliamsRow(4, 0), ElementsAre(0, 1, 3, 2));
  for (uint32_t k = 1; k <= 21; ++k) {
    const uint32_t rows = k % 2 == 0 ? k : 2 * k;
    std::map<uint32_t, int> first;
    std::map<std::pair<uint32_t, uint32_t>, int> follows;
    for (uint32_t row = 0; row < rows; ++row) {
      const std::vector<uint32_t> order = WilliamsRow(k, row);
      EXPECT_EQ(order, WilliamsRow(k, row + 7 * rows));
      EXPECT_EQ(std::set<uint32_t>(order.begin(), order.end()).size(), k);
      ++first[order[0]];
      for (size_t i = 1; i < k; ++i) ++follows[{order[i - 1], order[i]}];
    }
    for (const auto& [variant, times] : first) EXPECT_EQ(times, rows / k) << variant;
    EXPECT_EQ(first.size(), k);
    EXPECT_EQ(follows.size(), size_t{k} * (k - 1));
    for (const auto& [pair, times] : follows) EXPECT_EQ(times, rows / k) << k;
  }
}

}  // namespace
}  // namespace xplane_time::decide
