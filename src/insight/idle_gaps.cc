#include "insight/idle_gaps.h"

#include <algorithm>
#include <set>

#include "parallel.h"
#include "status.h"
#include "xplane_time/read.h"

namespace xplane_time::insight {
namespace {

// The event of a line that covers most of a gap; of several the shortest.
struct Covering {
  int64_t covered_ps = 0, duration_ps = 0;
  uint32_t line = 0, metadata = kNoMetadata;
  int64_t metadata_id = 0;

  bool operator<(const Covering& other) const {
    return covered_ps != other.covered_ps ? covered_ps < other.covered_ps
                                          : duration_ps > other.duration_ps;
  }
};

bool SameHost(const Plane& a, const Plane& b) { return a.file == b.file && a.host == b.host; }

absl::Status ReadLine(const Trace& trace, uint32_t line, const std::vector<HostGap>& gaps,
                      std::vector<Covering>* found) {
  const Plane& plane = trace.planes[trace.lines[line].plane];
  std::vector<size_t> own;
  for (size_t i = 0; i < gaps.size(); ++i) {
    if (SameHost(plane, trace.planes[gaps[i].plane])) own.push_back(i);
  }
  Diagnostics ignored;
  return VisitEvents(trace, line, {}, &ignored, [&](const EventBatch& batch) {
    for (size_t row = 0; row < batch.size(); ++row) {
      const int64_t start_ps = batch.start_ps[row], duration_ps = batch.duration_ps[row];
      if (start_ps == kNoTimePs) continue;
      for (const size_t i : own) {
        const Interval& gap = gaps[i].interval;
        const int64_t covered_ps =
            std::min(gap.end_ps, start_ps + duration_ps) - std::max(gap.start_ps, start_ps);
        if (covered_ps <= 0) continue;
        const Covering covering = {covered_ps, duration_ps, line, batch.metadata[row],
                                   batch.metadata_id[row]};
        if ((*found)[i] < covering) (*found)[i] = covering;
      }
    }
    return absl::OkStatus();
  });
}

// Of the hosts that the gaps are on.
std::vector<uint32_t> HostLines(const Trace& trace, const std::vector<HostGap>& gaps) {
  std::vector<uint32_t> lines;
  for (const Plane& plane : trace.planes) {
    const bool wanted =
        plane.name.starts_with("/host:") && std::ranges::any_of(gaps, [&](const HostGap& gap) {
          return SameHost(plane, trace.planes[gap.plane]);
        });
    for (uint32_t i = 0; wanted && i < plane.line_count; ++i) lines.push_back(plane.first_line + i);
  }
  return lines;
}

}  // namespace

absl::Status FindHostEvents(const Trace& trace, std::vector<HostGap> gaps, int threads) {
  const std::vector<uint32_t> lines = HostLines(trace, gaps);
  std::vector<std::vector<Covering>> found(lines.size(), std::vector<Covering>(gaps.size()));
  std::vector<absl::Status> status(lines.size());
  ParallelFor(lines.size(), threads,
              [&](size_t i) { status[i] = ReadLine(trace, lines[i], gaps, &found[i]); });
  for (const absl::Status& of_line : status) RETURN_IF_ERROR(of_line);
  for (size_t i = 0; i < gaps.size(); ++i) {
    Covering best;
    for (const std::vector<Covering>& of_line : found) {
      if (best < of_line[i]) best = of_line[i];
    }
    if (best.covered_ps == 0) continue;
    const Line& line = trace.lines[best.line];
    gaps[i].gap->host_thread = std::string(line.shown_name());
    gaps[i].gap->host_event = EventName(trace.planes[line.plane], best.metadata, best.metadata_id);
  }
  return absl::OkStatus();
}

}  // namespace xplane_time::insight
