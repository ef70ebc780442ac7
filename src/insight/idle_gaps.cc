#include "insight/idle_gaps.h"

#include <algorithm>
#include <memory>

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

// A part of a line, and what is asked of it: gaps on its host, and the time that they are.
struct HostPart {
  struct Asked {
    std::vector<size_t> gaps;
    std::vector<Interval> within;  // merged
  };
  uint32_t line;
  LinePart part;
  std::shared_ptr<const Asked> asked;
};

// Adds what may be in a gap, neighbours as one.
void AddParts(const Trace& trace, uint32_t line, const gpu_runs::PartExtents& known,
              const std::shared_ptr<const HostPart::Asked>& asked, std::vector<HostPart>* parts) {
  constexpr uint64_t kEnoughBytes = uint64_t{1} << 20;
  bool goes_on = false;
  for (const LinePart& part : trace.lines[line].parts) {
    const auto extent = known.find(&part);
    if (extent != known.end() && std::ranges::none_of(asked->within, [&](const Interval& gap) {
          return extent->second.start_ps < gap.end_ps && gap.start_ps < extent->second.end_ps;
        })) {
      goes_on = false;
      continue;
    }
    if (goes_on) {
      parts->back().part.bytes.size += part.bytes.size;
    } else {
      parts->push_back({line, part, asked});
    }
    goes_on = parts->back().part.bytes.size < kEnoughBytes;
  }
}

// `found`: of the gaps that are asked for.
absl::Status ReadPart(const Trace& trace, const HostPart& host, const std::vector<HostGap>& gaps,
                      std::vector<Covering>* found) {
  Diagnostics ignored;
  const auto visit = [&](const EventBatch& batch) {
    for (size_t row = 0; row < batch.size(); ++row) {
      const int64_t start_ps = batch.start_ps[row], duration_ps = batch.duration_ps[row];
      if (start_ps == kNoTimePs) continue;
      for (size_t i = 0; i < host.asked->gaps.size(); ++i) {
        const Interval& gap = gaps[host.asked->gaps[i]].interval;
        const int64_t covered_ps =
            std::min(gap.end_ps, start_ps + duration_ps) - std::max(gap.start_ps, start_ps);
        if (covered_ps <= 0) continue;
        const Covering covering = {covered_ps, duration_ps, host.line, batch.metadata[row],
                                   batch.metadata_id[row]};
        if ((*found)[i] < covering) (*found)[i] = covering;
      }
    }
    return absl::OkStatus();
  };
  return VisitEvents(trace, host.line, {}, &ignored, visit,
                     {.within = host.asked->within, .part = &host.part});
}

// Of the hosts that the gaps are on.
std::vector<HostPart> HostParts(const Trace& trace, const gpu_runs::PartExtents& known,
                                const std::vector<HostGap>& gaps) {
  std::vector<HostPart> parts;
  for (const Plane& plane : trace.planes) {
    if (!plane.name.starts_with("/host:")) continue;
    auto asked = std::make_shared<HostPart::Asked>();
    for (size_t i = 0; i < gaps.size(); ++i) {
      if (!SameHost(plane, trace.planes[gaps[i].plane])) continue;
      asked->gaps.push_back(i);
      asked->within.push_back(gaps[i].interval);
    }
    if (asked->gaps.empty()) continue;
    asked->within = MergeIntervals(std::move(asked->within));
    for (uint32_t i = plane.first_line; i < plane.first_line + plane.line_count; ++i) {
      AddParts(trace, i, known, asked, &parts);
    }
  }
  return parts;
}

}  // namespace

absl::Status FindHostEvents(const Trace& trace, const gpu_runs::PartExtents& known,
                            std::vector<HostGap> gaps, int threads) {
  const std::vector<HostPart> parts = HostParts(trace, known, gaps);
  std::vector<std::vector<Covering>> found(parts.size());
  for (size_t i = 0; i < parts.size(); ++i) found[i].resize(parts[i].asked->gaps.size());
  std::vector<absl::Status> status(parts.size());
  ParallelFor(parts.size(), threads,
              [&](size_t i) { status[i] = ReadPart(trace, parts[i], gaps, &found[i]); });
  for (const absl::Status& of_part : status) RETURN_IF_ERROR(of_part);
  std::vector<Covering> most(gaps.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    for (size_t k = 0; k < found[i].size(); ++k) {
      Covering& best = most[parts[i].asked->gaps[k]];
      if (best < found[i][k]) best = found[i][k];
    }
  }
  for (size_t i = 0; i < gaps.size(); ++i) {
    const Covering& best = most[i];
    if (best.covered_ps == 0) continue;
    const Line& line = trace.lines[best.line];
    gaps[i].gap->host_thread = std::string(line.shown_name());
    gaps[i].gap->host_event = EventName(trace.planes[line.plane], best.metadata, best.metadata_id);
  }
  return absl::OkStatus();
}

}  // namespace xplane_time::insight
