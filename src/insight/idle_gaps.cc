#include "insight/idle_gaps.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "devices/device_kind.h"
#include "insight/host_lanes.h"
#include "parallel.h"
#include "read/event_names.h"
#include "scratch.h"
#include "sort_parts.h"
#include "status.h"
#include "xplane_time/read.h"

namespace xplane_time::insight {
namespace {

// The gaps of the devices of one host.
struct HostGaps {
  std::vector<std::vector<size_t>> devices;  // indices of gaps, in order of start
  std::vector<Interval> within;              // all of them, merged
};

struct LineEvent {
  Interval interval;
  uint32_t name = 0;
};

// A part of the time in which events of a line run, and the innermost of them.
struct SelfSegment {
  Interval interval;
  uint32_t name = 0;
};

// Takes events in order of start; of events with the same start, the longest first.
ScratchVector<SelfSegment> FindSegments(std::span<const LineEvent> events) {
  ScratchVector<SelfSegment> segments;
  std::vector<LineEvent> open;  // the innermost last
  int64_t done_ps = 0;          // up to here the time has its segments
  const auto close_until = [&](int64_t time_ps) {
    while (!open.empty()) {
      const int64_t end_ps = std::min(open.back().interval.end_ps, time_ps);
      if (end_ps > done_ps) {
        segments.push_back({{done_ps, end_ps}, open.back().name});
        done_ps = end_ps;
      }
      if (open.back().interval.end_ps > time_ps) return;
      open.pop_back();
    }
  };
  for (const LineEvent& event : events) {
    close_until(event.interval.start_ps);
    done_ps = event.interval.start_ps;
    open.push_back(event);
  }
  close_until(std::numeric_limits<int64_t>::max());
  return segments;
}

// Which event covers most of a gap. Asked for gaps in order.
class CoverSearch {
 public:
  struct Cover {
    int64_t covered_ps = 0, start_ps = 0, duration_ps = 0;
    uint32_t name = 0;
  };

  explicit CoverSearch(std::span<const LineEvent> events) : events_(events) {}

  // The event that covers most; of several the last to begin, then the shortest.
  Cover Find(const Interval& gap) {
    while (next_ < events_.size() && events_[next_].interval.start_ps <= gap.start_ps) {
      const LineEvent& event = events_[next_++];
      // One that begins later and goes on for as long is better for all later gaps.
      while (!open_.empty() && open_.back().interval.end_ps <= event.interval.end_ps) {
        open_.pop_back();
      }
      open_.push_back(event);
    }
    Cover best;
    // The ends in open_ descend: the last event that covers the whole gap, or the first.
    const auto whole = std::ranges::partition_point(
        open_, [&](const LineEvent& event) { return event.interval.end_ps >= gap.end_ps; });
    if (!open_.empty()) Take(whole == open_.begin() ? *whole : *(whole - 1), gap, &best);
    for (size_t i = next_; i < events_.size() && events_[i].interval.start_ps < gap.end_ps; ++i) {
      Take(events_[i], gap, &best);
    }
    return best;
  }

 private:
  static void Take(const LineEvent& event, const Interval& gap, Cover* best) {
    const Interval& own = event.interval;
    const int64_t covered_ps =
        std::min(gap.end_ps, own.end_ps) - std::max(gap.start_ps, own.start_ps);
    if (covered_ps <= 0 || covered_ps < best->covered_ps) return;
    const int64_t duration_ps = own.end_ps - own.start_ps;
    if (covered_ps == best->covered_ps && own.start_ps == best->start_ps &&
        duration_ps > best->duration_ps) {
      return;
    }
    *best = {covered_ps, own.start_ps, duration_ps, event.name};
  }

  const std::span<const LineEvent> events_;
  size_t next_ = 0;
  std::vector<LineEvent> open_;
};

// The events of one line in a gap.
struct LineFinding {
  uint32_t line = kNone;  // kNone: no event
  bool is_launcher = false;
  int64_t covered_ps = 0, duration_ps = 0;  // of `event`
  int64_t busy_ps = 0;
  std::string event;
  std::vector<WhereHostTime> times;

  // A launching thread that is busy for half of the gap comes first. Independent of the order in
  // which lines are read.
  bool IsBetter(const LineFinding& other) const {
    const auto key = [](const LineFinding& found) {
      return std::tuple(found.is_launcher, found.covered_ps, -found.duration_ps);
    };
    if (other.line == kNone || key(*this) != key(other)) {
      return other.line == kNone || key(*this) > key(other);
    }
    return line < other.line;
  }
};

// All lines together.
class GapFindings {
 public:
  GapFindings(const Trace& trace, std::span<HostGap> gaps)
      : trace_(trace), gaps_(gaps), best_(gaps.size()) {}

