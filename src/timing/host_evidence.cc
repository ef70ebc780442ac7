// CollectHostEvidence: launches and module executions that the host recorded.
#include "timing/host_evidence.h"

#include <algorithm>
#include <string>
#include <utility>

#include "xplane_time/read.h"

namespace xplane_time {
namespace {

constexpr std::string_view kModuleSuffix = ":XLA GPU module";
constexpr std::string_view kStats[] = {"correlation_id", "module_name"};

using Executions = absl::flat_hash_map<std::string, std::vector<HostEvidence::Execution>>;

// Ordered by start, with the furthest end so far.
void Order(Executions* executions) {
  for (auto& [module, list] : *executions) {
    std::stable_sort(list.begin(), list.end(), [](const auto& a, const auto& b) {
      return a.interval.start_ps < b.interval.start_ps;
    });
    int64_t furthest = kNoTimePs;
    for (HostEvidence::Execution& execution : list) {
      furthest = std::max(furthest, execution.interval.end_ps);
      execution.furthest_end_ps = furthest;
    }
  }
}

class EvidenceReader {
 public:
  EvidenceReader(const Trace& trace, HostEvidence* evidence) : trace_(trace), evidence_(evidence) {}

  absl::Status ReadLine(uint32_t line, Diagnostics* diagnostics) {
    const Plane& plane = trace_.planes[trace_.lines[line].plane];
    return VisitEvents(trace_, line, kStats, diagnostics, [&](const EventBatch& batch) {
      for (size_t row = 0; row < batch.size(); ++row) {
        if (batch.start_ps[row] == kNoTimePs || batch.metadata[row] == kNoMetadata) continue;
        Add(plane.event_metadata.entries[batch.metadata[row]].name, trace_.lines[line].timeline,
            batch, row);
      }
      return absl::OkStatus();
    });
  }

  // Of the two events that mark an execution, the inner one is used where there is no
  // outer one.
  void Finish() {
    for (auto& [module, list] : by_stat_) {
      evidence_->executions.try_emplace(module, std::move(list));
    }
    Order(&evidence_->executions);
    evidence_->launches.Finish();
  }

 private:
  void Add(std::string_view name, uint32_t line, const EventBatch& batch, size_t row) {
    const Interval interval{batch.start_ps[row], batch.start_ps[row] + batch.duration_ps[row]};
    if (name.ends_with(kModuleSuffix)) {
      name.remove_suffix(kModuleSuffix.size());
      evidence_->executions[std::string(name)].push_back({line, interval});
    } else if (!batch.Stat(1, row).text.empty()) {
      by_stat_[std::string(batch.Stat(1, row).text)].push_back({line, interval});
    }
    if (const uint64_t id = batch.Stat(0, row).bits; id != 0) {
      evidence_->launches.Add({id, interval.start_ps, line});
    }
  }

  const Trace& trace_;
  HostEvidence* evidence_;
  Executions by_stat_;
};

}  // namespace

void LaunchTable::Finish() {
  const std::span<Launch> launches = launches_.values();
  const auto before = [](const Launch& a, const Launch& b) {
    return a.correlation_id < b.correlation_id;
  };
  if (!std::is_sorted(launches.begin(), launches.end(), before)) {
    std::sort(launches.begin(), launches.end(), before);
  }
}

const LaunchTable::Launch* LaunchTable::Find(uint64_t correlation_id, size_t* place) const {
  const std::span<const Launch> launches = launches_.values();
  const auto before = [&](const Launch& launch) { return launch.correlation_id < correlation_id; };
  // Strides that double, to either side of the place, and a search in between.
  size_t low = std::min(*place, launches.size()), high = low, stride = 1;
  while (low > 0 && !before(launches[low - 1])) {
    high = low - 1;
    low -= std::min(low, std::exchange(stride, 2 * stride));
  }
  stride = 1;
  while (high < launches.size() && before(launches[high])) {
    low = high + 1;
    high = std::min(launches.size(), high + std::exchange(stride, 2 * stride));
  }
  const auto at = static_cast<size_t>(
      std::partition_point(launches.begin() + static_cast<ptrdiff_t>(low),
                           launches.begin() + static_cast<ptrdiff_t>(high), before) -
      launches.begin());
  *place = at;
  const auto is = [&](size_t i) {
    return i < launches.size() && launches[i].correlation_id == correlation_id;
  };
  return is(at) && !is(at + 1) ? &launches[at] : nullptr;
}

absl::StatusOr<HostEvidence> CollectHostEvidence(const Trace& trace, const DevicePlane& device,
                                                 Diagnostics* diagnostics) {
  const Plane& own = trace.planes[device.plane];
  HostEvidence evidence;
  EvidenceReader reader(trace, &evidence);
  for (const DevicePlane& other : FindDevicePlanes(trace)) {
    const Plane& plane = trace.planes[other.plane];
    if (plane.file != own.file || plane.host != own.host || other.kind != DeviceKind::kGpu)
      continue;
    const auto lines = std::span(trace.lines).subspan(plane.first_line, plane.line_count);
    evidence.device_count += std::any_of(lines.begin(), lines.end(),
                                         [](const Line& line) { return line.event_count > 0; });
  }
  for (const Plane& plane : trace.planes) {
    if (plane.file != own.file || plane.host != own.host) continue;
    if (!plane.name.starts_with("/host:")) continue;
    for (uint32_t line = plane.first_line; line < plane.first_line + plane.line_count; ++line) {
      absl::Status status = reader.ReadLine(line, diagnostics);
      if (!status.ok()) return status;
    }
  }
  reader.Finish();
  return evidence;
}

}  // namespace xplane_time
