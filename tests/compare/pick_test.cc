#include "xplane_time/pick.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compare/differences.h"
#include "stats/distributions.h"
#include "stats/location.h"
#include "tests/compare/made.h"

namespace xplane_time {
namespace {

using ::testing::ElementsAre;
using testing::Energies;
using testing::Noise;
using testing::Rounds;

constexpr double kNotRun = std::numeric_limits<double>::quiet_NaN();

// Rounds with a common drift: variant v is slower than variant 0 by gaps[v].
Measurements Drifting(const std::vector<double>& gaps, int rounds, double noise_std, Noise* noise) {
  std::vector<std::vector<double>> logs;
  for (int r = 0; r < rounds; ++r) {
    const double drift = 0.02 * noise->Normal();
    auto& round = logs.emplace_back();
    for (const double gap : gaps) {
      round.push_back(16 + drift + std::log1p(gap) + noise_std * noise->Normal());
    }
  }
  return Rounds(logs);
}

// One variant after the other.
Measurements Sequential(const std::vector<double>& gaps, int runs, Noise* noise) {
  Measurements out = Drifting(gaps, runs, 0.001, noise);
  for (size_t v = 0; v < out.series.size(); ++v) {
    for (size_t r = 0; r < out.series[v].samples.size(); ++r) {
      out.series[v].samples[r].start_ps = static_cast<int64_t>(v * 1000 + r + 1);
    }
  }
  return out;
}

PickResult Picked(const std::vector<Measurements>& captures, const PickOptions& options = {}) {
  auto choice = Pick(captures, options);
  EXPECT_TRUE(choice.ok()) << choice.status();
  return choice.ok() ? *std::move(choice) : PickResult();
}

const VariantRow& Row(const PickResult& choice, const std::string& id) {
  for (const VariantRow& row : choice.variants) {
    if (row.id == id) return row;
  }
  ADD_FAILURE() << "no variant " << id;
  return choice.variants.front();
}

TEST(UnitsTest, RoundsEndWhereAVariantComesAgain) {
  const auto units =
      compare::MakeUnits(std::vector<Measurements>{Rounds({{1, 2}, {3, 4}, {5, 6}})});
  EXPECT_TRUE(units.in_rounds);
  EXPECT_EQ(units.size(), 3);
  EXPECT_THAT(units.log_time.at("1"),
              ElementsAre(::testing::DoubleNear(2, 1e-9), ::testing::DoubleNear(4, 1e-9),
                          ::testing::DoubleNear(6, 1e-9)));
}

TEST(UnitsTest, AMissingRunLeavesAHole) {
  const auto units = compare::MakeUnits(
      std::vector<Measurements>{Rounds({{1, 2, 3}, {1, kNotRun, 3}, {1, 2, 3}})});
  EXPECT_TRUE(units.in_rounds);
  EXPECT_TRUE(std::isnan(units.log_time.at("1")[1]));
  EXPECT_EQ(compare::DifferenceOf(units, "0", "1", 0.02).units, 2);
}

// Variant 1 is slower by 5 % in every round, under a drift from 1 to 6.
TEST(UnitsTest, ARunThatIsLeftOutLeavesAHoleAndShiftsNoLaterRound) {
  Measurements capture = Rounds({{1, 1.05}, {2, 2.05}, {3, 3.05}, {4, 4.05}, {5, 5.05}, {6, 6.05}});
  for (const auto& [variant, run] : {std::pair(0, 1), {1, 3}, {0, 4}, {1, 4}}) {
    Series& series = capture.series[static_cast<size_t>(variant)];
    const auto at = std::ranges::find(series.samples, 2 * run + variant + 1, &Sampled::start_ps);
    series.left_out.push_back(at->start_ps);
    series.samples.erase(at);
  }
  const auto units = compare::MakeUnits(std::vector<Measurements>{capture});
  EXPECT_TRUE(units.in_rounds);
  EXPECT_EQ(units.size(), 5);  // of one nothing is left
  const auto difference = compare::DifferenceOf(units, "0", "1", 0.02);
  EXPECT_EQ(difference.units, 3);
  EXPECT_NEAR(difference.estimate, 0.05, 1e-9);
  EXPECT_NEAR(difference.standard_error, difference.resolution, 1e-9);
}

TEST(UnitsTest, OneAfterTheOtherIsNotInRounds) {
  Noise noise(1);
  const auto units =
      compare::MakeUnits(std::vector<Measurements>{Sequential({0, 0.1, 0.2}, 5, &noise)});
  EXPECT_FALSE(units.in_rounds);
  EXPECT_EQ(units.size(), 1);
}

TEST(UnitsTest, NumbersOrderAsNumbers) {
  const compare::NaturalLess less;
  EXPECT_TRUE(less("2", "10"));
  EXPECT_TRUE(less("10", "a"));
  EXPECT_TRUE(less("a", "b"));
  EXPECT_FALSE(less("b", "a"));
  EXPECT_FALSE(less("3", "3"));
}

TEST(PickTest, AClearWinner) {
  Noise noise(2);
  const PickResult choice = Picked({Drifting({0.05, 0, 0.1}, 20, 0.01, &noise)});
  EXPECT_EQ(choice.claim, Claim::kWinner);
  EXPECT_EQ(choice.pick, "1");
  EXPECT_EQ(choice.variants[0].id, "1");
  EXPECT_NEAR(*Row(choice, "2").ratio, 1.1, 0.02);
  EXPECT_GT(*Row(choice, "2").lo, 1);
  EXPECT_GT(*Row(choice, "1").p_best, 0.99);
  EXPECT_EQ(ExitCode(choice.claim), 0);
}

TEST(PickTest, ATieNamesItsMembersAndThePickIsTheFirst) {
  Noise noise(3);
  const PickResult choice = Picked({Drifting({0.0002, 0.05, 0}, 400, 0.005, &noise)});
  EXPECT_EQ(choice.claim, Claim::kTie);
  EXPECT_THAT(choice.tied, ElementsAre("0", "2"));
  EXPECT_EQ(choice.pick, "0");
  EXPECT_EQ(*Row(choice, "0").ratio, 1);
  EXPECT_EQ(Row(choice, "1").status, "slower");
}

TEST(PickTest, APickBoundsTheRegretWithoutAProof) {
  Noise noise(4);
  const PickResult choice = Picked({Drifting({0, 0.003, 0.05}, 25, 0.005, &noise)});
  EXPECT_EQ(choice.claim, Claim::kPick);
  EXPECT_LE(*choice.regret, choice.options.delta);
}

TEST(PickTest, NoiseLeavesItUndecided) {
  Noise noise(5);
  const PickResult choice = Picked({Drifting({0, 0.004}, 10, 0.03, &noise)});
  EXPECT_EQ(choice.claim, Claim::kUndecided);
  EXPECT_EQ(ExitCode(choice.claim), 11);
  EXPECT_GT(*choice.regret, choice.options.delta);
  EXPECT_TRUE(choice.may_be_equal);
  EXPECT_FALSE(choice.needed.has_value());
}

// Follows the advice where gaps and noise are known. Numbers are for differences that look real, so
// small gaps are in it by chance only: the number must allow for this selection.
TEST(PickSimulationTest, TheRoundsThatAreAdvisedDecide) {
  int advised = 0, decided = 0, at_least = 0;
  for (const double noise_std : {0.005, 0.02}) {
    for (const std::vector<double>& gaps :
         {std::vector<double>{0, 0}, {0, 0.004}, {0, 0.02}, {0, 0.06}, {0, 0, 0.002, 0.01}}) {
      Noise noise(11);
      const PickOptions options = {.delta = noise_std, .replicates = 1};
      for (int repetition = 0; repetition < 300; ++repetition) {
        const PickResult choice = Picked({Drifting(gaps, 8, noise_std, &noise)}, options);
        at_least += choice.needed_least.has_value() && !choice.needed.has_value();
        if (!choice.needed.has_value()) continue;
        ++advised;
        EXPECT_FALSE(choice.needs_captures);
        const int rounds = static_cast<int>(*choice.needed);
        EXPECT_LE(*choice.needed_least, *choice.needed);
        decided +=
            ExitCode(Picked({Drifting(gaps, rounds, noise_std, &noise)}, options).claim) == 0;
      }
    }
  }
  EXPECT_GE(advised, 5);
  EXPECT_GE(at_least, 1);
  EXPECT_GE(decided, (0.8 - 3.1 * std::sqrt(0.16 / advised)) * advised);
}

TEST(PickTest, ADeltaOfTheRegretAcceptsThePick) {
  Noise noise(5);
  const std::vector<Measurements> captures = {Drifting({0, 0.004}, 10, 0.03, &noise)};
  const PickResult open = Picked(captures);
  ASSERT_EQ(open.claim, Claim::kUndecided);
  EXPECT_EQ(ExitCode(Picked(captures, {.delta = 1.001 * *open.regret}).claim), 0);
  EXPECT_EQ(ExitCode(Picked(captures, {.delta = 0.5 * *open.regret}).claim), 11);
}

TEST(PickTest, FewRoundsAreTooLittleData) {
  Noise noise(6);
  const PickResult choice = Picked({Drifting({0, 0.5}, 3, 0.001, &noise)});
  EXPECT_EQ(choice.claim, Claim::kTooLittleData);
  EXPECT_EQ(ExitCode(choice.claim), 12);
}

TEST(PickTest, WithoutRoundsOnlyLargeDifferencesDecide) {
  Noise noise(7);
  const PickResult small = Picked({Sequential({0, 0.02}, 50, &noise)});
  EXPECT_EQ(small.claim, Claim::kUndecided);
  EXPECT_FALSE(small.notes.empty());
  EXPECT_EQ(Picked({Sequential({0, 0.3}, 50, &noise)}).claim, Claim::kWinner);
  EXPECT_EQ(Picked({Sequential({0, 0.02}, 50, &noise)}, {.drift_std = 0}).claim, Claim::kWinner);
}

TEST(PickTest, AWildRunThatChangesTheVerdictIsTold) {
  Noise noise(7);
  Measurements capture = Drifting({0, 0.01}, 20, 0.002, &noise);
  EXPECT_TRUE(Picked({capture}).notes.empty());
  capture.series[0].samples[7].value *= 3;
  const PickResult choice = Picked({capture});
  EXPECT_EQ(choice.claim, Claim::kWinner);
  EXPECT_THAT(
      choice.notes,
      ElementsAre("1 run has less weight, because it lies far from the other runs of "
                  "the variant; with full weight, the verdict would be undecided (variant 1)"));
}

TEST(PickTest, CapturesThatDisagreeCountAsFewUnits) {
  // Within each of two processes the rounds agree; the processes contradict each other.
  Noise noise(8);
  const std::vector<Measurements> captures = {Drifting({0, 0.03}, 50, 0.002, &noise),
                                              Drifting({0.01, 0}, 50, 0.002, &noise)};
  EXPECT_EQ(Picked({captures[0]}).claim, Claim::kWinner);
  EXPECT_EQ(Picked(captures).claim, Claim::kUndecided);
}

TEST(PickTest, CapturesThatAgreeArePooled) {
  Noise noise(9);
  const std::vector<Measurements> captures = {Drifting({0, 0.02}, 10, 0.01, &noise),
                                              Drifting({0, 0.02}, 10, 0.01, &noise),
                                              Drifting({0, 0.02}, 10, 0.01, &noise)};
  EXPECT_EQ(Picked(captures).claim, Claim::kWinner);
}

// For two variants, P(best) is one minus the one-sided p-value of their difference.
TEST(PickTest, ProbabilityOfBestOfTwoIsTheTailOfTheirDifference) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Noise noise(900 + seed);
    const int captures = 1 + static_cast<int>(seed % 3), rounds = 4 + static_cast<int>(seed % 7);
    std::vector<Measurements> measured;
    for (int i = 0; i < captures; ++i) {
      measured.push_back(Drifting({0, 0.01 * noise.Normal()}, rounds, 0.01, &noise));
    }
    const auto units = compare::MakeUnits(measured);
    const auto d = compare::DifferenceOf(units, "0", "1", 0.02);
    const auto p_best = compare::ProbabilityOfBest(units, "0", 0.02, 4000, seed);
    const double expected = stats::StudentTail(d.estimate / d.standard_error, d.df);
    EXPECT_NEAR(p_best.at("1"), expected, 3.5 * std::sqrt(0.25 / 4000)) << seed;
    EXPECT_DOUBLE_EQ(p_best.at("0") + p_best.at("1"), 1) << seed;
  }
}

