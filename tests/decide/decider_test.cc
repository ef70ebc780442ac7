// The decider as a state machine: what it asks for, what it refuses, what it concludes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/decide/driven.h"

namespace xplane_time {
namespace {

using testing::Drive;
using testing::Driven;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Lt;
using testing::SimulatedDevice;
using ::testing::SizeIs;
using testing::SpaceOf;

Verdict Decide(const std::vector<double>& log_times, const DecideConfig& config,
               const testing::Spoil& spoil = {}) {
  return Drive(SpaceOf(log_times.size()), config,
               SimulatedDevice({.log_times = log_times, .seed = config.seed}), spoil)
      .verdict;
}

std::string OpenError(const Space& space, const DecideConfig& config) {
  return std::string(Decider::Open(space, config).status().message());
}

TEST(Open, RefusesWhatCannotBeDecided) {
  EXPECT_THAT(OpenError({}, {}), HasSubstr("no variants"));
  EXPECT_THAT(OpenError(SpaceOf(kMaxVariants + 1), {}), HasSubstr("use a random sample"));
  EXPECT_THAT(OpenError({.variants = {{.id = "a"}, {.id = "a"}}}, {}), HasSubstr("'a'"));
  const Space two = SpaceOf(2);
  EXPECT_THAT(OpenError(two, {.alpha = 0}), HasSubstr("alpha"));
  EXPECT_THAT(OpenError(two, {.alpha = std::nan("")}), HasSubstr("alpha"));
  EXPECT_THAT(OpenError(two, {.tie_alpha = 0.6}), HasSubstr("tie_alpha"));
  EXPECT_THAT(OpenError(two, {.delta = 0}), HasSubstr("delta"));
  EXPECT_THAT(OpenError(two, {.incumbent = 2}), HasSubstr("incumbent"));
  EXPECT_THAT(OpenError(two, {.budget_runs = 0}), HasSubstr("budget"));
  EXPECT_THAT(OpenError(two, {.canary = 1}), HasSubstr("canary"));
}

TEST(Decider, OneVariantTakesOneRun) {
  const Verdict verdict = Decide({0}, {});
  EXPECT_EQ(verdict.pick, 0u);
  EXPECT_EQ(verdict.runs, 1);
  EXPECT_EQ(verdict.claim, Claim::kPick);
  EXPECT_EQ(verdict.stop_reason, "one_left");
}

TEST(Decider, FindsTheFastestOfFew) {
  const Verdict verdict = Decide({0.2, 0, 0.1}, {.stop = Stop::kClaim, .seed = 5});
  EXPECT_EQ(verdict.pick, 1u);
  EXPECT_EQ(verdict.claim, Claim::kWinner);
  EXPECT_EQ(verdict.stop_reason, "proved");
  EXPECT_THAT(verdict.runs, Lt(30));
  EXPECT_GT(*verdict.p_best, 0.99);
  EXPECT_LT(*verdict.regret_hi, 0.005);
  ASSERT_THAT(verdict.eliminated, SizeIs(2));
  for (const Elimination& out : verdict.eliminated) {
    EXPECT_EQ(out.by, 1u);
    EXPECT_EQ(out.reason, "slower");
    EXPECT_GT(*out.ratio, *out.lo);
    EXPECT_GT(*out.lo, 1);
  }
  ASSERT_THAT(verdict.ratios, SizeIs(3));
  EXPECT_NEAR(verdict.ratios[0].est, std::exp(0.2), 0.05);
  EXPECT_LT(*verdict.ratios[0].lo, verdict.ratios[0].est);
  EXPECT_EQ(verdict.ratios[1].est, 1);
}

// The pick's first run takes twice as long: of what left early, it shares few rounds with it.
TEST(Decider, ASpikeOfThePickDoesNotTurnWhatIsShown) {
  std::vector<double> log_times;
  for (int i = 0; i < 9; ++i) log_times.push_back(0.15 * i);
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const testing::Spoil spike = [](RoundResult& result) {
      for (Sample& sample : result.samples) {
        if (result.batch == 1 && result.round == 0 && sample.variant == 0) sample.t_ps *= 2;
      }
    };
    const Driven driven = Drive(SpaceOf(9), {.stop = Stop::kClaim, .seed = seed},
                                SimulatedDevice({.log_times = log_times, .seed = seed}), spike);
    const Verdict& verdict = driven.verdict;
    EXPECT_EQ(verdict.pick, 0u) << seed;
    EXPECT_EQ(verdict.claim, Claim::kWinner) << seed;
    EXPECT_GT(verdict.p_best.value_or(0), 0.99) << seed;
    EXPECT_LE(verdict.regret_est.value_or(1), verdict.regret_hi.value_or(0)) << seed;
    for (const Ratio& ratio : verdict.ratios) {
      EXPECT_NEAR(std::log(ratio.est), log_times[ratio.variant], 0.2) << seed;
    }
  }
}

TEST(Decider, NothingIsSaidOfWhatHasNotRun) {
  const Verdict verdict = Decide({0, 0.1, 0.2, 0.3}, {.budget_runs = 1});
  EXPECT_EQ(verdict.claim, Claim::kUndecided);
  EXPECT_EQ(verdict.p_best, std::nullopt);
  EXPECT_EQ(verdict.regret_est, std::nullopt);
  EXPECT_EQ(verdict.regret_hi, std::nullopt);
}

TEST(Decider, RoundsAreBalancedAndNoneIsLongerThanABlock) {
  const Driven driven =
      Drive(SpaceOf(2), {.canary = 0}, SimulatedDevice({.log_times = {0, 0.002}, .seed = 3}));
  size_t zero_first = 0, rounds = 0;
  for (const Batch& batch : driven.batches) {
    for (const auto& round : batch.rounds) zero_first += round[0] == 0, ++rounds;
  }
  EXPECT_EQ(2 * zero_first, rounds);
  std::vector<double> many;
  for (int i = 0; i < 150; ++i) many.push_back(0.01 * i);
  const Driven blocks = Drive(SpaceOf(150), {}, SimulatedDevice({.log_times = many, .seed = 3}));
  EXPECT_EQ(blocks.verdict.pick, 0u);
  for (const Batch& batch : blocks.batches) {
    std::set<uint32_t> in_all(batch.rounds[0].begin(), batch.rounds[0].end());
    for (const auto& round : batch.rounds) {
      EXPECT_LE(round.size(), kBlockRuns + 1);  // one may be a canary
      const std::set<uint32_t> here(round.begin(), round.end());
      std::erase_if(in_all, [&](uint32_t v) { return !here.contains(v); });
    }
    // From the second batch on a leader is known, and in each block.
    EXPECT_EQ(in_all.empty(), batch.batch == 1) << batch.batch;
  }
}

TEST(Decider, HopelessVariantsGoAfterFewSamples) {
  std::vector<double> log_times;
  for (int i = 0; i < 1000; ++i) log_times.push_back(0.002 * i);
  const Verdict verdict = Decide(log_times, {});
  EXPECT_LE(verdict.pick, 2u);
  EXPECT_THAT(verdict.runs, Lt(2500));
}

TEST(Decider, TimesThatNeverVaryAndCoarseClocks) {
  const auto fixed = [](RoundResult& result) {
    for (Sample& sample : result.samples) sample.t_ps = 1000 + sample.variant;
  };
  for (const size_t variants : {size_t{2}, size_t{3}, size_t{30}}) {
    const std::vector<double> log_times(variants, 0.0);
    const Verdict same = Decide(log_times, {.delta = 0.05}, fixed);
    EXPECT_EQ(same.stop_reason, "certified");
    const Verdict apart = Decide(log_times, {.delta = 0.0005}, fixed);
    EXPECT_EQ(apart.pick, 0u);
    EXPECT_THAT(apart.runs, Lt(300));
  }
  // A clock of 1 %: most samples are equal, and the gap is half a step.
  int wrong = 0;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const auto coarse = [](RoundResult& result) {
      for (Sample& sample : result.samples) sample.t_ps -= sample.t_ps % 1'000'000;
    };
    testing::DeviceNoise noise;
    noise.sd = 0.004;
    noise.drift = 0;
    const SimulatedDevice device({.log_times = {0.003, 0.008}, .noise = noise, .seed = seed});
    wrong += Drive(SpaceOf(2), {.delta = 0.003, .seed = seed}, device, coarse).verdict.pick != 0u;
  }
  EXPECT_LE(wrong, 2);
}

