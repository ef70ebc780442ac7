// Dumps: everything that a reader gives, as text. Two readers agree when their texts
// are equal; where they are not, the first different line tells what differs.
//
// Metadata tables are listed by id, because their order is the reader's own affair. Every
// line is decoded with all stats that its plane names, so that nothing is skipped by
// length and acceptance can be compared too.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "xplane_time/read.h"
#include "xplane_time/trace.h"

namespace xplane_time::testing {

// OpenTraceFromMemory, and all of it. Errors: of that, and of VisitEvents.
absl::StatusOr<std::string> DumpBytes(std::string_view bytes, Reader reader);
// The same from files.
absl::StatusOr<std::string> DumpInputs(std::span<const Input> inputs, Reader reader);

// Empty where both readers refuse, or accept and give the same; else what differs. Also
// where the wire reader's two ways of reading numbers do.
std::string Disagreement(const absl::StatusOr<std::string>& wire,
                         const absl::StatusOr<std::string>& protobuf);
std::string DisagreementOn(std::string_view bytes);

// The names of all stats of a plane, each once, and one that no plane has: asking for any
// stat makes the wire reader decode all.
std::vector<std::string_view> AllStatNames(const Plane& plane);

// "int64 7", "str \"a\"", ...
std::string ShowValue(const StatValue& value);

}  // namespace xplane_time::testing