// In particular for outliers and captures that differ, which a bootstrap over rounds ignores.
TEST(PickTest, ProbabilityOfBestNeverContradictsTheVerdict) {
  int open = 0, decided = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Noise noise(3000 + seed);
    std::vector<Measurements> measured;
    for (size_t i = 0; i <= seed % 3; ++i) {
      measured.push_back(Drifting({0, 0.05 + 0.01 * noise.Normal()}, 8, 0.01, &noise));
      for (Series& series : measured.back().series) {
        for (Sampled& sample : series.samples) sample.value *= noise.Uniform() < 0.2 ? 3 : 1;
      }
    }
    const PickResult choice = Picked(measured, {.replicates = 20000});
    if (!choice.doubts.empty() || !choice.variants[0].p_best.has_value()) continue;
    const double p_best = *choice.variants[0].p_best;
    const double proof = 1 - choice.options.alpha / 2, error = 0.002;
    if (choice.claim == Claim::kWinner) {
      ++decided;
      EXPECT_GE(p_best, proof - error) << seed;
    } else {
      ++open;
      EXPECT_LE(p_best, proof + error) << seed;
    }
  }
  EXPECT_GE(open, 20);
  EXPECT_GE(decided, 20);
}

TEST(PickTest, EqualVariantsAreEquallyLikelyToBeTheBest) {
  // All orders of three times: every difference is symmetric around 0.
  std::vector<std::vector<double>> rounds;
  std::vector<double> times = {1.00, 1.01, 1.02};
  do {
    rounds.push_back(times);
  } while (std::ranges::next_permutation(times).found);
  const auto units = compare::MakeUnits(std::vector<Measurements>{Rounds(rounds)});
  const auto p_best = compare::ProbabilityOfBest(units, "0", 0.02, 20000, 1);
  for (const auto& [id, share] : p_best) EXPECT_NEAR(share, 1.0 / 3, 0.03) << id;
}

