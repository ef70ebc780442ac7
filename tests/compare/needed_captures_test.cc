// Follows the advice of Compare in worlds whose changes and noise are known.
#include "compare/needed_captures.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "tests/compare/made.h"
#include "xplane_time/compare.h"

namespace xplane_time {
namespace {

using compare::Difference, compare::FindCapturesNeeded, compare::Proof;
using testing::Noise;
using Question = CapturesNeeded::Question;

struct World {
  double effect = 0;    // of head
  double noise = 0.01;  // std of the log of a capture
  double alpha = 0.001;
  int captures = 3;   // of the first comparison, a side
  int functions = 1;  // all alike; the first is judged
};

std::string Name(const World& world) {
  return "effect " + std::to_string(world.effect) + ", noise " + std::to_string(world.noise) +
         ", alpha " + std::to_string(world.alpha) + ", captures " + std::to_string(world.captures) +
         ", functions " + std::to_string(world.functions);
}

std::vector<Measurements> Record(const World& world, bool is_head, int captures, Noise* noise) {
  constexpr int kSamples = 5;
  std::vector<Measurements> out;
  for (int i = 0; i < captures; ++i) {
    out.push_back({});
    for (int f = 0; f < world.functions; ++f) {
      const double typical_ps = 1e7 * (is_head ? 1 + world.effect : 1);
      Measurements one = testing::Capture({{"f" + std::to_string(f), typical_ps, 0.002}}, kSamples,
                                          world.noise * noise->Normal(), noise);
      if (f == 0) {
        out.back() = std::move(one);
      } else {
        out.back().series.push_back(one.series[0]);
      }
    }
  }
  return out;
}

ComparedRow JudgeFirst(const World& world, const std::vector<Measurements>& base,
                       const std::vector<Measurements>& head) {
  const auto comparison = Compare(base, head, {.alpha = world.alpha});
  EXPECT_TRUE(comparison.ok()) << comparison.status();
  for (const ComparedRow& row : comparison->rows) {
    if (row.function == "f0") return row;
  }
  ADD_FAILURE() << "f0 is missing";
  return {};
}

bool IsDecided(const ComparedRow& row) {
  return row.verdict == FunctionVerdict::kSlower || row.verdict == FunctionVerdict::kFaster ||
         row.verdict == FunctionVerdict::kSame;
}

// Rows of repeated comparisons by the question of their advice.
struct Followed {
  int asked = 0;         // open rows
  int advised = 0;       // with a number
  int decided = 0;       // by as many new captures
  int decided_kept = 0;  // by those at hand and new ones, as many together
  double KeptShare() const { return static_cast<double>(decided_kept) / advised; }
  double Share() const { return static_cast<double>(decided) / advised; }
};

std::array<Followed, 2> Follow(const World& world, int repetitions) {
  std::array<Followed, 2> followed;
  Noise noise(20);
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const auto base = Record(world, false, world.captures, &noise);
    const auto head = Record(world, true, world.captures, &noise);
    const ComparedRow row = JudgeFirst(world, base, head);
    EXPECT_EQ(row.needed.has_value(), !IsDecided(row));
    if (!row.needed.has_value()) continue;
    Followed& of = followed[static_cast<size_t>(row.needed->question)];
    ++of.asked;
    EXPECT_EQ(row.needed->enough.has_value(), row.needed->unknown.empty());
    if (!row.needed->enough.has_value()) continue;
    EXPECT_LE(row.needed->least.value_or(UINT64_MAX), *row.needed->enough) << Name(world);
    ++of.advised;
    const int captures = static_cast<int>(*row.needed->enough);
    auto more_base = Record(world, false, captures, &noise);
    auto more_head = Record(world, true, captures, &noise);
    of.decided += IsDecided(JudgeFirst(world, more_base, more_head));
    for (size_t i = 0; i < std::min(base.size(), more_base.size()); ++i) {
      more_base[i] = base[i];
      more_head[i] = head[i];
    }
    of.decided_kept += IsDecided(JudgeFirst(world, more_base, more_head));
  }
  return followed;
}

// The least count of n with a share of `share` that chance leaves in 999 of 1000 tests.
double LeastShare(double share, int n) { return share - 3.1 * std::sqrt(share * (1 - share) / n); }

TEST(NeededCapturesSimulationTest, ThePromisedShareOfChangesIsProved) {
  for (const double alpha : {0.001, 0.05}) {
    for (const double noise : {0.005, 0.01, 0.03, 0.1}) {
      for (const int captures : {2, 3, 5, 8}) {
        for (const double distance : {2.5, 4.0, 8.0, 20.0}) {  // of the effect, in noise
          const World world = {noise * distance, noise, alpha, captures};
          const Followed change = Follow(world, 100)[static_cast<size_t>(Question::kChange)];
          if (change.asked == 0) continue;
          // Those without a number promise nothing.
          const double without = change.asked - change.advised;
          EXPECT_GE((change.decided + without) / change.asked, LeastShare(0.8, change.asked))
              << Name(world);
          EXPECT_GE((change.decided_kept + without) / change.asked, LeastShare(0.8, change.asked))
              << Name(world);
          // Where the advice is usual, its numbers alone keep the promise.
          if (change.advised < 50) continue;
          EXPECT_GE(change.Share(), LeastShare(0.8, change.advised)) << Name(world);
          EXPECT_GE(change.KeptShare(), LeastShare(0.8, change.advised)) << Name(world);
        }
      }
    }
  }
}

TEST(NeededCapturesSimulationTest, ThePromisedShareOfUnchangedFunctionsIsTheSame) {
  for (const double alpha : {0.001, 0.05}) {
    for (const double noise : {0.005, 0.01, 0.03}) {
      for (const int captures : {2, 3, 5, 8}) {
        const World world = {0, noise, alpha, captures};
        const Followed none = Follow(world, 100)[static_cast<size_t>(Question::kNoChange)];
        if (none.advised < 20) continue;
        EXPECT_GE(none.Share(), LeastShare(0.8, none.advised)) << Name(world);
        EXPECT_GE(none.KeptShare(), LeastShare(0.8, none.advised)) << Name(world);
      }
    }
  }
}

TEST(NeededCapturesSimulationTest, ThePromiseHoldsForOneOfManyFunctions) {
  const World world = {0.08, 0.02, 0.001, 4, 20};
  const Followed change = Follow(world, 60)[static_cast<size_t>(Question::kChange)];
  ASSERT_GE(change.advised, 30);
  EXPECT_GE(change.Share(), LeastShare(0.8, change.advised));
  EXPECT_GE(change.KeptShare(), LeastShare(0.8, change.advised));
}

// The number that is stated first is seldom exceeded by those that later captures state.
TEST(NeededCapturesSimulationTest, TheAdviceDoesNotRecede) {
  const World world = {0.05, 0.02, 0.001, 3};
  Noise noise(5);
  int advised = 0, exceeded = 0;
  for (int repetition = 0; repetition < 200; ++repetition) {
    auto base = Record(world, false, 3, &noise), head = Record(world, true, 3, &noise);
    ComparedRow row = JudgeFirst(world, base, head);
    if (!row.needed.has_value() || !row.needed->enough.has_value()) continue;
    const uint64_t first = *row.needed->enough;
    ++advised;
    while (row.needed.has_value() && base.size() < first) {
      for (auto& one : Record(world, false, 1, &noise)) base.push_back(one);
      for (auto& one : Record(world, true, 1, &noise)) head.push_back(one);
      row = JudgeFirst(world, base, head);
    }
    exceeded += row.needed.has_value();
  }
  ASSERT_GE(advised, 50);
  EXPECT_LE(exceeded, advised / 5);
}

Difference Measured(double estimate, double spread, double captures) {
  return {.estimate = estimate,
          .standard_error = spread * std::sqrt(2 / captures),
          .df = 2 * captures - 2,
          .spread = spread};
}

TEST(NeededCapturesTest, OneCaptureASideHasNoNumber) {
  Noise noise(1);
  const World world = {0.5, 0.01, 0.001, 1};
  const ComparedRow row =
      JudgeFirst(world, Record(world, false, 1, &noise), Record(world, true, 1, &noise));
  ASSERT_TRUE(row.needed.has_value());
  EXPECT_EQ(row.needed->unknown, "noise_unknown");
  EXPECT_FALSE(row.needed->least.has_value());
  EXPECT_FALSE(row.needed->enough.has_value());
}

TEST(NeededCapturesTest, EnoughIsTheLeastNumberWithThePower) {
  const CompareOptions options;
  const Proof proof(options, 3);
  for (const double estimate : {0.05, 0.1, 0.2}) {
    const Difference seen = Measured(estimate, 0.03, 4);
    const CapturesNeeded needed = FindCapturesNeeded(proof, seen, 4, options);
    ASSERT_EQ(needed.question, Question::kChange);
    ASSERT_TRUE(needed.least.has_value());
    const auto power = [&](double n) {
      const double error = 0.03 * std::sqrt(2 / n);
      const double df = 2 * (n - 1) * (n - 1) / (n + 1);
      return proof.Power((estimate - std::log1p(options.min_effect)) / error, error, df);
    };
    const double least = static_cast<double>(*needed.least);
    EXPECT_GE(power(least), compare::kPower);
    if (least > 2) {
      EXPECT_LT(power(least - 1), compare::kPower);
    }
  }
}

TEST(NeededCapturesTest, AChangeThatMayBeChanceIsNotToBeProved) {
  const CompareOptions options;
  const Proof proof(options, 1);
  const CapturesNeeded chance = FindCapturesNeeded(proof, Measured(0.02, 0.03, 4), 4, options);
  EXPECT_EQ(chance.question, Question::kNoChange);
  EXPECT_GT(chance.enough.value_or(0), 4);
  const CapturesNeeded change = FindCapturesNeeded(proof, Measured(0.06, 0.03, 4), 4, options);
  EXPECT_EQ(change.question, Question::kChange);
}

TEST(NeededCapturesTest, WhatCapturesDoNotReduceIsNamed) {
  CompareOptions options;
  Difference seen = Measured(0.05, 0.01, 4);
  seen.resolution = 0.05;
  seen.standard_error = std::hypot(seen.standard_error, seen.resolution);
  EXPECT_EQ(FindCapturesNeeded(Proof(options, 1), seen, 4, options).unknown, "resolution");
  const CapturesNeeded wild =
      FindCapturesNeeded(Proof(options, 1), Measured(0.01, 3, 4), 4, options);
  EXPECT_EQ(wild.unknown, "over_limit");
  EXPECT_FALSE(wild.least.has_value());
  options.min_effect = 0;
  EXPECT_EQ(FindCapturesNeeded(Proof(options, 1), Measured(1e-4, 0.01, 4), 4, options).unknown,
            "no_min_effect");
}

TEST(NeededCapturesTest, FewCapturesGiveAWideRange) {
  const CompareOptions options;
  const Proof proof(options, 1);
  double last = INFINITY;
  for (const double captures : {3.0, 6.0, 12.0}) {
    // The same distance in standard errors, so that only the degrees of freedom differ.
    const Difference seen = Measured(0.01 + 4 * 0.02 * std::sqrt(2 / captures), 0.02, captures);
    const CapturesNeeded needed =
        FindCapturesNeeded(proof, seen, static_cast<uint64_t>(captures), options);
    ASSERT_TRUE(needed.enough.has_value()) << captures;
    const double width = static_cast<double>(*needed.enough) / static_cast<double>(*needed.least);
    EXPECT_LT(width, last) << captures;
    last = width;
  }
}

}  // namespace
}  // namespace xplane_time
