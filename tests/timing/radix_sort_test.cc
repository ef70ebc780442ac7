// Compares RadixSort with std::sort, around the size at which it begins to sort by digits.
#include "timing/radix_sort.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <vector>

#include "tests/support/extremes.h"

namespace xplane_time {
namespace {

using testing::kMax;
using testing::kMin;
constexpr size_t kSizes[] = {0, 1, 2, 3, 511, 512, 513, 5000};

void ExpectSorted(std::vector<int64_t> values) {
  std::vector<int64_t> expected = values;
  std::sort(expected.begin(), expected.end());
  RadixSort(&values);
  EXPECT_EQ(values, expected);
}

// Checks every size with the values of `value_at`.
void ExpectEverySizeSorted(const std::function<int64_t(int64_t)>& value_at) {
  for (const size_t size : kSizes) {
    SCOPED_TRACE(size);
    std::vector<int64_t> values(size);
    for (size_t i = 0; i < size; ++i) values[i] = value_at(static_cast<int64_t>(i));
    ExpectSorted(values);
  }
}

TEST(RadixSort, AllEqual) {
  for (const int64_t value : {int64_t{0}, int64_t{7}, int64_t{-7}, kMin, kMax}) {
    ExpectEverySizeSorted([=](int64_t /*i*/) { return value; });
  }
}

TEST(RadixSort, SortedAlready) {
  ExpectEverySizeSorted([](int64_t i) { return 3 * i - 2000; });
}

TEST(RadixSort, Reversed) {
  ExpectEverySizeSorted([](int64_t i) { return 2000 - 3 * i; });
}

TEST(RadixSort, NegativeBeforePositive) {
  ExpectEverySizeSorted([](int64_t i) { return i % 2 == 0 ? i : -i; });
}

TEST(RadixSort, BothEndsOfTheRange) {
  ExpectEverySizeSorted([](int64_t i) {
    const int64_t values[] = {kMax, 0, kMin, -1, kMin + 1, 1, kMax - 1};
    return values[i % 7];
  });
}

// The values differ in only one digit, for each digit.
TEST(RadixSort, EveryDigitCounts) {
  for (int shift = 0; shift < 64; ++shift) {
    SCOPED_TRACE(shift);
    ExpectEverySizeSorted([=](int64_t i) {
      return static_cast<int64_t>(static_cast<uint64_t>(i * 7919 % 4) << shift);
    });
  }
}

// Ranges of values around the width of a digit, with a random minimum.
TEST(RadixSort, RandomInNarrowAndWideRanges) {
  std::mt19937_64 random(20);
  for (int bits = 1; bits <= 64; ++bits) {
    const auto low = static_cast<int64_t>(random());
    SCOPED_TRACE(bits);
    ExpectEverySizeSorted([&](int64_t /*i*/) {
      const uint64_t above = random() >> (64 - bits);
      return static_cast<int64_t>(static_cast<uint64_t>(low) + above);
    });
  }
}

}  // namespace
}  // namespace xplane_time