// The columns of a table must agree: a variant is slower by the ratio of the times that are shown.
TEST(PickTest, TheRatioOverCapturesIsThatOfTheTypicalTimes) {
  Noise noise(31);
  std::vector<Measurements> captures;
  for (int i = 0; i < 6; ++i) {
    captures.push_back(Sequential({0, 0.1 + 0.05 * noise.Normal(), 0.3}, 9, &noise));
    captures.back().source = noise.NextSource();
  }
  for (Sampled& sample : captures[2].series[1].samples) sample.value *= 4;  // an outlier
  const PickResult choice = Picked(captures);
  ASSERT_FALSE(choice.in_rounds);
  const double leader = *Row(choice, choice.leader).centre;
  for (const VariantRow& row : choice.variants) {
    EXPECT_NEAR(*row.centre / leader, *row.ratio, 1e-9) << row.id;
  }
}

TEST(PickTest, NoOtherVariantBeatsTheLeader) {
  int cycles = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Noise noise(4000 + seed);
    Measurements capture = Drifting({0, 0.01, 0.02}, 9, 0.05, &noise);
    for (Series& series : capture.series) {
      for (Sampled& sample : series.samples) sample.value *= noise.Uniform() < 0.4 ? 3 : 1;
    }
    const PickResult choice = Picked({capture});
    const auto units = compare::MakeUnits(std::vector<Measurements>{capture});
    const auto loss = [&](const std::string& id) {  // to the fastest of the others
      double most = 0;
      for (const char* other : {"0", "1", "2"}) {
        if (other == id) continue;
        most = std::max(most, -compare::DifferenceOf(units, id, other, 0.02).estimate);
      }
      return most;
    };
    // In a cycle each variant loses to another one; then the pick may, too.
    const bool is_cycle = loss("0") > 0 && loss("1") > 0 && loss("2") > 0;
    cycles += is_cycle;
    EXPECT_EQ(loss(choice.leader) > 0, is_cycle) << seed;
    if (!is_cycle) continue;
    EXPECT_EQ(loss(choice.leader), std::min({loss("0"), loss("1"), loss("2")})) << seed;
  }
  EXPECT_GT(cycles, 0);
}

TEST(PickTest, TooFewRoundsHaveNoInterval) {
  Noise noise(33);
  const PickResult choice = Picked({Drifting({0, 0.5}, 3, 0.3, &noise)});
  EXPECT_EQ(choice.claim, Claim::kTooLittleData);
  for (const VariantRow& row : choice.variants) {
    EXPECT_EQ(row.lo.has_value() || row.hi.has_value(), row.id == choice.leader);
  }
}

// A number of rounds is stated only for a difference that is certain to exist.
TEST(PickTest, ADifferenceThatMayBeChanceHasNoNumber) {
  int equal = 0, numbers = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Noise noise(5000 + seed);
    const PickResult choice = Picked({Drifting({0, 0.02}, 10, 0.02, &noise)}, {.replicates = 1});
    if (choice.claim != Claim::kUndecided) continue;
    EXPECT_FALSE(choice.rival.empty());
    if (choice.may_be_equal) {
      ++equal;
      EXPECT_FALSE(choice.needed_least.has_value() || choice.needed.has_value()) << seed;
    } else {
      ++numbers;
      EXPECT_LE(choice.needed_least.value_or(UINT64_MAX), choice.needed.value_or(UINT64_MAX));
      EXPECT_GT(choice.needed_least.value_or(UINT64_MAX), 10u) << seed;
    }
  }
  EXPECT_GE(equal, 10);
  EXPECT_GE(numbers, 10);
}