  // `lines`: those with one id, which are one thread.
  absl::Status ReadThread(std::span<const uint32_t> lines, const HostGaps& asked,
                          const gpu_runs::PartExtents& known) {
    const uint32_t line = lines.front();
    EventNameIds names(trace_.planes[trace_.lines[line].plane]);
    ScratchVector<LineEvent> events;
    for (const uint32_t each : lines) {
      RETURN_IF_ERROR(ReadEvents(each, asked, known, &names, &events));
    }
    if (events.empty()) return absl::OkStatus();
    SortParts(events.values(), [](const LineEvent& a, const LineEvent& b) {
      return a.interval.start_ps != b.interval.start_ps ? a.interval.start_ps < b.interval.start_ps
                                                        : a.interval.end_ps > b.interval.end_ps;
    });
    const ScratchVector<SelfSegment> segments = FindSegments(events.values());
    for (const std::vector<size_t>& gaps : asked.devices) {
      AddDevice(line, gaps, events.values(), segments.values(), names);
    }
    return absl::OkStatus();
  }

  void Fill() && {
    for (size_t i = 0; i < gaps_.size(); ++i) {
      LineFinding& found = best_[i];
      if (found.line == kNone) continue;
      WhereGap& gap = *gaps_[i].gap;
      gap.host_thread = std::string(trace_.lines[found.line].shown_name());
      gap.host_event = std::move(found.event);
      gap.host_busy_ps = found.busy_ps;
      gap.host_events = std::move(found.times);
    }
  }

 private:
  absl::Status ReadEvents(uint32_t line, const HostGaps& asked, const gpu_runs::PartExtents& known,
                          EventNameIds* names, ScratchVector<LineEvent>* events) const {
    const auto visit = [&](const EventBatch& batch) {
      for (size_t row = 0; row < batch.size(); ++row) {
        const int64_t start_ps = batch.start_ps[row], duration_ps = batch.duration_ps[row];
        if (start_ps == kNoTimePs || duration_ps <= 0) continue;
        events->push_back({{start_ps, start_ps + duration_ps}, names->Find(batch, row)});
      }
      return absl::OkStatus();
    };
    Diagnostics ignored;  // the analysis has counted them
    for (const LinePart& part : trace_.lines[line].parts) {
      const auto extent = known.find(&part);
      if (extent != known.end() && !Overlaps(asked.within, extent->second)) continue;
      RETURN_IF_ERROR(
          VisitEvents(trace_, line, {}, &ignored, visit, {.within = asked.within, .part = &part}));
    }
    return absl::OkStatus();
  }

  // Whether an interval overlaps one of several, which are merged.
  static bool Overlaps(std::span<const Interval> merged, const Interval& interval) {
    const auto first = std::ranges::upper_bound(merged, interval.start_ps, {}, &Interval::end_ps);
    return first != merged.end() && first->start_ps < interval.end_ps;
  }

  void AddDevice(uint32_t line, std::span<const size_t> gaps, std::span<const LineEvent> events,
                 std::span<const SelfSegment> segments, const EventNameIds& names) {
    CoverSearch covers(events);
    size_t first = 0;  // the segments before it end before the gap
    auto next = gaps.begin();
    while (first < segments.size()) {
      // Skips gaps and segments without an overlap.
      next = std::partition_point(next, gaps.end(), [&](size_t i) {
        return gaps_[i].interval.end_ps <= segments[first].interval.start_ps;
      });
      if (next == gaps.end()) return;
      const Interval& gap = gaps_[*next].interval;
      const auto at = std::ranges::partition_point(
          segments.subspan(first),
          [&](const SelfSegment& segment) { return segment.interval.end_ps <= gap.start_ps; });
      first = static_cast<size_t>(at - segments.begin());
      if (first == segments.size()) return;
      if (segments[first].interval.start_ps >= gap.end_ps) continue;
      Add(*next++, line, segments.subspan(first), names, &covers);
    }
  }

