// Visits raw events of a file: none is skipped, and all stats come in file order. For callers that
// need the events before EventReader (read.h) interprets them. It is slower, because it uses only
// the careful decoder of the wire reader.
#pragma once

#include <cstdint>
#include <span>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "xplane_time/trace.h"

namespace xplane_time {

struct FileEvent {
  int64_t metadata_id = 0;
  int64_t offset_ps = 0;  // 0 for an aggregated event
  int64_t duration_ps = 0;
  std::span<const Stat> stats;  // valid until the next event
};

// If `visit` returns false, the walk ends. Errors: DataLoss with file, plane, line, event and byte.
absl::Status VisitFileEvents(const Trace& trace, uint32_t line,
                             absl::FunctionRef<bool(const FileEvent&)> visit);

}  // namespace xplane_time
