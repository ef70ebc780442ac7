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
#include "status.h"

namespace xplane_time::compat {
namespace {

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

class TuneJaxReading : public KeyedReading {
 public:
  TuneJaxReading(const Trace& trace, uint32_t plane, const TuneJaxOptions& options)
      : KeyedReading(trace, plane, options.raw_protos ? &ProtoText : &ProfileDataText,
                     options.prefix, options.children),
        raw_protos_(options.raw_protos) {}

  absl::Status Read() {
    for (uint32_t line = plane_.first_line; line < plane_.first_line + plane_.line_count; ++line) {
      RETURN_IF_ERROR(VisitFileEvents(trace_, line, [&](const FileEvent& event) {
        Add(trace_.lines[line].timestamp_ns, event);
        return true;
      }));
    }
    SortByStart();
    if (HoldsThunks(plane_.name)) {
      NumberRuns();
      AddParents();
    }
    return absl::OkStatus();
  }

 private:
  void Add(int64_t line_timestamp_ns, const FileEvent& event) {
    Picoseconds start_ps = Picoseconds(line_timestamp_ns) * 1000 + event.offset_ps;
    Picoseconds duration_ps = event.duration_ps;
    if (!raw_protos_) {
      start_ps = RoundedPs(WrappingSum(line_timestamp_ns, event.offset_ps / 1000));
      duration_ps = RoundedPs(event.duration_ps / 1000);
    }
    events_.push_back(
        {IdOf(KeyBegin(StatsOf(event), event) + ")"), start_ps, start_ps + duration_ps});
  }

  // A key that comes back after another one is another run: KEY, KEY[1], KEY[2], ...
  void NumberRuns() {
    const size_t key_count = keys_.size();
    std::vector<uint64_t> runs(key_count);
    std::vector<KeyId> named(key_count);
    size_t previous = key_count;
    for (KeyedEvent& event : events_) {
      const KeyId key = event.key;
      if (!HasPrefix(key)) continue;
      if (key != previous) {
        const uint64_t run = runs[key]++;
        named[key] = run == 0 ? key : IdOf(absl::StrCat(keys_[key], "[", run, "]"));
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
        event.key = IdOf(absl::StrCat("CHILD-", keys_[event.key]));
      }
    }
    for (const KeyId key : order) {
      if (groups[key].count > 1) events_.push_back(groups[key].parent);
    }
    SortByStart();
  }

  Picoseconds TolerancePs() const override { return 2000; }

  Picoseconds CoveredBy(const Spans& children) const override {
    std::vector<std::pair<Picoseconds, int>> edges;
    for (const auto& [start_ps, end_ps] : children) {
      edges.emplace_back(start_ps, 1);
      edges.emplace_back(end_ps, -1);
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

  const bool raw_protos_;
};

}  // namespace

absl::StatusOr<std::vector<KeyTime>> TuneJaxTimes(const Trace& trace, uint32_t plane,
                                                  const TuneJaxOptions& options) {
  TuneJaxReading reading(trace, plane, options);
  RETURN_IF_ERROR(reading.Read());
  return reading.Times(/*skip_negative=*/false);
}

}  // namespace xplane_time::compat
