#include "compare/needed_captures.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>

#include "stats/distributions.h"

namespace xplane_time::compare {
namespace {

using stats::FisherTail, stats::NoncentralStudentTail, stats::NormalTail, stats::StudentQuantile,
    stats::StudentTail;

// Confidence of the lower bound of the effect. The power at the bound is kPower, and higher at most
// effects above it, so that all rows together are decided with a probability above kPower. The
// simulation in needed_captures_test.cc checks this.
constexpr double kBoundConfidence = 0.8;
constexpr double kEndlessDf = std::numeric_limits<double>::infinity();
// Stands for "without a limit": the scatter of so many captures is negligible.
constexpr uint64_t kEndlessCaptures = uint64_t{1} << 40;

// What n captures a side will show, if the spread is as measured.
class Future {
 public:
  Future(const Difference& difference, const CompareOptions& options)
      : difference_(difference), paired_(options.paired) {}

  double Error(uint64_t n) const {
    return std::hypot(difference_.spread * std::sqrt(2 / static_cast<double>(n)),
                      difference_.resolution);
  }
  // Of the spread: that of Welch's test is lower than 2 n - 2 by as much as the spreads of both
  // sides differ by chance.
  double Df(uint64_t n) const {
    if (difference_.known_offset) return difference_.df;
    const double of_side = static_cast<double>(n) - 1;
    const double df = paired_ ? of_side : std::max(of_side, 2 * of_side * of_side / (of_side + 2));
    return difference_.stated ? std::min(df, kStatedDf) : df;
  }
  double ScatterDf(uint64_t n) const {
    const double of_side = static_cast<double>(n) - 1;
    return paired_ ? of_side : 2 * of_side;
  }

 private:
  const Difference& difference_;
  bool paired_;
};

// The least n from 2 on with is_enough(n), which holds for all larger n, too; empty: over the
// limit.
std::optional<uint64_t> LeastEnough(const std::function<bool(uint64_t)>& is_enough) {
  if (!is_enough(kMaxCapturesNeeded)) return std::nullopt;
  uint64_t least = 2, most = kMaxCapturesNeeded;
  while (least < most) {
    const uint64_t middle = least + (most - least) / 2;
    if (is_enough(middle)) {
      most = middle;
    } else {
      least = middle + 1;
    }
  }
  return most;
}

void Fill(const std::function<bool(uint64_t)>& is_least,
          const std::function<bool(uint64_t)>& is_enough, CapturesNeeded* needed) {
  needed->least = LeastEnough(is_least);
  needed->enough = LeastEnough(is_enough);
  if (needed->enough.has_value()) return;
  needed->unknown = is_least(kEndlessCaptures) ? "over_limit" : "resolution";
}

void NeededForChange(const Proof& proof, const Difference& difference, double own_bar,
                     const Future& future, CapturesNeeded* needed) {
  const double error = difference.standard_error;
  const double seen = (std::abs(difference.estimate) - proof.min_effect()) / error;
  const double bound =
      LowerBoundOfDistance(seen, own_bar - proof.min_effect() / error, difference.df);
  const auto proves = [&](double distance) {
    return [&, distance](uint64_t n) {
      const double then = future.Error(n);
      return proof.Power(distance * error / then, then, future.Df(n)) >= kPower;
    };
  };
  Fill(proves(seen), proves(bound), needed);
}

void NeededForNoChange(const Proof& proof, const Difference& difference, uint64_t captures,
                       const Future& future, CapturesNeeded* needed) {
  if (proof.min_effect() == 0) {
    needed->unknown = "no_min_effect";
    return;
  }
  // The largest spread of n captures with which max_mde is detectable.
  const auto largest_spread = [&](uint64_t n) {
    const double error = proof.LargestError(future.Df(n));
    const double scatter = error * error - difference.resolution * difference.resolution;
    return std::sqrt(std::max(scatter, 0.0) * static_cast<double>(n) / 2);
  };
  // Of those at hand and the others that make n: estimates of no change that are beyond min_effect.
  const auto strays = [&](uint64_t n, double df) {
    const double fresh = 2 * StudentTail(proof.min_effect() / future.Error(n), df);
    if (n <= captures) return fresh;
    const double all = static_cast<double>(n), old = static_cast<double>(captures);
    const double room = all * proof.min_effect() - old * std::abs(difference.estimate);
    const double scatter = difference.spread * std::sqrt(2 * (all - old));
    return std::max(fresh,
                    StudentTail(room / std::hypot(scatter, all * difference.resolution), df));
  };
  const auto as_measured = [&](uint64_t n) {
    return n > captures && difference.spread <= largest_spread(n) &&
           strays(n, kEndlessDf) <= 1 - kPower;
  };
  const auto is_enough = [&](uint64_t n) {
    if (difference.known_offset || n <= captures) return as_measured(n);
    const double ratio = largest_spread(n) / difference.spread;
    const double too_noisy = FisherTail(ratio * ratio, future.ScatterDf(n), difference.df);
    return too_noisy + strays(n, difference.df) <= 1 - kPower;
  };
  Fill(as_measured, is_enough, needed);
}

}  // namespace

double LowerBoundOfDistance(double seen, double bar, double df) {
  constexpr int kHalvings = 40;
  const auto is_below = [&](double distance) {
    const double selected = NoncentralStudentTail(bar, df, distance);
    return NoncentralStudentTail(seen, df, distance) < (1 - kBoundConfidence) * selected;
  };
  if (!is_below(0)) return 0;
  double below = 0, above = seen * 2 + 2;
  while (is_below(above)) above *= 2;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (below + above) / 2;
    (is_below(middle) ? below : above) = middle;
  }
  return below;
}

