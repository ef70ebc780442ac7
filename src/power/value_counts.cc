#include "power/value_counts.h"

#include <bit>
#include <cmath>

#include "stats/order_statistics.h"

namespace xplane_time::power {

ValueCounts& ValueCounts::operator=(const ValueCounts& other) {
  if (this == &other) return *this;
  count_ = other.count_;
  values_ = other.values_;
  spans_ = other.spans_ == nullptr ? nullptr : std::make_unique<Sides>(*other.spans_);
  return *this;
}

void ValueCounts::Count(int64_t value, uint32_t times) {
  const auto magnitude = static_cast<uint64_t>(value < 0 ? ~value : value);
  const auto width = static_cast<int>(std::bit_width(magnitude));
  const size_t beyond = width > kBits ? static_cast<size_t>(width - kBits) : 0;
  auto& span = (value < 0 ? spans_->negative : spans_->other)[beyond];
  if (span.empty()) span.resize(beyond == 0 ? 2 * kHalf : kHalf);
  span[(magnitude >> beyond) - (beyond == 0 ? 0 : kHalf)] += times;
}

void ValueCounts::Round() {
  spans_ = std::make_unique<Sides>();
  for (const int64_t value : values_) Count(value, 1);
  values_ = {};
}

void ValueCounts::Merge(const ValueCounts& other) {
  count_ += other.count_;
  if (spans_ == nullptr && other.spans_ == nullptr) {
    values_.insert(values_.end(), other.values_.begin(), other.values_.end());
    if (values_.size() > kMostExact) Round();
    return;
  }
  if (spans_ == nullptr) Round();
  for (const int64_t value : other.values_) Count(value, 1);
  if (other.spans_ == nullptr) return;
  const auto add = [](const Spans& from, Spans* to) {
    for (size_t i = 0; i < from.size(); ++i) {
      if ((*to)[i].size() < from[i].size()) (*to)[i].resize(from[i].size());
      for (size_t k = 0; k < from[i].size(); ++k) (*to)[i][k] += from[i][k];
    }
  };
  add(other.spans_->negative, &spans_->negative);
  add(other.spans_->other, &spans_->other);
}

double ValueCounts::At(uint64_t rank) const {
  if (spans_ == nullptr) {
    return static_cast<double>(stats::AtRank(std::vector(values_), rank));
  }
  // The middle of the span with so many bits beyond.
  const auto middle = [](size_t beyond, size_t k) {
    const uint64_t leading = k + (beyond == 0 ? 0 : kHalf);
    return static_cast<double>(leading << beyond) +
           (std::ldexp(1.0, static_cast<int>(beyond)) - 1) / 2;
  };
  for (size_t beyond = spans_->negative.size(); beyond-- > 0;) {
    const auto& span = spans_->negative[beyond];
    for (size_t k = span.size(); k-- > 0;) {
      if (rank < span[k]) return -1 - middle(beyond, k);
      rank -= span[k];
    }
  }
  for (size_t beyond = 0; beyond < spans_->other.size(); ++beyond) {
    const auto& span = spans_->other[beyond];
    for (size_t k = 0; k < span.size(); ++k) {
      if (rank < span[k]) return middle(beyond, k);
      rank -= span[k];
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
  return At(stats::NearestRank(count_, share));
}

}  // namespace xplane_time::power
