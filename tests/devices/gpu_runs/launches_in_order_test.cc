// LaunchesInOrder: which of several launches with one id an execution is of.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "devices/gpu_runs/host_evidence.h"

namespace xplane_time::gpu_runs {
namespace {

struct Executed {
  int64_t start_ps;
  uint64_t id;
  int64_t launch_ps;  // which it is of
  uint32_t program = 0;
};

HostEvidence EvidenceOf(const std::vector<std::pair<uint64_t, int64_t>>& launches) {
  HostEvidence evidence;
  evidence.device_count = 1;
  for (const auto& [id, start_ps] : launches) evidence.launches.Add(id, {start_ps, 0});
  evidence.launches.Finish();
  return evidence;
}

// By execution: the launch's start; -1: not told.
std::vector<int64_t> Told(const std::vector<Executed>& executions, LaunchesInOrder* launches) {
  std::vector<int64_t> told;
  for (const Executed& each : executions) {
    const auto launch = launches->Of(each.id, each.start_ps, each.program);
    told.push_back(launch.has_value() ? launch->start_ps : -1);
  }
  return told;
}

TEST(LaunchesInOrder, TellThoseThatTakeTurns) {
  const HostEvidence evidence = EvidenceOf({{7, 0}, {7, 100}, {7, 200}, {8, 5}});
  LaunchesInOrder launches(evidence);
  EXPECT_EQ(
      Told({{10, 7, 0}, {11, 8, 5}, {20, 7, 0}, {110, 7, 0}, {190, 7, 0}, {200, 7, 0}}, &launches),
      (std::vector<int64_t>{0, 5, 0, 100, 100, 200}));
  EXPECT_FALSE(launches.was_wrong());
}

TEST(LaunchesInOrder, TellNothingWhereTheyDoNot) {
  const HostEvidence evidence = EvidenceOf({{7, 0}, {7, 100}, {7, 200}, {8, 5}});
  const struct {
    const char* name;
    std::vector<int64_t> starts_ps;
    std::vector<int64_t> told;
    bool was_wrong;
  } cases[] = {
      {"none of the first", {110}, {-1}, false},
      {"before any", {-5, 10}, {-1, -1}, false},
      {"none of the second", {10, 210}, {0, -1}, true},
      {"more of the second", {10, 110, 120, 210}, {0, 100, -1, -1}, true},
      {"fewer of the second", {10, 20, 110, 210}, {0, 0, 100, -1}, true},
      {"the last ones are missing", {10, 20, 110}, {0, 0, 100}, false},
  };
  for (const auto& test : cases) {
    SCOPED_TRACE(test.name);
    LaunchesInOrder launches(evidence);
    std::vector<Executed> executions;
    for (const int64_t start_ps : test.starts_ps) executions.push_back({start_ps, 7, 0, 3});
    EXPECT_EQ(Told(executions, &launches), test.told);
    EXPECT_EQ(launches.WasWrong(3), test.was_wrong);
    EXPECT_FALSE(launches.WasWrong(2));
  }
  LaunchesInOrder launches(evidence);
  EXPECT_FALSE(launches.Of(0, 50, 0).has_value());
  EXPECT_FALSE(launches.Of(9, 50, 0).has_value());
}

TEST(LaunchesInOrder, TellNothingOfSeveralDevices) {
  HostEvidence evidence = EvidenceOf({{7, 0}, {7, 100}, {8, 5}});
  evidence.device_count = 2;
  LaunchesInOrder launches(evidence);
  EXPECT_EQ(Told({{10, 7, 0}, {11, 8, 5}, {110, 7, 100}}, &launches),
            (std::vector<int64_t>{-1, 5, -1}));
}

// Launches of an id have as many executions each, which come whenever they like after them: what
// is told of a program is wrong in no case that is not seen to be so.
TEST(LaunchesInOrder, RandomOnesAreTrueOrSeenToBeWrong) {
  std::mt19937_64 random(11);
  size_t told_right = 0, told_wrong = 0, untold = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<std::pair<uint64_t, int64_t>> starts;
    std::vector<Executed> executions;
    const int64_t longest_ps = trial % 2 == 0 ? 40 : 400;
    for (uint64_t id = 1; id < 4; ++id) {
      const auto launches = static_cast<int64_t>(2 + random() % 4),
                 of_each = static_cast<int64_t>(1 + random() % 3);
      for (int64_t k = 0; k < launches; ++k) {
        const int64_t launch_ps = 100 * k + static_cast<int64_t>(random() % 50);
        starts.emplace_back(id, launch_ps);
        for (int64_t i = 0; i < of_each; ++i) {
          const auto delay_ps = static_cast<int64_t>(random()) % longest_ps;
          executions.push_back({launch_ps + std::max<int64_t>(delay_ps, -delay_ps), id, launch_ps,
                                static_cast<uint32_t>(id)});
        }
      }
    }
    std::ranges::sort(executions, {}, &Executed::start_ps);
    const HostEvidence evidence = EvidenceOf(starts);
    LaunchesInOrder launches(evidence);
    const std::vector<int64_t> told = Told(executions, &launches);
    for (size_t i = 0; i < told.size(); ++i) {
      const bool is_right = told[i] == executions[i].launch_ps;
      untold += told[i] < 0 ? 1 : 0;
      if (told[i] < 0) continue;
      (is_right ? told_right : told_wrong) += 1;
      EXPECT_TRUE(is_right || launches.WasWrong(executions[i].program)) << trial;
    }
  }
  EXPECT_GT(told_right, 10'000u);
  EXPECT_GT(told_wrong, 100u);
  EXPECT_GT(untold, 100u);
}

}  // namespace
}  // namespace xplane_time::gpu_runs
