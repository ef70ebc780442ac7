// How often tests of variation are wrong where nothing is to be found, and whether they find.
#include "insight/variation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "stats/random.h"

namespace xplane_time::insight {
namespace {

using stats::Random;

enum class Noise { kNormal, kLognormal, kHeavy, kTicks };
constexpr Noise kNoises[] = {Noise::kNormal, Noise::kLognormal, Noise::kHeavy, Noise::kTicks};

double Draw(Noise noise, Random* random) {
  const double z = random->Normal();
  switch (noise) {
    case Noise::kNormal:
      return 100 * (1 + 0.02 * z);
    case Noise::kLognormal:
      return 100 * std::exp(0.2 * z);
    case Noise::kHeavy:  // Student's t with two degrees of freedom, nearly
      return 100 * std::exp(0.03 * z / std::sqrt(random->Uniform()));
    case Noise::kTicks:
      return std::round(100 * (1 + 0.02 * z));
  }
  return 0;
}

// Of `tried`, no more than a rate that is kept would leave in all but one of 10,000 tests.
void ExpectRate(int wrong, int tried, double rate, const char* what) {
  const double mean = tried * rate, sd = std::sqrt(mean);
  EXPECT_LE(wrong, mean + 4 * sd + 1) << what << " of " << tried;
}

TEST(Variation, RunsInAnyOrderRarelyGotSlower) {
  constexpr int kTries = 1000;
  for (const Noise noise : kNoises) {
    for (const size_t runs : {12, 20, 60}) {
      int percent = 0, permille = 0;
      for (uint64_t seed = 0; seed < kTries; ++seed) {
        Random random(seed * 1000 + runs);
        std::vector<double> times(runs);
        for (double& time : times) time = Draw(noise, &random);
        const auto test = GotSlower(times);
        ASSERT_TRUE(test.has_value());
        percent += test->p_value <= 0.01 ? 1 : 0;
        permille += test->p_value <= 0.001 ? 1 : 0;
      }
      ExpectRate(percent, kTries, 0.01, "1 %");
      ExpectRate(permille, kTries, 0.001, "1 permille");
    }
  }
}

TEST(Variation, PeersAtTheLeastRatioAreRarelySlower) {
  constexpr int kTries = 1000;
  for (const Noise noise : kNoises) {
    for (const size_t runs : {3, 5, 30}) {
      int percent = 0;
      for (uint64_t seed = 0; seed < kTries; ++seed) {
        Random random(seed * 1000 + runs);
        std::vector<std::vector<double>> times(4, std::vector<double>(runs));
        for (size_t device = 0; device < times.size(); ++device) {
          for (double& time : times[device]) {
            time = Draw(noise, &random) * (device == 0 ? kLeastRatio : 1);
          }
        }
        const auto tests = SlowerThanPeers(times);
        ASSERT_TRUE(tests.has_value());
        double least = 1;
        for (const PeerTest& test : *tests) least = std::min(least, test.p_value);
        percent += least <= 0.01 / 4 ? 1 : 0;
      }
      ExpectRate(percent, kTries, 0.01, "1 %");
    }
  }
}

TEST(Variation, AChangeIsFoundWhereItIs) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Random random(seed);
    const size_t runs = 30 + random.Below(100), change = 10 + random.Below(runs - 20);
    std::vector<double> times;
    for (size_t i = 0; i < runs; ++i) {
      times.push_back(Draw(Noise::kNormal, &random) * (i < change ? 1 : 1.15));
    }
    const auto test = GotSlower(times);
    ASSERT_TRUE(test.has_value());
    EXPECT_LT(test->p_value, 0.001) << seed;
    EXPECT_NEAR(test->ratio, 1.15, 0.03) << seed;
    EXPECT_NEAR(test->fast_level, 100, 2) << seed;
    EXPECT_TRUE(test->is_for_good) << seed;
  }
}

TEST(Variation, StretchesAreFoundAndASlowBeginningIsNone) {
  std::vector<double> times, beginning;
  Random random(1);
  for (int i = 0; i < 60; ++i) {
    const double noise = Draw(Noise::kNormal, &random);
    times.push_back(noise * (i / 10 % 2 == 0 ? 1 : 1.2));
    beginning.push_back(noise * (i < 15 ? 1.5 : 1));
  }
  const auto test = GotSlower(times);
  EXPECT_LT(test->p_value, 0.001);
  EXPECT_NEAR(test->ratio, 1.2, 0.03);
  EXPECT_FALSE(test->is_for_good);
  EXPECT_GT(GotSlower(beginning)->p_value, 0.1);
}

TEST(Variation, ASlowPeerIsFound) {
  Random random(1);
  std::vector<std::vector<double>> times(3);
  for (size_t device = 0; device < 3; ++device) {
    for (int i = 0; i < 20; ++i) {
      times[device].push_back(Draw(Noise::kNormal, &random) * (device == 1 ? 1.2 : 1));
    }
  }
  const auto tests = SlowerThanPeers(times);
  EXPECT_LT((*tests)[1].p_value, 1e-6);
  EXPECT_NEAR((*tests)[1].ratio, 1.2, 0.02);
  EXPECT_GT((*tests)[0].p_value, 0.5);
  EXPECT_GT((*tests)[2].p_value, 0.5);
}

TEST(Variation, TooFewOrEqualRunsSayNothing) {
  EXPECT_FALSE(GotSlower(std::vector<double>(kLeastRuns - 1, 1)).has_value());
  EXPECT_EQ(GotSlower(std::vector<double>(kLeastRuns, 1))->p_value, 1);
  EXPECT_FALSE(SlowerThanPeers(std::vector<std::vector<double>>(3, {1, 1})).has_value());
  const auto tests = SlowerThanPeers(std::vector<std::vector<double>>(3, {1, 1, 1}));
  ASSERT_TRUE(tests.has_value());
  for (const PeerTest& test : *tests) {
    EXPECT_EQ(test.p_value, 1);
  }
}

}  // namespace
}  // namespace xplane_time::insight