  // `segments`: from the first that overlaps the gap on.
  void Add(size_t index, uint32_t line, std::span<const SelfSegment> segments,
           const EventNameIds& names, CoverSearch* covers) {
    const Interval& gap = gaps_[index].interval;
    const CoverSearch::Cover cover = covers->Find(gap);
    LineFinding found;
    found.line = line;
    found.covered_ps = cover.covered_ps;
    found.duration_ps = cover.duration_ps;
    absl::flat_hash_map<uint32_t, int64_t> self_ps;
    for (const SelfSegment& segment : segments) {
      if (segment.interval.start_ps >= gap.end_ps) break;
      const int64_t within_ps = std::min(gap.end_ps, segment.interval.end_ps) -
                                std::max(gap.start_ps, segment.interval.start_ps);
      found.busy_ps += within_ps;
      self_ps[segment.name] += within_ps;
    }
    found.is_launcher = trace_.lines[line].timeline == gaps_[index].launch_line &&
                        found.busy_ps >= (gap.end_ps - gap.start_ps + 1) / 2;
    const std::lock_guard lock(mutex_);
    if (!found.IsBetter(best_[index])) return;
    found.event = std::string(names[cover.name]);
    for (const auto& [name, ps] : self_ps) found.times.push_back({std::string(names[name]), ps});
    std::ranges::sort(found.times, [](const WhereHostTime& a, const WhereHostTime& b) {
      return a.self_ps != b.self_ps ? a.self_ps > b.self_ps : a.event < b.event;
    });
    if (found.times.size() > kMaxHostEvents) found.times.resize(kMaxHostEvents);
    best_[index] = std::move(found);
  }

  const Trace& trace_;
  const std::span<HostGap> gaps_;
  std::mutex mutex_;
  std::vector<LineFinding> best_;
};

// By host, the devices with the longest gaps first.
std::map<HostKey, HostGaps> GroupByHost(const Trace& trace, std::span<const HostGap> gaps) {
  std::map<HostKey, std::map<uint32_t, std::vector<size_t>>> planes;
  for (size_t i = 0; i < gaps.size(); ++i) {
    planes[MakeHostKey(trace.planes[gaps[i].plane])][gaps[i].plane].push_back(i);
  }
  const auto longest_ps = [&](const std::vector<size_t>& of_plane) {
    int64_t most_ps = 0;
    for (const size_t i : of_plane) {
      most_ps = std::max(most_ps, gaps[i].interval.end_ps - gaps[i].interval.start_ps);
    }
    return most_ps;
  };
  std::map<HostKey, HostGaps> hosts;
  for (auto& [key, by_plane] : planes) {
    HostGaps& host = hosts[key];
    for (auto& [plane, of_plane] : by_plane) host.devices.push_back(std::move(of_plane));
    std::ranges::stable_sort(host.devices, std::ranges::greater(), longest_ps);
    if (host.devices.size() > kMaxDevices) host.devices.resize(kMaxDevices);
    for (std::vector<size_t>& device : host.devices) {
      std::ranges::sort(device, {}, [&](size_t i) { return gaps[i].interval.start_ps; });
      for (const size_t i : device) host.within.push_back(gaps[i].interval);
    }
    host.within = MergeIntervals(std::move(host.within));
  }
  return hosts;
}

}  // namespace

absl::Status FindHostEvents(const Trace& trace, const gpu_runs::PartExtents& known,
                            std::vector<HostGap> gaps, int threads) {
  const std::map<HostKey, HostGaps> hosts = GroupByHost(trace, gaps);
  struct Thread {
    std::vector<uint32_t> lines;
    const HostGaps* gaps;
  };
  std::vector<Thread> host_threads;
  absl::flat_hash_map<uint32_t, size_t> place_of;  // by timeline
  for (const Plane& plane : trace.planes) {
    if (!plane.name.starts_with("/host:")) continue;
    const auto host = hosts.find(MakeHostKey(plane));
    if (host == hosts.end()) continue;
    for (uint32_t i = plane.first_line; i < plane.first_line + plane.line_count; ++i) {
      const auto [known_thread, is_new] =
          place_of.try_emplace(trace.lines[i].timeline, host_threads.size());
      if (is_new) host_threads.push_back({{}, &host->second});
      host_threads[known_thread->second].lines.push_back(i);
    }
  }
  GapFindings findings(trace, gaps);
  std::vector<absl::Status> status(host_threads.size());
  ParallelFor(host_threads.size(), threads, [&](size_t i) {
    status[i] = findings.ReadThread(host_threads[i].lines, *host_threads[i].gaps, known);
  });
  for (const absl::Status& of_thread : status) RETURN_IF_ERROR(of_thread);
  std::move(findings).Fill();
  return absl::OkStatus();
}

}  // namespace xplane_time::insight
