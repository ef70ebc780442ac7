// PlaneAnalyzer: one plane's executions go through the stages, chunk by chunk, in as many
// passes as it takes. The trace is decoded anew in each pass, so nothing is kept between
// them but what was learned:
//
//   looks     what a run splitter must know before it can split (GPU)
//   measure   chunks are split into runs and measured; again where it turns out that a
//             line is not sorted, or that a program lacks the clock it was to be
//             measured by
#ifndef XPLANE_TIME_SRC_TIMING_PLANE_ANALYZER_H_
#define XPLANE_TIME_SRC_TIMING_PLANE_ANALYZER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "devices/device_kind.h"
#include "timing/analysis.h"
#include "timing/execution_stream.h"
#include "xplane_time/report.h"

namespace xplane_time {

class PlaneAnalyzer {
 public:
  // All arguments must outlive the analyzer.
  PlaneAnalyzer(const Trace& trace, const DevicePlane& plane, const Selection& selection,
                const CollectOptions& collect, EvidenceSource evidence);

  struct Settings {
    const ReportOptions* options;
    const Filters* filters;
    Keep keep = Keep::kSummaries;
  };
  // On CPU one analysis a device_ordinal, else one.
  absl::StatusOr<std::vector<DeviceAnalysis>> Analyze(const Settings& settings,
                                                      Diagnostics* diagnostics);
  // All executions with their runs, and nothing measured.
  absl::StatusOr<std::vector<DeviceRuns>> Collect(Diagnostics* diagnostics);

 private:
  // One device of the plane within a pass.
  struct Device {
    std::unique_ptr<RunSplitter> splitter;
    std::unique_ptr<DeviceMeter> meter;
    DeviceExecutions kept;
  };
  using Devices = std::map<std::optional<int64_t>, Device>;  // by ordinal
  using ChunkVisitor = absl::FunctionRef<absl::Status(DeviceExecutions*)>;

  absl::Status ForEachChunk(ChunkVisitor visitor);
  absl::Status ForEachDevice(DeviceExecutions* chunk, Devices* devices,
                             const MeterSettings* settings);
  Device& DeviceOf(std::optional<int64_t> ordinal, const MeterSettings* settings, Devices* devices);
  absl::Status LookOnce(const MeterSettings* settings, Devices* devices);
  // Looks and measures; true where the pass counts.
  absl::StatusOr<bool> Pass(const MeterSettings* settings, Keep keep, Devices* devices);
  bool PlanHeld(ClockPlan* clocks, const Devices& devices) const;
  std::unique_ptr<RunSplitter> MakeSplitter() const;
  DeviceExecutions TakeKept(std::optional<int64_t> ordinal, Device* device) const;

  const Trace& trace_;
  const DevicePlane plane_;
  const KindRules& rules_;
  EvidenceSource evidence_;
  ExecutionStream stream_;
  ChunkSize size_ = ChunkSize::kSmall;
  // With kWhole the only chunk is read once for all passes.
  std::optional<DeviceExecutions> whole_;
};

}  // namespace xplane_time

#endif  // XPLANE_TIME_SRC_TIMING_PLANE_ANALYZER_H_
