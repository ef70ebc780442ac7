// Compares RunContents with multisets: runs that lack ops of the usual run are suspect.
#include "timing/device_meter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

namespace xplane_time {
namespace {

using Content = std::multiset<uint32_t>;

// Compares all contents with each other.
std::vector<bool> SlowSuspects(const std::vector<Content>& runs) {
  std::vector<bool> suspects(runs.size(), false);
  if (runs.size() < 4) return suspects;
  for (const Content& mode : runs) {
    const auto alike = static_cast<size_t>(std::count(runs.begin(), runs.end(), mode));
    if (4 * alike < 3 * runs.size()) continue;
    for (size_t i = 0; i < runs.size(); ++i) {
      suspects[i] = runs[i] != mode &&
                    std::includes(mode.begin(), mode.end(), runs[i].begin(), runs[i].end());
    }
  }
  return suspects;
}

// Passes the same contents to RunContents and to the slow computation.
class CheckedContents {
 public:
  explicit CheckedContents(size_t runs) : slow_(runs) {}

  void Add(uint32_t run, const std::vector<uint32_t>& symbols) {
    std::vector<uint32_t>* content = contents_.Open(run, symbols.size());
    content->insert(content->end(), symbols.begin(), symbols.end());
    slow_[run].insert(symbols.begin(), symbols.end());
  }

  // `runs`: the runs of one program.
  void Check(const std::vector<uint32_t>& runs) {
    std::vector<Content> own;
    for (const uint32_t run : runs) own.push_back(slow_[run]);
    contents_.Settle();
    EXPECT_EQ(contents_.Suspects(runs), SlowSuspects(own));
  }
  void CheckAll() { Check(Every(1, 0)); }
  std::vector<uint32_t> Every(uint32_t step, uint32_t first) const {
    std::vector<uint32_t> runs;
    for (uint32_t run = first; run < slow_.size(); run += step) runs.push_back(run);
    return runs;
  }

 private:
  RunContents contents_;
  std::vector<Content> slow_;
};

TEST(RunContents, FewerThanFourRunsAreNeverSuspect) {
  RunContents contents;
  for (const uint32_t run : {0, 1}) contents.Open(run, 1)->push_back(4);
  contents.Settle();
  EXPECT_EQ(contents.Suspects(std::vector<uint32_t>{0, 1, 2}), std::vector<bool>(3, false));
}

TEST(RunContents, ARunWithoutOpsLacksAll) {
  RunContents contents;
  for (const uint32_t run : {0, 1, 3}) contents.Open(run, 1)->push_back(4);
  contents.Settle();
  EXPECT_EQ(contents.Suspects(std::vector<uint32_t>{0, 1, 2, 3}),
            (std::vector<bool>{false, false, true, false}));
}

// The number of executions of an op counts, but not their order.
TEST(RunContents, TheOrderDoesNotMatterAndTheNumberDoes) {
  CheckedContents runs(8);
  for (const uint32_t run : {0, 2, 4}) runs.Add(run, {1, 2, 2});
  for (const uint32_t run : {1, 3, 5}) runs.Add(run, {2, 1, 2});
  runs.Add(6, {1, 2});
  runs.Add(7, {1, 1, 2});
  runs.CheckAll();
}

TEST(RunContents, RunsThatTakeTurns) {
  CheckedContents runs(5);
  for (uint32_t symbol = 0; symbol < 4; ++symbol) {
    for (const uint32_t run : {0, 1, 2, 3, 4}) {
      if (run != 3 || symbol != 2) runs.Add(run, {symbol});
    }
  }
  runs.CheckAll();
}

// More runs are open than the limit, so each is closed and continues later.
TEST(RunContents, RunsGoOnAfterTheyWereClosed) {
  constexpr uint32_t kRuns = 700;
  CheckedContents runs(kRuns);
  for (uint32_t symbol = 0; symbol < 3; ++symbol) {
    for (uint32_t run = 0; run < kRuns; ++run) {
      // In decreasing order, so sorting of closed contents has an effect.
      if (run % 100 != 7 || symbol != 1) runs.Add(run, {10 - symbol, 3});
    }
  }
  runs.CheckAll();
}

TEST(RunContents, RunsGoOnAfterSuspectsWereAskedFor) {
  CheckedContents runs(4);
  for (const uint32_t run : {0, 1, 2, 3}) runs.Add(run, {1});
  runs.CheckAll();
  for (const uint32_t run : {0, 1, 3}) runs.Add(run, {2});
  runs.CheckAll();
}

TEST(RunContents, RandomAgreesWithMultisets) {
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 engine(seed);
    const auto random = [&] { return static_cast<uint32_t>(engine()); };
    const uint32_t size = 4 + random() % (seed % 10 == 0 ? 600 : 12);
    const uint32_t programs = 1 + random() % 3, ops = 1 + random() % 3;
    const bool in_turns = random() % 2 == 0;
    CheckedContents runs(size);
    const auto add = [&](uint32_t run, uint32_t op) {
      if (random() % 20 != 0) runs.Add(run, {op, run % programs});
    };
    for (uint32_t i = 0; i < size * ops; ++i) {
      in_turns ? add(i % size, i / size) : add(i / ops, i % ops);
    }
    for (uint32_t program = 0; program < programs; ++program) {
      runs.Check(runs.Every(programs, program));
    }
  }
}

// The contents are longer than the buffer, and the runs alternate. One of them lacks an op.
TEST(RunContents, LongRunsThatTakeTurns) {
  constexpr uint32_t kRuns = 5;
  RunContents contents;
  for (int turn = 0; turn < 20'000; ++turn) {
    for (uint32_t run = 0; run < kRuns; ++run) {
      std::vector<uint32_t>* content = contents.Open(run, 60);
      for (uint32_t op = 0; op < 60; ++op) {
        if (run == 3 && turn == 17'000 && op == 30) continue;
        content->push_back(op);
      }
    }
  }
  const std::vector<uint32_t> runs = {0, 1, 2, 3, 4};
  contents.Settle();
  EXPECT_EQ(contents.Suspects(runs), (std::vector<bool>{false, false, false, true, false}));
}

// More concurrent runs than are kept open, with many different intermediate contents.
TEST(RunContents, ManyRunsThatTakeTurns) {
  constexpr uint32_t kRuns = 300;
  std::mt19937 random(4);
  CheckedContents checked(kRuns);
  for (uint32_t turn = 0; turn < 150; ++turn) {
    for (uint32_t run = 0; run < kRuns; ++run) {
      if (run != 77 || turn != 140) checked.Add(run, {(turn + 7 * run) % 150});
    }
  }
  checked.CheckAll();
}

}  // namespace
}  // namespace xplane_time
