// Analyze: the stages in order, for the selected devices.
#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "devices/gpu_runs/host_evidence.h"
#include "parallel.h"
#include "read/damaged_hosts.h"
#include "status.h"
#include "timing/analysis.h"
#include "xplane_time/normalize.h"
#include "xplane_time/read.h"
#include "xplane_time/select.h"

namespace xplane_time {
namespace {

bool Empty(const DeviceAnalysis& device) {
  return device.row.executions == 0 && !device.any_module;
}

absl::Status NothingExecuted(const Trace& trace, const Selection& selection,
                             const Diagnostics& diagnostics) {
  if (const uint64_t shorter = diagnostics.count(DiagnosticCode::kLeftOutByMinDuration);
      shorter > 0) {
    return FailedPrecondition(trace.files[0].path, ": all ", shorter,
                              " executions are shorter than --min-duration; give a smaller one");
  }
  const std::string asked =
      selection.text.empty() ? "the accelerators (the default)" : "--device " + selection.text;
  return FailedPrecondition(trace.files[0].path, ": ", asked,
                            " executed nothing; there are: ", ListPlanes(trace),
                            "; choose with --device, or --device all");
}

// Saved captures count from their host's own start: what to add to put the hosts of a
// capture on one axis. 0 where the starts are unknown or the times are absolute already.
int64_t HostShiftPs(const Trace& trace, uint32_t file) {
  if (trace.base_ns != 0) return 0;
  uint64_t first_ns = std::numeric_limits<uint64_t>::max();
  for (const TraceFile& other : trace.files) {
    if (other.capture != trace.files[file].capture) continue;
    if (!other.profile_start_unix_ns.has_value()) return 0;
    first_ns = std::min(first_ns, *other.profile_start_unix_ns);
  }
  const uint64_t later_ns = *trace.files[file].profile_start_unix_ns - first_ns;
  return later_ns < kAxisLimitPs / 1000 ? static_cast<int64_t>(later_ns) * 1000 : 0;
}

void CountIdle(const std::vector<DeviceAnalysis>& devices, Diagnostics* diagnostics) {
  for (const DeviceAnalysis& device : devices) {
    if (!Empty(device)) continue;
    diagnostics->Count(DiagnosticCode::kIdleAccelerator, {.plane = device.plane.plane});
  }
}

// For the balance of threads.
std::vector<size_t> LongestFirst(const Trace& trace, const std::vector<DevicePlane>& planes) {
  std::vector<size_t> order(planes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return trace.planes[planes[a].plane].bytes.size > trace.planes[planes[b].plane].bytes.size;
  });
  return order;
}

// Where its plane is, and its runs on the capture's axis.
void Place(const Trace& trace, DeviceAnalysis* device) {
  const Plane& plane = trace.planes[device->plane.plane];
  device->row.device = {std::string(plane.name), device->row.device.ordinal,
                        std::string(plane.host), plane.file};
  device->capture = trace.files[plane.file].capture;
  const int64_t shift_ps = HostShiftPs(trace, plane.file);
  for (RunSample& sample : device->samples) {
    sample.profile.start_ps += shift_ps;
    sample.profile.end_ps += shift_ps;
  }
}

}  // namespace

absl::StatusOr<Analysis> Analyze(const Trace& trace, const ReportOptions& options,
                                 const Diagnostics& reading, Keep keep) {
  Analysis analysis;
  analysis.diagnostics = reading;
  ASSIGN_OR_RETURN(analysis.filters, Filters::Compile(options));
  ASSIGN_OR_RETURN(const Selection selection, SelectDevices(trace, options.device));
  struct Result {
    absl::StatusOr<std::vector<DeviceAnalysis>> devices;
    Diagnostics diagnostics;
  };
  std::vector<Result> results(selection.planes.size());
  gpu_runs::EvidenceStore evidence(trace, selection.planes, options.threads);
  const PlaneRequest request = {trace, selection, options, analysis.filters, keep};
  const std::vector<size_t> order = LongestFirst(trace, selection.planes);
  ParallelFor(results.size(), options.threads, [&](size_t task) {
    const size_t i = order[task];
    const DevicePlane& plane = selection.planes[i];
    results[i].devices = AnalyzePlane(
        request, plane, [&] { return evidence.Of(plane); }, &results[i].diagnostics);
  });
  const auto file_of = [&](size_t i) { return trace.planes[selection.planes[i].plane].file; };
  DamagedHosts damaged(trace);
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].devices.ok()) continue;
    RETURN_IF_ERROR(damaged.LeaveOut(file_of(i), results[i].devices.status()));
  }
  damaged.Note(&analysis.diagnostics);
  for (size_t i = 0; i < results.size(); ++i) {
    if (damaged.Has(file_of(i))) continue;
    Result& result = results[i];
    analysis.diagnostics.Merge(result.diagnostics);
    for (DeviceAnalysis& device : *result.devices) {
      Place(trace, &device);
      analysis.devices.push_back(std::move(device));
    }
  }
  if (std::all_of(analysis.devices.begin(), analysis.devices.end(), Empty)) {
    if (damaged.any()) return damaged.First();
    return NothingExecuted(trace, selection, analysis.diagnostics);
  }
  CountIdle(analysis.devices, &analysis.diagnostics);
  return analysis;
}

}  // namespace xplane_time
