// Events as they are in the file, none skipped, with all their stats in file order: for
// those who must not see what EventReader (read.h) makes of them. Slower, and by the
// wire reader's careful way alone.
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
  std::span<const Stat> stats;  // until the next event
};

// False from `visit` ends the walk. Errors: DataLoss with file, plane, line, event and byte.
absl::Status VisitFileEvents(const Trace& trace, uint32_t line,
                             absl::FunctionRef<bool(const FileEvent&)> visit);

}  // namespace xplane_time
