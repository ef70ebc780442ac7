#include "timing/period.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace xplane_time {
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

std::string Split(std::string_view runs) {
  const std::vector<uint32_t> symbols = Letters(runs);
  const std::vector<uint32_t> run = SplitByPeriod(symbols, {});
  std::string text;
  for (size_t i = 0; i < symbols.size(); ++i) {
    if (i > 0 && run[i] != run[i - 1]) text += ' ';
    text += static_cast<char>('a' + symbols[i]);
  }
  return text;
}

class PeriodTest : public testing::TestWithParam<Case> {};

TEST_P(PeriodTest, SplitsIntoTheRuns) { EXPECT_EQ(Split(GetParam().runs), GetParam().runs); }

INSTANTIATE_TEST_SUITE_P(
    Runs, PeriodTest,
    testing::Values(Case{"OneKernel", "a"}, Case{"OneRun", "abcd"}, Case{"TwoRuns", "ab ab"},
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
    [](const testing::TestParamInfo<Case>& tested) { return std::string(tested.param.name); });

TEST(PeriodTest, NothingIsNothing) { EXPECT_TRUE(SplitByPeriod({}, {}).empty()); }

// The symbols alone cannot tell where the first run began; idle time can.
TEST(PeriodTest, IdleTimeChoosesThePhase) {
  const std::vector<uint32_t> symbols = Letters("cde abcde abcde abcde abcde");
  std::vector<int64_t> idle_ps(symbols.size(), 1);
  std::vector<uint32_t> expected(symbols.size(), 0);
  for (size_t i = 3; i < symbols.size(); ++i) {
    if ((i - 3) % 5 == 0) idle_ps[i] = 1000;
    expected[i] = static_cast<uint32_t>(1 + (i - 3) / 5);
  }
  EXPECT_EQ(SplitByPeriod(symbols, idle_ps), expected);
}

// Whatever the input: every element has a run, and runs count up by one.
TEST(PeriodTest, RunsAreConsecutiveOnRandomInput) {
  std::mt19937 engine(7);
  const auto random = [&] { return static_cast<uint32_t>(engine()); };
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<uint32_t> symbols(random() % 40 + 1);
    const uint32_t alphabet = random() % 6 + 1;
    for (uint32_t& symbol : symbols) symbol = random() % alphabet;
    const std::vector<uint32_t> run = SplitByPeriod(symbols, {});
    ASSERT_EQ(run.size(), symbols.size());
    ASSERT_EQ(run[0], 0u);
    for (size_t i = 1; i < run.size(); ++i) {
      ASSERT_TRUE(run[i] == run[i - 1] || run[i] == run[i - 1] + 1) << i;
    }
  }
}

// Programs of distinct kernels, with at most one loss in every fourth run, are split as
// they were made, unless the loss leaves a run that cannot be told from its neighbours.
TEST(PeriodTest, FindsSeededLosses) {
  std::mt19937 engine(11);
  const auto random = [&] { return static_cast<uint32_t>(engine()); };
  for (int trial = 0; trial < 500; ++trial) {
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
    ASSERT_EQ(SplitByPeriod(symbols, {}), expected) << "trial " << trial;
  }
}

// Long sequences take the candidate lengths of their rarest symbol.
TEST(PeriodTest, LongSequenceWithOneLoss) {
  std::vector<uint32_t> symbols, expected;
  for (uint32_t run = 0; run < 500; ++run) {
    for (uint32_t k = 0; k < 30; ++k) {
      if (run == 250 && k == 7) continue;
      symbols.push_back(k % 25);  // five kernels occur twice
      expected.push_back(run);
    }
  }
  EXPECT_EQ(SplitByPeriod(symbols, {}), expected);
}

}  // namespace
}  // namespace xplane_time
