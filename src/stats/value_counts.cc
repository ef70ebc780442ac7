#include "stats/value_counts.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "stats/order_statistics.h"

namespace xplane_time::stats {

void ValueCounts::Count(int64_t value, uint32_t times) {
  const auto magnitude = static_cast<uint64_t>(value < 0 ? ~value : value);
  const auto width = static_cast<int>(std::bit_width(magnitude));
  const size_t beyond = width > kBits ? static_cast<size_t>(width - kBits) : 0;
  auto& span = sides_[value < 0 ? 0 : 1][beyond];
  if (span.empty()) span.resize(beyond == 0 ? 2 * kHalf : kHalf);
  span[(magnitude >> beyond) - (beyond == 0 ? 0 : kHalf)] += times;
}

void ValueCounts::Round() {
  sides_.resize(2);
  for (const int64_t value : values_) Count(value, 1);
  values_ = {};
}

void ValueCounts::Merge(const ValueCounts& other) {
  count_ += other.count_;
  if (sides_.empty() && other.sides_.empty()) {
    values_.insert(values_.end(), other.values_.begin(), other.values_.end());
    if (values_.size() > kMostExact) Round();
    return;
  }
  if (sides_.empty()) Round();
  for (const int64_t value : other.values_) Count(value, 1);
  for (size_t side = 0; side < other.sides_.size(); ++side) {
    for (size_t i = 0; i < sides_[side].size(); ++i) {
      const auto& from = other.sides_[side][i];
      auto& to = sides_[side][i];
      to.resize(std::max(to.size(), from.size()));
      for (size_t k = 0; k < from.size(); ++k) to[k] += from[k];
    }
  }
}

double ValueCounts::At(uint64_t rank) const {
  if (sides_.empty()) return static_cast<double>(AtRank(std::vector(values_), rank));
  // The middle of the span with so many bits beyond.
  const auto middle = [](size_t beyond, size_t k) {
    const uint64_t leading = k + (beyond == 0 ? 0 : kHalf);
    return static_cast<double>(leading << beyond) +
           (std::ldexp(1.0, static_cast<int>(beyond)) - 1) / 2;
  };
  const Spans &negative = sides_[0], &other = sides_[1];
  for (size_t beyond = negative.size(); beyond-- > 0;) {
    for (size_t k = negative[beyond].size(); k-- > 0;) {
      if (rank < negative[beyond][k]) return -1 - middle(beyond, k);
      rank -= negative[beyond][k];
    }
  }
  for (size_t beyond = 0; beyond < other.size(); ++beyond) {
    for (size_t k = 0; k < other[beyond].size(); ++k) {
      if (rank < other[beyond][k]) return middle(beyond, k);
      rank -= other[beyond][k];
    }
  }
  return 0;  // no such rank
}

std::optional<double> ValueCounts::Median() const {
  if (count_ == 0) return std::nullopt;
  const double low = At((count_ - 1) / 2);
  return count_ % 2 == 1 ? low : (low + At(count_ / 2)) / 2;
}

std::optional<double> ValueCounts::Quantile(double share) const {
  if (count_ == 0) return std::nullopt;
  return At(NearestRank(count_, share));
}

}  // namespace xplane_time::stats