TEST(Decider, CanaryRunsAreCountedAndReported) {
  const Driven driven = Drive(SpaceOf(2), {.stop = Stop::kClaim, .canary = 5},
                              SimulatedDevice({.log_times = {0, 0}, .seed = 3}));
  int64_t runs = 0, doubled = 0;
  for (const RoundResult& result : driven.results) {
    runs += static_cast<int64_t>(result.samples.size());
    doubled += result.samples.size() == 3;
  }
  EXPECT_EQ(driven.verdict.runs, runs);
  ASSERT_TRUE(driven.verdict.canary.has_value());
  EXPECT_EQ(driven.verdict.canary->rounds, static_cast<uint64_t>(doubled));
  EXPECT_FALSE(driven.verdict.canary->biased);
  EXPECT_EQ(driven.verdict.delta, std::expm1(std::log1p(0.005)));
}

TEST(Decider, AProvedBiasOfTheCanaryWidensDelta) {
  // Each second of the same variant in a round takes 3 % longer, whichever place it has: the
  // place that stands for the variant alternates, so bias the one that does not.
  int canaries = 0;
  const auto spoil = [&canaries](RoundResult& result) {
    for (Sample& a : result.samples) {
      for (const Sample& b : result.samples) {
        if (a.variant != b.variant || a.slot <= b.slot) continue;
        const bool later_is_canary = canaries++ % 2 == 0;
        Sample& canary = later_is_canary ? a : const_cast<Sample&>(b);
        canary.t_ps += canary.t_ps * 3 / 100;
      }
    }
  };
  const Verdict verdict =
      Decide({0, 0.015}, {.stop = Stop::kClaim, .budget_runs = 200, .canary = 2}, spoil);
  ASSERT_TRUE(verdict.canary.has_value());
  EXPECT_TRUE(verdict.canary->biased);
  EXPECT_NEAR(verdict.canary->ratio, 1.03, 0.01);
  EXPECT_NEAR(verdict.delta, 0.005 + verdict.canary->lo - 1, 1e-3);
}

