#include "stats/quantile_sketch.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "stats/order_statistics.h"

namespace xplane_time::stats {
namespace {

// Of what is rounded to `value` where so many bits are kept.
double Middle(int64_t value, int bits) {
  const auto magnitude = static_cast<uint64_t>(value < 0 ? ~value : value);
  const int beyond = std::max(0, static_cast<int>(std::bit_width(magnitude)) - bits);
  const double middle =
      static_cast<double>(magnitude >> beyond << beyond) + (std::ldexp(1.0, beyond) - 1) / 2;
  return value < 0 ? -1 - middle : middle;
}

}  // namespace

double QuantileSketch::At(const std::vector<CountedValue>& sorted, uint64_t rank) const {
  const int64_t value = CountedAtRank(sorted, rank).value;
  return values_.rounded() ? Middle(value, kBits) : static_cast<double>(value);
}

std::optional<double> QuantileSketch::Median() const {
  if (count_ == 0) return std::nullopt;
  const std::vector<CountedValue> sorted = values_.Sorted();
  const double low = At(sorted, (count_ - 1) / 2);
  return count_ % 2 == 1 ? low : (low + At(sorted, count_ / 2)) / 2;
}

std::optional<double> QuantileSketch::Quantile(double share) const {
  if (count_ == 0) return std::nullopt;
  return At(values_.Sorted(), NearestRank(count_, share));
}

}  // namespace xplane_time::stats
