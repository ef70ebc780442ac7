#include "devices/gpu_runs/likeliest_runs.h"

#include <gtest/gtest.h>
#include <algorithm>

#include <cstdio>
#include <functional>
#include <ostream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/made_runs.h"

namespace xplane_time::gpu_runs {
namespace {

// "abc abc ab": runs as words. Splitting the letters must give the words back.
struct Case {
  std::string_view name, runs;
};

std::vector<uint32_t> Letters(std::string_view runs) {
  std::vector<uint32_t> symbols;
  for (char c : runs) {
    if (c != ' ') symbols.push_back(static_cast<uint32_t>(c - 'a'));
  }
  return symbols;
}

LikeliestRuns Split(const std::vector<uint32_t>& symbols,
                    const std::vector<int64_t>& idle_ps = {}) {
  return SplitLikeliest(
      {.symbols = symbols, .idle_ps = idle_ps, .after_other = {}, .host_runs = {}});
}

std::string InWords(std::string_view runs) {
  const std::vector<uint32_t> symbols = Letters(runs);
  const std::vector<uint32_t> run = Split(symbols).run;
  std::string text;
  for (size_t i = 0; i < symbols.size(); ++i) {
    if (i > 0 && run[i] != run[i - 1]) text += ' ';
    text += static_cast<char>('a' + symbols[i]);
  }
  return text;
}

class LetterRunsTest : public ::testing::TestWithParam<Case> {};

TEST_P(LetterRunsTest, SplitsIntoTheRuns) { EXPECT_EQ(InWords(GetParam().runs), GetParam().runs); }

INSTANTIATE_TEST_SUITE_P(
    Runs, LetterRunsTest,
    ::testing::Values(Case{"OneKernel", "a"}, Case{"OneRun", "abcd"}, Case{"TwoRuns", "ab ab"},
                      Case{"KernelAlone", "a a a a"}, Case{"ThreeRuns", "abc abc abc"},
                      Case{"OneOpTwoKernelsFirst", "aab aab aab"},
                      Case{"RecurrenceInside", "abac abac abac"}, Case{"LoopInside", "abbbc abbbc"},
                      Case{"LastKernelLost", "abc abc ab abc"},
                      Case{"FirstKernelLost", "abc abc bc abc"},
                      Case{"LossesThatRepeat", "abcd bcd abcd abcd abcd bcd abcd abcd"},
                      Case{"LastRunShort", "abc abc abc a"},
                      Case{"ThreeOfFiveKernels", "abcde abcde abc abcde abcde"},
                      Case{"MiddleLost", "abcde abcde abde abcde abcde"},
                      Case{"TwoRunsShort", "abcd abcd bcd abcd abc abcd abcd"},
                      Case{"NeighboursSwapped", "abcd abcd bacd abcd abcd"},
                      Case{"SwappedAtTheEnd", "abcd abdc abcd abcd"},
                      Case{"TwoKernelsFirstLost", "ab b ab ab"},
                      Case{"ConditionalOfThreeOrFour", "abcd abd abcd abcd"},
                      Case{"NoRepetitionInALoop", "abcbcbcd"},
                      Case{"LoopAndALoss", "abcc abcc abc abcc abcc abcc"},
                      Case{"TwiceAndALoss", "aabc aabc aab aabc aabc"}),
    [](const ::testing::TestParamInfo<Case>& tested) { return std::string(tested.param.name); });

TEST(LikeliestRunsTest, NothingIsNothing) { EXPECT_TRUE(Split({}).run.empty()); }

// The symbols alone cannot tell where the first run began; idle time can.
TEST(LikeliestRunsTest, IdleTimeChoosesThePhase) {
  const std::vector<uint32_t> symbols = Letters("cde abcde abcde abcde abcde");
  std::vector<int64_t> idle_ps(symbols.size(), 1);
  std::vector<uint32_t> expected(symbols.size(), 0);
  for (size_t i = 3; i < symbols.size(); ++i) {
    if ((i - 3) % 5 == 0) idle_ps[i] = 10'000'000;
    expected[i] = static_cast<uint32_t>(1 + (i - 3) / 5);
  }
  EXPECT_EQ(Split(symbols, idle_ps).run, expected);
}

// Kernels of two streams swap where one run meets the next.
TEST(LikeliestRunsTest, SwappedAtABorder) {
  const std::vector<uint32_t> expected = {0, 0, 1, 0, 1, 1, 2, 2, 2, 3, 3, 3};
  EXPECT_EQ(Split(Letters("abacbcabcabc")).run, expected);
}

// A loop around all kernels looks like runs; only idle time can tell, and here does not.
TEST(LikeliestRunsTest, ALoopAroundAllKernelsIsDoubtful) {
  const std::vector<uint32_t> symbols = Letters("abcabcabc");
  const LikeliestRuns split = Split(symbols, std::vector<int64_t>(symbols.size(), 100'000));
  EXPECT_TRUE(split.rivals.has_value());
  std::vector<int64_t> apart_ps(symbols.size(), 100'000);
  apart_ps[3] = apart_ps[6] = 20'000'000;
  EXPECT_FALSE(Split(symbols, apart_ps).rivals.has_value());
}

// The host's count decides between two that explain alike.
TEST(LikeliestRunsTest, TheHostCountDecides) {
  const std::vector<uint32_t> symbols = Letters("aaaa");
  const std::vector<int64_t> idle_ps = {0, 100'000, 100'000, 100'000};
  EXPECT_TRUE(Split(symbols, idle_ps).rivals.has_value());
  EXPECT_FALSE(SplitLikeliest({symbols, idle_ps, {}, 4}).rivals.has_value());
}

// Executions of one stream, 1 us apart within a run. Runs begin with this idle time before, and if
// `others`, after another program on the stream.
LikeliestRuns SplitAfterOthers(std::string_view runs, int64_t gap_ps, bool others) {
  const std::vector<uint32_t> symbols = Letters(runs);
  std::vector<int64_t> idle_ps;
  std::vector<Between> between;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (runs[i] == ' ') continue;
    const bool begins = i > 0 && runs[i - 1] == ' ';
    idle_ps.push_back(begins ? gap_ps : 1'000'000);
    between.push_back(begins && others ? Between::kOtherOnStream : Between::kNone);
  }
  return SplitLikeliest({symbols, idle_ps, between, {}});
}

std::vector<uint32_t> RunsOfWords(std::string_view runs) {
  std::vector<uint32_t> expected;
  uint32_t run = 0;
  for (const char c : runs) {
    if (c == ' ') {
      ++run;
    } else {
      expected.push_back(run);
    }
  }
  return expected;
}

std::string Words(int count, const std::function<std::string(int)>& word) {
  std::string words = word(0);
  for (int i = 1; i < count; ++i) words += " " + word(i);
  return words;
}

// A condition inside a program adds a kernel now and then. A period of several runs must not become
// one run: other programs execute between them.
TEST(LikeliestRunsTest, ConditionsBetweenOtherPrograms) {
  const std::function<std::string(int)> words[] = {
      [](int i) { return i % 2 == 1 ? "ab" : "a"; },
      [](int i) { return i % 3 == 2 ? "abc" : "ab"; },
      [](int i) { return i % 10 == 9 ? "abc" : "ab"; },
      [](int i) { return i % 4 == 1 ? "abcd" : "acd"; }};
  for (const auto& word : words) {
    for (const int count : {6, 12, 60, 300, 2000}) {
      const std::string runs = Words(count, word);
      for (const int64_t gap_ps : {0L, 60'000'000L, 600'000'000L, 600'000'000'000L}) {
        EXPECT_EQ(SplitAfterOthers(runs, gap_ps, true).run, RunsOfWords(runs))
            << runs.substr(0, 40) << " " << count << " " << gap_ps;
      }
    }
  }
}

// Very long idle times separate runs without other programs, too.
TEST(LikeliestRunsTest, ConditionsAfterLongIdleTimes) {
  for (const int count : {60, 300}) {
    const std::string runs = Words(count, [](int i) { return i % 10 == 9 ? "abc" : "ab"; });
    for (const int64_t gap_ps : {300'000'000L, 3'000'000'000L, 300'000'000'000L}) {
      EXPECT_EQ(SplitAfterOthers(runs, gap_ps, false).run, RunsOfWords(runs)) << count << gap_ps;
    }
  }
}

// One kernel or the other: as likely, a run that calls another program in the middle.
TEST(LikeliestRunsTest, ARunThatSpansOtherProgramsIsDoubtful) {
  for (const int count : {4, 12, 60}) {
    const std::string runs = Words(count, [](int i) { return i % 2 == 1 ? "a" : "b"; });
    for (const int64_t gap_ps : {0L, 3'000'000L, 600'000'000L}) {
      const LikeliestRuns split = SplitAfterOthers(runs, gap_ps, true);
      EXPECT_TRUE(split.run == RunsOfWords(runs) || split.rivals.has_value()) << count << gap_ps;
    }
  }
}

// A run that waits shortly for another program in the middle, each time, stays one run.
TEST(LikeliestRunsTest, ACalledProgramInEachRun) {
  std::vector<uint32_t> symbols, expected;
  std::vector<int64_t> idle_ps;
  std::vector<Between> between;
  for (uint32_t run = 0; run < 20; ++run) {
    for (const uint32_t symbol : {0, 1, 2}) {
      symbols.push_back(symbol);
      expected.push_back(run);
      idle_ps.push_back(symbol == 0 ? 3'000'000'000 : 1'000'000);
      between.push_back(symbol == 1 ? Between::kOtherOnStream : Between::kNone);
    }
  }
  const LikeliestRuns split = SplitLikeliest({symbols, idle_ps, between, {}});
  EXPECT_EQ(split.run, expected);
  EXPECT_FALSE(split.rivals.has_value());
}

// Whatever the input: every element has a run, and runs begin one after the other.
TEST(LikeliestRunsTest, RunsCountUpOnRandomInput) {
  std::mt19937 engine(7);
  const auto random = [&] { return static_cast<uint32_t>(engine()); };
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<uint32_t> symbols(random() % 40 + 1);
    const uint32_t alphabet = random() % 6 + 1;
    for (uint32_t& symbol : symbols) symbol = random() % alphabet;
    const std::vector<uint32_t> run = Split(symbols).run;
    ASSERT_EQ(run.size(), symbols.size());
    uint32_t next = 0;
    for (uint32_t one : run) {
      ASSERT_LE(one, next);
      next = std::max(next, one + 1);
    }
  }
}

// Programs of distinct kernels, with at most one loss in every fourth run, are split as
// they were made.
TEST(LikeliestRunsTest, FindsSeededLosses) {
  std::mt19937 engine(11);
  const auto random = [&] { return static_cast<uint32_t>(engine()); };
  for (int trial = 0; trial < 50; ++trial) {
    const uint32_t length = random() % 20 + 4;
    const uint32_t runs = random() % 40 + 8;
    std::vector<uint32_t> symbols, expected;
    for (uint32_t run = 0; run < runs; ++run) {
      // Never next to each other: the tail of one and the head of the next would merge.
      const uint32_t lost = run % 4 == 1 ? random() % length : length;
      for (uint32_t k = 0; k < length; ++k) {
        if (k == lost) continue;
        symbols.push_back(k);
        expected.push_back(run);
      }
    }
    ASSERT_EQ(Split(symbols).run, expected) << "trial " << trial;
  }
}

// Of a long sequence the first part shows the template.
TEST(LikeliestRunsTest, LongSequenceWithOneLoss) {
  std::vector<uint32_t> symbols, expected;
  for (uint32_t run = 0; run < 500; ++run) {
    for (uint32_t k = 0; k < 30; ++k) {
      if (run == 250 && k == 7) continue;
      symbols.push_back(k % 25);  // five kernels occur twice
      expected.push_back(run);
    }
  }
  EXPECT_EQ(Split(symbols).run, expected);
}

// Two streams swap neighbours in most of the runs.
TEST(LikeliestRunsTest, LongSequenceOfRunsThatDiffer) {
  std::mt19937 engine(13);
  constexpr uint32_t kLength = 300, kRuns = 300;
  std::vector<uint32_t> symbols, expected;
  for (uint32_t run = 0; run < kRuns; ++run) {
    std::vector<uint32_t> own(kLength);
    for (uint32_t k = 0; k < kLength; ++k) own[k] = k % 290;  // ten kernels occur twice
    for (uint32_t k = 1; k < kLength; ++k) {
      if (engine() % 100 == 0 && run > 0) std::swap(own[k - 1], own[k]);
    }
    symbols.insert(symbols.end(), own.begin(), own.end());
    expected.insert(expected.end(), kLength, run);
  }
  EXPECT_EQ(Split(symbols).run, expected);
}

// Nothing repeats: one run, as far as anybody can tell.
TEST(LikeliestRunsTest, LongSequenceWithoutOrder) {
  std::mt19937 engine(17);
  for (const uint32_t alphabet : {2, 10, 1000}) {
    std::vector<uint32_t> symbols(70'000);
    for (uint32_t& symbol : symbols) symbol = static_cast<uint32_t>(engine()) % alphabet;
    const LikeliestRuns split = Split(symbols);
    EXPECT_EQ(split.run, std::vector<uint32_t>(symbols.size(), 0)) << alphabet;
    EXPECT_TRUE(split.rivals.has_value()) << alphabet;
  }
}

// As many of each as there are runs explain nothing where their order is random.
TEST(LikeliestRunsTest, EqualCountsInRandomOrderAreDoubtful) {
  std::mt19937 engine(19);
  for (const size_t each : {1000, 4000}) {
    std::vector<uint32_t> symbols;
    for (const uint32_t symbol : {0, 1, 2}) symbols.insert(symbols.end(), each, symbol);
    std::shuffle(symbols.begin(), symbols.end(), engine);
    EXPECT_TRUE(Split(symbols).rivals.has_value()) << each;
  }
}

// ---- made worlds -----------------------------------------------------------------------

struct WorldCase {
  RunWorld world;
  double most_silent, most_flagged;  // wrong ones, in percent
};

void PrintTo(const WorldCase& tested, std::ostream* out) { *out << tested.world.name; }

class MadeWorldTest : public ::testing::TestWithParam<WorldCase> {};

// Every execution must be in its run, or doubt be told. `right`, `flagged`, `silent` are the
// rows of the table in docs/runs.md.
TEST_P(MadeWorldTest, WrongOnesAreDoubtful) {
  constexpr int kTrials = 400;
  std::mt19937 random(5);
  int right = 0, doubted = 0, flagged = 0, silent = 0;
  for (int i = 0; i < kTrials; ++i) {
    const MadeRuns made = MakeRuns(GetParam().world, &random);
    const LikeliestRuns split = SplitLikeliest(made.clues());
    const bool is_right = split.run == made.run;
    right += is_right ? 1 : 0;
    doubted += is_right && split.rivals.has_value() ? 1 : 0;
    flagged += !is_right && split.rivals.has_value() ? 1 : 0;
    silent += !is_right && !split.rivals.has_value() ? 1 : 0;
  }
  const auto percent = [&](int count) { return 100.0 * count / kTrials; };
  RecordProperty("right", std::to_string(percent(right)));
  std::printf(
      "%-44s right %5.1f %% (%4.1f %% doubted), wrong and doubted %4.1f %%, wrong and silent %4.2f "
      "%%\n",
      GetParam().world.name, percent(right), percent(doubted), percent(flagged), percent(silent));
  EXPECT_LE(percent(silent), GetParam().most_silent);
  EXPECT_LE(percent(flagged), GetParam().most_flagged);
}

INSTANTIATE_TEST_SUITE_P(
    Worlds, MadeWorldTest,
    ::testing::Values(
        WorldCase{{.name = "1 stream"}, 0.5, 1},
        WorldCase{{.name = "3 streams, launches known",
                   .most_streams = 3,
                   .launches_known = true,
                   .runs_overlap = true},
                  0.5,
                  3},
        WorldCase{{.name = "3 streams", .most_streams = 3}, 0.5, 2},
        WorldCase{
            {.name = "3 streams, runs overlap", .most_streams = 3, .runs_overlap = true}, 6, 20},
        WorldCase{{.name = "1 stream, 2 % lost", .lost = 0.02}, 0.5, 2},
        WorldCase{{.name = "3 streams, launches known, 2 % lost",
                   .most_streams = 3,
                   .launches_known = true,
                   .lost = 0.02},
                  0.5,
                  1},
        WorldCase{{.name = "3 streams, 2 % lost", .most_streams = 3, .lost = 0.02}, 0.5, 3},
        WorldCase{{.name = "3 streams, 10 % lost", .most_streams = 3, .lost = 0.10}, 1.5, 9},
        WorldCase{{.name = "a loop inside", .loops = Loops::kFixed}, 2, 15},
        WorldCase{
            {.name = "a loop inside, 3 streams", .most_streams = 3, .loops = Loops::kFixed}, 2, 12},
        WorldCase{{.name = "a loop of 1 to 4 rounds", .loops = Loops::kVarying}, 9, 50},
        WorldCase{{.name = "a loop around all kernels", .loops = Loops::kWholeBody}, 5, 90},
        WorldCase{{.name = "a loop around all kernels, its rounds wait",
                   .loops = Loops::kWholeBody,
                   .rounds_wait = true},
                  95,
                  30}),
    [](const ::testing::TestParamInfo<WorldCase>& tested) {
      return "World" + std::to_string(tested.index);
    });

}  // namespace
}  // namespace xplane_time::gpu_runs