TEST(Budget, IsNeverExceeded) {
  for (const int64_t runs : {1, 2, 3, 7, 33, 64, 70, 100}) {
    for (const size_t variants : {size_t{1}, size_t{2}, size_t{3}, size_t{25}, size_t{64}}) {
      const std::vector<double> log_times(variants, 0.0);
      const Verdict verdict = Decide(log_times, {.budget_runs = runs, .seed = 9});
      EXPECT_LE(verdict.runs, runs) << variants;
      EXPECT_TRUE(verdict.pick.has_value());
    }
  }
  const Verdict verdict = Decide({0, 0}, {.budget_runs = 20});
  EXPECT_EQ(verdict.claim, Claim::kUndecided);
  EXPECT_EQ(verdict.stop_reason, "budget_runs");
  EXPECT_EQ(verdict.runs, 20);
}

TEST(Budget, OfTimeStopsToo) {
  const Verdict verdict = Decide({0, 0}, {.budget_time_ps = 2'000'000'000});  // 20 runs
  EXPECT_EQ(verdict.stop_reason, "budget_time");
  EXPECT_THAT(verdict.runs, Lt(22));
  EXPECT_GE(verdict.runs, 14);
}

TEST(Budget, IsNotSpentOnWhatIsNotWorthIt) {
  int stopped = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Verdict verdict =
        Decide({0, 0}, {.stop = Stop::kClaim, .budget_runs = 130, .seed = seed});
    if (verdict.stop_reason != "not_worth_it") continue;
    ++stopped;
    EXPECT_LE(verdict.runs, 130);
    EXPECT_EQ(verdict.claim, Claim::kPick);
  }
  EXPECT_GE(stopped, 1);
}

Sample* SampleOf(RoundResult& result, uint32_t variant) {
  for (Sample& sample : result.samples) {
    if (sample.variant == variant) return &sample;
  }
  return nullptr;
}

testing::Spoil FailAs(uint32_t variant, SampleStatus status, int* times) {
  return [=](RoundResult& result) {
    Sample* sample = SampleOf(result, variant);
    if (sample == nullptr) return;
    sample->status = status;
    sample->t_ps = 0;
    ++*times;
  };
}

TEST(Failures, QuarantineByStatus) {
  struct Case {
    SampleStatus status;
    int most;
  };
  for (const Case& c : {Case{SampleStatus::kCompileError, 4}, Case{SampleStatus::kWrongResult, 4},
                        Case{SampleStatus::kCrash, 4}, Case{SampleStatus::kTimeout, 4},
                        Case{SampleStatus::kOom, 4}, Case{SampleStatus::kRuntimeError, 4},
                        Case{SampleStatus::kNoEvents, 8}, Case{SampleStatus::kInfra, 8}}) {
    int times = 0;
    const Verdict verdict = Decide({0, 0.01, 0.02}, {}, FailAs(0, c.status, &times));
    EXPECT_EQ(verdict.pick, 1u);
    EXPECT_LE(times, c.most);
    ASSERT_FALSE(verdict.eliminated.empty());
    EXPECT_EQ(verdict.eliminated[0].variant, 0u);
    EXPECT_EQ(verdict.eliminated[0].by, std::nullopt);
    EXPECT_EQ(verdict.eliminated[0].reason, SampleStatusName(c.status));
  }
}

TEST(Failures, OneCrashIsForgiven) {
  bool crashed = false;
  const Verdict verdict = Decide({0, 0.05}, {}, [&crashed](RoundResult& result) {
    Sample* sample = SampleOf(result, 0);
    if (crashed || sample == nullptr) return;
    crashed = true;
    sample->status = SampleStatus::kCrash;
  });
  EXPECT_EQ(verdict.pick, 0u);
}

TEST(Failures, WhatTheFailedOneDroppedComesBack) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    uint64_t runs_of_first = 0;
    const auto crash_later = [&](RoundResult& result) {
      for (Sample& sample : result.samples) {
        if (sample.variant == 0 && ++runs_of_first > 2) sample.status = SampleStatus::kCrash;
      }
    };
    const Driven driven =
        Drive(SpaceOf(3), {.seed = seed},
              SimulatedDevice({.log_times = {0, 0.4, 1.1}, .seed = seed}), crash_later);
    const auto quarantined =
        std::count_if(driven.verdict.eliminated.begin(), driven.verdict.eliminated.end(),
                      [](const Elimination& each) { return each.variant == 0 && !each.by; });
    EXPECT_EQ(driven.verdict.pick, quarantined == 1 ? 1u : 0u) << seed;
  }
}

