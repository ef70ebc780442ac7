#include "output/units.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <ctime>
#include <utility>

namespace xplane_time::output {
namespace {

struct Scale {
  std::string_view name;
  double ps;
  int max_decimals;  // one picosecond
};

// In the order of Unit, after kAuto.
constexpr std::array<Scale, 4> kScales = {{
    {"ns", 1e3, 3},
    {"us", 1e6, 6},
    {"ms", 1e9, 9},
    {"s", 1e12, 12},
}};

// Four to five significant digits of the largest value.
int Decimals(double largest, const Scale& scale) {
  int decimals = 3;
  if (largest >= 100) decimals = 2;
  if (largest >= 1000) decimals = 1;
  if (largest >= 100000) decimals = 0;
  if (largest > 0 && largest < 1) decimals = 3 + static_cast<int>(-std::floor(std::log10(largest)));
  return std::min(decimals, scale.max_decimals);
}

bool IsKnown(const std::optional<double>& value) { return value && std::isfinite(*value); }

size_t ChooseScale(double smallest_ps, double largest_ps) {
  size_t chosen = kScales.size() - 1;
  while (chosen > 0 && largest_ps < kScales[chosen].ps) --chosen;
  while (chosen > 0) {
    const Scale& scale = kScales[chosen];
    const double resolution = std::pow(10, -Decimals(largest_ps / scale.ps, scale));
    const bool digits_are_lost = smallest_ps / scale.ps < 100 * resolution;
    if (!digits_are_lost || largest_ps / kScales[chosen - 1].ps >= 1e5) break;
    --chosen;
  }
  return chosen;
}

// Divided by 1000 until it is below `most`, but for the last of the units; and how often.
std::pair<double, size_t> Scaled(double value, double most, size_t units) {
  size_t unit = 0;
  for (; std::abs(value) >= most && unit + 1 < units; ++unit) value /= 1000;
  return {value, unit};
}

}  // namespace

std::string FormatFixed(double value, int decimals) {
  if (value == 0) value = 0;            // no "-0"
  constexpr double kFixedBelow = 1e16;  // more digits than a double has
  const bool fixed = !(std::abs(value) >= kFixedBelow);
  std::array<char, 400> buffer;
  const auto result = std::to_chars(
      buffer.data(), buffer.data() + buffer.size(), value,
      fixed ? std::chars_format::fixed : std::chars_format::scientific, fixed ? decimals : 3);
  return std::string(buffer.data(), result.ptr);
}

Unit CommonUnit(const std::vector<std::optional<double>>& values_ps, Unit unit) {
  if (unit != Unit::kAuto) return unit;
  double smallest = HUGE_VAL, largest = 0;
  for (const auto& value : values_ps) {
    if (!IsKnown(value) || *value == 0) continue;
    largest = std::max(largest, std::abs(*value));
    smallest = std::min(smallest, std::abs(*value));
  }
  if (largest == 0) return Unit::kUs;  // nothing but zeros
  return static_cast<Unit>(ChooseScale(smallest, largest) + 1);
}

TimeColumn FormatTimes(const std::vector<std::optional<double>>& values_ps, Unit unit) {
  const Scale& scale = kScales[static_cast<size_t>(CommonUnit(values_ps, unit)) - 1];
  double largest = 0;
  for (const auto& value : values_ps) {
    if (IsKnown(value)) largest = std::max(largest, std::abs(*value));
  }
  const int decimals = Decimals(largest / scale.ps, scale);
  TimeColumn column = {.unit = scale.name, .cells = {}};
  column.cells.reserve(values_ps.size());
  for (const auto& value : values_ps) {
    column.cells.push_back(IsKnown(value) ? FormatFixed(*value / scale.ps, decimals) : "-");
  }
  return column;
}

std::string FormatRate(const std::optional<double>& per_second) {
  if (!IsKnown(per_second)) return "-";
  if (*per_second == 0) return "0";
  static constexpr const char* kPrefixes[] = {"", " k", " M", " G", " T", " P", " E"};
  const auto [value, prefix] = Scaled(*per_second, 999.5, std::size(kPrefixes));
  const double size = std::abs(value);
  return FormatFixed(value, size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2) + kPrefixes[prefix];
}

std::string FormatTime(double ps, Unit unit) {
  const TimeColumn column = FormatTimes({ps}, unit);
  return column.cells[0] + " " + std::string(column.unit);
}

std::string FormatBytes(uint64_t bytes) {
  if (bytes < 1000) return std::to_string(bytes) + " B";
  static constexpr const char* kUnits[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
  const auto [value, unit] = Scaled(static_cast<double>(bytes) / 1000, 999.95, std::size(kUnits));
  return FormatFixed(value, 1) + " " + kUnits[unit];
}

std::string FormatUtc(uint64_t unix_ns) {
  const auto seconds = static_cast<std::time_t>(unix_ns / 1'000'000'000);
  std::tm parts = {};
  if (gmtime_r(&seconds, &parts) == nullptr) return "-";
  std::array<char, 64> buffer;
  const size_t size = std::strftime(buffer.data(), buffer.size(), "%Y-%m-%d %H:%M:%S UTC", &parts);
  return std::string(buffer.data(), size);
}

std::string FormatPercent(std::optional<double> share) {
  return IsKnown(share) ? FormatFixed(*share * 100, 1) : "-";
}

}  // namespace xplane_time::output
