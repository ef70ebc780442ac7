// Files that several ranks were merged into: who launched what is found, or said to be unknown; it
// is never wrong.
#include "kineto/launch_owners.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "tests/support/random.h"

namespace xplane_time::kineto {
namespace {

// An event of a made-up file; device: kernels of it.
struct Made {
  uint32_t process = 0;
  std::optional<uint32_t> device = {};
  int64_t id = 0, start_ps = 0;
};

std::vector<LaunchOwners::Owner> Decide(const std::vector<Made>& file) {
  LaunchOwners owners;
  for (uint64_t place = 0; place < file.size(); ++place) {
    const Made& event = file[place];
    if (event.device.has_value()) {
      owners.AddExecution(*event.device, event.id, event.start_ps, place);
    } else {
      owners.AddLaunch(event.process, event.id, event.start_ps, place);
    }
  }
  return owners.Decide();
}

// Launches of a process with ids from `first_id` on, and an execution of each some time later.
std::vector<Made> Rank(uint32_t process, uint32_t device, int64_t first_id, int64_t count,
                       int64_t start_ps, int64_t delay_ps) {
  std::vector<Made> events;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t launched_ps = start_ps + 10 * i;
    events.push_back({process, std::nullopt, first_id + i, launched_ps});
    events.push_back({process, device, first_id + i, launched_ps + delay_ps});
  }
  return events;
}

std::vector<Made> Joined(std::vector<Made> first, const std::vector<Made>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

std::vector<Made> InOrderOfTime(std::vector<Made> events) {
  std::ranges::stable_sort(events, {}, &Made::start_ps);
  return events;
}

std::vector<Made> HostFirst(std::vector<Made> events) {
  std::ranges::stable_partition(events, [](const Made& event) { return !event.device; });
  return events;
}

using Found = std::vector<std::optional<uint32_t>>;
Found Processes(const std::vector<Made>& file) {
  Found found;
  for (const LaunchOwners::Owner& owner : Decide(file)) found.push_back(owner.process);
  return found;
}

TEST(LaunchOwners, FilesJoinedEndToEnd) {
  EXPECT_EQ(Processes(Joined(Rank(0, 0, 1, 10, 0, 500), Rank(1, 1, 1, 10, 0, 500))), (Found{0, 1}));
  EXPECT_EQ(Processes(Joined(Rank(0, 1, 1, 2, 0, 500), Rank(1, 0, 1, 2, 0, 500))), (Found{1, 0}));
}

TEST(LaunchOwners, TimesTellIfNoProcessBeginsAsEarly) {
  const auto late = Joined(Rank(0, 0, 1, 10, 0, 500), Rank(1, 1, 1, 10, 5000, 500));
  // Device 0 executes before process 1 launches; device 1 is not of the process of device 0.
  EXPECT_EQ(Processes(InOrderOfTime(late)), (Found{0, 1}));
  EXPECT_EQ(Processes(HostFirst(late)), (Found{0, 1}));
}

TEST(LaunchOwners, WhatIsAlikeInAllRespectsIsUnknown) {
  const auto alike = Joined(Rank(0, 0, 1, 10, 0, 500), Rank(1, 1, 1, 10, 0, 500));
  for (const auto& file : {InOrderOfTime(alike), HostFirst(alike)}) {
    const auto owners = Decide(file);
    ASSERT_EQ(owners.size(), 2U);
    for (const LaunchOwners::Owner& owner : owners) {
      EXPECT_EQ(owner.process, std::nullopt);
      EXPECT_EQ(owner.undecided, 10U);
    }
  }
}

TEST(LaunchOwners, OneDeviceOfTwoRanksIsUnknown) {
  const auto owners = Decide(Joined(Rank(0, 0, 1, 10, 0, 500), Rank(1, 0, 1, 10, 0, 500)));
  ASSERT_EQ(owners.size(), 1U);
  EXPECT_EQ(owners[0].process, std::nullopt);
  EXPECT_EQ(owners[0].undecided, 20U);
}

TEST(LaunchOwners, ARankWithoutKernels) {
  const auto other = HostFirst(Rank(1, 1, 1, 10, 0, 500));
  const std::vector<Made> lost(other.begin(), other.begin() + 10);
  EXPECT_EQ(Processes(Joined(Rank(0, 0, 1, 10, 0, 50), lost)), (Found{0}));
  EXPECT_EQ(Processes(Joined(lost, Rank(0, 0, 1, 10, 0, 50))), (Found{0}));
  EXPECT_EQ(Processes(HostFirst(Joined(Rank(0, 0, 1, 10, 0, 500), lost))), (Found{std::nullopt}));
}

TEST(LaunchOwners, NothingToDecideIfNoIdIsShared) {
  EXPECT_TRUE(Decide(Joined(Rank(0, 0, 1, 10, 0, 500), Rank(1, 1, 11, 10, 0, 500))).empty());
  EXPECT_TRUE(Decide({}).empty());
}

TEST(LaunchOwners, ProcessesThatLaunchOnOneDeviceBelongTogether) {
  // 0 and 1 share device 0 and have different ids; 2 has the ids of 0.
  LaunchOwners owners;
  uint64_t place = 0;
  for (const Made& event :
       Joined(Joined(Rank(0, 0, 1, 10, 0, 5), Rank(1, 0, 11, 10, 0, 5)), Rank(2, 1, 1, 10, 0, 5))) {
    if (event.device.has_value()) {
      owners.AddExecution(*event.device, event.id, event.start_ps, place++);
    } else {
      owners.AddLaunch(event.process, event.id, event.start_ps, place++);
    }
  }
  // Half of device 0 is launched by each: its owner is not known.
  const auto found = owners.Decide();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].process, std::nullopt);
}

// Ranks of all sizes, in any order of the file, with launches and executions that are lost.
TEST(LaunchOwners, IsNeverWrong) {
  testing::Random random(3);
  int known = 0, unknown = 0;
  for (int i = 0; i < 20'000; ++i) {
    const auto ranks = static_cast<uint32_t>(1 + random.Below(4));
    std::vector<Made> file;
    std::vector<uint32_t> of_device(ranks);
    for (uint32_t rank = 0; rank < ranks; ++rank) of_device[rank] = rank;
    for (size_t at = ranks; at > 1; --at) {
      std::swap(of_device[at - 1],
                of_device[static_cast<size_t>(random.Below(static_cast<int64_t>(at)))]);
    }
    const int64_t spread_ps = random.OneIn(2) ? 1 : 3000;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      const auto device =
          static_cast<uint32_t>(std::ranges::find(of_device, rank) - of_device.begin());
      std::vector<Made> events = Rank(rank, device, 1 + random.Below(20), 20 + random.Below(40),
                                      random.Below(spread_ps), 1 + random.Below(2000));
      std::erase_if(events, [&](const Made&) { return random.OneIn(50); });
      file = Joined(std::move(file), events);
    }
    if (random.OneIn(3)) file = InOrderOfTime(file);
    if (random.OneIn(3)) file = HostFirst(file);
    const auto owners = Decide(file);
    for (size_t device = 0; device < owners.size(); ++device) {
      if (owners[device].process.has_value()) {
        EXPECT_EQ(*owners[device].process, of_device[device]) << i;
        ++known;
      } else {
        ++unknown;
      }
    }
  }
  EXPECT_GT(known, 20'000);
  EXPECT_GT(unknown, 1000);
}

}  // namespace
}  // namespace xplane_time::kineto
