// The state is a function of the set of rounds: order, repeats, interruptions and names do not
// matter.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "decide/protocol.h"
#include "tests/decide/driven.h"

namespace xplane_time {
namespace {

using testing::DeviceNoise;
using testing::Drive;
using testing::Driven;
using testing::SimulatedDevice;
using testing::SpaceOf;

// Everything that a verdict says, bytes and all.
std::string Text(const Verdict& verdict, size_t variants) {
  Space space;
  for (size_t i = 0; i < variants; ++i) space.variants.push_back({.id = std::to_string(i)});
  return decide::VerdictJson(verdict, space).dump();
}

struct Scenario {
  std::string name;
  std::vector<double> log_times;
  DecideConfig config;
  bool failures = false;
};

std::ostream& operator<<(std::ostream& out, const Scenario& s) { return out << s.name; }

class Replay : public ::testing::TestWithParam<Scenario> {
 protected:
  Driven Record() const {
    const Scenario& s = GetParam();
    std::mt19937_64 random(5);
    const auto spoil = [&](RoundResult& result) {
      if (!s.failures) return;
      result.discarded = random() % 6 == 0;
      for (Sample& sample : result.samples) {
        if (random() % 12 == 0) sample.status = static_cast<SampleStatus>(random() % 10);
      }
    };
    return Drive(SpaceOf(s.log_times.size()), s.config,
                 SimulatedDevice({.log_times = s.log_times, .seed = 6}), spoil);
  }
  Decider Open() const {
    return *Decider::Open(SpaceOf(GetParam().log_times.size()), GetParam().config);
  }
};

TEST_P(Replay, OrderAndRepeatsWithinABatchDoNotMatter) {
  const Driven driven = Record();
  const size_t variants = GetParam().log_times.size();
  std::mt19937_64 random(7);
  for (int trial = 0; trial < 3; ++trial) {
    Decider decider = Open();
    size_t next = 0;
    for (const Batch& batch : driven.batches) {
      ASSERT_EQ(decider.Next()->rounds, batch.rounds);
      std::vector<RoundResult> results;
      for (size_t i = 0; i < batch.rounds.size(); ++i) results.push_back(driven.results[next++]);
      results.push_back(results[random() % results.size()]);
      std::shuffle(results.begin(), results.end(), random);
      for (RoundResult& result : results) {
        std::shuffle(result.samples.begin(), result.samples.end(), random);
        ASSERT_TRUE(decider.Fold(result).ok());
      }
    }
    ASSERT_EQ(decider.Next(), nullptr);
    EXPECT_EQ(Text(decider.verdict(), variants), Text(driven.verdict, variants));
  }
}

TEST_P(Replay, ResumesAtEveryPrefixWithTheSameNextStep) {
  const Driven driven = Record();
  const size_t variants = GetParam().log_times.size();
  std::vector<uint64_t> ends = {0};  // results up to and with each batch
  for (const Batch& batch : driven.batches) ends.push_back(ends.back() + batch.rounds.size());
  const size_t step = std::max<size_t>(1, driven.results.size() / 40);
  for (size_t prefix = 0; prefix <= driven.results.size();
       prefix = prefix == driven.results.size() ? prefix + 1
                                                : std::min(prefix + step, driven.results.size())) {
    std::vector<RoundResult> history(driven.results.begin(),
                                     driven.results.begin() + static_cast<std::ptrdiff_t>(prefix));
    std::reverse(history.begin(), history.end());
    Decider decider = Open();
    decider.Next();
    ASSERT_TRUE(decider.Resume(history).ok());
    const Batch* batch = decider.Next();
    const size_t at =
        static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), prefix) - ends.begin() - 1);
    if (prefix == driven.results.size()) {
      ASSERT_EQ(batch, nullptr);
      EXPECT_EQ(Text(decider.verdict(), variants), Text(driven.verdict, variants));
    } else {
      ASSERT_NE(batch, nullptr);
      EXPECT_EQ(batch->batch, driven.batches[at].batch);
      EXPECT_EQ(batch->rounds, driven.batches[at].rounds);
    }
  }
}

TEST_P(Replay, NamesCarryNoInformation) {
  const Scenario& s = GetParam();
  const Driven driven = Record();
  Space renamed;
  for (size_t i = 0; i < s.log_times.size(); ++i) {
    renamed.variants.push_back({.id = "z" + std::to_string(1'000'000 - i * 7919)});
  }
  auto decider = Decider::Open(renamed, s.config);
  ASSERT_TRUE(decider.ok());
  for (const RoundResult& result : driven.results) ASSERT_TRUE(decider->Fold(result).ok());
  ASSERT_EQ(decider->Next(), nullptr);
  EXPECT_EQ(Text(decider->verdict(), s.log_times.size()), Text(driven.verdict, s.log_times.size()));
}

TEST_P(Replay, HistoryThatWasNeverAskedForIsRefused) {
  Driven driven = Record();
  const uint64_t last = driven.batches.back().batch;
  driven.results.push_back({.batch = last + 5});
  Decider decider = Open();
  const Batch first = *decider.Next();
  EXPECT_FALSE(decider.Resume(driven.results).ok());
  EXPECT_EQ(decider.Next()->rounds, first.rounds);
  ASSERT_TRUE(decider.Fold(driven.results[0]).ok());
  EXPECT_EQ(decider.Resume({}).code(), absl::StatusCode::kFailedPrecondition);
}

std::vector<double> Spread(size_t variants, double sd) {
  stats::Random random(8);
  std::vector<double> log_times;
  for (size_t i = 0; i < variants; ++i) log_times.push_back(sd * random.Normal());
  return log_times;
}

INSTANTIATE_TEST_SUITE_P(
    Decider, Replay,
    ::testing::Values(Scenario{"Two", {0, 0.01}, {.seed = 1}},
                      Scenario{"Budget", {0, 0.004, 0.002}, {.budget_runs = 100, .seed = 2}},
                      Scenario{"Claim", {0, 0}, {.stop = Stop::kClaim, .canary = 4}},
                      Scenario{"Incumbent", {0, 0.01, 0.002}, {.incumbent = 2}},
                      Scenario{"Blocks", Spread(70, 0.2), {.seed = 3}},
                      Scenario{"Failures", Spread(30, 0.05), {.seed = 4}, true}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace xplane_time
