// LaunchTable and the scratch file behind it.
#include "timing/host_evidence.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>

#include "scratch.h"

namespace xplane_time {
namespace {

TEST(LaunchTableTest, FindsWhatIsThereOnce) {
  std::mt19937_64 random(3);
  for (int trial = 0; trial < 50; ++trial) {
    LaunchTable table;
    std::map<uint64_t, std::vector<int64_t>> expected;
    const uint64_t ids = 1 + random() % 40;
    for (uint64_t i = random() % 60; i > 0; --i) {
      const uint64_t id = 1 + random() % ids;
      table.Add({id, static_cast<int64_t>(i), 7});
      expected[id].push_back(static_cast<int64_t>(i));
    }
    table.Finish();
    size_t place = 0;
    for (int ask = 0; ask < 200; ++ask) {
      const uint64_t id = random() % (ids + 3);
      const LaunchTable::Launch* found = table.Find(id, &place);
      const auto at = expected.find(id);
      if (at == expected.end() || at->second.size() > 1) {
        EXPECT_EQ(found, nullptr) << id;
      } else {
        ASSERT_NE(found, nullptr) << id;
        EXPECT_EQ(found->start_ps, at->second[0]);
        EXPECT_EQ(found->line, 7u);
      }
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

TEST(ScratchVectorTest, StaysInMemoryWhereThereIsNoPlaceForAFile) {
  const char* const before = std::getenv("TMPDIR");
  const std::string kept = before == nullptr ? "" : before;
  setenv("TMPDIR", "/nowhere/at/all", 1);
  ScratchVector<uint64_t> values(/*memory_bytes=*/256);
  for (uint64_t i = 0; i < 10'000; ++i) values.push_back(i);
  EXPECT_FALSE(values.in_file());
  EXPECT_EQ(values.values()[9'999], 9'999u);
  if (before == nullptr) {
    unsetenv("TMPDIR");
  } else {
    setenv("TMPDIR", kept.c_str(), 1);
  }
}

}  // namespace
}  // namespace xplane_time
