// Dumps: the complete output of a reader as text. Two readers agree if their texts are equal.
// Otherwise the first different line shows the difference.
//
// Metadata tables are listed by id, because their order may differ between readers. Every line is
// decoded with all stats that its plane names. Otherwise stats would be skipped by length, and
// damage in them would not be found.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "xplane_time/read.h"
#include "xplane_time/trace.h"

namespace xplane_time::testing {

// Opens a trace by OpenTraceFromMemory and dumps all of it. Errors: those of OpenTraceFromMemory
// and VisitEvents.
absl::StatusOr<std::string> DumpBytes(std::string_view bytes, Reader reader);
// The same from files.
absl::StatusOr<std::string> DumpInputs(std::span<const Input> inputs, Reader reader);

// The difference between two readers. Empty if both refuse the trace, or if both accept it with the
// same result. DisagreementOn also compares the wire reader's two methods of reading numbers.
std::string Disagreement(const absl::StatusOr<std::string>& wire,
                         const absl::StatusOr<std::string>& protobuf);
std::string DisagreementOn(std::string_view bytes);

// The names of all stats of a plane, each once, and one name that no plane has. A request for any
// stat makes the wire reader decode all of them.
std::vector<std::string_view> AllStatNames(const Plane& plane);

// "int64 7", "str \"a\"", ...
std::string ShowValue(const StatValue& value);

}  // namespace xplane_time::testing