TEST(Failures, AllFailed) {
  const Verdict verdict = Decide({0, 0.01}, {}, [](RoundResult& result) {
    for (Sample& sample : result.samples) sample.status = SampleStatus::kCrash;
  });
  EXPECT_EQ(verdict.claim, Claim::kAllFailed);
  EXPECT_EQ(verdict.pick, std::nullopt);
  EXPECT_EQ(verdict.stop_reason, "all_failed");
  EXPECT_THAT(verdict.ratios, IsEmpty());
  EXPECT_THAT(verdict.eliminated, SizeIs(2));
}

TEST(Failures, OneIsLeft) {
  int times = 0;
  const Verdict verdict = Decide({0, 0.01}, {}, FailAs(0, SampleStatus::kCrash, &times));
  EXPECT_EQ(verdict.pick, 1u);
  EXPECT_EQ(verdict.stop_reason, "one_left");
}

TEST(Failures, RunsThatNobodyReportsAreNotAskedForForever) {
  const Verdict verdict = Decide({0, 0.01, 0.02}, {}, [](RoundResult& result) {
    std::erase_if(result.samples, [](const Sample& sample) { return sample.variant == 0; });
  });
  EXPECT_EQ(verdict.pick, 1u);
  EXPECT_EQ(verdict.eliminated[0].reason, "no_events");
}

