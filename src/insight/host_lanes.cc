#include "insight/host_lanes.h"

#include <algorithm>
#include <array>
#include <functional>
#include <span>

#include "absl/container/flat_hash_map.h"
#include "devices/device_kind.h"
#include "parallel.h"
#include "read/event_names.h"
#include "status.h"
#include "xplane_time/read.h"

namespace xplane_time::insight {
namespace {

constexpr std::array<std::string_view, 2> kLaunchStats = {"correlation_id", "step_num"};

// A run of parts of one line, read by one thread.
struct PartRange {
  uint32_t line = 0;
  LinePart part;  // neighbours as one
};

std::vector<PartRange> FindParts(const Trace& trace, const std::set<HostKey>& hosts,
                                 const absl::flat_hash_set<uint32_t>& skipped) {
  constexpr uint64_t kEnoughBytes = uint64_t{1} << 20;
  std::vector<PartRange> ranges;
  for (const Plane& plane : trace.planes) {
    if (!plane.name.starts_with("/host:") || !hosts.contains(MakeHostKey(plane))) continue;
    for (uint32_t line = plane.first_line; line < plane.first_line + plane.line_count; ++line) {
      if (skipped.contains(trace.lines[line].timeline)) continue;
      bool goes_on = false;
      for (const LinePart& part : trace.lines[line].parts) {
        if (goes_on) {
          ranges.back().part.bytes.size += part.bytes.size;
        } else {
          ranges.push_back({line, part});
        }
        goes_on = ranges.back().part.bytes.size < kEnoughBytes;
      }
    }
  }
  return ranges;
}

absl::Status ReadRange(const Trace& trace, const PartRange& range, HostLane* lane) {
  const Plane& plane = trace.planes[trace.lines[range.line].plane];
  // Most planes have neither stat, and events are read faster without.
  const bool may_launch = std::ranges::any_of(
      kLaunchStats, [&](std::string_view name) { return HasStat(plane, name); });
  lane->line = range.line;
  EventNameIds names(plane);
  Diagnostics ignored;  // the analysis has counted them
  const auto visit = [&](const EventBatch& batch) {
    for (size_t row = 0; row < batch.size(); ++row) {
      if (batch.start_ps[row] == kNoTimePs) continue;
      lane->start_ps.push_back(batch.start_ps[row]);
      lane->duration_ps.push_back(batch.duration_ps[row]);
      lane->name.push_back(names.Find(batch, row));
      for (size_t stat = 0; stat < batch.stats.size() && !lane->launches; ++stat) {
        lane->launches = batch.Stat(stat, row).type != StatType::kAbsent;
      }
    }
    return absl::OkStatus();
  };
  const std::span<const std::string_view> stats =
      may_launch ? std::span<const std::string_view>(kLaunchStats)
                 : std::span<const std::string_view>();
  RETURN_IF_ERROR(VisitEvents(trace, range.line, stats, &ignored, visit, {.part = &range.part}));
  for (uint32_t id = 0; id < names.size(); ++id) lane->names.emplace_back(names[id]);
  return absl::OkStatus();
}

// Adds what follows on the same thread.
void AppendLane(HostLane part, HostLane* lane) {
  absl::flat_hash_map<std::string_view, uint32_t> ids;
  for (uint32_t id = 0; id < lane->names.size(); ++id) ids.emplace(lane->names[id], id);
  std::vector<uint32_t> id_of;  // by name of the part
  size_t known = lane->names.size();
  for (const std::string& name : part.names) {
    const auto [found, is_new] = ids.try_emplace(name, static_cast<uint32_t>(known));
    known += is_new ? 1 : 0;
    id_of.push_back(found->second);
  }
  const size_t before = lane->names.size();
  for (size_t i = 0; i < part.names.size(); ++i) {
    if (id_of[i] >= before) lane->names.push_back(std::move(part.names[i]));
  }
  lane->start_ps.insert(lane->start_ps.end(), part.start_ps.begin(), part.start_ps.end());
  lane->duration_ps.insert(lane->duration_ps.end(), part.duration_ps.begin(),
                           part.duration_ps.end());
  for (const uint32_t name : part.name) lane->name.push_back(id_of[name]);
  lane->launches |= part.launches;
}

}  // namespace

absl::StatusOr<std::vector<HostLane>> ReadHostLanes(const Trace& trace,
                                                    const std::set<HostKey>& hosts,
                                                    const absl::flat_hash_set<uint32_t>& skipped,
                                                    int threads) {
  const std::vector<PartRange> ranges = FindParts(trace, hosts, skipped);
  std::vector<HostLane> read(ranges.size());
  std::vector<absl::Status> status(ranges.size());
  ParallelFor(ranges.size(), threads,
              [&](size_t i) { status[i] = ReadRange(trace, ranges[i], &read[i]); });
  for (const absl::Status& of_range : status) RETURN_IF_ERROR(of_range);
  std::vector<HostLane> lanes;
  absl::flat_hash_map<uint32_t, size_t> place_of;  // by timeline
  for (HostLane& part : read) {
    if (part.start_ps.empty()) continue;
    const auto [known, is_new] =
        place_of.try_emplace(trace.lines[part.line].timeline, lanes.size());
    if (is_new) {
      lanes.push_back(std::move(part));
    } else {
      AppendLane(std::move(part), &lanes[known->second]);
    }
  }
  std::ranges::stable_sort(lanes, std::ranges::greater(), [](const HostLane& lane) {
    return std::pair(lane.launches, lane.start_ps.size());
  });
  return lanes;
}

}  // namespace xplane_time::insight