TEST(PickTest, AVariantThatRanAndIsNotJudgedLeavesNoPick) {
  Noise noise(15);
  auto capture = Drifting({0, 0.1, 0.2}, 10, 0.001, &noise);
  EXPECT_EQ(Picked({capture}).pick, "0");
  capture.series[1].samples.clear();
  capture.series[1].obstacle = "its runs on 2 devices do not match";
  const PickResult choice = Picked({capture});
  EXPECT_EQ(choice.claim, Claim::kUndecided);
  EXPECT_EQ(choice.pick, "");
  EXPECT_EQ(choice.leader, "0");
  EXPECT_FALSE(choice.regret.has_value());
  EXPECT_THAT(choice.doubts, ElementsAre("rounds: variant 1: its runs on 2 devices do not match"));
  EXPECT_EQ(Row(choice, "0").status, "leads");
  EXPECT_EQ(Row(choice, "1").status, "not_judged");
  EXPECT_EQ(Row(choice, "1").reason, "its runs on 2 devices do not match");
  // Also if no other variant is left, or none at all.
  for (const size_t other : {2, 0}) {
    capture.series[other] = capture.series[1];
    capture.series[other].variant_id = std::to_string(other);
    EXPECT_EQ(Picked({capture}).claim, Claim::kUndecided);
    EXPECT_EQ(Picked({capture}).pick, "");
  }
}

TEST(PickTest, AnObstacleInOneOfSeveralCapturesIsNoted) {
  Noise noise(16);
  std::vector<Measurements> captures;
  for (int i = 0; i < 4; ++i) captures.push_back(Drifting({0, 0.1}, 10, 0.001, &noise));
  captures[2].series[1].samples.clear();
  captures[2].series[1].obstacle = "it ran on GPU:0, and the others ran on GPU:0, GPU:1";
  const PickResult choice = Picked(captures);
  EXPECT_EQ(choice.claim, Claim::kWinner);
  EXPECT_THAT(choice.notes, ElementsAre("rounds: variant 1 is excluded: it ran on GPU:0, "
                                        "and the others ran on GPU:0, GPU:1"));
}

TEST(PickTest, APickThatIsSlowerOnEveryDeviceIsNone) {
  Noise noise(17);
  auto capture = Drifting({0, 0.1}, 10, 0.001, &noise);
  capture.series[0].by_device = {{"GPU:0", 11}, {"GPU:1", 12}};
  capture.series[1].by_device = {{"GPU:0", 10}, {"GPU:1", 12}};
  EXPECT_EQ(Picked({capture}).pick, "0");
  capture.series[1].by_device[1].typical = 11.5;
  const PickResult choice = Picked({capture});
  EXPECT_EQ(choice.claim, Claim::kUndecided);
  EXPECT_EQ(choice.pick, "");
  EXPECT_THAT(choice.doubts,
              ElementsAre("variant 0 is slower than variant 1 on every device alone"));
  EXPECT_EQ(choice.fastest_by_device.at(1).variant_id, "1");
  EXPECT_FALSE(choice.regret.has_value());
}

TEST(PickTest, AnUncertainSplitIsADoubt) {
  Noise noise(18);
  auto capture = Drifting({0, 0.1}, 10, 0.001, &noise);
  capture.series[1].uncertain = true;
  const PickResult choice = Picked({capture});
  EXPECT_EQ(choice.claim, Claim::kUndecided);
  EXPECT_EQ(choice.pick, "0") << "the best guess";
  EXPECT_FALSE(choice.regret.has_value());
  EXPECT_THAT(choice.doubts, ElementsAre("variant 1: the split into runs is uncertain"));
}

// Every pair of a tie is tested, so that its size has a limit.
TEST(PickTest, ATieHasALimitedSize) {
  for (const auto& [variants, claim] : {std::pair(500, Claim::kTie), {501, Claim::kPick}}) {
    Noise noise(19);
    const std::vector<double> gaps(static_cast<size_t>(variants), 0);
    const PickResult choice = Picked({Drifting(gaps, 60, 0.0001, &noise)}, {.replicates = 1});
    EXPECT_EQ(choice.claim, claim) << variants;
  }
}

TEST(PickTest, VariantsWithoutSamplesAreListed) {
  Noise noise(10);
  auto capture = Drifting({0, 0.1}, 10, 0.001, &noise);
  Series failed = capture.series[0];
  failed.variant_id = "7";
  for (const Sampled& sample : failed.samples) failed.left_out.push_back(sample.start_ps);
  failed.samples.clear();
  capture.series.push_back(failed);
  const PickOptions options = {.known = {{"0", R"({"block":64})", {}}, {"9", "{}", {}}}};
  const PickResult choice = Picked({capture}, options);
  EXPECT_EQ(choice.claim, Claim::kUndecided);
  EXPECT_EQ(Row(choice, "7").status, "not_judged");
  EXPECT_EQ(Row(choice, "7").reason, "it has no usable run");
  EXPECT_EQ(Row(choice, "9").status, "no_samples");
  EXPECT_EQ(Row(choice, "0").params[0].value, "64");
  // What did not run is no candidate, and neither is what failed.
  capture.series.back().failure = "out of memory";
  const PickResult failed_choice = Picked({capture}, options);
  EXPECT_EQ(failed_choice.claim, Claim::kWinner);
  EXPECT_EQ(Row(failed_choice, "7").status, "failed");
  EXPECT_EQ(Row(failed_choice, "7").reason, "out of memory");
}