TEST(Failures, DiscardedRoundsAreRepeatedUpToACap) {
  int rounds = 0;
  const auto spoil = [&rounds](RoundResult& result) { result.discarded = rounds++ % 3 == 0; };
  const Verdict some = Decide({0, 0.02}, {}, spoil);
  EXPECT_EQ(some.pick, 0u);
  EXPECT_EQ(some.claim, Claim::kPick);
  const Verdict all = Decide({0, 0.02}, {}, [](RoundResult& result) { result.discarded = true; });
  EXPECT_EQ(all.stop_reason, "throttled");
  EXPECT_EQ(all.claim, Claim::kUndecided);
  EXPECT_EQ(all.pick, std::nullopt);
  EXPECT_EQ(all.runs, 2 * static_cast<int64_t>(all.rounds));
}

// Two exact twins: a tie as soon as it is asked for a claim.
Verdict TieOf(const Space& space, DecideConfig config, const testing::Spoil& spoil = {}) {
  config.stop = Stop::kClaim;
  const std::vector<double> log_times(space.variants.size(), 0.0);
  return Drive(space, config, SimulatedDevice({.log_times = log_times, .seed = 4}), spoil).verdict;
}

TEST(Ties, TheIncumbentStays) {
  const Space space{.variants = {{.id = "a", .params_json = "1", .mem_bytes = 1},
                                 {.id = "b", .params_json = "2", .mem_bytes = 2}}};
  const Verdict verdict = TieOf(space, {.incumbent = 1});
  EXPECT_EQ(verdict.claim, Claim::kTie);
  EXPECT_THAT(verdict.tied, ElementsAre(1, 0));
  EXPECT_EQ(verdict.pick, 1u);
  EXPECT_EQ(verdict.stop_reason, "proved");
}

TEST(Ties, ThenLessMemory) {
  const Space space{.variants = {{.id = "a", .params_json = "1", .mem_bytes = 2},
                                 {.id = "b", .params_json = "2", .mem_bytes = 1},
                                 {.id = "c", .params_json = "0"}}};
  EXPECT_THAT(TieOf(space, {}).tied, ElementsAre(1, 0, 2));
}

TEST(Ties, ThenLessEnergy) {
  const Space space{.variants = {{.id = "a", .params_json = "1"}, {.id = "b", .params_json = "2"}}};
  const Verdict verdict = TieOf(space, {}, [](RoundResult& result) {
    for (Sample& sample : result.samples) sample.energy_uj = sample.variant == 1 ? 5.0 : 6.0;
  });
  EXPECT_THAT(verdict.tied, ElementsAre(1, 0));
}

TEST(Ties, ThenTheOrderOfParameters) {
  const Space space{.variants = {{.id = "a", .params_json = R"({"x":2})"},
                                 {.id = "b", .params_json = R"({"x":1})"}}};
  EXPECT_THAT(TieOf(space, {}).tied, ElementsAre(1, 0));
}

TEST(Incumbent, IsReplacedByAFasterOneAndKeptOtherwise) {
  EXPECT_EQ(Decide({0, 0.03}, {.incumbent = 1}).pick, 0u);
  EXPECT_EQ(Decide({0, 0.03}, {.incumbent = 0}).pick, 0u);
  EXPECT_EQ(Decide({0, 0}, {.incumbent = 1}).pick, 1u);
  EXPECT_EQ(Decide({0, 0.1, 0.2, 0}, {.incumbent = 3}).pick, 3u);
}

