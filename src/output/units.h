// Units: the times of one column in one unit, with aligned decimals.
//
// Enters: picoseconds, some unknown. Leaves: cells of equal decimals and the unit's
// name. The unit is the largest in which the largest value is at least 1, made smaller
// while the smallest would lose its digits and the largest stays below 100000.
//
//   FormatTimes({{12'345'678}, {}}, Unit::kAuto)   "us", {"12.346", "-"}
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "output/output.h"

namespace xplane_time::output {

struct TimeColumn {
  std::string_view unit;           // "ns", "us", "ms", "s"
  std::vector<std::string> cells;  // "-" where unknown
};

TimeColumn FormatTimes(const std::vector<std::optional<double>>& values_ps, Unit unit);

// The unit that FormatTimes chooses for these, for columns that are to share it. Never
// kAuto.
Unit CommonUnit(const std::vector<std::optional<double>>& values_ps, Unit unit);

// An amount a second, with the prefix of its unit: "50.0 T"; 0: "0"; unknown: "-".
std::string FormatRate(const std::optional<double>& per_second);

// One time by itself: "97.91 s".
std::string FormatTime(double ps, Unit unit);

// "3.1 MB"; powers of 1000.
std::string FormatBytes(uint64_t bytes);

// "2025-08-21 10:11:12 UTC".
std::string FormatUtc(uint64_t unix_ns);

// With that many decimals; from 1e16 on "1.234e+16".
std::string FormatFixed(double value, int decimals);

// A share of 1: "36.7"; unknown: "-".
std::string FormatPercent(std::optional<double> share);

}  // namespace xplane_time::output
