#include "compat/python.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace xplane_time::compat {
namespace {

// numpy sums blocks of up to 128 values with eight accumulators, and halves longer blocks.
double PairwiseSum(std::span<const double> values) {
  constexpr size_t kLanes = 8, kBlock = 128;
  const size_t n = values.size();
  if (n < kLanes) {
    double sum = -0.0;
    for (const double value : values) sum += value;
    return sum;
  }
  if (n > kBlock) {
    size_t half = n / 2;
    half -= half % kLanes;
    return PairwiseSum(values.first(half)) + PairwiseSum(values.subspan(half));
  }
  std::array<double, kLanes> lane = {};
  for (size_t i = 0; i < kLanes; ++i) lane[i] = values[i];
  size_t at = kLanes;
  for (; at + kLanes <= n; at += kLanes) {
    for (size_t i = 0; i < kLanes; ++i) lane[i] += values[at + i];
  }
  double sum =
      ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
  for (; at < n; ++at) sum += values[at];
  return sum;
}

bool IsSpace(char c) { return (c >= '\t' && c <= '\r') || c == ' ' || (c >= 0x1c && c <= 0x1f); }

}  // namespace

std::string PythonRepr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  constexpr double kFirstInScientific = 1e16, kSmallestFixed = 1e-4;
  const double size = std::fabs(value);
  const bool fixed = value == 0 || (size >= kSmallestFixed && size < kFirstInScientific);
  std::array<char, 64> text;
  const auto format = fixed ? std::chars_format::fixed : std::chars_format::scientific;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, format);
  std::string repr(text.data(), end.ptr);
  if (fixed && repr.find('.') == std::string::npos) repr += ".0";
  return repr;
}

std::string PythonBytesRepr(std::string_view bytes) {
  const bool has_single = bytes.find('\'') != std::string_view::npos;
  const char quote = has_single && bytes.find('"') == std::string_view::npos ? '"' : '\'';
  std::string repr = absl::StrCat("b", std::string(1, quote));
  for (const char c : bytes) {
    if (c == quote || c == '\\') {
      repr += {'\\', c};
    } else if (c == '\t' || c == '\n' || c == '\r') {
      repr += {'\\', c == '\t' ? 't' : c == '\n' ? 'n' : 'r'};
    } else if (c < ' ' || c == 0x7f) {
      absl::StrAppendFormat(&repr, "\\x%02x", static_cast<unsigned char>(c));
    } else {
      repr += c;
    }
  }
  return repr + quote;
}

double PythonRound(double value, int digits) {
  if (!std::isfinite(value)) return value;
  std::array<char, 512> text;  // the largest double has 309 digits before the point
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return std::strtod(text.data(), nullptr);
}

MeanStd NumpyMeanStd(std::span<const double> values) {
  const auto n = static_cast<double>(values.size());
  const double mean = PairwiseSum(values) / n;
  std::vector<double> squares;
  squares.reserve(values.size());
  for (const double value : values) squares.push_back((value - mean) * (value - mean));
  return {mean, std::sqrt(PairwiseSum(squares) / n)};
}

double PythonStdev(std::span<const double> values) {
  if (values.size() < 2) return 0;
  const auto n = static_cast<long double>(values.size());
  long double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  const long double mean = sum / n;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return static_cast<double>(std::sqrt(squares / (n - 1)));
}

std::string_view FirstWord(std::string_view text) {
  text = text.substr(0, text.find(':'));
  const auto begin = std::ranges::find_if_not(text, IsSpace);
  return {begin, std::find_if(begin, text.end(), IsSpace)};
}

std::string Lower(std::string_view text) {
  return absl::AsciiStrToLower({text.data(), text.size()});
}

absl::int128 Covered(const Spans& sorted) {
  if (sorted.empty()) return 0;
  absl::int128 total = 0;
  auto [start, end] = sorted.front();
  for (const auto& [next_start, next_end] : std::span(sorted).subspan(1)) {
    if (next_start > end) {
      total += end - start;
      start = next_start;
      end = next_end;
    } else {
      end = std::max(end, next_end);
    }
  }
  return total + end - start;
}

}  // namespace xplane_time::compat
