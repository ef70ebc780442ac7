#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "output/tuning.h"
#include "tests/tune/configurations.h"
#include "tune/harness_protocol.h"
#include "tune/measuring.h"
#include "tune/outcome_json.h"
#include "tune/search_run.h"
#include "xplane_time/tune.h"

namespace xplane_time {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Configurations;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

// What each rung has, and what is left, where the value of i is as `value_of` says.
struct Rungs {
  std::vector<size_t> sizes;
  std::vector<uint32_t> rounds;
  std::vector<std::string> left;
};

Rungs Halve(size_t count, uint64_t to,
            const std::function<std::optional<double>(size_t)>& value_of) {
  const std::vector<Configuration> all = Configurations(count);
  const auto searcher = NewHalvingSearcher(to);
  searcher->Begin(all);
  Rungs rungs;
  for (;;) {
    const auto stage = searcher->Next();
    EXPECT_TRUE(stage.ok());
    if (stage->configurations.empty()) break;
    rungs.sizes.push_back(stage->configurations.size());
    rungs.rounds.push_back(stage->rounds);
    std::vector<Searched> told;
    for (const Configuration& each : stage->configurations) {
      const auto value = value_of(std::stoul(each.id));
      told.push_back({.configuration = &each, .status = value ? "ok" : "oom", .value = value});
    }
    searcher->Tell(told);
  }
  rungs.left = searcher->Finalists();
  return rungs;
}

TEST(Halving, KeepsTheBetterHalfUntilFewAreLeft) {
  const Rungs rungs = Halve(37, 3, [](size_t i) { return std::abs(20.0 - double(i)) + 1; });
  EXPECT_THAT(rungs.sizes, ElementsAre(37, 19, 10, 5));
  EXPECT_THAT(rungs.rounds, ElementsAre(1, 2, 4, 8));
  EXPECT_THAT(rungs.left, ElementsAre("20", "19", "21"));
}

TEST(Halving, EndsForEverySizeAndEveryFailure) {
  for (size_t count = 0; count <= 9; ++count) {
    for (uint64_t to = 1; to <= 4; ++to) {
      for (unsigned failed = 0; failed < (1U << count); failed += 1 + (count > 6) * 4) {
        const auto value = [&](size_t i) {
          return (failed >> i & 1) != 0 ? std::nullopt : std::optional(double(i) + 1);
        };
        const Rungs rungs = Halve(count, to, value);
        if (count <= to) {
          EXPECT_EQ(rungs.left.size(), count);  // the race sees who fails
          continue;
        }
        std::vector<std::string> sound;
        for (size_t i = 0; i < count; ++i) {
          if (value(i).has_value()) sound.push_back(std::to_string(i));
        }
        sound.resize(std::min<size_t>(sound.size(), to));
        EXPECT_EQ(rungs.left, sound) << count << " " << to << " " << failed;
      }
    }
  }
}

TEST(StageHead, ComesBack) {
  const StageHead head = {{"a", "b"}, 4, 7, 2, 3, {"b"}};
  const std::vector<TunedVariant> fresh = {{.configuration = {"b", "{}", {}}}};
  const std::string json = StageHeadJson(head, fresh);
  const auto back = StageHeadFromJson(json);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(StageHeadJson(*back, fresh), json);
  EXPECT_EQ(PreparationFromJson(json)->count("b"), 1);
  for (size_t length = 0; length < json.size(); ++length) {
    EXPECT_FALSE(StageHeadFromJson(json.substr(0, length)).ok());
  }
  for (const char* damaged : {"7", "{}", R"({"stage":7})", R"({"stage":{"ids":[1]}})"}) {
    EXPECT_EQ(StageHeadFromJson(damaged).status().code(), absl::StatusCode::kDataLoss) << damaged;
  }
}

TEST(FindPoint, TakesWhatTheGridHasAndNothingElse) {
  const auto space = ParseSpace(R"({"schema": "xplane-time.space.v1", "parameters": [
      {"name": "a", "type": "int", "values": [1, 2]},
      {"name": "f", "type": "float", "values": [0.5, 2.0]},
      {"name": "s", "type": "string", "values": ["1", "x"]}, {"name": "b", "type": "bool"}],
      "constraints": ["a < 2 or f < 1"], "mem_bytes": "a * 8"})",
                                "s");
  ASSERT_TRUE(space.ok());
  const auto all = ChooseConfigurations(*space, {});
  ASSERT_TRUE(all.ok());
  for (const Configuration& each : *all) {
    const auto found = FindPoint(*space, each.params_json);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(*found, each);
  }
  EXPECT_TRUE(FindPoint(*space, R"({"f":2,"b":true,"a":1,"s":"x"})").ok());
  for (const auto& [params, why] : std::vector<std::pair<std::string, std::string>>{
           {"7", "not a JSON object"},
           {"{", "not a JSON object"},
           {R"({"a":1,"f":0.5,"s":"x"})", R"(no "b")"},
           {R"({"a":1,"f":0.5,"s":"x","b":true,"c":1})", "does not have"},
           {R"({"a":3,"f":0.5,"s":"x","b":true})", R"("a" never has the value 3)"},
           {R"({"a":1.0,"f":0.5,"s":"x","b":true})", R"("a" never has the value 1.0)"},
           {R"({"a":true,"f":0.5,"s":"x","b":true})", R"("a" never has the value true)"},
           {R"({"a":1,"f":0.5,"s":1,"b":true})", R"("s" never has the value 1)"},
           {R"({"a":1,"f":0.5,"s":"x","b":1})", R"("b" never has the value 1)"},
           {R"({"a":2,"f":2.0,"s":"x","b":true})", "a < 2 or f < 1"}}) {
    const auto found = FindPoint(*space, params);
    EXPECT_EQ(found.status().code(), absl::StatusCode::kInvalidArgument) << params;
    EXPECT_THAT(std::string(found.status().message()), HasSubstr(why));
  }
}