TEST(PickTest, AllFailedAndNoneAtAll) {
  Noise noise(11);
  auto capture = Drifting({0, 0.1}, 10, 0.001, &noise);
  for (Series& series : capture.series) series.samples.clear();
  const PickResult choice = Picked({capture});
  EXPECT_EQ(choice.claim, Claim::kAllFailed);
  EXPECT_EQ(ExitCode(choice.claim), 20);
  for (Series& series : capture.series) series.variant_id = std::nullopt;
  EXPECT_EQ(Pick(std::vector<Measurements>{capture}, {}).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(PickTest, TheOnlyVariantIsPickedAndWinsOverNobody) {
  Noise noise(12);
  const PickResult choice = Picked({Drifting({0}, 3, 0.001, &noise)});
  EXPECT_EQ(choice.claim, Claim::kPick);
  EXPECT_EQ(choice.pick, "0");
}

TEST(PickTest, DevicesAndClocksAreNotMixed) {
  Noise noise(13);
  auto twice = Drifting({0, 0.1}, 5, 0.001, &noise);
  twice.series.push_back(twice.series[0]);
  auto clocks = Drifting({0, 0.1}, 5, 0.001, &noise);
  clocks.series[1].clock = "device";
  auto one = Drifting({0, 0.1}, 5, 0.001, &noise), other = one;
  one.facts = {{"device kind", "gpu"}};
  other.facts = {{"device kind", "tpu"}};
  for (const std::vector<Measurements>& captures :
       {std::vector<Measurements>{twice}, {clocks}, {one, other}}) {
    EXPECT_EQ(Pick(captures, {}).status().code(), absl::StatusCode::kFailedPrecondition);
  }
}

TEST(PickTest, SameInputAndSeedGiveTheSameResult) {
  Noise noise(14);
  const auto capture = Drifting({0, 0.003, 0.004}, 12, 0.01, &noise);
  const PickResult one = Picked({capture}), two = Picked({capture}),
                   other = Picked({capture}, {.seed = 2});
  for (size_t i = 0; i < one.variants.size(); ++i) {
    EXPECT_EQ(*one.variants[i].p_best, *two.variants[i].p_best);
    EXPECT_NEAR(*one.variants[i].p_best, *other.variants[i].p_best, 0.08);
  }
}

TEST(PickSimulationTest, WrongClaimsAreRare) {
  int wrong = 0, decided = 0;
  constexpr int kRepetitions = 200;
  for (uint64_t repetition = 0; repetition < kRepetitions; ++repetition) {
    Noise noise(500 + repetition);
    const PickResult choice =
        Picked({Drifting({0.01, 0, 0.02, 0.03}, 20, 0.01, &noise)}, {.replicates = 1});
    decided += ExitCode(choice.claim) == 0;
    wrong += ExitCode(choice.claim) == 0 && choice.pick != "1";
  }
  EXPECT_LE(wrong, 2);
  EXPECT_GE(decided, kRepetitions / 2);
}

// Captures of six rounds. Each variant is off by an own offset in each capture.
std::vector<Measurements> Varying(const std::vector<double>& gaps, int captures,
                                  const std::vector<double>& offset_std, Noise* noise) {
  std::vector<Measurements> out;
  for (int i = 0; i < captures; ++i) {
    std::vector<double> of_capture;
    for (size_t v = 0; v < gaps.size(); ++v) {
      of_capture.push_back(std::expm1(std::log1p(gaps[v]) + offset_std[v] * noise->Normal()));
    }
    out.push_back(Drifting(of_capture, 6, 0.01, noise));
    out.back().source = noise->NextSource();
  }
  return out;
}

// How often a pick is wrong: another variant is faster by more than delta. The best variant has no
// advantage that captures of this noise show, so wrong claims are possible.
TEST(PickSimulationTest, WrongClaimsOfFewCapturesAreRare) {
  constexpr uint64_t kRepetitions = 200;
  PickOptions options = {.replicates = 1};
  options.alpha = 0.05;
  for (const int captures : {2, 3, 5}) {
    for (const size_t variants : {3u, 8u}) {
      for (const double offset_std : {0.0, 0.003, 0.01, 0.05}) {
        for (const bool one_varies : {false, true}) {
          std::vector<double> gaps(variants, 0.008), offsets(variants, one_varies ? 0 : offset_std);
          gaps[1] = 0;
          offsets[0] = offset_std;
          uint64_t wrong = 0;
          for (uint64_t repetition = 0; repetition < kRepetitions; ++repetition) {
            Noise noise(7000 + repetition);
            const PickResult choice = Picked(Varying(gaps, captures, offsets, &noise), options);
            wrong += ExitCode(choice.claim) == 0 && choice.pick != "1";
          }
          // 5 %, and three standard deviations.
          EXPECT_LE(wrong, 19) << captures << " captures, " << variants << " variants, "
                               << offset_std << ", one varies " << one_varies;
        }
      }
    }
  }
}

TEST(PickSimulationTest, TwoCapturesDecideAsOftenAsOneAndThree) {
  constexpr uint64_t kRepetitions = 200;
  for (const int captures : {1, 2, 3}) {
    uint64_t decided = 0;
    for (uint64_t repetition = 0; repetition < kRepetitions; ++repetition) {
      Noise noise(9000 + repetition);
      const auto measured = Varying({0, 0.1, 0.2, 0.3}, captures, {0, 0, 0, 0}, &noise);
      decided += Picked(measured, {.replicates = 1}).claim == Claim::kWinner;
    }
    EXPECT_GE(decided, kRepetitions * 95 / 100) << captures;
  }
}

// With two variants there is nothing to pool. The advice is a number of captures, which decides.
TEST(PickSimulationTest, TheCapturesThatAreAdvisedDecide) {
  uint64_t advised = 0, decided = 0;
  for (uint64_t repetition = 0; repetition < 300; ++repetition) {
    Noise noise(11000 + repetition);
    const std::vector<double> gaps = {0, 0.05}, offsets = {0.02, 0.02};
    const PickOptions options = {.delta = 0.02, .replicates = 1};
    const PickResult few = Picked(Varying(gaps, 5, offsets, &noise), options);
    if (few.claim != Claim::kUndecided || !few.needs_captures || !few.needed.has_value()) continue;
    ++advised;
    const auto more = Varying(gaps, static_cast<int>(*few.needed), offsets, &noise);
    decided += ExitCode(Picked(more, options).claim) == 0;
  }
  EXPECT_GE(advised, 5);
  EXPECT_GE(10 * decided, 8 * advised);
}

// Variant 0 is faster in most captures, and slower in the others by as much.
TEST(PickTest, AMinorityOfCapturesIsNotPulledIn) {
  for (const auto& [majority, minority, rounds] :
       {std::tuple(2, 1, 10), {2, 1, 200}, {3, 2, 10}, {6, 4, 10}, {11, 9, 4}, {3, 1, 1}}) {
    Noise noise(41);
    std::vector<Measurements> captures;
    for (int i = 0; i < majority + minority; ++i) {
      const bool is_faster = i < majority;
      captures.push_back(
          Drifting({is_faster ? 0 : 0.1, is_faster ? 0.1 : 0}, rounds, 0.001, &noise));
      captures.back().source = noise.NextSource();
    }
    const PickResult choice = Picked(captures);
    EXPECT_EQ(choice.claim, Claim::kUndecided) << majority << " against " << minority;
    EXPECT_LT(*Row(choice, "1").lo, 1);
    EXPECT_LT(*Row(choice, "0").p_best, 0.9);
  }
}

// The difference is the mean of the differences of the captures, each with Huber's centre.
TEST(UnitsTest, EachCaptureHasTheSameWeight) {
  Noise noise(42);
  std::vector<Measurements> captures;
  std::vector<double> centres;
  for (const int rounds : {50, 4, 9}) {
    captures.push_back(Drifting({0, 0.05 * noise.Normal()}, rounds, 0.01, &noise));
    captures.back().source = noise.NextSource();
    captures.back().series[1].samples[2].value *= 3;
    std::vector<double> logs;
    for (size_t r = 0; r < static_cast<size_t>(rounds); ++r) {
      logs.push_back(std::log(captures.back().series[1].samples[r].value /
                              captures.back().series[0].samples[r].value));
    }
    centres.push_back(stats::HuberCentre(logs).value);
  }
  const auto d = compare::DifferenceOf(compare::MakeUnits(captures), "0", "1", 0);
  EXPECT_NEAR(d.estimate, stats::Mean(centres), 1e-9);
  EXPECT_NEAR(d.standard_error, std::sqrt(stats::Variance(centres) / 3), 1e-6);
  EXPECT_EQ(d.df, 2);
  EXPECT_EQ(d.captures, 3);
  EXPECT_EQ(d.units, 63);
}

// A winner that is not the best, by a scatter between captures that ranges from none to ten times
// that of the rounds. The best variant is only 0.01 % ahead. `sizes`: rounds of each capture.
TEST(PickSimulationTest, WrongWinnersOfCapturesThatDifferAreRare) {
  constexpr int kRepetitions = 150;
  for (const double alpha : {0.01, 0.05}) {
    for (const std::vector<int>& sizes :
         {std::vector<int>(2, 10), std::vector<int>(3, 10), std::vector<int>(5, 8),
          std::vector<int>(10, 4), std::vector<int>{50, 4}, std::vector<int>{40, 4, 4, 4, 4}}) {
      for (const size_t variants : {2u, 3u}) {
        for (const double offset_std : {0.0, 0.003, 0.007, 0.015, 0.1}) {
          int wrong = 0;
          for (uint64_t repetition = 0; repetition < kRepetitions; ++repetition) {
            Noise noise(15000 + repetition);
            std::vector<Measurements> captures;
            for (const int rounds : sizes) {
              std::vector<double> gaps(variants);
              for (size_t v = 0; v < variants; ++v) {
                gaps[v] = std::expm1((v == 0 ? 0 : 0.0001) + offset_std * noise.Normal());
              }
              captures.push_back(Drifting(gaps, rounds, 0.01, &noise));
              captures.back().source = noise.NextSource();
            }
            PickOptions options = {.replicates = 1};
            options.alpha = alpha;
            const PickResult choice = Picked(captures, options);
            wrong += choice.claim == Claim::kWinner && choice.pick != "0";
          }
          // Alpha, and three standard deviations.
          EXPECT_LE(wrong, kRepetitions * alpha + 3 * std::sqrt(kRepetitions * alpha * (1 - alpha)))
              << sizes.size() << " captures, the first of " << sizes[0] << " rounds, " << variants
              << " variants, " << offset_std << ", alpha " << alpha;
        }
      }
    }
  }
}

// Captures that agree decide about as often as they did in one capture with as many rounds.
TEST(PickSimulationTest, CapturesThatAgreeDecideOften) {
  for (const auto& [captures, least] : {std::pair(3, 60), {5, 80}, {10, 95}}) {
    int decided = 0;
    for (uint64_t repetition = 0; repetition < 100; ++repetition) {
      Noise noise(21000 + repetition);
      std::vector<Measurements> measured;
      for (int i = 0; i < captures; ++i) {
        measured.push_back(Drifting({0, 0.1 / std::sqrt(10 * captures)}, 10, 0.01, &noise));
        measured.back().source = noise.NextSource();
      }
      decided += Picked(measured, {.replicates = 1}).claim == Claim::kWinner;
    }
    EXPECT_GE(decided, least) << captures;
  }
}

// The order of the variants rotates from round to round, so by the centre of the ratios each is
// faster than the next one.
std::vector<std::vector<double>> Rotating(size_t variants, size_t rounds, double step,
                                          Noise* noise) {
  std::vector<std::vector<double>> logs(rounds, std::vector<double>(variants));
  for (size_t r = 0; r < rounds; ++r) {
    for (size_t v = 0; v < variants; ++v) {
      logs[r][v] = 16 + step * static_cast<double>((v + r) % variants) + 0.0005 * noise->Normal();
    }
  }
  return logs;
}

TEST(PickTest, ACycleHasNoPick) {
  for (const size_t variants : {3u, 5u, 7u}) {
    Noise noise(43);
    const PickResult choice = Picked({Rounds(Rotating(variants, 60, 0.02, &noise))});
    EXPECT_EQ(choice.claim, Claim::kUndecided);
    EXPECT_EQ(choice.pick, "");
    EXPECT_FALSE(choice.regret.has_value());
    EXPECT_FALSE(choice.may_be_equal);
    ASSERT_GE(choice.cycle.size(), 4);
    EXPECT_EQ(choice.cycle.front(), choice.cycle.back());
    EXPECT_THAT(choice.doubts, ElementsAre(::testing::HasSubstr("no variant is the fastest")));
    const auto units =
        compare::MakeUnits(std::vector<Measurements>{Rounds(Rotating(variants, 60, 0.02, &noise))});
    for (size_t i = 0; i + 1 < choice.cycle.size(); ++i) {
      const auto d = compare::DifferenceOf(units, choice.cycle[i], choice.cycle[i + 1], 0);
      EXPECT_LT(d.estimate, 0) << i;
    }
  }
}

// A variant beats all others, which beat each other in a cycle by more.
TEST(PickTest, AWinnerIsFoundBesideACycle) {
  Noise noise(44);
  auto logs = Rotating(3, 30, 0.05, &noise);
  for (auto& round : logs) round.push_back(15.999 + 0.0005 * noise.Normal());
  const PickResult choice = Picked({Rounds(logs)});
  EXPECT_EQ(choice.claim, Claim::kWinner);
  EXPECT_EQ(choice.pick, "3");
}

TEST(PickTest, VariantsThatShareNoRoundHaveNoRatio) {
  Noise noise(45);
  Measurements first = Drifting({0, 0.1, 0.2}, 10, 0.001, &noise), second = first;
  first.series.erase(first.series.begin() + 2);
  second.series.erase(second.series.begin());
  first.source = noise.NextSource();
  second.source = noise.NextSource();
  const PickResult choice = Picked({first, second});
  EXPECT_EQ(choice.claim, Claim::kTooLittleData);
  EXPECT_FALSE(Row(choice, "2").ratio.has_value());
  EXPECT_FALSE(Row(choice, "2").lo.has_value());
  EXPECT_FALSE(choice.regret.has_value());
}

// Members that never met are no tie, although each is within delta of the leader.
TEST(PickTest, ATieNeedsEveryPair) {
  Noise noise(46);
  std::vector<Measurements> captures;
  for (const double missing : {1, 2}) {
    captures.push_back(Drifting({0, 0.0001, 0.0001}, 60, 0.0001, &noise));
    captures.back().series.erase(captures.back().series.begin() + static_cast<int>(missing));
    captures.back().source = noise.NextSource();
  }
  EXPECT_NE(Picked(captures).claim, Claim::kTie);
}

TEST(PickTest, TheStepOfTheClockIsAnError) {
  const auto rounds = [](double work) {
    std::vector<std::vector<double>> logs;
    for (int r = 0; r < 12; ++r) {
      logs.push_back({std::log(100'000 * work), std::log(102'000 * work),
                      std::log(200'000 * work + 2000 * (r % 2))});
    }
    return Picked({Rounds(logs)});
  };
  const PickResult choice = rounds(1);
  EXPECT_EQ(choice.claim, Claim::kUndecided);
  EXPECT_EQ(Row(choice, "2").status, "slower");
  EXPECT_LT(*Row(choice, "1").lo, 1);
  ASSERT_TRUE(choice.clock_step_ps.has_value());
  EXPECT_NEAR(*choice.clock_step_ps, 2000, 1e-6);
  EXPECT_FALSE(choice.needed_least.has_value());
  EXPECT_EQ(rounds(10).claim, Claim::kWinner) << "longer runs, as advised";
}

// Each printed number follows from the pairs, whatever the captures look like.
TEST(PickPropertyTest, TheVerdictContradictsNoPair) {
  std::map<Claim, int> claims;
  int cycles = 0, unshared = 0;
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    Noise noise(31000 + seed);
    const auto below = [&](size_t n) {
      return static_cast<size_t>(static_cast<double>(n) * noise.Uniform());
    };
    const size_t variants = 2 + below(4), count = 1 + below(4);
    const double gap = std::vector{0.0, 0.0005, 0.003, 0.02}[below(4)];
    const double step = std::vector{0.0, 0.002, 0.02}[below(3)];
    const double noise_std = std::vector{0.0002, 0.002, 0.02}[below(3)];
    const double offset_std = noise.Uniform() < 0.3 ? 0.02 : 0;
    const double lost = noise.Uniform() < 0.5 ? 0.15 : 0;
    const double tick_ps = noise.Uniform() < 0.3 ? 20'000 : 1;
    std::vector<Measurements> captures;
    for (size_t c = 0; c < count; ++c) {
      auto logs = Rotating(variants, 3 + below(40), step, &noise);
      const size_t absent = noise.Uniform() < 0.2 && variants > 2 ? below(variants) : variants;
      for (size_t v = 0; v < variants; ++v) {
        const double offset = gap * static_cast<double>(v) + offset_std * noise.Normal();
        for (auto& round : logs) {
          round[v] += offset + noise_std * noise.Normal() - 2;
          round[v] = std::log(std::round(std::exp(round[v]) / tick_ps) * tick_ps);
          if (v == absent || noise.Uniform() < lost) round[v] = kNotRun;
        }
      }
      captures.push_back(Rounds(logs));
      captures.back().source = noise.NextSource();
    }
    PickOptions options = {.replicates = 1};
    options.delta = std::vector{0.0, 0.005, 0.03}[below(3)];
    const PickResult choice = Picked(captures, options);
    ++claims[choice.claim];
    cycles += choice.cycle.empty() ? 0 : 1;
    const auto units = compare::MakeUnits(captures);
    const auto half_at = [](const compare::Difference& d, double tail) {
      return stats::StudentQuantile(tail, d.df) * d.standard_error;
    };
    size_t ran = 0;
    for (const auto& [id, ignored] : units.log_time) ran += id.empty() ? 0 : 1;
    const double tail = options.alpha / 2 / static_cast<double>(std::max<size_t>(ran - 1, 1));
    const bool is_decided = ExitCode(choice.claim) == 0;
    const auto is_tied = [&](const std::string& id) {
      return std::ranges::find(choice.tied, id) != choice.tied.end();
    };
    for (const VariantRow& row : choice.variants) {
      SCOPED_TRACE(absl::StrCat("seed ", seed, ", variant ", row.id, ", leader ", choice.leader));
      if (row.id == choice.leader || row.samples == 0) continue;
      const auto d = compare::DifferenceOf(units, choice.leader, row.id, options.drift_std);
      unshared += d.units == 0 ? 1 : 0;
      EXPECT_EQ(row.ratio.has_value(), d.units > 0);
      EXPECT_EQ(row.lo.has_value(), row.hi.has_value());
      const bool is_judged = d.df > 0 && (!units.in_rounds || d.units >= 4);
      if (row.lo.has_value()) {
        EXPECT_TRUE(is_judged);
        EXPECT_LE(*row.lo, *row.ratio);
        EXPECT_GE(*row.hi, *row.ratio);
        EXPECT_NEAR(std::log(*row.hi), d.estimate + half_at(d, tail), 1e-9);
        EXPECT_EQ(row.status == "slower", *row.lo > 1 && !is_tied(row.id));
      }
      if (is_decided) {
        EXPECT_TRUE(is_judged);
        EXPECT_FALSE(row.hi.has_value() && *row.hi < 1) << "a variant is proved faster";
        EXPECT_TRUE(row.status == "slower" || choice.claim != Claim::kWinner);
        EXPECT_TRUE(row.status == "slower" || is_tied(row.id) || choice.claim != Claim::kTie);
      }
      if (choice.pick.empty()) continue;
      EXPECT_FALSE(row.hi.has_value() && *row.hi < 1) << "the leader is proved slower";
      if (choice.claim == Claim::kUndecided && row.id == choice.rival &&
          !choice.clock_step_ps.has_value()) {
        EXPECT_EQ(choice.may_be_equal, std::abs(d.estimate) <= half_at(d, 0.025));
      }
      if (choice.may_be_equal && row.id == choice.rival) {
        EXPECT_LE(*row.lo, 1);
        EXPECT_GE(*row.hi, 1);
      }
    }
    if (choice.claim == Claim::kTie) {
      EXPECT_LE(*choice.regret, options.delta + 1e-12) << seed;
      for (const std::string& member : choice.tied) {
        for (const VariantRow& row : choice.variants) {
          if (row.samples == 0 || row.id == member) continue;
          const auto d = compare::DifferenceOf(units, member, row.id, options.drift_std);
          const double tie_half = half_at(d, options.alpha);
          EXPECT_TRUE(is_tied(row.id) ? std::abs(d.estimate) + tie_half <= std::log1p(options.delta)
                                      : d.estimate > half_at(d, tail))
              << seed << ": " << member << " and " << row.id;
        }
      }
    }
    EXPECT_TRUE(!is_decided || choice.regret.has_value()) << seed;
    EXPECT_TRUE(!is_decided || choice.cycle.empty()) << seed;
  }
  for (const Claim claim :
       {Claim::kWinner, Claim::kTie, Claim::kPick, Claim::kUndecided, Claim::kTooLittleData}) {
    EXPECT_GE(claims[claim], 20) << std::string(ClaimName(claim));
  }
  EXPECT_GE(cycles, 20);
  EXPECT_GE(unshared, 5);
}

constexpr PickOptions kPickOfEnergy = {.objective = Objective::kEnergy, .replicates = 1};

TEST(PickEnergyTest, ALargeDifferenceDecidesInOneCapture) {
  Noise noise(31);
  const PickResult choice = Picked({Energies({1.3, 1, 1.4}, 0.005, 0, &noise)}, kPickOfEnergy);
  EXPECT_EQ(choice.claim, Claim::kWinner);
  EXPECT_EQ(choice.pick, "1");
  EXPECT_EQ(choice.variants[1].status, "more");
  EXPECT_FALSE(choice.in_rounds);
  EXPECT_FALSE(choice.variants[0].p95.has_value());
}

TEST(PickEnergyTest, StatedErrorsOfOneCaptureMayGoAgainstEachOther) {
  Noise noise(32);
  const auto capture = Energies({1, 1}, 0.03, 0, &noise);
  const auto units = compare::MakeUnits(std::vector{capture});
  EXPECT_TRUE(units.stated);
  EXPECT_NEAR(compare::DifferenceOf(units, "0", "1", 0).standard_error, 0.06, 1e-12);
  const auto twice = compare::MakeUnits(std::vector{capture, capture});
  EXPECT_NEAR(compare::DifferenceOf(twice, "0", "1", 0).standard_error, 0.06, 1e-12);
  EXPECT_EQ(compare::DifferenceOf(units, "0", "1", 0).df, 20);
  EXPECT_EQ(compare::DifferenceOf(twice, "0", "1", 0).df, 1) << "agreement of two is chance";
}

TEST(PickEnergyTest, ADoubtOrAnUnknownEnergyLeavesNoClaim) {
  Noise noise(33);
  auto doubtful = Energies({1, 2}, 0.005, 0, &noise);
  doubtful.series[1].doubt = "poor_fit";
  PickResult choice = Picked({doubtful}, kPickOfEnergy);
  EXPECT_EQ(choice.claim, Claim::kUndecided);
  EXPECT_EQ(choice.pick, "0");
  EXPECT_THAT(choice.doubts, ElementsAre("energies: poor_fit"));
  EXPECT_FALSE(choice.variants[0].p_best.has_value());

  auto unknown = Energies({1, 2, 3}, 0.005, 0, &noise);
  unknown.series[2].samples.clear();
  unknown.series[2].log_error.reset();
  unknown.series[2].failure = "too_uncertain";
  choice = Picked({unknown}, kPickOfEnergy);
  EXPECT_EQ(choice.claim, Claim::kUndecided);
  EXPECT_FALSE(choice.regret.has_value());
  EXPECT_THAT(choice.doubts,
              ElementsAre("energies: the energy of variant 2 is unknown: too_uncertain"));
  EXPECT_EQ(choice.variants[2].status, "unknown");
  EXPECT_FALSE(choice.variants[2].centre.has_value());
}

// `opposed`: errors of neighbours in one capture go against each other, as those of two kernels do
// that ran in the same windows.
TEST(PickEnergySimulationTest, WrongClaimsAreRare) {
  constexpr uint64_t kRepetitions = 1000;
  PickOptions options = kPickOfEnergy;
  options.alpha = 0.1;
  options.drift_std = 0;
  for (const int captures : {1, 3, 8}) {
    for (const double error : {0.002, 0.02}) {
      for (const bool opposed : {false, true}) {
        int wrong = 0;
        for (uint64_t repetition = 0; repetition < kRepetitions; ++repetition) {
          Noise noise(800 + repetition);
          const double gap = 0.01 * static_cast<double>(repetition % 3);
          std::vector<Measurements> sides;
          for (int i = 0; i < captures; ++i) {
            const double offset = 0.01 * noise.Normal();
            sides.push_back(Energies({1 + gap, 1, 1 + 2 * gap, 1 + gap}, error, offset, &noise,
                                     std::to_string(i)));
            auto& series = sides.back().series;
            if (!opposed) continue;
            const double off = series[1].samples[0].value / std::exp(offset);
            series[0].samples[0].value = (1 + gap) * std::exp(offset) / off;
          }
          const PickResult choice = Picked(sides, options);
          wrong += choice.claim == Claim::kWinner && (gap == 0 || choice.pick != "1");
        }
        // 10 %, and three standard deviations.
        EXPECT_LE(wrong, 128) << captures << " captures, " << error << ", opposed " << opposed;
      }
    }
  }
}

}  // namespace
}  // namespace xplane_time
