// Mismatch: whether captures were measured in the same way.
#ifndef XPLANE_TIME_SRC_COMPARE_MISMATCH_H_
#define XPLANE_TIME_SRC_COMPARE_MISMATCH_H_

#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "xplane_time/measurements.h"

namespace xplane_time::compare {

// A fact or an option with two values among the captures of both sides is an error (a note where
// `allowed`); a fact that some captures do not tell, and a label with two values, are notes.
// Errors: FailedPrecondition.
absl::Status CheckMeasuredAlike(std::span<const Measurements> base,
                                std::span<const Measurements> head, bool allowed,
                                std::vector<std::string>* notes);

}  // namespace xplane_time::compare

#endif  // XPLANE_TIME_SRC_COMPARE_MISMATCH_H_