TEST(ProposerProtocol, AnswersAreLookedAt) {
  const std::string good =
      R"({"v":1,"type":"configurations","request":3,"params":[{"a":1},{"b":[2]}],"new":0})";
  const auto proposals = ParseProposals(good, 3, 2);
  ASSERT_TRUE(proposals.ok());
  EXPECT_THAT(*proposals, ElementsAre(R"({"a":1})", R"({"b":[2]})"));
  EXPECT_FALSE(ParseProposals(good, 4, 2).ok());
  EXPECT_FALSE(ParseProposals(good, 3, 1).ok());
  for (size_t length = 0; length < good.size(); ++length) {
    EXPECT_FALSE(ParseProposals(good.substr(0, length), 3, 2).ok());
  }
  for (const char* bad : {R"([])", R"({"v":2,"type":"hello"})", R"({"type":"hello"})",
                          R"({"v":1,"type":7})", R"({"v":1,"type":"configurations"})"}) {
    EXPECT_FALSE(ParseProposerHello(bad).ok()) << bad;
  }
  EXPECT_FALSE(ParseProposerHello(std::string(100'000, '[')).ok());
  EXPECT_TRUE(ParseProposerHello(R"({"v":1,"type":"hello","name":"x"})").ok());
}

TEST(RunLimit, IsOfTheFastestAndNeverBelowASecond) {
  RunLimit limit(10, seconds(60));
  EXPECT_EQ(limit.Of("", "a", 1, 3), std::nullopt);
  limit.EndRound("", {{"slow", seconds(3)}, {"fast", milliseconds(200)}}, milliseconds(300));
  EXPECT_EQ(limit.Of("", "a", 1, 3), seconds(2));
  EXPECT_EQ(limit.Of("", "a", 0, 3), seconds(4));
  EXPECT_EQ(limit.Of("", "a", 2, 3), seconds(5));
  EXPECT_EQ(limit.Of("other", "a", 1, 3), std::nullopt);
  EXPECT_EQ(limit.Alone("", "a"), seconds(11));
  limit.EndRound("", std::vector(3, RunLimit::Slot("fast", milliseconds(1))), milliseconds(300));
  EXPECT_EQ(limit.Of("", "a", 1, 3), RunLimit::kFloor);
  limit.Exempt("a");
  EXPECT_EQ(limit.Of("", "a", 1, 3), std::nullopt);
  EXPECT_EQ(limit.Of("", "b", 1, 3), RunLimit::kFloor);
}

TEST(RunLimit, OneSlotThatStoodStillMovesNothing) {
  RunLimit limit(10, seconds(60));
  std::vector<RunLimit::Slot> took(5, {"a", milliseconds(500)});
  took[2].second = seconds(50);
  limit.EndRound("", took, seconds(1));
  EXPECT_EQ(limit.Of("", "b", 1, 3), seconds(5));
  limit.EndRound("w", {{"a", seconds(7)}}, seconds(7));
  EXPECT_EQ(limit.Of("w", "b", 1, 3), std::nullopt);  // the timeout is shorter
  EXPECT_EQ(RunLimit(0, seconds(60)).Of("", "a", 1, 3), std::nullopt);
}

// By counting all ways of drawing.
double SlowFisher(int a_over, int a, int b_over, int b) {
  const int over = a_over + b_over, all = a + b;
  double worse = 0, ways = 0;
  for (int drawn = 0; drawn < (1 << all); ++drawn) {
    if (__builtin_popcount(static_cast<unsigned>(drawn)) != over) continue;
    ++ways;
    worse += __builtin_popcount(static_cast<unsigned>(drawn & ((1 << a) - 1))) >= a_over;
  }
  return worse / ways;
}

TEST(Tails, FisherIsACount) {
  for (int a = 0; a <= 5; ++a) {
    for (int b = 0; b <= 5; ++b) {
      for (int i = 0; i <= a; ++i) {
        for (int k = 0; k <= b; ++k) {
          EXPECT_NEAR(FisherWorse(i, a, k, b), SlowFisher(i, a, k, b), 1e-9);
        }
      }
    }
  }
}

// A pick and a rival, 3 % slower; `spike(variant, round)` multiplies.
TuneOutcome TuneWithSpikes(size_t rounds, const std::function<double(uint32_t, size_t)>& spike,
                           uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<RoundResult> results(rounds);
  for (size_t i = 0; i < rounds; ++i) {
    for (uint32_t v = 0; v < 2; ++v) {
      const double noise = 1 + 0.02 * (static_cast<double>(random() >> 11) * 0x1p-53 - 0.5);
      const double t = 1e9 * (v == 0 ? 1 : 1.03) * noise * spike(v, i);
      results[i].samples.push_back({.variant = v, .slot = v, .t_ps = std::llround(t)});
    }
  }
  TuneOutcome outcome;
  outcome.variants.resize(2);
  for (uint32_t v = 0; v < 2; ++v) outcome.variants[v].measured = v;
  outcome.verdict.pick = 0;
  outcome.verdict.delta = 0.005;
  outcome.verdict.ratios = {{.variant = 0}, {.variant = 1, .est = 1.03}};
  AddTails(results, std::nullopt, &outcome);
  return outcome;
}

TEST(Tails, SpikesOfThePickAreFlagged) {
  const TuneOutcome outcome = TuneWithSpikes(
      200, [](uint32_t v, size_t i) { return v == 0 && i % 5 == 0 ? 1.5 : 1; }, 1);
  ASSERT_EQ(outcome.tail_flags.size(), 2);
  EXPECT_EQ(outcome.tail_flags[0].what, "p95");
  EXPECT_EQ(outcome.tail_flags[1].what, "spikes");
  EXPECT_DOUBLE_EQ(outcome.tail_flags[1].pick, 0.2);
  EXPECT_EQ(outcome.tail_flags[1].other, 0);
  EXPECT_DOUBLE_EQ(*outcome.variants[0].tail.spike_rate, 0.2);
  EXPECT_GT(*outcome.variants[0].tail.p95_ratio, 1.4);
  EXPECT_LT(*outcome.variants[1].tail.p95_ratio, 1.02);
}

TEST(Tails, FewSamplesAndOthersSpikesAreNoFlag) {
  EXPECT_TRUE(TuneWithSpikes(
                  10, [](uint32_t v, size_t i) { return v == 0 && i == 0 ? 3 : 1; }, 2)
                  .tail_flags.empty());
  EXPECT_FALSE(TuneWithSpikes(
                   10, [](uint32_t, size_t) { return 1; }, 2)
                   .variants[0]
                   .tail.p95_ratio);
  EXPECT_TRUE(TuneWithSpikes(
                  60, [](uint32_t v, size_t i) { return v == 1 && i % 5 == 0 ? 1.5 : 1; }, 3)
                  .tail_flags.empty());
}

TEST(Tails, OfTheSameTailsFewAreFlagged) {
  constexpr int kTunings = 1000;
  int flagged = 0;
  for (int i = 0; i < kTunings; ++i) {
    std::mt19937_64 random(static_cast<uint64_t>(i) + 77);
    const auto spike = [&](uint32_t, size_t) { return random() % 10 == 0 ? 1.4 : 1; };
    flagged += !TuneWithSpikes(20 + static_cast<size_t>(i) % 200, spike, static_cast<uint64_t>(i))
                    .tail_flags.empty();
  }
  EXPECT_LE(flagged, kTunings / 100);
}

// Rows by looking through everything for each.
TEST(OutcomeJson, RowsAreThoseOfTheVerdictInAnyOrder) {
  std::mt19937_64 random(5);
  for (int repeat = 0; repeat < 50; ++repeat) {
    TuneOutcome outcome;
    uint32_t places = 0;
    for (size_t i = 0; i < 12; ++i) {
      outcome.variants.push_back({.configuration = {"v" + std::to_string(i), "{}", {}}});
      if (random() % 3 != 0) outcome.variants.back().measured = places++;
    }
    for (uint32_t v = 0; v < places; ++v) {
      if (random() % 2 == 0) outcome.verdict.ratios.push_back({.variant = v, .est = 1.0 + v});
      if (random() % 2 == 0) outcome.verdict.eliminated.push_back({.variant = v, .by = 0});
    }
    std::shuffle(outcome.verdict.ratios.begin(), outcome.verdict.ratios.end(), random);
    std::shuffle(outcome.verdict.eliminated.begin(), outcome.verdict.eliminated.end(), random);
    if (places > 0) outcome.verdict.pick = places - 1;
    const Json json = Json::parse(OutcomeJson(outcome));
    const auto first = outcome.VariantOf(0);
    for (size_t i = 0; i < outcome.variants.size(); ++i) {
      const Json& row = json["variants"][i];
      EXPECT_EQ(row["raced"], outcome.variants[i].measured.has_value());
      Json ratio, out;
      for (const Ratio& each : outcome.verdict.ratios) {
        if (each.variant == outcome.variants[i].measured) ratio = each.est;
      }
      for (const Elimination& each : outcome.verdict.eliminated) {
        if (each.variant == outcome.variants[i].measured) out = "v" + std::to_string(*first);
      }
      EXPECT_EQ(row["ratio"], ratio);
      EXPECT_EQ(row["eliminated"].is_null() ? Json() : row["eliminated"]["by"], out);
    }
  }
}

// What is written is read again; what an earlier version did not write is left out.
TEST(TuneResult, ReadsWhatIsWritten) {
  TuneOutcome outcome;
  outcome.decide.objective = Objective::kEdp;
  outcome.decide.budget_runs = 7;
  outcome.search = SearchReport{.strategy = "halving:8", .searched = 3, .raced = 2};
  outcome.variants = {{.configuration = {"a", R"({"n":1})", {}}, .measured = 0},
                      {.configuration = {"b", R"({"n":2})", {}},
                       .state = {.status = "oom", .message = "no memory"}}};
  outcome.variants[0].tail = Tail{.samples = 5, .typical_ps = 2.5};
  outcome.verdict.pick = 0;
  outcome.verdict.claim = Claim::kTie;
  outcome.verdict.tied = {0};
  outcome.verdict.ratios = {{.variant = 0, .est = 1, .lo = 0.5}};
  outcome.verdict.canary = CanaryReport{.rounds = 4, .biased = true};
  const std::string written = OutcomeJson(outcome);
  const auto read = ReadTuneResult(written);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(json::ToJson(*read), json::ToJson(ResultOf(outcome)));
  EXPECT_EQ(read->variants[1].message, "no memory");
  EXPECT_FALSE(Json::parse(written)["variants"][0].contains("message"));
  const auto earlier = ReadTuneResult(R"({"pick":"a","claim":"winner"})");
  ASSERT_TRUE(earlier.has_value());
  EXPECT_EQ(earlier->claim, Claim::kWinner);
  EXPECT_EQ(earlier->runs, 0);
  EXPECT_FALSE(ReadTuneResult(R"({"pick":"a","claim":"winner","runs":"many"})").has_value());
  EXPECT_FALSE(ReadTuneResult("[]").has_value());
}

TEST(TuningText, LargeCountsAreWrittenOut) {
  TuneResult result;
  result.runs = 1'234'567;
  result.rounds = 50;
  const std::string json = json::ToJson(result).dump();
  EXPECT_THAT(output::Render(output::TuningOutput(json), {}),
              HasSubstr("1234567 runs in 50 rounds"));
}

}  // namespace
}  // namespace xplane_time
