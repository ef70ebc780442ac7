// Compares StreamOrder with its definition, execution by execution.
#include "timing/stream_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <tuple>
#include <vector>

namespace xplane_time {
namespace {

using ::testing::IsEmpty;

constexpr int64_t kUs = 1'000'000, kSecond = 1'000'000'000'000;

struct One {
  int64_t start_ps, duration_ps;
  uint32_t op = 0, line = 0;
  int64_t launch = 0;

  int64_t end_ps() const { return start_ps + duration_ps; }
};
using All = std::vector<One>;

Execution Made(const One& one) {
  Execution execution = {one.start_ps, one.duration_ps, one.op, 0, one.line};
  execution.numbers[Execution::kCorrelationId] = one.launch;
  return execution;
}

void Order(All* all) {
  std::ranges::stable_sort(
      *all, {}, [](const One& one) { return std::pair(one.start_ps, -one.duration_ps); });
}

std::optional<int64_t> MedianOfOthers(const All& all, uint32_t op, uint64_t count) {
  std::vector<int64_t> durations;
  for (const One& one : all) {
    if (one.op == op) durations.push_back(one.duration_ps);
  }
  std::ranges::sort(durations);
  if (durations.size() < count + StreamOrder::kFewOthers) return std::nullopt;
  return durations[(durations.size() - count - 1) / 2];
}

struct OrderOutcome {
  // Line, op, count, longest duration, number of later executions that it overlaps, whether it is
  // the last execution.
  using Row = std::tuple<uint32_t, uint32_t, uint64_t, int64_t, uint64_t, bool>;
  std::set<Row> rows;
  uint64_t overlaps;
};

OrderOutcome Found(const All& all) {
  StreamOrder streams(Execution::kCorrelationId);
  for (const One& one : all) streams.Add(Made(one));
  const auto median = [&](const StreamOrder::Key& key, uint64_t count) -> StreamOrder::Median {
    return {.duration_ps = MedianOfOthers(all, key.op, count)};
  };
  OrderOutcome outcome = {};
  for (const StreamOrder::Found& found : streams.Finish(median)) {
    outcome.rows.insert(
        {found.key.line, found.key.op, found.count, found.duration_ps, found.later, found.is_last});
  }
  outcome.overlaps = streams.overlaps();
  return outcome;
}

// The rule for overruns (except the last executions of lines), without a limit of open executions.
std::set<OrderOutcome::Row> ByDefinition(const All& all) {
  struct Group {
    uint64_t count = 0, later_of_longest = 0;
    int64_t shortest = 0, longest = 0, longest_end = 0;
  };
  std::map<std::pair<uint32_t, uint32_t>, Group> groups;
  int64_t ordinary_end = std::numeric_limits<int64_t>::min(), longest_ordinary = 0;
  uint64_t ordinary = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    uint64_t later = 0;
    for (size_t j = i + 1; j < all.size(); ++j) {
      if (all[j].line != all[i].line) continue;
      if (all[i].launch != 0 && all[i].launch == all[j].launch) continue;
      later += all[i].end_ps() - all[j].start_ps > StreamOrder::kSmallOverlapPs ? 1 : 0;
    }
    if (later == 0) {
      ordinary_end = std::max(ordinary_end, all[i].end_ps());
      longest_ordinary = std::max(longest_ordinary, all[i].duration_ps);
      ++ordinary;
      continue;
    }
    Group& group = groups[{all[i].line, all[i].op}];
    const int64_t length = all[i].duration_ps;
    group.shortest = group.count == 0 ? length : std::min(group.shortest, length);
    if (++group.count == 1 || length > group.longest) {
      group.longest = length;
      group.longest_end = all[i].end_ps();
      group.later_of_longest = later;
    }
  }
  std::set<uint32_t> in_order;
  for (const auto& [key, group] : groups) in_order.insert(key.first);
  for (const auto& [key, group] : groups) {
    const auto median = MedianOfOthers(all, key.second, group.count);
    const bool impossible =
        median.has_value()
            ? group.shortest >= StreamOrder::kManyTimes * std::max<int64_t>(*median, 1)
            : group.count == 1 && ordinary >= StreamOrder::kManyExecutions &&
                  group.longest >= StreamOrder::kFarLonger * longest_ordinary &&
                  (group.later_of_longest >= StreamOrder::kManyLater ||
                   StreamOrder::IsFarBeyond(group.longest_end, {all[0].start_ps, ordinary_end}));
    if (!impossible) in_order.erase(key.first);
  }
  std::set<OrderOutcome::Row> rows;
  for (const auto& [key, group] : groups) {
    if (!in_order.contains(key.first)) continue;
    rows.insert({key.first, key.second, group.count, group.longest, group.later_of_longest, false});
  }
  return rows;
}

// `count` kernels of 100 us, of four alternating kinds, at intervals of 110 us.
All InOrder(int count, uint32_t line = 0) {
  All all;
  for (int i = 0; i < count; ++i) {
    all.push_back({i * 110 * kUs, 100 * kUs, static_cast<uint32_t>(i % 4), line});
  }
  return all;
}

TEST(StreamOrderTest, FindsOneThatLastsAcrossAllLaterOnes) {
  All all = InOrder(400);
  all[200].duration_ps = 3 * kSecond + 400'000'000'000;
  const OrderOutcome outcome = Found(all);
  EXPECT_EQ(outcome.rows, (std::set<OrderOutcome::Row>{{0, 0, 1, 3'400'000'000'000, 199, false}}));
  EXPECT_EQ(outcome.overlaps, 0u) << "what only impossible durations overlap is no overlap";
}

TEST(StreamOrderTest, FindsSeveralAndTheLast) {
  All all = InOrder(400);
  for (const size_t i : {40u, 81u, 200u, 399u}) all[i].duration_ps = 3 * kSecond;
  const OrderOutcome outcome = Found(all);
  EXPECT_EQ(outcome.rows, (std::set<OrderOutcome::Row>{{0, 0, 2, 3 * kSecond, 359, false},
                                                       {0, 1, 1, 3 * kSecond, 318, false},
                                                       {0, 3, 1, 3 * kSecond, 0, true}}));
}

TEST(StreamOrderTest, TheLastTellsWhatElseTheDeviceDid) {
  All all = InOrder(8);
  all.back().duration_ps = 3 * kSecond;
  StreamOrder streams(std::nullopt);
  for (const One& one : all) streams.Add(Made(one));
  const auto found = streams.Finish([](const StreamOrder::Key&, uint64_t) {
    return StreamOrder::Median{.duration_ps = 100 * kUs};
  });
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].others.start_ps, 0);
  EXPECT_EQ(found[0].others.end_ps, all[6].end_ps());
}

