#include "xplane_time/normalize.h"

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "tests/support/extremes.h"

namespace xplane_time {
namespace {

using testing::kMax;
using testing::kMin;
constexpr int64_t kEpochNs = 1'770'000'000'000'000'123;

Line LineAt(int64_t timestamp_ns, uint64_t event_count = 1) {
  Line line;
  line.timestamp_ns = timestamp_ns;
  line.event_count = event_count;
  return line;
}

TEST(ChooseBaseNs, IsZeroForNormalizedCaptures) {
  EXPECT_EQ(ChooseBaseNs({}), 0);
  EXPECT_EQ(ChooseBaseNs(std::vector<Line>{LineAt(0), LineAt(5'000'000'000)}), 0);
  EXPECT_EQ(ChooseBaseNs(std::vector<Line>{LineAt(-7), LineAt(kMin)}), 0);
}

TEST(ChooseBaseNs, BeginsAtTheThreshold) {
  EXPECT_EQ(ChooseBaseNs(std::vector<Line>{LineAt(kEpochTimestampNs - 1)}), 0);
  EXPECT_EQ(ChooseBaseNs(std::vector<Line>{LineAt(kEpochTimestampNs)}), kEpochTimestampNs);
}

TEST(ChooseBaseNs, IsTheSmallestEpochTimestamp) {
  EXPECT_EQ(
      ChooseBaseNs(std::vector<Line>{LineAt(kEpochNs + 9), LineAt(kEpochNs), LineAt(kEpochNs + 1)}),
      kEpochNs);
  EXPECT_EQ(ChooseBaseNs(std::vector<Line>{LineAt(12), LineAt(kEpochNs)}), kEpochNs);
  EXPECT_EQ(ChooseBaseNs(std::vector<Line>{LineAt(kMax)}), kMax);
}

TEST(ChooseBaseNs, IgnoresLinesWithoutEvents) {
  EXPECT_EQ(ChooseBaseNs(std::vector<Line>{LineAt(kEpochNs, 0), LineAt(4)}), 0);
  EXPECT_EQ(ChooseBaseNs(std::vector<Line>{LineAt(kEpochNs, 0), LineAt(kEpochNs + 5)}),
            kEpochNs + 5);
}

struct AxisCase {
  std::string name;
  int64_t timestamp_ns, base_ns, offset_ps;
  std::optional<int64_t> start_ps;
};

std::ostream& operator<<(std::ostream& out, const AxisCase& c) { return out << c.name; }

class AxisTable : public ::testing::TestWithParam<AxisCase> {};

TEST_P(AxisTable, FitsOrIsNothing) {
  const AxisCase& c = GetParam();
  EXPECT_EQ(ToAxisPs(c.timestamp_ns, c.base_ns, c.offset_ps), c.start_ps);
}

// INT64_MAX is 9'223'372'036'854'775 ns and 807 ps.
constexpr int64_t kMaxNs = kMax / 1000;

INSTANTIATE_TEST_SUITE_P(
    Normalize, AxisTable,
    ::testing::Values(
        AxisCase{"Zero", 0, 0, 0, 0}, AxisCase{"Normalized", 7, 0, 12, 7'012},
        AxisCase{"NegativeOffset", 7, 0, -12, 6'988},
        AxisCase{"Epoch", kEpochNs + 3, kEpochNs, 17, 3'017},
        AxisCase{"EpochWithoutABase", kEpochNs, 0, 0, std::nullopt},
        AxisCase{"RelativeUnderAnEpochBase", 5, kEpochNs, 0, std::nullopt},
        AxisCase{"LastPicosecond", kMaxNs, 0, 807, kMax},
        AxisCase{"OnePast", kMaxNs, 0, 808, std::nullopt},
        AxisCase{"FirstPicosecond", -kMaxNs, 0, -808, kMin},
        AxisCase{"OneBefore", -kMaxNs, 0, -809, std::nullopt},
        // The product does not fit, but the sum does.
        AxisCase{"OffsetBringsItBack", kMaxNs + 1, 0, -1'000, kMaxNs * 1000},
        AxisCase{"OffsetBringsItBackFromBelow", -kMaxNs - 1, 0, 1'000, -kMaxNs * 1000},
        AxisCase{"OffsetMax", 0, 0, kMax, kMax}, AxisCase{"OffsetMin", 0, 0, kMin, kMin},
        AxisCase{"AllMax", kMax, kMax, kMax, kMax}, AxisCase{"AllMin", kMin, kMin, kMin, kMin},
        AxisCase{"Farthest", kMax, kMin, kMax, std::nullopt},
        AxisCase{"FarthestBelow", kMin, kMax, kMin, std::nullopt}),
    [](const auto& test) { return test.param.name; });

TEST(ToAxisPs, EpochAndRelativeTimesAreTheSame) {
  for (const int64_t timestamp_ns : {0, 1, 999, 1'000'000'007}) {
    for (const int64_t offset_ps : {-5, 0, 1, 123'456'789}) {
      EXPECT_EQ(ToAxisPs(kEpochNs + timestamp_ns, kEpochNs, offset_ps),
                ToAxisPs(timestamp_ns, 0, offset_ps));
    }
  }
}

TEST(EndPs, FitsOrIsNothing) {
  EXPECT_EQ(EndPs(0, 0), 0);
  EXPECT_EQ(EndPs(-5, 7), 2);
  EXPECT_EQ(EndPs(kMin, kMax), -1);
  EXPECT_EQ(EndPs(kMax, 0), kMax);
  EXPECT_EQ(EndPs(kMax - 1, 1), kMax);
  EXPECT_EQ(EndPs(kMax - 1, 2), std::nullopt);
  EXPECT_EQ(EndPs(kMax, kMax), std::nullopt);
}

TEST(EndPs, RejectsNegativeDurations) {
  EXPECT_EQ(EndPs(10, -1), std::nullopt);
  EXPECT_EQ(EndPs(0, kMin), std::nullopt);
  EXPECT_EQ(EndPs(kMin, kMin), std::nullopt);
}

}  // namespace
}  // namespace xplane_time
