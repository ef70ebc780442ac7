// Timeline: what each device and the threads of its host did when, as lanes that can be drawn.
//
//   GPU:0  steps      |-------- 0 --------|------ 1 ------|
//          runs       |-jit_f-|  |-jit_g-| |-jit_f-| ...
//          Stream #1  |a||-b-|    |c||-d-| |a||-b-|
//          Stream #2     |copy|      |copy|
//   CPU    python     |---- step ---------| |--- step -----|
//
// Enters: a trace. Leaves: every execution and step of the devices, and the runs of the functions
// that a report's filters choose, on the clock that `where` takes for the device; and every event
// of the host threads of these devices, on the profile clock. Not here: aggregated events, which
// have no place on the axis, and derived lines. Memory: 20 bytes an execution and a host event,
// beside what `where` needs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "xplane_time/diagnostics.h"
#include "xplane_time/report.h"
#include "xplane_time/trace.h"
#include "xplane_time/where.h"

namespace xplane_time::insight {

// Columns of equal length, in order of start; of what starts together the longest first. Events of
// a host thread lie in each other.
struct TimelineLane {
  enum class Of : uint8_t { kSteps, kRuns, kExecutions, kHost };

  DeviceRef device;  // kHost: the host's plane, without an ordinal
  Of of = Of::kExecutions;
  std::string line = {};  // of executions and host events
  Clock clock = Clock::kProfile;
  std::vector<int64_t> start_ps = {}, duration_ps = {};  // from the base of the capture
  std::vector<uint32_t> name = {};                       // into Timeline::names

  // "steps", "runs" or the line's.
  std::string_view name_of_lane() const;
  size_t size() const { return start_ps.size(); }
  void Add(int64_t start, int64_t duration, uint32_t of_name) {
    start_ps.push_back(start);
    duration_ps.push_back(duration);
    name.push_back(of_name);
  }
};

struct Timeline {
  // Of kernels, those first that took longest in all; then of functions, steps and host events.
  std::vector<std::string> names = {};
  // By device: its steps, its runs, its lines as they are in the trace. Then the threads of the
  // hosts, those that launch first. A line that is a device's (CPU) is not a thread, too. No lane
  // is empty.
  std::vector<TimelineLane> lanes = {};
};

// `reading` holds what OpenTrace counted. Errors: as BuildReport.
absl::StatusOr<Timeline> BuildTimeline(const Trace& trace, const ReportOptions& options,
                                       const Diagnostics& reading);

// The same from one pass over the trace with BuildReport, whose parts of devices are filled, or
// with FindWhere.
struct ReportAndTimeline {
  Report report;
  Timeline timeline;
};
absl::StatusOr<ReportAndTimeline> BuildReportAndTimeline(const Trace& trace,
                                                         const ReportOptions& options,
                                                         const Diagnostics& reading);
struct WhereAndTimeline {
  WhereReport where;
  Timeline timeline;
};
absl::StatusOr<WhereAndTimeline> FindWhereAndTimeline(const Trace& trace,
                                                      const WhereOptions& options,
                                                      const Diagnostics& reading);

}  // namespace xplane_time::insight