double UpperBoundOfNoise(double df) {
  constexpr double kKnownDf = 1e5;  // of a variance that is known
  constexpr int kHalvings = 60;
  double below = 1, above = 1e8;  // of the square
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = std::sqrt(below * above);
    (FisherTail(middle, kKnownDf, df) > 1 - kBoundConfidence ? below : above) = middle;
  }
  return std::sqrt(above);
}

Proof::Proof(const CompareOptions& options, size_t rows)
    : interval_tail_((1 - options.confidence) / 2 / static_cast<double>(rows)),
      reject_tail_(options.alpha / 2 / static_cast<double>(rows)),
      min_effect_(std::log1p(options.min_effect)),
      max_mde_(std::log1p(options.max_mde)) {}

double Proof::IntervalBar(double df) const { return StudentQuantile(interval_tail_, df); }
double Proof::RejectBar(double df) const { return StudentQuantile(reject_tail_, df); }

double Proof::DetectableLog(double standard_error, double df) const {
  const double beyond = StudentQuantile(1 - kPower, df);
  return std::max(min_effect_ + (IntervalBar(df) + beyond) * standard_error,
                  (RejectBar(df) + beyond) * standard_error);
}

double Proof::LargestError(double df) const {
  const double beyond = StudentQuantile(1 - kPower, df);
  return std::max(0.0, std::min((max_mde_ - min_effect_) / (IntervalBar(df) + beyond),
                                max_mde_ / (RejectBar(df) + beyond)));
}

double Proof::Power(double beyond, double standard_error, double df) const {
  return std::min(NoncentralStudentTail(IntervalBar(df), df, beyond),
                  NoncentralStudentTail(RejectBar(df), df, beyond + min_effect_ / standard_error));
}

CapturesNeeded FindCapturesNeeded(const Proof& proof, const Difference& difference,
                                  uint64_t captures, const CompareOptions& options) {
  CapturesNeeded needed;
  if (!(difference.df > 0) || difference.assumed) {
    needed.unknown = "noise_unknown";
    return needed;
  }
  if (!(difference.standard_error > 0)) {
    needed.unknown = "over_limit";
    return needed;
  }
  const Future future(difference, options);
  const double own_bar = StudentQuantile((1 - options.confidence) / 2, difference.df);
  const double change = std::abs(difference.estimate);
  if (change > proof.min_effect() && change > own_bar * difference.standard_error) {
    needed.question = CapturesNeeded::Question::kChange;
    NeededForChange(proof, difference, own_bar, future, &needed);
  } else {
    NeededForNoChange(proof, difference, captures, future, &needed);
  }
  return needed;
}

}  // namespace xplane_time::compare
