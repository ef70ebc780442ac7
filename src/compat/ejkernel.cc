// ejkernel/ops/execution/profiler.py, Profiler.get_events_from_plane, on raw protos.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compat/keyed_events.h"
#include "compat/python.h"

namespace xplane_time::compat {
namespace {

// 0 and "" read as None. A reference to nothing reads as "".
std::optional<std::string> EjkernelText(const StatValue& value, const Plane& plane) {
  const auto or_none = [](bool set, std::string text) { return set ? std::move(text) : "None"; };
  switch (value.type) {
    case StatType::kDouble: {
      const double number = std::bit_cast<double>(value.bits);
      return or_none(number != 0, PythonRepr(number));
    }
    case StatType::kUint64:
      return or_none(value.bits != 0, absl::StrCat(value.bits));
    case StatType::kInt64:
      return or_none(value.bits != 0, absl::StrCat(static_cast<int64_t>(value.bits)));
    case StatType::kString:
      return or_none(!value.text.empty(), std::string(value.text));
    case StatType::kBytes:
      return or_none(!value.text.empty(), PythonBytesRepr(value.text));
    case StatType::kRef:
      return or_none(value.bits != 0, std::string(ReferencedName(plane.stat_metadata, value.bits)));
    case StatType::kAbsent:
    case StatType::kCompressedString:  // its proto has none
      break;
  }
  return "None";
}

// int(min_duration_ns * 1000)
Picoseconds LeastPs(double min_duration_ns) {
  const double least_ps = std::trunc(min_duration_ns * 1000);
  constexpr double kLimit = 1e30;  // beyond every duration
  return Picoseconds(std::clamp(least_ps, -kLimit, kLimit));
}

class Reading {
 public:
  Reading(const Trace& trace, uint32_t plane, const EjkernelOptions& options)
      : trace_(trace),
        plane_(trace.planes[plane]),
        options_(options),
        stats_(plane_, &EjkernelText),
        children_(keys_, options.children) {}

  absl::Status Read() {
    const uint64_t most = options_.max_events.value_or(std::numeric_limits<uint64_t>::max());
    const Picoseconds least_ps = LeastPs(options_.min_duration_ns);
    for (uint32_t i = 0; i < plane_.line_count && events_.size() < most; ++i) {
      absl::Status status =
          VisitFileEvents(trace_, plane_.first_line + i, [&](const FileEvent& event) {
            if (Picoseconds(event.duration_ps) >= least_ps) Add(event);
            return events_.size() < most;
          });
      if (!status.ok()) return status;
    }
    SortByStart(&events_);
    return absl::OkStatus();
  }

  // The last event of a key gives its time, the first one its place. Only these matter,
  // unless negative durations make times that do not count.
  std::vector<KeyTime> Times() {
    std::vector<size_t> last(keys_.size());
    for (size_t i = 0; i < events_.size(); ++i) last[events_[i].key] = i;
    std::vector<KeyTime> times;
    std::vector<size_t> place(keys_.size(), kNowhere);
    for (size_t i = 0; i < events_.size(); ++i) {
      const KeyId key = events_[i].key;
      const std::string& text = keys_.Text(key);
      if (!absl::StartsWith(text, options_.prefix)) continue;
      const bool matters = any_negative_ || last[key] == i;
      const double time_s = matters ? SecondsOf(TimeOf(events_[i])) : 0;
      if (time_s < 0) continue;
      if (place[key] == kNowhere) {
        place[key] = times.size();
        times.push_back({text, 0});
      }
      times[place[key]].time_s = time_s;
    }
    return times;
  }

 private:
  static constexpr size_t kNowhere = ~size_t{0};

  Picoseconds TimeOf(const KeyedEvent& event) {
    return options_.children ? Covered(event) : event.end_ps - event.start_ps;
  }

  void Add(const FileEvent& event) {
    const KeyStats stats = stats_.Read(event);
    const auto name = stats[kHloModule].value_or(std::string(RawName(plane_, event.metadata_id)));
    const auto program = stats[kProgramId].value_or(stats[kRunId].value_or("None"));
    const auto scope = stats[kScopeRangeId].value_or("None");
    const KeyId key = keys_.IdOf(absl::StrCat(name, "(", program, "-", scope, ")"));
    const Picoseconds start_ps = event.offset_ps;
    events_.push_back({key, start_ps, start_ps + event.duration_ps});
    any_negative_ |= event.duration_ps < 0;
  }

  // What the children of an event cover.
  Picoseconds Covered(const KeyedEvent& at) {
    std::vector<std::pair<Picoseconds, Picoseconds>> found;
    if (at.end_ps < at.start_ps) return 0;
    for (const KeyedEvent& event : StartingIn(events_, at.start_ps, at.end_ps)) {
      if (event.key == at.key || event.end_ps > at.end_ps) continue;
      if (children_.Passes(event.key)) found.emplace_back(event.start_ps, event.end_ps);
    }
    return Merged(&found);
  }

  static Picoseconds Merged(std::vector<std::pair<Picoseconds, Picoseconds>>* intervals) {
    if (intervals->empty()) return 0;
    std::sort(intervals->begin(), intervals->end());
    Picoseconds total_ps = 0;
    auto [start_ps, end_ps] = intervals->front();
    for (const auto& [next_start_ps, next_end_ps] : std::span(*intervals).subspan(1)) {
      if (next_start_ps > end_ps) {
        total_ps += end_ps - start_ps;
        start_ps = next_start_ps;
        end_ps = next_end_ps;
      } else {
        end_ps = std::max(end_ps, next_end_ps);
      }
    }
    return total_ps + end_ps - start_ps;
  }

  const Trace& trace_;
  const Plane& plane_;
  const EjkernelOptions& options_;
  const KeyStatReader stats_;
  Keys keys_;
  KeyTest children_;
  std::vector<KeyedEvent> events_;
  bool any_negative_ = false;
};

}  // namespace

absl::StatusOr<std::vector<KeyTime>> EjkernelTimes(const Trace& trace, uint32_t plane,
                                                   const EjkernelOptions& options) {
  if (!std::isfinite(options.min_duration_ns)) {
    return absl::InvalidArgumentError("min_duration_ns: a finite number is needed");
  }
  Reading reading(trace, plane, options);
  if (absl::Status status = reading.Read(); !status.ok()) return status;
  return reading.Times();
}

}  // namespace xplane_time::compat
