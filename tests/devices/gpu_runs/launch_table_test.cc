// LaunchTable, and the scratch file behind it.
#include "devices/gpu_runs/host_evidence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include "scratch.h"

namespace xplane_time::gpu_runs {
namespace {

// -1: there is only one, or none so early.
int64_t LatestOfSeveral(const std::vector<Launch>& launches, int64_t until_ps) {
  int64_t latest_ps = -1;
  for (const Launch& each : launches) {
    if (each.start_ps <= until_ps) latest_ps = std::max(latest_ps, each.start_ps);
  }
  return launches.size() > 1 ? latest_ps : -1;
}

// Ids of both widths, from a few lines, of which each has its own in order, mostly.
TEST(LaunchTableTest, FindsWhatIsThereOnce) {
  std::mt19937_64 random(3);
  for (int trial = 0; trial < 200; ++trial) {
    LaunchTable table;
    std::map<uint64_t, std::vector<Launch>> expected;
    const uint64_t ids = 1 + random() % 400;
    const uint64_t first = trial % 2 == 0 ? 1 : (uint64_t{1} << 32) - 20;
    for (uint32_t line = 0; line < 1 + random() % 5; ++line) {
      LaunchTable of_line;
      uint64_t id = first;
      for (uint64_t i = random() % 60; i > 0; --i) {
        id = random() % 8 == 0 ? first + random() % ids : id + 1 + random() % 9;
        const Launch launch = {static_cast<int64_t>(i), line};
        of_line.Add(id, launch);
        expected[id].push_back(launch);
      }
      if (random() % 2 == 0) of_line.Finish();
      table.AddAll(of_line);
      if (random() % 4 == 0) table.Finish();
    }
    table.Finish();
    LaunchTable::Place place;
    const std::vector<Launch> none;
    for (int ask = 0; ask < 200; ++ask) {
      const uint64_t id = first + random() % (ids + 3);
      const std::optional<Launch> found = table.FindOnly(id, &place);
      const std::optional<Launch> of_all = table.FindFirst(id, &place);
      const auto at = expected.find(id);
      const auto until_ps = static_cast<int64_t>(random() % 70);
      const auto repeated = table.FindRepeated(id, until_ps, &place);
      const int64_t latest_ps = LatestOfSeveral(at == expected.end() ? none : at->second, until_ps);
      ASSERT_EQ(repeated.has_value(), latest_ps >= 0) << id;
      if (repeated.has_value()) {
        EXPECT_EQ(repeated->launch.start_ps, latest_ps);
        EXPECT_LT(repeated->launch.line, 5u);
      }
      ASSERT_EQ(of_all.has_value(), at != expected.end()) << id;
      if (of_all.has_value()) {
        const auto earliest = std::ranges::min_element(at->second, {}, &Launch::start_ps);
        EXPECT_EQ(of_all->start_ps, earliest->start_ps) << id;
        EXPECT_EQ(of_all->line, earliest->line) << id;
      }
      if (at == expected.end() || at->second.size() > 1) {
        EXPECT_FALSE(found.has_value()) << id;
      } else {
        ASSERT_TRUE(found.has_value()) << id;
        EXPECT_EQ(found->start_ps, at->second[0].start_ps);
        EXPECT_EQ(found->line, at->second[0].line);
      }
    }
  }
}

// More parts than are merged one by one.
TEST(LaunchTableTest, IdsInAnyOrder) {
  constexpr uint64_t kIds = 10'007;
  LaunchTable table;
  for (uint64_t i = 0; i < kIds; ++i) table.Add(i * 5003 % kIds, {static_cast<int64_t>(i), 1});
  table.Finish();
  LaunchTable::Place place;
  for (uint64_t i = 0; i < kIds; ++i) {
    const std::optional<Launch> found = table.FindOnly(i * 5003 % kIds, &place);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->start_ps, static_cast<int64_t>(i));
  }
}

// What is launched, and one index for all launches with an id.
TEST(LaunchTableTest, VisitsAllLaunches) {
  LaunchTable table;
  const uint64_t wide = uint64_t{1} << 40;
  const std::vector<std::pair<uint64_t, Launch>> added = {
      {wide, {7, 3, Launched::kGraph}},
      {9, {5, 1, Launched::kKernel}},
      {9, {4, (1u << 29) - 1, Launched::kOther}},
      {2, {6, 2, Launched::kKernel}}};
  for (const auto& [id, launch] : added) table.Add(id, launch);
  table.Finish();
  EXPECT_EQ(table.size(), added.size());
  std::multimap<size_t, Launch> visited;
  table.ForEach([&](size_t index, const Launch& launch) { visited.emplace(index, launch); });
  EXPECT_EQ(visited.size(), added.size());
  LaunchTable::Place place;
  for (const uint64_t id : {wide, uint64_t{9}, uint64_t{2}}) {
    ASSERT_TRUE(table.FindFirst(id, &place).has_value());
    const size_t index = table.IndexOf(id, place);
    EXPECT_LT(index, table.size());
    EXPECT_EQ(visited.count(index), id == 9 ? 2u : 1u);
    const auto [begin, end] = visited.equal_range(index);
    for (auto at = begin; at != end; ++at) {
      EXPECT_TRUE(std::ranges::any_of(added, [&](const auto& each) {
        return each.first == id && each.second.start_ps == at->second.start_ps &&
               each.second.line == at->second.line && each.second.what == at->second.what;
      }));
    }
  }
}

TEST(ScratchVectorTest, MovesToAFileAndKeepsItsValues) {
  ScratchVector<uint64_t> values(/*memory_bytes=*/256);
  for (uint64_t i = 0; i < 32; ++i) values.push_back(i * i);
  for (uint64_t i = 32; i < 100'000; ++i) values.push_back(i * i);
  EXPECT_TRUE(values.in_file());
  ASSERT_EQ(values.size(), 100'000u);
  for (uint64_t i = 0; i < 100'000; ++i) ASSERT_EQ(values.values()[i], i * i);
  ScratchVector<uint64_t> moved = std::move(values);
  EXPECT_EQ(moved.values()[99'999], uint64_t{99'999} * 99'999);
  moved = ScratchVector<uint64_t>(256);
  EXPECT_TRUE(moved.empty());
}

// From malloc to a mapping, to a file.
TEST(ScratchVectorTest, KeepsItsValuesWhereverTheyAre) {
  constexpr size_t kMemoryBytes = size_t{4} << 20;
  constexpr uint64_t kMost = 3'000'000;
  ScratchVector<uint64_t> values(kMemoryBytes);
  for (uint64_t i = 0; i < kMost; ++i) values.push_back(~i);
  EXPECT_TRUE(values.in_file());
  for (uint64_t i = 0; i < kMost; ++i) ASSERT_EQ(values.values()[i], ~i);
}

TEST(ScratchVectorTest, StaysInMemoryWhereThereIsNoPlaceForAFile) {
  const char* const before = std::getenv("TMPDIR");
  const std::string kept = before == nullptr ? "" : before;
  setenv("TMPDIR", "/nowhere/at/all", 1);
  ScratchVector<uint64_t> values(/*memory_bytes=*/256);
  for (uint64_t i = 0; i < 10'000; ++i) values.push_back(i);
  EXPECT_FALSE(values.in_file());
  EXPECT_EQ(values.values()[9'999], 9'999u);
  for (uint64_t i = 10'000; i < 1'000'000; ++i) values.push_back(i);
  EXPECT_FALSE(values.in_file());
  EXPECT_EQ(values.values()[999'999], 999'999u);
  if (before == nullptr) {
    unsetenv("TMPDIR");
  } else {
    setenv("TMPDIR", kept.c_str(), 1);
  }
}

}  // namespace
}  // namespace xplane_time::gpu_runs