TEST(StreamOrderTest, SmallOverlapsAreOnlyCounted) {
  All all;
  for (int i = 0; i < 100; ++i) all.push_back({i * 10 * kUs, 14 * kUs, 0});
  const OrderOutcome outcome = Found(all);
  EXPECT_THAT(outcome.rows, IsEmpty());
  EXPECT_EQ(outcome.overlaps, 99u);
}

TEST(StreamOrderTest, ALineThatRunsThingsSideBySideSaysNothing) {
  // A hardware queue of AMD: an all-reduce waits for another rank, and other kernels also overlap.
  All all = InOrder(400);
  for (int i = 0; i < 10; ++i) {
    all.push_back({(i * 40 + 1) * 110 * kUs, (i == 5 ? 20'000 : 200) * kUs, 9});
  }
  Order(&all);
  EXPECT_THAT(Found(all).rows, IsEmpty());
}

TEST(StreamOrderTest, KernelsOfOneGraphMayRunSideBySide) {
  All all = InOrder(40);
  for (One& one : all) one.launch = 7;
  all[3].duration_ps = 4000 * kUs;
  EXPECT_THAT(Found(all).rows, IsEmpty());
  all[3].launch = 8;
  EXPECT_EQ(Found(all).rows.size(), 1u);
}

TEST(StreamOrderTest, AKernelThatRanOnceIsComparedWithAll) {
  for (const size_t at : {0u, 50u, 98u, 99u}) {
    All all = InOrder(100);
    all[at].op = 77;
    all[at].duration_ps = 5000 * kUs;
    EXPECT_THAT(Found(all).rows, IsEmpty()) << at;
    all[at].duration_ps = 3 * kSecond;
    EXPECT_EQ(Found(all).rows.size(), 1u) << at;
  }
  All few = InOrder(10);
  few[2].op = 77;
  few[2].duration_ps = 3 * kSecond;
  EXPECT_THAT(Found(few).rows, IsEmpty()) << "too few to say what is usual";
}

TEST(StreamOrderTest, TinyStreams) {
  EXPECT_THAT(Found({}).rows, IsEmpty());
  EXPECT_THAT(Found({{0, kSecond}}).rows, IsEmpty());
  EXPECT_THAT(Found({{0, 1}, {5, kSecond}}).rows, IsEmpty());
  EXPECT_THAT(Found({{0, kSecond}, {5, 0}}).rows, IsEmpty()) << "nothing usual to compare with";
  EXPECT_THAT(Found({{0, 0}, {0, 0}, {0, 0}, {0, 0}}).rows, IsEmpty());
}

TEST(StreamOrderTest, AgreesWithTheDefinition) {
  std::mt19937 random(7);
  const auto below = [&](int64_t most) {
    return std::uniform_int_distribution<int64_t>(0, most - 1)(random);
  };
  int with_findings = 0, without = 0;
  for (int round = 0; round < 3000; ++round) {
    All all;
    const bool side_by_side = below(4) == 0;
    for (uint32_t line = 0; line < static_cast<uint32_t>(1 + below(3)); ++line) {
      int64_t time_ps = below(50) * kUs;
      const int64_t count = 1 + below(40);
      for (int64_t i = 0; i < count; ++i) {
        One one = {time_ps, (1 + below(20)) * kUs, static_cast<uint32_t>(below(3)), line};
        if (below(3) == 0) one.launch = 1 + below(10);
        if (below(15) == 0) one.duration_ps = (100 + below(5000)) * kUs;
        if (side_by_side && below(3) == 0) one.duration_ps += 30 * kUs;
        all.push_back(one);
        // Mostly after the usual end.
        time_ps += std::min<int64_t>(one.duration_ps, 20 * kUs) + (below(8) - 4) * kUs;
        time_ps = std::max<int64_t>(time_ps, 0);
      }
    }
    Order(&all);
    // Skip traces with more open executions than are kept.
    bool many_open = false;
    for (const One& one : all) {
      many_open |= std::ranges::count_if(all, [&](const One& other) {
                     return other.line == one.line && other.start_ps <= one.start_ps &&
                            other.end_ps() > one.start_ps;
                   }) > 7;
    }
    if (many_open) continue;
    std::set<OrderOutcome::Row> rows = Found(all).rows;
    const bool any_last = std::erase_if(rows, [](const auto& row) { return std::get<5>(row); }) > 0;
    const std::set<OrderOutcome::Row> wanted = ByDefinition(all);
    // If the last execution is impossible, it does not show how far the others extend.
    if (!any_last) {
      EXPECT_EQ(rows, wanted) << "round " << round;
    }
    (wanted.empty() ? without : with_findings) += 1;
  }
  EXPECT_GT(with_findings, 200);
  EXPECT_GT(without, 200);
}

}  // namespace
}  // namespace xplane_time
