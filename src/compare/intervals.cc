#include "compare/intervals.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace xplane_time::compare {

using stats::Mean, stats::Variance;

std::vector<double> HolmAdjusted(std::span<const double> p_values) {
  std::vector<size_t> order(p_values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return p_values[a] < p_values[b]; });
  std::vector<double> adjusted(p_values.size());
  double largest = 0;
  for (size_t rank = 0; rank < order.size(); ++rank) {
    const double factor = static_cast<double>(order.size() - rank);
    largest = std::max(largest, std::min(1.0, factor * p_values[order[rank]]));
    adjusted[order[rank]] = largest;
  }
  return adjusted;
}

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct SideMoments {
  double mean = 0, between = 0;  // variance of centres, ddof 1
  double within = 0;             // mean variance of a centre, given its process
  double within_df = 0;          // Satterthwaite's
  double k = 0;
};

// Of a sum of independent variances with their degrees of freedom.
double SatterthwaiteDf(double total, double weighted_squares) {
  return weighted_squares > 0 ? total * total / weighted_squares : kInfinity;
}

SideMoments MomentsOf(std::span<const Centre> centres) {
  std::vector<double> values(centres.size());
  double within = 0, weighted = 0;
  for (size_t i = 0; i < centres.size(); ++i) {
    const Centre& centre = centres[i];
    values[i] = centre.value;
    within += centre.variance;
    if (centre.df > 0) weighted += centre.variance * centre.variance / centre.df;
  }
  const double k = static_cast<double>(centres.size());
  const double within_df = SatterthwaiteDf(within, weighted);
  within /= k;
  // Captures that happen to agree do not make a centre surer than its samples do.
  return {Mean(values), std::max(Variance(values), within), within, within_df, k};
}

}  // namespace

Difference UnpairedDifference(std::span<const Centre> base, std::span<const Centre> head,
                              std::optional<double> offset_std) {
  const SideMoments b = MomentsOf(base), h = MomentsOf(head);
  const double shares = 1 / b.k + 1 / h.k;
  const double free = b.k + h.k - 2;
  Difference out;
  out.estimate = h.mean - b.mean;
  double variance = 0;
  if (free > 0) {
    const double pooled = ((b.k - 1) * b.between + (h.k - 1) * h.between) / free * shares;
    variance = pooled;
    out.df = free;
    if (b.k > 1 && h.k > 1) {
      const double vb = b.between / b.k, vh = h.between / h.k, welch = vb + vh;
      if (welch > 0) {
        const double df = welch * welch / (vb * vb / (b.k - 1) + vh * vh / (h.k - 1));
        out.df = std::min(free, df);
      }
      variance = std::max(pooled, welch);
    }
  }
  if (offset_std.has_value()) {
    const double wb = b.within / b.k, wh = h.within / h.k;
    const double known = *offset_std * *offset_std * shares + wb + wh;
    variance = std::max(variance, known);
    out.df = SatterthwaiteDf(known, wb * wb / b.within_df + wh * wh / h.within_df);
  }
  out.standard_error = std::sqrt(variance);
  out.spread = std::sqrt(out.df > 0 ? variance / shares : (b.within + h.within) / 2);
  return out;
}

Difference PairedDifference(std::span<const Centre> base, std::span<const Centre> head,
                            std::optional<double> offset_std) {
  std::vector<Centre> pairs(base.size());
  for (size_t i = 0; i < base.size(); ++i) {
    pairs[i] = {head[i].value - base[i].value, head[i].variance + base[i].variance,
                std::min(head[i].df, base[i].df)};
  }
  const SideMoments moments = MomentsOf(pairs);
  Difference out;
  out.estimate = moments.mean;
  double variance = moments.k > 1 ? moments.between : 0;
  out.df = moments.k - 1;
  if (offset_std.has_value()) {
    const double known = 2 * *offset_std * *offset_std + moments.within, w = moments.within;
    variance = std::max(variance, known);
    out.df = SatterthwaiteDf(known, w * w / moments.within_df);
  }
  out.standard_error = std::sqrt(variance / moments.k);
  out.spread = std::sqrt((out.df > 0 ? variance : moments.within) / 2);
  return out;
}

}  // namespace xplane_time::compare
