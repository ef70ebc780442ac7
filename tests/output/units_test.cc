#include "output/text.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace xplane_time::output {
namespace {

using Cells = std::vector<std::string>;
using Values = std::vector<std::optional<double>>;

void ExpectTimes(const Values& values, std::string_view unit, const Cells& cells) {
  const TimeColumn column = FormatTimes(values, Unit::kAuto);
  EXPECT_EQ(column.unit, unit);
  EXPECT_EQ(column.cells, cells);
}

TEST(FormatTimesTest, OneUnitAndAlignedDecimals) {
  ExpectTimes({12'345'678, std::nullopt}, "us", {"12.346", "-"});
  ExpectTimes({611e6, 15.79e6}, "us", {"611.00", "15.79"});
  ExpectTimes({1e12, 2.5e12}, "s", {"1.000", "2.500"});
  ExpectTimes({0.0, 0.0}, "us", {"0.000", "0.000"});
  ExpectTimes({1.0}, "ns", {"0.001"});
  ExpectTimes({}, "us", {});
}

TEST(FormatTimesTest, SmallValuesKeepTheirDigits) {
  // In ms the small one would be "0.006".
  ExpectTimes({1'833e6, 5.5e6}, "us", {"1833.0", "5.5"});
  // Too far apart: the large one decides.
  ExpectTimes({1e12, 1e3}, "ms", {"1000.0", "0.0"});
}

TEST(FormatTimesTest, UnknownAndNotFiniteAreDashes) {
  ExpectTimes({std::numeric_limits<double>::quiet_NaN(), 1e6}, "us", {"-", "1.000"});
  ExpectTimes({std::numeric_limits<double>::infinity()}, "us", {"-"});
}

TEST(FormatTimesTest, AUnitThatWasAskedFor) {
  EXPECT_EQ(FormatTimes({1.5e9}, Unit::kS).cells[0], "0.001500");
  EXPECT_EQ(FormatTimes({1.5e9}, Unit::kNs).cells[0], "1500000");
  EXPECT_EQ(FormatTimes({1.5e9}, Unit::kMs).unit, "ms");
  EXPECT_EQ(FormatTimes({0.0}, Unit::kUs).unit, "us");
}

TEST(FormatTest, SingleValues) {
  EXPECT_EQ(FormatTime(97.916e12, Unit::kAuto), "97.916 s");
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(999), "999 B");
  EXPECT_EQ(FormatBytes(1'234'567), "1.2 MB");
  EXPECT_EQ(FormatBytes(999'999), "1.0 MB");
  EXPECT_EQ(FormatBytes(~uint64_t{0}), "18.4 EB");
  EXPECT_EQ(FormatUtc(1'755'770'000'000'000'000), "2025-08-21 09:53:20 UTC");
  EXPECT_EQ(FormatPercent(0.5274), "52.7");
  EXPECT_EQ(FormatPercent(std::nullopt), "-");
}

TEST(ChangeTextTest, SaysNoMoreDigitsThanAreOfUse) {
  EXPECT_EQ(ChangeText(1), "0.00");
  EXPECT_EQ(ChangeText(1.0123), "+1.23");
  EXPECT_EQ(ChangeText(0.5), "-50.0");
  EXPECT_EQ(ChangeText(1e50), "+1.0e+52");
  EXPECT_EQ(ChangeText(HUGE_VAL), "+inf");
}

TEST(FormatRateTest, ThreeDigitsAndAPrefix) {
  const struct {
    std::optional<double> per_second;
    std::string_view text;
  } kCases[] = {{std::nullopt, "-"}, {0, "0"},          {5.25, "5.25"},  {12.34, "12.3"},
                {999.4, "999"},      {999.6, "1.00 k"}, {1e6, "1.00 M"}, {2.5e9, "2.50 G"},
                {5e13, "50.0 T"},    {1.2e17, "120 P"}, {3e21, "3000 E"}};
  for (const auto& c : kCases) EXPECT_EQ(FormatRate(c.per_second), c.text);
}

TEST(FormatFixedTest, NoMoreDigitsThanADoubleHas) {
  EXPECT_EQ(FormatFixed(9.99e15, 1), "9990000000000000.0");
  EXPECT_EQ(FormatFixed(1.25e52, 2), "1.250e+52");
  EXPECT_EQ(FormatFixed(-1e16, 0), "-1.000e+16");
}

}  // namespace
}  // namespace xplane_time::output
