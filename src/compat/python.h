// Numbers, texts and dicts as Python and numpy make them, and what spans of time cover.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/numeric/int128.h"

namespace xplane_time::compat {

// repr(value): "0.1", "1e+22", "nan".
std::string PythonRepr(double value);
// repr(b"..."): "b'a\\xff'".
std::string PythonBytesRepr(std::string_view bytes);
// round(value, digits).
double PythonRound(double value, int digits);

// numpy's mean and std of float64: pairwise sums in blocks of eight.
struct MeanStd {
  double mean = 0, std = 0;
};
MeanStd NumpyMeanStd(std::span<const double> values);
// statistics.stdev, exact before it is rounded; 0 for fewer than two.
double PythonStdev(std::span<const double> values);

// str.strip() and str.split(":")[0] and str.split()[0], of ASCII space: the first word
// before a colon; empty where there is none.
std::string_view FirstWord(std::string_view text);
std::string Lower(std::string_view text);

// Values by key, in the order in which the keys came.
template <typename Key, typename Value>
class InOrder {
 public:
  // Of a new key: the next one, from 0.
  size_t PlaceOf(const Key& key) {
    const auto [found, inserted] = places_.try_emplace(key, rows_.size());
    if (inserted) rows_.emplace_back(key, Value());
    return found->second;
  }
  Value& operator[](const Key& key) { return rows_[PlaceOf(key)].second; }
  Value& at(size_t place) { return rows_[place].second; }
  const std::vector<std::pair<Key, Value>>& rows() const { return rows_; }

 private:
  std::vector<std::pair<Key, Value>> rows_;
  absl::flat_hash_map<Key, size_t> places_;
};

// [start, end] of times, in order of start.
using Spans = std::vector<std::pair<absl::int128, absl::int128>>;
// What they cover together.
absl::int128 Covered(const Spans& sorted);

}  // namespace xplane_time::compat
