#include "xplane_time/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/compare/made.h"

namespace xplane_time {
namespace {

using testing::Capture;
using testing::Captures;
using testing::Energies;
using ::testing::HasSubstr;
using testing::MadeFunction;
using testing::Noise;

const ComparedRow& Row(const Comparison& comparison, const std::string& function) {
  for (const ComparedRow& row : comparison.rows) {
    if (row.function == function) return row;
  }
  ADD_FAILURE() << "no row " << function;
  return comparison.rows.front();
}

Comparison Compared(const std::vector<Measurements>& base, const std::vector<Measurements>& head,
                    const CompareOptions& options = {}) {
  auto comparison = Compare(base, head, options);
  EXPECT_TRUE(comparison.ok()) << comparison.status();
  return comparison.ok() ? *std::move(comparison) : Comparison();
}

TEST(CompareTest, ALargeSlowdownIsProvedAndOthersAreTheSame) {
  Noise noise(1);
  const auto base = Captures(10, {{"a"}, {"b"}}, 0.005, &noise);
  const auto head = Captures(10, {{"a", 1.1e7}, {"b"}}, 0.005, &noise);
  const Comparison comparison = Compared(base, head);
  EXPECT_EQ(comparison.outcome, Outcome::kSlower);
  const ComparedRow& slower = Row(comparison, "a");
  EXPECT_EQ(slower.verdict, FunctionVerdict::kSlower);
  EXPECT_NEAR(*slower.ratio, 1.1, 0.01);
  EXPECT_GT(*slower.lo, 1.01);
  EXPECT_LT(*slower.lo, *slower.ratio);
  EXPECT_LE(*slower.p_value, 0.001);
  EXPECT_EQ(Row(comparison, "b").verdict, FunctionVerdict::kSame);
  EXPECT_EQ(comparison.rows[0].function, "a") << "the worst comes first";
}

TEST(CompareTest, SwappedSidesGiveTheReciprocal) {
  Noise noise(2);
  const auto base = Captures(8, {{"a"}}, 0.01, &noise);
  const auto head = Captures(8, {{"a", 1.2e7}}, 0.01, &noise);
  const ComparedRow there = Compared(base, head).rows[0], back = Compared(head, base).rows[0];
  EXPECT_EQ(there.verdict, FunctionVerdict::kSlower);
  EXPECT_EQ(back.verdict, FunctionVerdict::kFaster);
  EXPECT_NEAR(*there.ratio * *back.ratio, 1, 1e-12);
  EXPECT_NEAR(*there.lo * *back.hi, 1, 1e-12);
  EXPECT_DOUBLE_EQ(*there.p_value, *back.p_value);
  EXPECT_EQ(Compared(head, base).outcome, Outcome::kNoRegression);
}

// The contract: one process a side proves nothing, however many samples it has.
TEST(CompareTest, OneProcessASideIsAtMostTooLittleData) {
  Noise noise(3);
  const auto base = Captures(1, {{"a"}}, 0, &noise, 2000);
  const auto head = Captures(1, {{"a", 2e7}}, 0, &noise, 2000);
  const Comparison comparison = Compared(base, head);
  EXPECT_EQ(comparison.outcome, Outcome::kTooLittleData);
  EXPECT_FALSE(comparison.rows[0].lo.has_value());
  EXPECT_FALSE(comparison.rows[0].mde.has_value());
  EXPECT_EQ(comparison.rows[0].needed->unknown, "noise_unknown");
}

TEST(CompareTest, AKnownOffsetLetsOneProcessASideDecide) {
  Noise noise(4);
  const auto base = Captures(1, {{"a"}}, 0, &noise, 200);
  const auto head = Captures(1, {{"a", 1.2e7}}, 0, &noise, 200);
  EXPECT_EQ(Compared(base, head, {.offset_std = 0.01}).outcome, Outcome::kSlower);
  EXPECT_EQ(Compared(base, head, {.offset_std = 0.1}).outcome, Outcome::kTooLittleData);
  // The scatter within a process has to be known, too.
  const auto single = Captures(1, {{"a", 1.2e7}}, 0, &noise, 1);
  EXPECT_EQ(Compared(base, single, {.offset_std = 0.01}).outcome, Outcome::kTooLittleData);
}

TEST(CompareTest, AnUnprovedSlowdownIsCannotTell) {
  // Four captures a side that differ by 1 % on average, with a scatter that hides it.
  Noise noise(5);
  const auto made = [&noise](const std::vector<double>& offsets) {
    std::vector<Measurements> out;
    for (const double offset : offsets) {
      out.push_back(Capture({{"a", 1e7, 1e-6}}, 20, offset, &noise));
    }
    return out;
  };
  const auto base = made({-0.004, -0.001, 0.001, 0.004}), head = made({0.008, 0.011, 0.014, 0.017});
  const Comparison comparison = Compared(base, head, {.max_mde = 0.1});
  EXPECT_EQ(comparison.outcome, Outcome::kCannotTell);
  EXPECT_EQ(comparison.rows[0].verdict, FunctionVerdict::kCannotTell);
  EXPECT_EQ(Compared(base, head, {.max_mde = 0.015}).outcome, Outcome::kTooLittleData)
      << "comes before cannot tell";
  // Perhaps faster is no reason to fail a job.
  EXPECT_EQ(Compared(head, base, {.max_mde = 0.1}).outcome, Outcome::kNoRegression);
}

TEST(CompareTest, PairingRemovesWhatBothSidesShare) {
  Noise noise(6);
  std::vector<Measurements> base, head;
  for (int i = 0; i < 6; ++i) {
    const double session = 0.05 * noise.Normal();
    base.push_back(Capture({{"a"}}, 50, session, &noise));
    head.push_back(Capture({{"a", 1.05e7}}, 50, session, &noise));
  }
  EXPECT_NE(Compared(base, head).outcome, Outcome::kSlower);
  EXPECT_EQ(Compared(base, head, {.paired = true}).outcome, Outcome::kSlower);
  head.pop_back();
  EXPECT_EQ(Compare(base, head, {.paired = true}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(CompareTest, WhatIsOnOneSideOnlyIsListed) {
  Noise noise(7);
  const auto base = Captures(5, {{"a"}, {"gone"}}, 0.001, &noise);
  const auto head = Captures(5, {{"a"}, {"new"}}, 0.001, &noise);
  const Comparison comparison = Compared(base, head);
  EXPECT_EQ(Row(comparison, "gone").verdict, FunctionVerdict::kOnlyBase);
  EXPECT_EQ(Row(comparison, "new").verdict, FunctionVerdict::kOnlyHead);
  EXPECT_EQ(comparison.compared, 1);
  EXPECT_EQ(comparison.outcome, Outcome::kNoRegression);
}

TEST(CompareTest, NothingInCommonIsAnError) {
  Noise noise(8);
  const auto base = Captures(2, {{"a"}}, 0, &noise), head = Captures(2, {{"b"}}, 0, &noise);
  const auto comparison = Compare(base, head, {});
  EXPECT_EQ(comparison.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(comparison.status().message()), HasSubstr("no function in common"));
}

TEST(CompareTest, OtherDevicesAreNotComparedSilently) {
  Noise noise(9);
  auto base = Captures(3, {{"a"}}, 0.001, &noise), head = Captures(3, {{"a"}}, 0.001, &noise);
  for (auto& capture : base) capture.facts = {{"device model", "V100"}};
  for (auto& capture : head) capture.facts = {{"device model", "H100"}};
  const auto comparison = Compare(base, head, {});
  EXPECT_EQ(comparison.status().code(), absl::StatusCode::kFailedPrecondition);
  for (const char* part : {"device model", "V100", "H100", "--allow-mismatch"}) {
    EXPECT_THAT(std::string(comparison.status().message()), HasSubstr(part));
  }
  const Comparison allowed = Compared(base, head, {.max_mde = 0.5, .allow_mismatch = true});
  EXPECT_THAT(allowed.notes, ::testing::Contains(HasSubstr("V100")));
  for (auto& capture : head) capture.facts.clear();
  EXPECT_THAT(Compared(base, head).notes, ::testing::Contains(HasSubstr("not stated")));
}

TEST(CompareTest, AFunctionOnAnotherClockIsARowOfItsOwn) {
  Noise noise(10);
  const auto base = Captures(5, {{"a"}, {"b"}}, 0.001, &noise);
  auto head = Captures(5, {{"a"}, {"b", 3e7}}, 0.001, &noise);
  for (auto& capture : head) capture.series[1].clock = "device";
  const Comparison comparison = Compared(base, head);
  EXPECT_EQ(Row(comparison, "b").verdict, FunctionVerdict::kNotComparable);
  EXPECT_THAT(Row(comparison, "b").reason, HasSubstr("clock"));
  EXPECT_FALSE(Row(comparison, "b").ratio.has_value());
  EXPECT_EQ(comparison.outcome, Outcome::kCannotTell);
}

TEST(CompareTest, AFunctionWithoutARunThatCountsIsNotComparable) {
  Noise noise(13);
  const auto base = Captures(8, {{"a"}, {"b"}}, 0.001, &noise);
  auto head = Captures(8, {{"a"}, {"b"}}, 0.001, &noise);
  for (auto& capture : head) capture.series[1].samples.clear();
  for (const bool swapped : {false, true}) {
    const Comparison comparison = swapped ? Compared(head, base) : Compared(base, head);
    EXPECT_EQ(Row(comparison, "b").verdict, FunctionVerdict::kNotComparable);
    EXPECT_EQ(Row(comparison, "b").reason,
              swapped ? "it has no usable run in base" : "it has no usable run in head");
    EXPECT_EQ(comparison.outcome, Outcome::kCannotTell);
  }
}

TEST(CompareTest, AnUncertainSplitDecidesNothing) {
  for (const double typical : {1e7, 2e7, 5e6}) {
    Noise noise(14);
    const auto base = Captures(8, {{"a"}, {"b"}}, 0.001, &noise);
    auto head = Captures(8, {{"a"}, {"b", typical}}, 0.001, &noise);
    EXPECT_NE(Row(Compared(base, head), "b").verdict, FunctionVerdict::kCannotTell);
    head[3].series[1].uncertain = true;
    const Comparison comparison = Compared(base, head);
    EXPECT_EQ(Row(comparison, "b").verdict, FunctionVerdict::kCannotTell);
    EXPECT_EQ(Row(comparison, "a").verdict, FunctionVerdict::kSame);
    EXPECT_EQ(comparison.outcome, Outcome::kCannotTell);
  }
}

TEST(CompareTest, ACaptureOnBothSidesShowsNoChange) {
  Noise noise(15);
  const auto base = Captures(8, {{"a"}, {"b"}}, 0.001, &noise);
  auto head = Captures(8, {{"a"}, {"b"}}, 0.001, &noise);
  EXPECT_EQ(Compared(base, head).outcome, Outcome::kNoRegression);
  EXPECT_EQ(Compared(base, base).outcome, Outcome::kTooLittleData);
  EXPECT_EQ(Compared(base, base).shared_captures, 8);
  EXPECT_EQ(Row(Compared(base, base), "a").verdict, FunctionVerdict::kTooLittleData);
  head.push_back(base[4]);
  EXPECT_EQ(Compared(base, head).outcome, Outcome::kTooLittleData);
  EXPECT_EQ(Compared(base, head).shared_captures, 1);
  // A change that is proved in spite of it stands.
  auto slower = Captures(8, {{"a", 2e7}, {"b"}}, 0.001, &noise);
  slower.push_back(base[4]);
  EXPECT_EQ(Compared(base, slower).outcome, Outcome::kSlower);
}

// Of the function's own spread and change, whatever the others need.
TEST(CompareTest, AdviceIsThatOfTheFunction) {
  Noise noise(17);
  std::vector<Measurements> base, head;
  for (int i = 0; i < 4; ++i) {
    const double off = 0.08 * (i - 1.5);
    for (auto* side : {&base, &head}) {
      side->push_back(
          Capture({{"large", side == &base ? 1e7 : 1.4e7, 1e-4}, {"calm"}}, 20, off, &noise));
      auto wild = Capture({{"wild", 1e7, 1e-4}}, 20, 10 * off, &noise);
      side->back().series.push_back(wild.series[0]);
    }
  }
  const Comparison comparison = Compared(base, head);
  const ComparedRow &large = Row(comparison, "large"), &wild = Row(comparison, "wild");
  ASSERT_TRUE(wild.needed.has_value() && large.needed.has_value());
  EXPECT_EQ(wild.needed->question, CapturesNeeded::Question::kNoChange);
  EXPECT_EQ(wild.needed->unknown, "over_limit");
  EXPECT_EQ(large.needed->question, CapturesNeeded::Question::kChange);
  ASSERT_TRUE(large.needed->enough.has_value());
  EXPECT_LT(*large.needed->least, *large.needed->enough);
  EXPECT_LT(*large.needed->enough, 100);
}

TEST(CompareTest, ProgramsOfOneNameAreMatchedOnlyWhereTheirNumberAgrees) {
  Noise noise(11);
  auto base = Captures(3, {{"a"}, {"b"}}, 0.001, &noise);
  const auto head = Captures(3, {{"a"}, {"b"}}, 0.001, &noise);
  for (auto& capture : base) {
    Series second = capture.series[0];
    second.program = 1;
    capture.series.push_back(second);
  }
  const Comparison comparison = Compared(base, head);
  EXPECT_EQ(comparison.Count(FunctionVerdict::kNotComparable), 1);
  EXPECT_EQ(comparison.Count(FunctionVerdict::kOnlyBase), 1);
}

TEST(CompareTest, AFailureOnOneSideIsToldAndAllFailedIsAnOutcome) {
  Noise noise(12);
  const auto base = Captures(3, {{"a"}}, 0.001, &noise);
  auto head = base;
  for (auto& capture : head) {
    capture.series[0].samples.clear();
    capture.series[0].failure = "out of memory";
  }
  const Comparison comparison = Compared(base, head);
  EXPECT_EQ(comparison.outcome, Outcome::kAllFailed);
  EXPECT_EQ(comparison.rows[0].verdict, FunctionVerdict::kFailed);
  EXPECT_EQ(comparison.rows[0].reason, "failed in 3 of 3 captures of head: out of memory");
}

TEST(CompareTest, AFailureDoesNotPassBesideWhatWorks) {
  Noise noise(16);
  const auto base = Captures(6, {{"a"}, {"b"}}, 0.001, &noise);
  auto head = Captures(6, {{"a"}, {"b"}}, 0.001, &noise);
  EXPECT_EQ(Compared(base, head).outcome, Outcome::kNoRegression);
  for (size_t i = 0; i < head.size(); ++i) {
    head[i].series[1].failure = "out of memory";
    if (i + 1 < head.size()) head[i].series[1].samples.clear();
    const Comparison some = Compared(base, head, {.max_mde = 0.5});
    EXPECT_EQ(some.outcome, Outcome::kCannotTell) << i;
    EXPECT_EQ(Row(some, "b").verdict, FunctionVerdict::kCannotTell);
    EXPECT_EQ(Row(some, "b").reason,
              "failed in " + std::to_string(i + 1) + " of 6 captures of head: out of memory");
    EXPECT_EQ(Compared(head, base, {.max_mde = 0.5}).outcome, Outcome::kNoRegression) << "mended";
  }
  head.back().series[1].samples.clear();
  const Comparison all = Compared(base, head);
  EXPECT_EQ(all.outcome, Outcome::kCannotTell);
  EXPECT_EQ(Row(all, "b").verdict, FunctionVerdict::kFailed);
  EXPECT_EQ(Row(all, "a").verdict, FunctionVerdict::kSame);
}

std::vector<Measurements> Exactly(const std::vector<std::vector<double>>& captures_ns) {
  std::vector<Measurements> out;
  for (const auto& times_ns : captures_ns) {
    Measurements& capture = out.emplace_back();
    Series& series = capture.series.emplace_back();
    series.function = "a";
    series.metric = "real_time";
    for (const double ns : times_ns) series.samples.push_back({ns * 1e3, 0});
  }
  return out;
}

// Times of a clock of 2 ns agree, which is no precision.
TEST(CompareTest, AgreementOnACoarseClockProvesNothing) {
  const std::vector<std::vector<double>> same = {{100}, {100}};
  for (const auto& head : {std::vector<std::vector<double>>{{102}}, {{102}, {102}}, {{100}}}) {
    EXPECT_EQ(Compared(Exactly(same), Exactly(head)).outcome, Outcome::kTooLittleData);
  }
  const std::vector<std::vector<double>> base(10, std::vector<double>(10, 100));
  const auto of = [&](double ns) {
    return Compared(Exactly(base), Exactly({10, std::vector<double>(10, ns)})).outcome;
  };
  EXPECT_EQ(of(100), Outcome::kNoRegression);
  EXPECT_EQ(of(102), Outcome::kCannotTell) << "one step: any difference up to 4 ns";
  EXPECT_EQ(Compared(Exactly({{100, 102}, {100, 102}, {102, 100}, {100, 102}, {100, 102}}),
                     Exactly({{120, 122}, {122, 120}, {122, 120}, {120, 122}, {120, 122}}))
                .outcome,
            Outcome::kSlower);
}

// In a trace other functions show how fine the clock is.
TEST(CompareTest, TimesThatNeverVaryAreComparedOnAFineClock) {
  std::vector<Measurements> base = Exactly({5, {100, 100}}), head = Exactly({5, {110, 110}});
  EXPECT_EQ(Compared(base, head).outcome, Outcome::kTooLittleData) << "the step may be 10 ns";
  for (auto* side : {&base, &head}) {
    for (Measurements& capture : *side) {
      capture.series[0].clock = "profile";
      Series& other = capture.series.emplace_back(capture.series[0]);
      other.function = "b";
      other.samples = {{1500e3, 0}, {1501e3, 0}};
    }
  }
  EXPECT_EQ(Compared(base, head).outcome, Outcome::kSlower);
}

TEST(CompareSimulationTest, ACoarseClockDoesNotCryWolf) {
  int alarms = 0;
  for (uint64_t repetition = 0; repetition < 1500; ++repetition) {
    Noise noise(5000 + repetition);
    const auto side = [&](int captures) {
      std::vector<std::vector<double>> times(static_cast<size_t>(captures));
      for (auto& capture : times) {
        const double typical_ns = 101 * std::exp(0.01 * noise.Normal());
        for (int i = 0; i < 5; ++i) {
          const double time_ns = typical_ns * std::exp(0.001 * noise.Normal());
          capture.push_back(2 * std::floor(time_ns / 2));
        }
      }
      return Exactly(times);
    };
    const int captures = 2 + static_cast<int>(repetition % 3);
    alarms += Compared(side(captures), side(captures)).outcome == Outcome::kSlower;
  }
  EXPECT_EQ(alarms, 0);
}

TEST(CompareTest, OneDeviceASideMayBeAnotherOrdinal) {
  Noise noise(13);
  const auto base = Captures(3, {{"a"}}, 0.001, &noise);
  auto head = Captures(3, {{"a"}}, 0.001, &noise);
  for (auto& capture : head) capture.series[0].device = "GPU:3";
  const Comparison comparison = Compared(base, head);
  EXPECT_EQ(comparison.compared, 1);
  EXPECT_THAT(comparison.notes, ::testing::Contains(HasSubstr("GPU:3")));
}

TEST(CompareTest, OptionsAreChecked) {
  Noise noise(14);
  const auto base = Captures(2, {{"a"}}, 0, &noise);
  for (const CompareOptions& options :
       {CompareOptions{.alpha = 0}, CompareOptions{.alpha = 1}, CompareOptions{.confidence = 1},
        CompareOptions{.min_effect = -0.1}, CompareOptions{.max_mde = 0},
        CompareOptions{.offset_std = -1.0}}) {
    EXPECT_EQ(Compare(base, base, options).status().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(Compare({}, base, {}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(CompareTest, TheDetectableEffectShrinksWithCaptures) {
  double last = 1e9;
  for (const int captures : {3, 5, 10, 20, 40}) {
    Noise noise(15);
    double mde = 0;
    for (int repetition = 0; repetition < 20; ++repetition) {
      mde += *Compared(Captures(captures, {{"a"}}, 0.01, &noise),
                       Captures(captures, {{"a"}}, 0.01, &noise))
                  .rows[0]
                  .mde;
    }
    EXPECT_LT(mde, last) << captures;
    last = mde;
  }
}

// A small share of bench/compare_simulation.
TEST(CompareSimulationTest, IdenticalFunctionsDoNotCryWolfAndRegressionsAreFound) {
  int false_alarms = 0, found = 0;
  constexpr int kRepetitions = 60;
  std::vector<MadeFunction> functions, regressed;
  for (int f = 0; f < 20; ++f) functions.push_back({"f" + std::to_string(f)});
  regressed = functions;
  regressed[3].typical_ps *= 1.05;
  for (uint64_t repetition = 0; repetition < kRepetitions; ++repetition) {
    Noise noise(1000 + repetition);
    const int captures = repetition % 2 == 0 ? 3 : 10;
    const auto base = Captures(captures, functions, 0.01, &noise);
    const auto head = Captures(captures, functions, 0.01, &noise);
    false_alarms += Compared(base, head).outcome == Outcome::kSlower;
    const auto slower = Captures(10, regressed, 0.01, &noise);
    const auto ten = Captures(10, functions, 0.01, &noise);
    const Comparison comparison = Compared(ten, slower);
    found += Row(comparison, "f3").verdict == FunctionVerdict::kSlower;
  }
  EXPECT_EQ(false_alarms, 0);
  EXPECT_GE(found, kRepetitions * 9 / 10);
}

constexpr CompareOptions kOfEnergy = {.objective = Objective::kEnergy};

std::vector<Measurements> EnergiesOf(int captures, const std::vector<double>& run_j, double error,
                                     double offset_std, Noise* noise) {
  std::vector<Measurements> out;
  for (int i = 0; i < captures; ++i) {
    out.push_back(Energies(run_j, error, offset_std * noise->Normal(), noise, noise->NextSource()));
    out.back().source += std::to_string(i) + "_" + std::to_string(run_j[0]);
  }
  return out;
}

TEST(CompareEnergyTest, OneCaptureASideHasItsStatedErrorsAndAnAssumption) {
  Noise noise(41);
  const auto base = EnergiesOf(1, {1, 2, 3}, 0.003, 0, &noise);
  const auto head = EnergiesOf(1, {1.2, 2, 2.4}, 0.003, 0, &noise);
  const Comparison comparison = Compared(base, head, kOfEnergy);
  EXPECT_EQ(comparison.outcome, Outcome::kSlower);
  EXPECT_EQ(Row(comparison, "jit_autotune_fn_0").verdict, FunctionVerdict::kSlower);
  EXPECT_EQ(Row(comparison, "jit_autotune_fn_1").verdict, FunctionVerdict::kTooLittleData);
  EXPECT_EQ(Row(comparison, "jit_autotune_fn_2").verdict, FunctionVerdict::kFaster);
  EXPECT_THAT(comparison.notes, ::testing::Contains(HasSubstr("assumed to be 1 % (std)")));
  const SideEstimate& side = Row(comparison, "jit_autotune_fn_0").base;
  EXPECT_NEAR(*side.hi / *side.lo, std::exp(2 * 1.725 * 0.003), 1e-4) << "Student's, of 20";
  // Known: two processes differ by nothing; what is stated is left.
  CompareOptions known = kOfEnergy;
  known.offset_std = 0;
  const Comparison sure = Compared(base, head, known);
  EXPECT_EQ(Row(sure, "jit_autotune_fn_1").verdict, FunctionVerdict::kSame);
  EXPECT_THAT(sure.notes, ::testing::Not(::testing::Contains(HasSubstr("assumed to be"))));
}

TEST(CompareEnergyTest, MoreCapturesDoNotMakeAStatedErrorSmaller) {
  Noise noise(42);
  for (const int captures : {3, 10, 50}) {
    const auto base = EnergiesOf(captures, {1}, 0.05, 0.001, &noise);
    const auto head = EnergiesOf(captures, {1.04}, 0.05, 0.001, &noise);
    const ComparedRow row = Row(Compared(base, head, kOfEnergy), "jit_autotune_fn_0");
    EXPECT_EQ(row.verdict, FunctionVerdict::kTooLittleData);
    EXPECT_GT(*row.hi / *row.lo, std::exp(2 * 1.6 * 0.05 * std::sqrt(2.0))) << captures;
  }
}

TEST(CompareEnergyTest, ADoubtLeavesNoFirmVerdict) {
  Noise noise(43);
  const auto base = EnergiesOf(10, {1, 1, 1}, 0.001, 0.001, &noise);
  auto head = EnergiesOf(10, {2, 1, 0.5}, 0.001, 0.001, &noise);
  for (Series& series : head[3].series) series.doubt = "poor_fit";
  const Comparison comparison = Compared(base, head, kOfEnergy);
  EXPECT_EQ(comparison.outcome, Outcome::kCannotTell);
  EXPECT_EQ(comparison.Count(FunctionVerdict::kCannotTell), 3);
  EXPECT_EQ(comparison.rows[0].reason, "in doubt in 1 of 10 captures of head: poor_fit");
}

TEST(CompareEnergyTest, AnUnknownEnergyIsNoTie) {
  Noise noise(44);
  const auto base = EnergiesOf(10, {1, 1}, 0.001, 0.001, &noise);
  auto head = EnergiesOf(10, {1, 1}, 0.001, 0.001, &noise);
  for (Measurements& capture : head) {
    capture.series[1].samples.clear();
    capture.series[1].log_error.reset();
    capture.series[1].failure = "not_separable";
  }
  Comparison comparison = Compared(base, head, kOfEnergy);
  EXPECT_EQ(comparison.outcome, Outcome::kCannotTell);
  EXPECT_EQ(Row(comparison, "jit_autotune_fn_0").verdict, FunctionVerdict::kSame);
  const ComparedRow& row = Row(comparison, "jit_autotune_fn_1");
  EXPECT_EQ(row.verdict, FunctionVerdict::kUnknown);
  EXPECT_EQ(row.reason, "unknown in 10 of 10 captures of head: not_separable");
  EXPECT_FALSE(row.ratio.has_value());
  EXPECT_FALSE(row.head.centre.has_value());
  // Nothing else is there: still no error, and no verdict.
  for (Measurements& capture : head) capture.series.erase(capture.series.begin());
  comparison = Compared(base, head, kOfEnergy);
  EXPECT_EQ(comparison.outcome, Outcome::kCannotTell);
}

// As for times: at most alpha / 2 of the comparisons of unchanged programs say "more". `alpha` is
// 10 %, that a rate can be seen at all. `shared`: the error of a function is the same in all
// captures of a side, as one of the sensor's window is.
int FalseAlarms(int captures, double error, double offset_std, bool shared, int repetitions) {
  CompareOptions options = kOfEnergy;
  options.alpha = 0.1;
  options.min_effect = 0;
  int alarms = 0;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    Noise noise(9000 + static_cast<uint64_t>(repetition));
    const auto side = [&] {
      std::vector<double> run_j(5, 1.0);
      for (double& each : run_j) each *= shared ? std::exp(error * noise.Normal()) : 1;
      auto made = EnergiesOf(captures, run_j, shared ? 1e-6 : error, offset_std, &noise);
      for (Measurements& capture : made) {
        for (Series& series : capture.series) series.log_error = error;
      }
      return made;
    };
    const auto base = side(), head = side();
    alarms += Compared(base, head, options).outcome == Outcome::kSlower;
  }
  return alarms;
}

TEST(CompareEnergySimulationTest, UnchangedProgramsSeldomSeemToTakeMore) {
  constexpr int kRepetitions = 400;
  constexpr int kMost = 20 + 13;  // alpha / 2 of them, and three standard deviations
  for (const int captures : {1, 2, 3, 10}) {
    for (const auto& [error, offset_std] :
         {std::pair(0.001, 0.0), {0.001, 0.01}, {0.005, 0.005}, {0.02, 0.0}, {0.02, 0.01}}) {
      for (const bool shared : {false, true}) {
        EXPECT_LE(FalseAlarms(captures, error, offset_std, shared, kRepetitions), kMost)
            << captures << " captures, " << error << ", " << offset_std << ", shared " << shared;
      }
    }
  }
  // Several captures show how much processes differ; one does not.
  for (const int captures : {3, 10}) {
    EXPECT_LE(FalseAlarms(captures, 0.005, 0.05, false, kRepetitions), kMost) << captures;
  }
}

TEST(CompareEnergySimulationTest, RisesAreFound) {
  int found = 0;
  for (uint64_t repetition = 0; repetition < 100; ++repetition) {
    Noise noise(7000 + repetition);
    found += Compared(EnergiesOf(10, {1, 1, 1}, 0.003, 0.005, &noise),
                      EnergiesOf(10, {1, 1.06, 1}, 0.003, 0.005, &noise), kOfEnergy)
                 .outcome == Outcome::kSlower;
  }
  EXPECT_GE(found, 90);
}

}  // namespace
}  // namespace xplane_time
