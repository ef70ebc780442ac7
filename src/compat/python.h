// Numbers, texts and dicts with the behaviour of Python and numpy, and the union of time spans.
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
// statistics.stdev, in extended precision before rounding; 0 for fewer than two values.
double PythonStdev(std::span<const double> values);

// str.strip(), str.split(":")[0] and str.split()[0] with ASCII space: the first word before a
// colon; may be empty.
std::string_view FirstWord(std::string_view text);
std::string Lower(std::string_view text);

// Values by key, in the order of the keys' first use, like a dict.
template <typename Key, typename Value>
class InOrder {
 public:
  // The index of a key; a new key gets the next index, from 0.
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
// The length of their union.
absl::int128 Covered(const Spans& sorted);

}  // namespace xplane_time::compat