TEST(Incumbent, StaysWhenTheBudgetEndsAtATie) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const Verdict verdict = Decide({0, 0}, {.incumbent = 1, .budget_runs = 64, .seed = seed});
    if (verdict.claim != Claim::kUndecided) continue;
    EXPECT_EQ(verdict.pick, 1u);
  }
}

void AddEnergy(RoundResult& result, const std::vector<double>& watts) {
  for (Sample& sample : result.samples) {
    sample.energy_uj = static_cast<double>(sample.t_ps) * 1e-6 * watts[sample.variant];
  }
}

TEST(Objectives, WeighEnergyAndTime) {
  // The second takes 10 % longer at 20 % less power: 12 % less energy, 3 % less energy times
  // time, 6 % more energy times time squared.
  const std::vector<double> log_times = {0, std::log(1.1)};
  const auto spoil = [](RoundResult& result) { AddEnergy(result, {100, 80}); };
  EXPECT_EQ(Decide(log_times, {.objective = Objective::kTime}, spoil).pick, 0u);
  EXPECT_EQ(Decide(log_times, {.objective = Objective::kEnergy}, spoil).pick, 1u);
  EXPECT_EQ(Decide(log_times, {.objective = Objective::kEdp}, spoil).pick, 1u);
  EXPECT_EQ(Decide(log_times, {.objective = Objective::kEd2p}, spoil).pick, 0u);
}

TEST(Objectives, TheFrontKeepsWhatNothingBeatsInBoth) {
  // Fast, frugal, both in the middle, and one that is worse than the middle in both.
  const std::vector<double> log_times = {0, 0.2, 0.1, 0.15};
  const auto spoil = [](RoundResult& result) { AddEnergy(result, {100, 50, 70, 80}); };
  const Verdict verdict = Decide(log_times, {.objective = Objective::kPareto}, spoil);
  EXPECT_THAT(verdict.tied, ElementsAre(0, 2, 1));
  EXPECT_EQ(verdict.pick, 1u);  // the least energy times time
  EXPECT_EQ(verdict.claim, Claim::kPick);
  ASSERT_THAT(verdict.eliminated, SizeIs(1));
  EXPECT_EQ(verdict.eliminated[0].reason, "dominated");
  EXPECT_EQ(verdict.p_best, std::nullopt);
}

TEST(Objectives, EnergyThatIsMissingIsAnError) {
  auto decider = Decider::Open(SpaceOf(2), {.objective = Objective::kEdp});
  ASSERT_TRUE(decider.ok());
  const Batch batch = *decider->Next();
  SimulatedDevice device({.log_times = {0, 0}});
  const auto folded = decider->Fold(device.Run(batch.batch, 0, batch.rounds[0]));
  EXPECT_THAT(std::string(folded.status().message()), HasSubstr("energy_uj"));
}

TEST(Fold, RefusesNonsenseAndStaysAsItWas) {
  auto decider = Decider::Open(SpaceOf(2), {});
  ASSERT_TRUE(decider.ok());
  const Batch batch = *decider->Next();
  const auto error = [&](RoundResult result) {
    return std::string(decider->Fold(result).status().message());
  };
  EXPECT_THAT(error({.batch = 7}), HasSubstr("was not requested"));
  EXPECT_THAT(error({.batch = 0}), HasSubstr("was not requested"));
  EXPECT_THAT(error({.batch = 1, .samples = {{.variant = 2, .t_ps = 1}}}), HasSubstr("variant 2"));
  EXPECT_THAT(error({.batch = 1, .samples = {{.t_ps = 0}}}), HasSubstr("positive"));
  EXPECT_THAT(error({.batch = 1, .samples = {{.t_ps = -5}}}), HasSubstr("positive"));
  EXPECT_THAT(error({.batch = 1,
                     .samples = {{.variant = 0, .slot = 1, .t_ps = 1},
                                 {.variant = 1, .slot = 1, .t_ps = 1}}}),
              HasSubstr("slot 1"));
  EXPECT_THAT(error({.batch = 1, .samples = std::vector<Sample>(50)}), HasSubstr("50 samples"));
  EXPECT_THAT(error({.batch = 1, .samples = {{.t_ps = 1, .energy_uj = -1.0}}}),
              HasSubstr("energy_uj"));
  EXPECT_EQ(decider->Next()->rounds, batch.rounds);
  EXPECT_EQ(decider->Judge("interrupted").runs, 0);
}

