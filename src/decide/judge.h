// Judge: from the race as it stands to the verdict.
//
// Ties are settled here (the incumbent, then less memory, then less energy, then the order of
// the parameters), and the bootstrap runs here and nowhere else: replicates of every variant's
// log-ratio to the pick, resampled rounds where there are eight and more, else a normal with
// their standard error. p_best is the share in which none is faster; the regret is the mean and
// the 95 % quantile of how much the fastest is.
#pragma once

#include <string_view>

#include "decide/race.h"

namespace xplane_time::decide {

// A stop reason: the pick is certified, a claim is out of reach.
constexpr std::string_view kNotWorthIt = "not_worth_it";

Verdict MakeVerdict(const Space& space, const DecideConfig& config,
                    const Observations& observations, const Race& race, Outcome outcome,
                    std::string_view stop_reason, Detail detail = Detail::kAll);

}  // namespace xplane_time::decide
