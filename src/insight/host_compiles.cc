#include "insight/host_compiles.h"

#include <algorithm>
#include <array>
#include <optional>

#include "devices/gpu_runs/host_work.h"
#include "parallel.h"
#include "xplane_time/read.h"

namespace xplane_time::insight {
namespace {

using gpu_runs::IsCompileName, gpu_runs::WithoutPlace;

// Events that are one a program, by who wrote them: the same program may have one of each.
enum Writer : uint8_t { kJax, kPythonTracer, kClient, kXla, kWriterCount };

// Empty if such an event is a part of compiling.
std::optional<Writer> WriterOf(std::string_view name) {
  const std::string_view what = WithoutPlace(name);
  if (what.starts_with("backend_compile")) return what == name ? kJax : kPythonTracer;
  if (what.ends_with("Client::Compile") || what.ends_with("TpuCompiler::Compile")) return kClient;
  if (what.starts_with("XlaCompile:")) return kXla;
  return std::nullopt;
}

struct OfLine {
  std::vector<Interval> intervals;
  std::array<uint64_t, kWriterCount> counts = {};
};

absl::Status ReadLine(const Trace& trace, uint32_t line, const std::vector<bool>& compiles,
                      OfLine* found) {
  const Plane& plane = trace.planes[trace.lines[line].plane];
  Diagnostics ignored;
  return VisitEvents(trace, line, {}, &ignored, [&](const EventBatch& batch) {
    for (size_t row = 0; row < batch.size(); ++row) {
      const uint32_t metadata = batch.metadata[row];
      const int64_t start_ps = batch.start_ps[row];
      if (metadata == kNoMetadata || !compiles[metadata] || start_ps == kNoTimePs) continue;
      found->intervals.push_back({start_ps, start_ps + batch.duration_ps[row]});
      const auto writer = WriterOf(plane.event_metadata.entries[metadata].shown_name());
      if (writer.has_value()) ++found->counts[*writer];
    }
    return absl::OkStatus();
  });
}

}  // namespace

HostCompiles HostCompiles::Read(const Trace& trace, int threads) {
  HostCompiles all;
  for (const Plane& plane : trace.planes) {
    if (!plane.name.starts_with("/host:")) continue;
    std::vector<bool> compiles;
    for (const EventMetadata& entry : plane.event_metadata.entries) {
      compiles.push_back(IsCompileName(entry.shown_name()));
    }
    if (std::ranges::find(compiles, true) == compiles.end()) continue;
    std::vector<OfLine> lines(plane.line_count);
    std::vector<absl::Status> status(plane.line_count);
    ParallelFor(lines.size(), threads, [&](size_t i) {
      const auto line = plane.first_line + static_cast<uint32_t>(i);
      status[i] = ReadLine(trace, line, compiles, &lines[i]);
    });
    OfHost& host = all.hosts_[MakeHostKey(plane)];
    std::array<uint64_t, kWriterCount> counts = {};
    for (size_t i = 0; i < lines.size(); ++i) {
      if (!status[i].ok()) continue;  // the timing code reports damage
      host.intervals.insert(host.intervals.end(), lines[i].intervals.begin(),
                            lines[i].intervals.end());
      for (size_t at = 0; at < kWriterCount; ++at) counts[at] += lines[i].counts[at];
    }
    host.intervals = MergeIntervals(std::move(host.intervals));
    host.compiles += *std::ranges::max_element(counts);
  }
  return all;
}

const HostCompiles::OfHost& HostCompiles::Of(const Plane& device) const {
  static const OfHost kNone;
  const auto found = hosts_.find(MakeHostKey(device));
  return found == hosts_.end() ? kNone : found->second;
}

}  // namespace xplane_time::insight
