// Analyze: the stages in order, for the selected devices.
#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "parallel.h"
#include "read/damaged_hosts.h"
#include "timing/analysis.h"
#include "timing/plane_analyzer.h"
#include "timing/plane_list.h"
#include "xplane_time/normalize.h"
#include "xplane_time/read.h"
#include "xplane_time/select.h"

namespace xplane_time {
namespace {

bool Empty(const DeviceAnalysis& device) {
  return device.totals.executions == 0 && !device.any_module;
}

absl::Status NothingExecuted(const Trace& trace, const Selection& selection,
                             const Diagnostics& diagnostics) {
  if (const uint64_t shorter = diagnostics.count(DiagnosticCode::kLeftOutByMinDuration);
      shorter > 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(trace.files[0].path, ": all ", shorter,
                     " executions are shorter than --min-duration; give a smaller one"));
  }
  const std::string asked =
      selection.text.empty() ? "the accelerators (the default)" : "--device " + selection.text;
  return absl::FailedPreconditionError(absl::StrCat(
      trace.files[0].path, ": ", asked, " executed nothing; there are: ", ListPlanes(trace),
      "; choose with --device, or --device all"));
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

// Evidence of each host, read when a device first asks for it. Thread-safe.
class EvidenceStore {
 public:
  EvidenceStore(const Trace& trace, const Selection& selection, int threads)
      : trace_(trace), threads_(threads) {
    for (const DevicePlane& plane : selection.planes) hosts_[HostOf(plane)];
  }

  absl::StatusOr<const HostEvidence*> Of(const DevicePlane& plane) {
    Host& host = hosts_.at(HostOf(plane));
    // Not std::call_once: what is thrown (out of memory) must get through it.
    const std::lock_guard<std::mutex> lock(host.mutex);
    if (!host.evidence.has_value()) host.evidence = CollectHostEvidence(trace_, plane, threads_);
    if (!host.evidence->ok()) return host.evidence->status();
    return &**host.evidence;
  }

 private:
  struct Host {
    std::mutex mutex;
    std::optional<absl::StatusOr<HostEvidence>> evidence;
  };
  using Key = std::pair<uint32_t, std::string_view>;  // file and host

  Key HostOf(const DevicePlane& plane) const {
    return {trace_.planes[plane.plane].file, trace_.planes[plane.plane].host};
  }

  const Trace& trace_;
  const int threads_;
  std::map<Key, Host> hosts_;
};

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
  device->ref = {std::string(plane.name), device->ref.ordinal, std::string(plane.host), plane.file};
  device->capture = trace.files[plane.file].capture;
  const int64_t shift_ps = HostShiftPs(trace, plane.file);
  for (RunSample& sample : device->samples) {
    sample.profile.start_ps += shift_ps;
    sample.profile.end_ps += shift_ps;
  }
}

}  // namespace

int64_t RunSample::Metric(xplane_time::Metric which) const {
  switch (which) {
    case Metric::kActive:
      return active_ps;
    case Metric::kSpan:
      return span_ps;
    case Metric::kSum:
      break;
  }
  return sum_ps;
}

absl::StatusOr<Analysis> Analyze(const Trace& trace, const ReportOptions& options,
                                 const Diagnostics& reading, Keep keep) {
  Analysis analysis;
  analysis.diagnostics = reading;
  auto filters = Filters::Compile(options);
  if (!filters.ok()) return filters.status();
  analysis.filters = *std::move(filters);
  auto selection = SelectDevices(trace, options.device);
  if (!selection.ok()) return selection.status();
  struct Result {
    absl::StatusOr<std::vector<DeviceAnalysis>> devices;
    Diagnostics diagnostics;
  };
  std::vector<Result> results(selection->planes.size());
  EvidenceStore evidence(trace, *selection, options.threads);
  const CollectOptions collect = {options.threads, options.min_duration_ps, options.max_events,
                                  options.events_done};
  const std::vector<size_t> order = LongestFirst(trace, selection->planes);
  ParallelFor(results.size(), options.threads, [&](size_t task) {
    const size_t i = order[task];
    const DevicePlane& plane = selection->planes[i];
    PlaneAnalyzer analyzer(trace, plane, *selection, collect,
                           [&evidence, &plane] { return evidence.Of(plane); });
    results[i].devices =
        analyzer.Analyze({&options, &analysis.filters, keep}, &results[i].diagnostics);
  });
  const auto file_of = [&](size_t i) { return trace.planes[selection->planes[i].plane].file; };
  DamagedHosts damaged(trace);
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].devices.ok()) continue;
    const absl::Status status = damaged.LeaveOut(file_of(i), results[i].devices.status());
    if (!status.ok()) return status;
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
    return NothingExecuted(trace, *selection, analysis.diagnostics);
  }
  CountIdle(analysis.devices, &analysis.diagnostics);
  return analysis;
}

absl::StatusOr<std::vector<DeviceRuns>> CollectRuns(const Trace& trace, const Selection& selection,
                                                    const CollectOptions& options,
                                                    Diagnostics* diagnostics) {
  EvidenceStore evidence(trace, selection, options.threads);
  std::vector<DeviceRuns> all;
  for (const DevicePlane& plane : selection.planes) {
    PlaneAnalyzer analyzer(trace, plane, selection, options, [&] { return evidence.Of(plane); });
    auto devices = analyzer.Collect(diagnostics);
    if (!devices.ok()) return devices.status();
    std::move(devices->begin(), devices->end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace xplane_time
