// What each way to read a sequence of kernels costs: negative log likelihoods in nats, so that
// what is seldom costs much.
#pragma once

#include <cstdint>

namespace xplane_time::gpu_runs {

inline constexpr double kSymbol = 1.2;      // each kernel of the template
inline constexpr double kAllRepeat = 3;     // a template that is a repetition itself
inline constexpr double kLoss = 4.5;        // kernels that a run lacks: the first,
inline constexpr double kLossMore = 0.7;    // and each one next to it
inline constexpr double kEdge = 5;          // the capture began or ended within a run
inline constexpr double kSwap = 1.2;        // a kernel after one that follows it, each place,
inline constexpr double kBorderSwap = 1.2;  // which is of the next run
inline constexpr double kAgain = 6;         // a loop goes round once more
inline constexpr double kForeign = 6;       // a kernel that is not in the template
inline constexpr double kOther = 1;         // another program executed within a run
inline constexpr double kHostDiffers = 5;
inline constexpr double kScramble = 3;  // a run in another order than those before
// A rival that costs less than this more makes a split doubtful.
inline constexpr double kMargin = 3.5;

inline double LossCost(int32_t count) { return count > 0 ? kLoss + kLossMore * (count - 1) : 0; }

}  // namespace xplane_time::gpu_runs
