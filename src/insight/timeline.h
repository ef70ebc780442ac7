// Timeline: the executions and host events of each device over time, as lanes that can be drawn.
//
//   GPU:0  steps      |-------- 0 --------|------ 1 ------|
//          runs       |-jit_f-|  |-jit_g-| |-jit_f-| ...
//          Stream #1  |a||-b-|    |c||-d-| |a||-b-|
//          Stream #2     |copy|      |copy|
//   CPU    python     |---- step ---------| |--- step -----|
//
// Input: a trace. Output: every execution and step of the devices, and the runs of the functions
// that a report's filters select, on the clock that `where` uses for the device; and every event
// of the host threads of these devices, on the profile clock. Aggregated events, which have no
// place on the axis, and derived lines are excluded. Memory: 20 bytes per execution and host event,
// in addition to that of `where`.
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

// Columns of equal length, in order of start; of events with the same start, the longest first.
// Events of a host thread are nested.
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
  // Names of kernels, longest total time first; then of functions, steps and host events.
  std::vector<std::string> names = {};
  // By device: its steps, its runs, its lines in the order of the trace. Then the threads of the
  // hosts, launching threads first. A line of a device (CPU) is not repeated as a thread. No lane
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
