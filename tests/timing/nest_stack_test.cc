// Compares NestStack with Nest (the same self times, computed online), and OwnIntervals with a slow
// computation for each instant.
#include "timing/device_meter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "xplane_time/intervals.h"
#include "xplane_time/normalize.h"

namespace xplane_time {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

std::vector<Interval> InNestingOrder(const std::vector<Interval>& events) {
  std::vector<Interval> ordered;
  for (const uint32_t index : Nest(events, 0).order) ordered.push_back(events[index]);
  return ordered;
}

// Self times in the order of events. No event may be reported twice.
std::vector<int64_t> Measure(const std::vector<Interval>& ordered, NestStack* stack) {
  std::vector<int64_t> self_ps;
  for (const Interval& event : ordered) self_ps.push_back(event.end_ps - event.start_ps);
  std::vector<bool> told(ordered.size());
  const auto covered = [&](uint64_t tag, int64_t children_ps) {
    EXPECT_FALSE(told[tag]) << "told twice: " << tag;
    told[tag] = true;
    self_ps[tag] -= children_ps;
  };
  for (size_t i = 0; i < ordered.size(); ++i) stack->Add(ordered[i], i, covered);
  stack->Finish(covered);
  return self_ps;
}

// False if they differ, so a caller can stop at the first difference.
bool Agrees(const std::vector<Interval>& events) {
  const std::vector<Interval> ordered = InNestingOrder(events);
  const std::vector<int64_t> expected = Nest(ordered, 0).self_ps;
  NestStack stack;
  const bool same = Measure(ordered, &stack) == expected;
  EXPECT_TRUE(same);
  for (size_t i = 0; !same && i < ordered.size(); ++i) {
    ADD_FAILURE() << "[" << ordered[i].start_ps << ", " << ordered[i].end_ps << ")";
  }
  return same;
}

// Compares all traces of `count` events within a short axis.
bool AllAgree(size_t count, int64_t axis, std::vector<Interval> events = {}) {
  if (events.size() == count) return Agrees(events);
  for (int64_t start = 0; start <= axis; ++start) {
    for (int64_t end = start; end <= axis; ++end) {
      events.push_back({start, end});
      if (!AllAgree(count, axis, events)) return false;
      events.pop_back();
    }
  }
  return true;
}

TEST(NestStack, AllTinyTracesAgreeWithNest) {
  EXPECT_TRUE(AllAgree(1, 6));
  EXPECT_TRUE(AllAgree(2, 6));
  EXPECT_TRUE(AllAgree(3, 5));
  EXPECT_TRUE(AllAgree(4, 3));
}

TEST(NestStack, RandomTracesAgreeWithNest) {
  std::mt19937 random(5);
  for (int round = 0; round < 3000; ++round) {
    SCOPED_TRACE(round);
    const auto axis = static_cast<int64_t>(2 + random() % 60);
    std::vector<Interval> events(random() % 40);
    for (Interval& event : events) {
      event.start_ps = static_cast<int64_t>(random()) % axis - axis / 2;
      event.end_ps = event.start_ps + static_cast<int64_t>(random()) % axis;
    }
    ASSERT_TRUE(Agrees(events));
  }
}

// The longest event has the maximum duration.
TEST(NestStack, EndsOfTheAxisAgreeWithNest) {
  EXPECT_TRUE(Agrees({{-kAxisLimitPs, kAxisLimitPs - 1},
                      {-kAxisLimitPs, -kAxisLimitPs},
                      {-kAxisLimitPs, 0},
                      {0, kAxisLimitPs},
                      {kAxisLimitPs, kAxisLimitPs}}));
}

// The children of an event are reported when later events cannot be inside it.
TEST(NestStack, TellsWhatIsOverAtOnce) {
  NestStack stack;
  std::vector<std::pair<uint64_t, int64_t>> told;
  const auto covered = [&](uint64_t tag, int64_t children_ps) {
    told.push_back({tag, children_ps});
  };
  stack.Add({0, 10}, 0, covered);
  stack.Add({1, 5}, 1, covered);
  stack.Add({2, 4}, 2, covered);
  EXPECT_THAT(told, IsEmpty());
  stack.Add({5, 9}, 3, covered);
  EXPECT_THAT(told, ElementsAre(Pair(1, 2)));
  stack.Add({10, 11}, 4, covered);
  EXPECT_THAT(told, ElementsAre(Pair(1, 2), Pair(0, 8)));
  stack.Finish(covered);
  EXPECT_THAT(told, ElementsAre(Pair(1, 2), Pair(0, 8)));
}

TEST(NestStack, IsEmptyAfterFinish) {
  NestStack stack;
  Measure({{0, 100}, {10, 20}}, &stack);
  EXPECT_THAT(Measure({{1, 6}}, &stack), ElementsAre(5));
}

// The reported event at each instant from `from`, or -1.
std::vector<int> OwnersBy(const std::vector<Interval>& ordered, int64_t from, int64_t to) {
  std::vector<int> owners(static_cast<size_t>(to - from), -1);
  OwnIntervals own;
  const auto emit = [&](uint32_t tag, const Interval& part) {
    EXPECT_LT(part.start_ps, part.end_ps);
    for (int64_t at = part.start_ps; at < part.end_ps; ++at) {
      int& owner = owners[static_cast<size_t>(at - from)];
      EXPECT_EQ(owner, -1) << "told twice: " << at;
      owner = static_cast<int>(tag);
    }
  };
  for (size_t i = 0; i < ordered.size(); ++i) own.Add(ordered[i], static_cast<uint32_t>(i), emit);
  own.Finish(emit);
  return owners;
}

std::vector<int> OwnersSlowly(const std::vector<Interval>& ordered, int64_t from, int64_t to) {
  std::vector<int> owners;
  for (int64_t at = from; at < to; ++at) {
    owners.push_back(-1);
    for (size_t i = 0; i < ordered.size(); ++i) {  // the last event that began
      const bool runs = ordered[i].start_ps <= at && at < ordered[i].end_ps;
      if (runs) owners.back() = static_cast<int>(i);
    }
  }
  return owners;
}

bool OwnersAgree(const std::vector<Interval>& events, int64_t from, int64_t to) {
  const std::vector<Interval> ordered = InNestingOrder(events);
  const std::vector<int> owners = OwnersBy(ordered, from, to);
  EXPECT_EQ(owners, OwnersSlowly(ordered, from, to));
  return !::testing::Test::HasFailure();
}

bool AllOwnersAgree(size_t count, int64_t axis, std::vector<Interval> events = {}) {
  if (events.size() == count) return OwnersAgree(events, 0, axis);
  for (int64_t start = 0; start <= axis; ++start) {
    for (int64_t end = start; end <= axis; ++end) {
      events.push_back({start, end});
      if (!AllOwnersAgree(count, axis, events)) return false;
      events.pop_back();
    }
  }
  return true;
}

TEST(OwnIntervals, AllTinyTraces) {
  EXPECT_TRUE(AllOwnersAgree(1, 6));
  EXPECT_TRUE(AllOwnersAgree(2, 6));
  EXPECT_TRUE(AllOwnersAgree(3, 5));
  EXPECT_TRUE(AllOwnersAgree(4, 3));
}

TEST(OwnIntervals, RandomTraces) {
  std::mt19937 random(6);
  for (int round = 0; round < 3000; ++round) {
    SCOPED_TRACE(round);
    const auto axis = static_cast<int64_t>(2 + random() % 60);
    std::vector<Interval> events(random() % 40);
    for (Interval& event : events) {
      event.start_ps = static_cast<int64_t>(random()) % axis - axis / 2;
      event.end_ps = event.start_ps + static_cast<int64_t>(random()) % axis;
    }
    ASSERT_TRUE(OwnersAgree(events, -axis / 2 - 1, 2 * axis));
  }
}

}  // namespace
}  // namespace xplane_time
