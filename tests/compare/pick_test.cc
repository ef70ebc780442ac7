#include "xplane_time/pick.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "compare/differences.h"
#include "stats/random.h"
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
  EXPECT_NEAR(difference.standard_error, 0, 1e-9);
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
  EXPECT_TRUE(choice.needed.has_value());
}

// Follows the advice where gaps and noise are known.
TEST(PickSimulationTest, TheRoundsThatAreAdvisedDecide) {
  for (const double noise_std : {0.005, 0.02}) {
    for (const std::vector<double>& gaps :
         {std::vector<double>{0, 0}, {0, 0.004}, {0, 0.02}, {0, 0.06}, {0, 0, 0.002, 0.01}}) {
      Noise noise(11);
      int advised = 0, decided = 0;
      for (int repetition = 0; repetition < 60; ++repetition) {
        const PickResult choice = Picked({Drifting(gaps, 8, noise_std, &noise)});
        if (!choice.needed.has_value()) continue;
        ++advised;
        EXPECT_FALSE(choice.needs_captures);
        const int rounds = static_cast<int>(*choice.needed);
        decided += ExitCode(Picked({Drifting(gaps, rounds, noise_std, &noise)}).claim) == 0;
      }
      if (advised < 10) continue;
      EXPECT_GE(decided, (0.8 - 3.1 * std::sqrt(0.16 / advised)) * advised)
          << noise_std << ", gap of the second " << gaps[1] << ", variants " << gaps.size();
    }
  }
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

// A slow reference of P(best): every variant in every replicate.
std::map<std::string, double> SlowProbabilityOfBest(const compare::Units& units,
                                                    uint32_t replicates, uint64_t seed) {
  std::map<std::string, double> wins;
  std::map<std::string, std::vector<double>, compare::NaturalLess> columns;
  for (const auto& [id, logs] : units.log_time) {
    std::vector<double> ratios = logs;
    for (size_t i = 0; i < ratios.size(); ++i) ratios[i] -= units.log_time.at("0")[i];
    columns[id] = stats::PulledIn(ratios);
  }
  stats::MersenneRandom random(seed);
  std::vector<size_t> drawn(units.size());
  for (uint32_t replicate = 0; replicate < replicates; ++replicate) {
    for (size_t& at : drawn) at = random.Below(drawn.size());
    std::string best;
    double least = std::numeric_limits<double>::infinity();
    for (const auto& [id, column] : columns) {
      double sum = 0;
      for (const size_t at : drawn) sum += column[at];
      const double mean = sum / static_cast<double>(drawn.size());
      if (mean < least) std::tie(best, least) = std::pair(id, mean);
    }
    wins[best] += 1.0 / replicates;
  }
  return wins;
}

TEST(PickTest, ProbabilityOfBestIsThatOfReadingEveryVariant) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Noise noise(900 + seed);
    std::vector<double> gaps;
    for (int i = 0; i < 12; ++i) gaps.push_back(0.02 * noise.Uniform());
    gaps.push_back(gaps[3]);  // a twin
    const auto units = compare::MakeUnits(
        std::vector{Drifting(gaps, 2 + static_cast<int>(seed % 7), 0.01, &noise)});
    const auto fast = compare::ProbabilityOfBest(units, "0", 0.02, 300, seed);
    const auto slow = SlowProbabilityOfBest(units, 300, seed);
    for (const auto& [id, share] : fast) {
      EXPECT_NEAR(share, slow.contains(id) ? slow.at(id) : 0, 1e-9) << seed << " " << id;
    }
  }
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

// By definition: all 27 ways to draw three rounds with replacement.
TEST(PickTest, ProbabilityOfBestIsThatOfAllDraws) {
  const std::vector<std::vector<double>> rounds = {{1.00, 1.02}, {1.03, 1.01}, {1.02, 1.025}};
  int first = 0;
  for (int code = 0; code < 27; ++code) {
    double difference = 0;
    for (const int r : {code % 3, code / 3 % 3, code / 9}) {
      difference += rounds[static_cast<size_t>(r)][1] - rounds[static_cast<size_t>(r)][0];
    }
    first += difference >= 0;
  }
  const auto units = compare::MakeUnits(std::vector<Measurements>{Rounds(rounds)});
  const auto p_best = compare::ProbabilityOfBest(units, "0", 0.02, 20000, 1);
  EXPECT_NEAR(p_best.at("0"), first / 27.0, 0.15);  // spikes are pulled in first
  EXPECT_DOUBLE_EQ(p_best.at("0") + p_best.at("1"), 1);
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

// Two variants in two captures leave nothing to pool. The advice is a number of captures, which
// decides.
TEST(PickSimulationTest, TheCapturesThatAreAdvisedDecide) {
  uint64_t advised = 0, decided = 0;
  for (uint64_t repetition = 0; repetition < 300; ++repetition) {
    Noise noise(11000 + repetition);
    const std::vector<double> gaps = {0, 0.05}, offsets = {0.003, 0.003};
    const PickResult two = Picked(Varying(gaps, 2, offsets, &noise), {.replicates = 1});
    if (two.claim != Claim::kUndecided || !two.needs_captures || !two.needed.has_value()) continue;
    if (*two.needed > 40) continue;
    ++advised;
    const auto more = Varying(gaps, static_cast<int>(*two.needed), offsets, &noise);
    decided += ExitCode(Picked(more, {.replicates = 1}).claim) == 0;
  }
  EXPECT_GE(advised, 30);
  EXPECT_GE(10 * decided, 8 * advised);
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
