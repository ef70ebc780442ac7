// tune_jax/profile_reader/parse_profile.py, get_events_from_plane.
#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compat/keyed_events.h"
#include "compat/python.h"

namespace xplane_time::compat {
namespace {

constexpr int64_t kChildTolerancePs = 2000;

std::optional<std::string> Written(const StatValue& value, const Plane& plane) {
  switch (value.type) {
    case StatType::kDouble:
      return PythonRepr(std::bit_cast<double>(value.bits));
    case StatType::kUint64:
      return absl::StrCat(value.bits);
    case StatType::kInt64:
      return absl::StrCat(static_cast<int64_t>(value.bits));
    case StatType::kString:
      return std::string(value.text);
    case StatType::kRef:
      return std::string(ReferencedName(plane.stat_metadata, value.bits));
    default:
      return std::nullopt;
  }
}

// What protobuf's Python classes give.
std::optional<std::string> ProtoText(const StatValue& value, const Plane& plane) {
  if (value.type == StatType::kBytes) return PythonBytesRepr(value.text);
  const auto refers_to = static_cast<int64_t>(value.bits);
  const bool lost =
      value.type == StatType::kRef && plane.stat_metadata.Find(refers_to) == kNoMetadata;
  return lost ? "None" : Written(value, plane).value_or("None");
}

// What jax.profiler.ProfileData gives; stats without a value are not there.
std::optional<std::string> ProfileDataText(const StatValue& value, const Plane& plane) {
  if (value.type == StatType::kBytes) return std::string(value.text);
  return Written(value, plane);
}

// round(time_ns * 1000) of a double.
Picoseconds RoundedPs(int64_t time_ns) {
  return Picoseconds(std::nearbyint(static_cast<double>(time_ns) * 1000));
}

int64_t WrappingSum(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

bool HoldsThunks(std::string_view plane_name) {
  const std::string lower = absl::AsciiStrToLower({plane_name.data(), plane_name.size()});
  return absl::StrContains(lower, "gpu") || absl::StrContains(lower, "cpu");
}

class Reading {
 public:
  Reading(const Trace& trace, uint32_t plane, const TuneJaxOptions& options)
      : trace_(trace),
        plane_(trace.planes[plane]),
        options_(options),
        stats_(plane_, options.raw_protos ? &ProtoText : &ProfileDataText),
        children_(keys_, options.children) {}

  absl::Status Read() {
    for (uint32_t line = plane_.first_line; line < plane_.first_line + plane_.line_count; ++line) {
      absl::Status status = VisitFileEvents(trace_, line, [&](const FileEvent& event) {
        Add(trace_.lines[line].timestamp_ns, event);
        return true;
      });
      if (!status.ok()) return status;
    }
    SortByStart(&events_);
    if (HoldsThunks(plane_.name)) {
      NumberRuns();
      AddParents();
    }
    return absl::OkStatus();
  }

  // The last event of a key gives its time, the first one its place.
  std::vector<KeyTime> Times() {
    std::vector<size_t> last(keys_.size());
    for (size_t i = 0; i < events_.size(); ++i) last[events_[i].key] = i;
    std::vector<KeyTime> times;
    std::vector<bool> seen(keys_.size());
    for (const KeyedEvent& event : events_) {
      const std::string& text = keys_.Text(event.key);
      if (seen[event.key] || !absl::StartsWith(text, options_.prefix)) continue;
      seen[event.key] = true;
      times.push_back({text, SecondsOf(TimeOf(events_[last[event.key]]))});
    }
    return times;
  }

 private:
  void Add(int64_t line_timestamp_ns, const FileEvent& event) {
    const KeyStats stats = stats_.Read(event);
    const auto name = stats[kHloModule].value_or(std::string(RawName(plane_, event.metadata_id)));
    const auto program = stats[kProgramId].value_or(stats[kRunId].value_or("None"));
    Picoseconds start_ps = Picoseconds(line_timestamp_ns) * 1000 + event.offset_ps;
    Picoseconds duration_ps = event.duration_ps;
    if (!options_.raw_protos) {
      start_ps = RoundedPs(WrappingSum(line_timestamp_ns, event.offset_ps / 1000));
      duration_ps = RoundedPs(event.duration_ps / 1000);
    }
    events_.push_back(
        {keys_.IdOf(absl::StrCat(name, "(", program, ")")), start_ps, start_ps + duration_ps});
  }

  // A key that comes back after another one is another run: KEY, KEY[1], KEY[2], ...
  void NumberRuns() {
    const size_t key_count = keys_.size();
    std::vector<uint64_t> runs(key_count);
    std::vector<KeyId> named(key_count);
    size_t previous = key_count;
    for (KeyedEvent& event : events_) {
      const KeyId key = event.key;
      if (!absl::StartsWith(keys_.Text(key), options_.prefix)) continue;
      if (key != previous) {
        const uint64_t run = runs[key]++;
        named[key] = run == 0 ? key : keys_.IdOf(absl::StrCat(keys_.Text(key), "[", run, "]"));
      }
      previous = key;
      event.key = named[key];
    }
  }

  // Several events of a key become CHILD-KEY, and KEY what is from their first start to
  // their last end.
  void AddParents() {
    struct Group {
      size_t count = 0;
      KeyedEvent parent;
    };
    std::vector<Group> groups(keys_.size());
    std::vector<KeyId> order;
    for (const KeyedEvent& event : events_) {
      Group& group = groups[event.key];
      if (group.count++ == 0) {
        group.parent = event;
        order.push_back(event.key);
      }
      group.parent.start_ps = std::min(group.parent.start_ps, event.start_ps);
      group.parent.end_ps = std::max(group.parent.end_ps, event.end_ps);
    }
    for (KeyedEvent& event : events_) {
      if (groups[event.key].count > 1) {
        event.key = keys_.IdOf(absl::StrCat("CHILD-", keys_.Text(event.key)));
      }
    }
    for (const KeyId key : order) {
      if (groups[key].count > 1) events_.push_back(groups[key].parent);
    }
    SortByStart(&events_);
  }

  Picoseconds TimeOf(const KeyedEvent& event) {
    return options_.children ? Covered(event) : event.end_ps - event.start_ps;
  }

  Picoseconds Covered(const KeyedEvent& parent) {
    const Picoseconds begin_ps = parent.start_ps - kChildTolerancePs;
    const Picoseconds end_ps = parent.end_ps + kChildTolerancePs;
    std::vector<std::pair<Picoseconds, int>> edges;
    if (end_ps < begin_ps) return 0;
    for (const KeyedEvent& event : StartingIn(events_, begin_ps, end_ps)) {
      if (event.key == parent.key || event.end_ps > end_ps) continue;
      if (!children_.Passes(event.key)) continue;
      edges.emplace_back(event.start_ps, 1);
      edges.emplace_back(event.end_ps, -1);
    }
    std::sort(edges.begin(), edges.end());
    Picoseconds total_ps = 0;
    int64_t open = 0;
    for (size_t i = 0; i + 1 < edges.size(); ++i) {
      open += edges[i].second;
      if (open > 0) total_ps += edges[i + 1].first - edges[i].first;
    }
    return total_ps;
  }

  const Trace& trace_;
  const Plane& plane_;
  const TuneJaxOptions& options_;
  const KeyStatReader stats_;
  Keys keys_;
  KeyTest children_;
  std::vector<KeyedEvent> events_;
};

}  // namespace

absl::StatusOr<std::vector<KeyTime>> TuneJaxTimes(const Trace& trace, uint32_t plane,
                                                  const TuneJaxOptions& options) {
  Reading reading(trace, plane, options);
  if (absl::Status status = reading.Read(); !status.ok()) return status;
  return reading.Times();
}

}  // namespace xplane_time::compat
