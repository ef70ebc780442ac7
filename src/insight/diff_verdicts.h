// Verdicts on the rows of a diff: how much of a change may be chance.
//
// A capture counts for a row if the row's functions ran in it. A row is judged if each side has
// two captures that count (with `paired`: two pairs; with `offset_std`, which states how much
// captures differ: two units). Every other row has a reason instead of an interval.
//
// Time: O(rows * (captures + log rows)).
#pragma once

#include <array>
#include <vector>

#include "insight/diff_amounts.h"

namespace xplane_time::insight {

// Rows below this share of the total are small: too many to be judged all together.
inline constexpr double kSmallShare = 0.001;

// Fills interval, p-value, verdict and reason of each draft's row; the last draft is the total.
// `clock_step_ps`: the larger of both sides'.
void JudgeDrafts(const std::array<Units, kSides>& units, const DiffReport& report,
                 int64_t clock_step_ps, std::vector<Draft>* drafts);

}  // namespace xplane_time::insight
