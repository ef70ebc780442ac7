// How many captures a side an open row needs, from the row's own effect and noise.
//
// Enters: the difference of the row and what its proof asks for. Leaves: a range of captures.
//
// Model. With n captures a side the estimate is normal around the true effect. Its standard error
// is hypot(spread * sqrt(2 / n), resolution), and the spread is estimated anew with its degrees of
// freedom. A row asks one of two questions:
//
//   change      The estimate lies beyond min_effect, and the row's own interval excludes zero:
//   which n
//               prove the change? All that matters is the distance of the effect from min_effect in
//               standard errors. Its estimate follows a noncentral t distribution, which covers
//               both the error of the effect and the error of the noise. `least` takes the estimate
//               as it is. `enough` takes its lower confidence bound, given that the interval
//               excludes zero: rows that just exclude it have, on average, smaller effects than
//               they show.
//   no change   Else: which n make the row `same` if it has not changed? The noise of n captures,
//               relative to the noise seen, follows Fisher's distribution, and the estimate follows
//               Student's.
//
// `enough` promises: with so many captures a side the row is decided with a probability of 80 %.
// Pure. O(log limit) evaluations of distributions a row.
#pragma once

#include <cstdint>

#include "compare/differences.h"
#include "xplane_time/compare.h"

namespace xplane_time::compare {

inline constexpr double kPower = 0.8;  // of mde, and of the captures needed
inline constexpr uint64_t kMaxCapturesNeeded = 1000;

// The true distance of an effect in standard errors, of which `seen` is an estimate that is known
// to exceed `bar`: its lower confidence bound (80 %), or 0, if that is higher.
double LowerBoundOfDistance(double seen, double bar, double df);

// The upper confidence bound of a standard error that is estimated with `df`, relative to the
// estimate.
double UpperBoundOfNoise(double df);

// The bars of a proof, in standard errors: of one of `rows` rows that are judged together.
class Proof {
 public:
  Proof(const CompareOptions& options, size_t rows);

  // Half the width of the simultaneous interval.
  double IntervalBar(double df) const;
  // To reject "no change".
  double RejectBar(double df) const;
  // The slowdown, in logs, that is proved with probability kPower.
  double DetectableLog(double standard_error, double df) const;
  // Probability of a proof, if the true effect exceeds min_effect by `beyond` standard errors.
  double Power(double beyond, double standard_error, double df) const;
  // The largest standard error with which a slowdown of max_mde is proved with probability kPower.
  double LargestError(double df) const;

  double min_effect() const { return min_effect_; }

 private:
  double interval_tail_, reject_tail_;
  double min_effect_, max_mde_;  // logs
};

// `captures`: of the side that has fewer.
CapturesNeeded FindCapturesNeeded(const Proof& proof, const Difference& difference,
                                  uint64_t captures, const CompareOptions& options);

}  // namespace xplane_time::compare