TEST(Fold, RepeatsAreIgnored) {
  auto decider = Decider::Open(SpaceOf(2), {});
  ASSERT_TRUE(decider.ok());
  const Batch batch = *decider->Next();
  SimulatedDevice device({.log_times = {0, 0.01}});
  std::vector<RoundResult> results;
  for (size_t i = 0; i < batch.rounds.size(); ++i) {
    results.push_back(device.Run(batch.batch, i, batch.rounds[i]));
  }
  EXPECT_EQ(*decider->Fold(results[0]), Folded::kStored);
  EXPECT_EQ(*decider->Fold(results[0]), Folded::kRepeated);
  for (size_t i = 1; i + 1 < results.size(); ++i)
    EXPECT_EQ(*decider->Fold(results[i]), Folded::kStored);
  EXPECT_EQ(*decider->Fold(results.back()), Folded::kBatchComplete);
  EXPECT_EQ(*decider->Fold(results[1]), Folded::kRepeated);
  EXPECT_EQ(decider->Next()->batch, 2u);
}

TEST(Judge, TellsHowThingsStandWithoutChangingThem) {
  auto decider = Decider::Open(SpaceOf(2), {});
  ASSERT_TRUE(decider.ok());
  SimulatedDevice device({.log_times = {0, 0.01}});
  const Batch batch = *decider->Next();
  for (size_t i = 0; i < batch.rounds.size(); ++i) {
    ASSERT_TRUE(decider->Fold(device.Run(batch.batch, i, batch.rounds[i])).ok());
    const Verdict verdict = decider->Judge("interrupted");
    EXPECT_EQ(verdict.rounds, i + 1);
    EXPECT_EQ(verdict.claim, Claim::kUndecided);
    EXPECT_EQ(verdict.stop_reason, "interrupted");
    const Verdict standing = decider->Judge("running", Detail::kStanding);
    EXPECT_FALSE(standing.p_best.has_value() || standing.regret_hi.has_value());
    EXPECT_EQ(standing.pick, verdict.pick);
    EXPECT_EQ(standing.ratios.size(), verdict.ratios.size());
    EXPECT_EQ(verdict.p_best.has_value(), i > 0);  // one round has no spread
  }
  EXPECT_EQ(decider->Next()->batch, 2u);
}

TEST(JudgeRecorded, AnotherRuleOnTheSameRounds) {
  const Driven driven = Drive(SpaceOf(2), {.stop = Stop::kClaim},
                              SimulatedDevice({.log_times = {0, 0.02}, .seed = 2}));
  const auto same = JudgeRecorded(SpaceOf(2), {.stop = Stop::kClaim}, driven.results);
  ASSERT_TRUE(same.ok());
  EXPECT_EQ(same->claim, Claim::kWinner);
  EXPECT_EQ(same->runs, driven.verdict.runs);
  const auto other = JudgeRecorded(SpaceOf(2), {.delta = 0.1, .incumbent = 1}, driven.results);
  ASSERT_TRUE(other.ok());
  EXPECT_TRUE(other->pick.has_value());
  EXPECT_FALSE(JudgeRecorded(SpaceOf(1), {}, driven.results).ok());
}

}  // namespace
}  // namespace xplane_time
