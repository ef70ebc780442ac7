#include "devices/gpu_runs/idle_model.h"

#include <cmath>
#include <limits>
#include <numeric>

#include "devices/gpu_runs/costs.h"

namespace xplane_time::gpu_runs {
namespace {

// A run may also begin as soon as the one before has ended.
double Either(double longer, double back_to_back) {
  constexpr double kLonger = 0.8;
  return -std::log(kLonger * std::exp(-longer) + (1 - kLonger) * std::exp(-back_to_back));
}

}  // namespace

IdleCosts::IdleCosts(std::span<const int64_t> idle_ps) : idle_ps_(idle_ps) {
  constexpr double kLeastPs = 100'000, kLongestToLeast = 16;
  int64_t longest_ps = 0;
  for (const int64_t one_ps : idle_ps) longest_ps = std::max(longest_ps, one_ps);
  least_ps_ = std::clamp(static_cast<double>(longest_ps) / kLongestToLeast, 1.0, kLeastPs);
}

const std::vector<float>& IdleCosts::Of(size_t scale) {
  std::vector<float>& row = rows_[scale];
  if (row.size() == idle_ps_.size()) return row;
  constexpr double kExponent = 4;
  const double scale_ps = least_ps_ * static_cast<double>(uint64_t{1} << scale);
  for (const int64_t idle_ps : idle_ps_) {
    const double times = static_cast<double>(idle_ps) / scale_ps;
    row.push_back(
        static_cast<float>(std::log(scale_ps / least_ps_) + kExponent * std::log1p(times)));
  }
  return row;
}

size_t IdleCosts::Fit(const std::vector<size_t>& some) {
  size_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (size_t scale = 0; scale < kScales; ++scale) {
    const std::vector<float>& row = Of(scale);
    double sum = 0;
    for (const size_t i : some) sum += row[i];
    if (sum >= least) continue;
    least = sum;
    best = scale;
  }
  return best;
}

void IdleModel::Guess(size_t run_length) {
  std::vector<size_t> order(clues_.symbols.size() - 1);
  std::iota(order.begin(), order.end(), 1);
  if (!known() || order.empty()) return Set({});
  const size_t borders = std::min(order.size(), std::max<size_t>(1, order.size() / run_length));
  const auto cut = order.end() - static_cast<ptrdiff_t>(borders);
  std::nth_element(order.begin(), cut, order.end(),
                   [&](size_t a, size_t b) { return clues_.idle_ps[a] < clues_.idle_ps[b]; });
  Fit({order.begin(), cut}, {cut, order.end()});
}

void IdleModel::Fit(const std::vector<size_t>& inner, const std::vector<size_t>& border) {
  // What differs less may as well be two halves of one distribution.
  constexpr size_t kTwoKinds = 2;
  if (!known()) return Set({});
  const IdleScales scales{costs_.Fit(inner), costs_.Fit(border)};
  if (!inner.empty() && scales.border >= scales.inner + kTwoKinds) return Set(scales);
  std::vector<size_t> all(inner);
  all.insert(all.end(), border.begin(), border.end());
  const size_t scale = costs_.Fit(all);
  Set({scale, scale});
}

void IdleModel::Set(const IdleScales& scales) {
  scales_ = scales;
  for (size_t i = 1; i < inner_.size(); ++i) {
    if (known()) {
      inner_[i] = costs_.Of(scales.inner)[i];
      border_[i] = inner_[i];
      if (scales.border != scales.inner) {
        border_[i] = Either(costs_.Of(scales.border)[i], inner_[i]);
      }
    }
    if (clues_.FollowsOther(i)) inner_[i] = border_[i] + kOther;
  }
}

}  // namespace xplane_time::gpu_runs
