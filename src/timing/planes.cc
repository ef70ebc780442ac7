#include "xplane_time/planes.h"

#include <algorithm>
#include <map>
#include <span>
#include <tuple>

#include "devices/device_kind.h"
#include "read/damaged_hosts.h"
#include "status.h"
#include "saturate.h"
#include "xplane_time/read.h"
#include "xplane_time/select.h"

namespace xplane_time {
namespace {

std::string_view TypeName(StatType type) {
  constexpr std::string_view kNames[] = {"absent", "double", "uint64", "int64",
                                         "str",    "bytes",  "ref",    "compressed_str"};
  return kNames[static_cast<size_t>(type)];
}

// (owner, name, type) -> count
using StatCounts = std::map<std::tuple<std::string, std::string, std::string>, uint64_t>;

void CountStats(const Plane& plane, std::string_view owner, std::span<const Stat> stats,
                StatCounts* counts) {
  for (const Stat& stat : stats) {
    const uint32_t at = plane.stat_metadata.Find(stat.metadata_id);
    const std::string name = at == kNoMetadata
                                 ? "(stat metadata " + std::to_string(stat.metadata_id) + ")"
                                 : std::string(plane.stat_metadata.entries[at].name);
    ++(*counts)[{std::string(owner), name, std::string(TypeName(stat.value.type))}];
  }
}

class PlaneDescriber {
 public:
  PlaneDescriber(const Trace& trace, const PlanesOptions& options, Diagnostics* diagnostics)
      : trace_(trace), options_(options), diagnostics_(diagnostics) {}

  absl::StatusOr<PlaneRow> Describe(uint32_t index) {
    const Plane& plane = trace_.planes[index];
    PlaneRow row;
    row.input = plane.file;
    row.name = plane.name;
    row.host = plane.host;
    std::optional<int64_t> ordinal;
    const KindRules* const rules = FindKindOfPlane(plane.name, &ordinal);
    if (rules != nullptr) row.kind = rules->kind;
    StatCounts counts;
    std::vector<std::string_view> names;
    if (options_.with_stats) {
      for (const StatMetadata& stat : plane.stat_metadata.entries) names.push_back(stat.name);
      std::sort(names.begin(), names.end());
      names.erase(std::unique(names.begin(), names.end()), names.end());
      CountStats(plane, "plane", plane.stats, &counts);
      for (const EventMetadata& entry : plane.event_metadata.entries) {
        const std::span<const Stat> stats(plane.metadata_stats);
        CountStats(plane, "event_metadata", stats.subspan(entry.first_stat, entry.stat_count),
                   &counts);
      }
    }
    for (uint32_t line = plane.first_line; line < plane.first_line + plane.line_count; ++line) {
      LineRow& line_row = row.lines.emplace_back();
      const bool on_host = rules == nullptr || rules->is_host;
      line_row.role =
          LineRoleName(on_host ? LineRole::kHost : rules->role(trace_.lines[line].name));
      RETURN_IF_ERROR(DescribeLine(line, names, &line_row, &counts));
      row.events += line_row.events;
      if (!line_row.first_ps.has_value()) continue;
      row.first_ps = std::min(row.first_ps.value_or(*line_row.first_ps), *line_row.first_ps);
      row.last_ps = std::max(row.last_ps.value_or(*line_row.last_ps), *line_row.last_ps);
    }
    for (const auto& [key, count] : counts) {
      row.stats.push_back({std::get<1>(key), std::get<2>(key), std::get<0>(key), count});
    }
    return row;
  }

 private:
  absl::Status DescribeLine(uint32_t index, std::span<const std::string_view> stat_names,
                            LineRow* row, StatCounts* counts) {
    const Line& line = trace_.lines[index];
    row->id = line.display_id != 0 ? line.display_id : line.id;
    row->name = line.shown_name();
    row->events = line.event_count;
    return VisitEvents(trace_, index, stat_names, diagnostics_, [&](const EventBatch& batch) {
      for (size_t i = 0; i < batch.size(); ++i) {
        row->sum_ps = SaturatingAdd(row->sum_ps, batch.duration_ps[i]);
        if (batch.start_ps[i] == kNoTimePs) continue;
        const int64_t end_ps = batch.start_ps[i] + batch.duration_ps[i];
        row->first_ps = std::min(row->first_ps.value_or(batch.start_ps[i]), batch.start_ps[i]);
        row->last_ps = std::max(row->last_ps.value_or(end_ps), end_ps);
      }
      for (size_t column = 0; column < stat_names.size(); ++column) {
        for (const StatType type : batch.stats[column].type) {
          if (type == StatType::kAbsent) continue;
          ++(*counts)[{"event", std::string(stat_names[column]), std::string(TypeName(type))}];
        }
      }
      return absl::OkStatus();
    });
  }

  const Trace& trace_;
  const PlanesOptions& options_;
  Diagnostics* diagnostics_;
};

}  // namespace

absl::StatusOr<PlanesReport> DescribePlanes(const Trace& trace, const PlanesOptions& options,
                                            const Diagnostics& reading) {
  ASSIGN_OR_RETURN(const std::vector<uint32_t> planes,
                   SelectPlanes(trace, options.device.empty() ? "all" : options.device));
  PlanesReport report;
  report.inputs = DescribeInputs(trace);
  report.capture = DescribeCapture(trace);
  Diagnostics diagnostics = reading;
  PlaneDescriber describer(trace, options, &diagnostics);
  DamagedHosts damaged(trace);
  for (const uint32_t plane : planes) {
    const uint32_t file = trace.planes[plane].file;
    if (damaged.Has(file)) continue;
    auto row = describer.Describe(plane);
    if (row.ok()) {
      report.planes.push_back(*std::move(row));
      continue;
    }
    RETURN_IF_ERROR(damaged.LeaveOut(file, row.status()));
    std::erase_if(report.planes, [&](const PlaneRow& of) { return of.input == file; });
  }
  if (report.planes.empty() && damaged.any()) return damaged.First();
  damaged.Note(&diagnostics);
  report.diagnostics = DescribeDiagnostics(trace, diagnostics);
  return report;
}

}  // namespace xplane_time
