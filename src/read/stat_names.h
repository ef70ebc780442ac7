// The names of stats that somebody asks for, checked before events are read.
#ifndef XPLANE_TIME_SRC_READ_STAT_NAMES_H_
#define XPLANE_TIME_SRC_READ_STAT_NAMES_H_

#include <span>
#include <string>

#include "absl/status/status.h"
#include "xplane_time/trace.h"

namespace xplane_time {

// Errors: InvalidArgument (a name twice), FailedPrecondition (no plane of the trace has such a
// stat), with the names that are near.
absl::Status CheckStatNames(const Trace& trace, std::span<const std::string> names);

}  // namespace xplane_time

#endif  // XPLANE_TIME_SRC_READ_STAT_NAMES_H_
