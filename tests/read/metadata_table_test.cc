// MetadataTable compared with a map: dense ids, sparse ids, and both together.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string_view>
#include <vector>

#include "tests/support/extremes.h"
#include "xplane_time/trace.h"

namespace xplane_time {
namespace {

using testing::kMax;
using testing::kMin;

struct Entry {
  int64_t id = 0;
  int value = 0;  // different in each entry
};

// The table and its expected content.
class Checked {
 public:
  void Set(int64_t id) {
    table_.Set({id, ++values_});
    const auto [found, inserted] = expected_.try_emplace(id, Expected{values_, order_.size()});
    found->second.value = values_;
    if (inserted) order_.push_back(id);
  }

  void Check(const std::vector<int64_t>& others = {}) const {
    ASSERT_EQ(table_.entries.size(), order_.size());
    for (size_t i = 0; i < order_.size(); ++i) ASSERT_EQ(table_.entries[i].id, order_[i]);
    for (const auto& [id, entry] : expected_) {
      ASSERT_EQ(table_.Find(id), entry.place) << id;
      ASSERT_EQ(table_.entries[entry.place].value, entry.value) << id;
      for (const int64_t beside : {id - (id != kMin), id + (id != kMax)}) CheckFind(beside);
    }
    for (const int64_t id : {kMin, int64_t{-1}, int64_t{0}, int64_t{1}, kMax}) CheckFind(id);
    for (const int64_t id : others) CheckFind(id);
  }

 private:
  struct Expected {
    int value;
    size_t place;
  };

  void CheckFind(int64_t id) const {
    const auto found = expected_.find(id);
    ASSERT_EQ(table_.Find(id), found == expected_.end() ? kNoMetadata : found->second.place) << id;
  }

  MetadataTable<Entry> table_;
  std::map<int64_t, Expected> expected_;
  std::vector<int64_t> order_;  // in order of the first Set()
  int values_ = 0;
};

TEST(MetadataTable, NothingAtFirst) { Checked().Check(); }

TEST(MetadataTable, DenseIds) {
  Checked table;
  for (int64_t id = 1; id <= 5000; ++id) table.Set(id);
  table.Check();
}

TEST(MetadataTable, DenseIdsBackwards) {
  Checked table;
  for (int64_t id = 5000; id >= 0; --id) table.Set(id);
  table.Check();
}

TEST(MetadataTable, SparseNegativeAndHugeIds) {
  Checked table;
  for (const int64_t id : {kMax, kMin, int64_t{-1}, int64_t{0}, kMax - 1, kMin + 1}) table.Set(id);
  for (int bit = 0; bit < 63; ++bit) {
    table.Set(int64_t{1} << bit);
    table.Set(-(int64_t{1} << bit));
  }
  table.Check();
}

TEST(MetadataTable, OfEqualIdsTheLastWinsAtThePlaceOfTheFirst) {
  Checked table;
  for (int round = 0; round < 3; ++round) {
    for (const int64_t id : {int64_t{9}, int64_t{3}, int64_t{-4}, int64_t{3}, kMax}) table.Set(id);
  }
  table.Check();
}

// An id that was sparse when it was set, and that would be dense later.
TEST(MetadataTable, AnIdStaysWhereItWasFirst) {
  Checked table;
  for (const int64_t id : {1023, 1024, 1031, 1032, 1033, 20'000}) table.Set(id);
  for (int64_t id = 0; id < 4000; ++id) table.Set(id);
  table.Set(20'000);
  table.Check();
}

TEST(MetadataTable, ManyIdsInARandomOrder) {
  Checked table;
  std::mt19937_64 random(1);
  for (int i = 0; i < 100'000; ++i) table.Set(static_cast<int64_t>(random() % 150'000));
  table.Check();
}

TEST(MetadataTable, RandomIdsOfEverySize) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    Checked table;
    std::vector<int64_t> others;
    for (uint64_t i = random() % 3000; i > 0; --i) {
      const uint64_t bits = 1 + random() % (seed % 2 == 0 ? 14 : 64);
      const auto id = static_cast<int64_t>(random() >> (64 - bits));
      if (random() % 4 == 0) {
        others.push_back(id);
      } else {
        table.Set(random() % 16 == 0 ? -id : id);
      }
    }
    table.Check(others);
  }
}

TEST(ReferencedName, IsEmptyWhereThereIsNone) {
  MetadataTable<StatMetadata> stats;
  stats.Set({7, "seven"});
  stats.Set({-1, "minus one"});
  EXPECT_EQ(ReferencedName(stats, 7), "seven");
  EXPECT_EQ(ReferencedName(stats, ~uint64_t{0}), "minus one");
  EXPECT_EQ(ReferencedName(stats, 8), "");
}

}  // namespace
}  // namespace xplane_time
