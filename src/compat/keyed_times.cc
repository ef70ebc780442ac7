// Times of keys as ejkernel and tune-jax compute them: each event of a plane gets a key made of its
// stats, and each key gets a time.
//
// ejkernel/ops/execution/profiler.py, Profiler.get_events_from_plane, on raw protos;
// tune_jax/profile_reader/parse_profile.py, get_events_from_plane.
//
// Both tools read the events of a plane. Without a pattern for children, the time of an event is
// its duration. With a pattern, it is the time that matching events inside of it cover. The tools
// differ in how stats are written, how overlaps of children are measured and how far children may
// reach beyond the event (Definition). tune-jax also numbers repeated runs of a key and adds
// parents. The code keeps the tools' edge cases, such as events without stats and negative times.
// O(n log n) for the n events of a plane, plus the events inside of each event.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "compat/python.h"
#include "read/file_events.h"
#include "status.h"
#include "xplane_time/compat.h"

namespace xplane_time::compat {
namespace {

// Epoch times in picoseconds do not fit 64 bits.
using Picoseconds = absl::int128;

struct KeyedEvent {
  size_t key = 0;  // index among the plane's keys
  Picoseconds start_ps = 0, end_ps = 0;
};

// The stats that a key consists of.
enum KeyStat : uint8_t { kHloModule, kProgramId, kRunId, kScopeRangeId, kKeyStatCount };

// By stat; empty if the event lacks it. If a stat occurs twice, the last one counts.
using KeyStats = std::array<std::optional<std::string>, kKeyStatCount>;

// The differences between the tools.
struct Definition {
  // The text of a stat's value, including "None"; empty if the tool ignores the stat.
  std::optional<std::string> (*text)(const StatValue& value, const Plane& plane);
  const std::string& prefix;
  const NameTest& children;
  // The time that the children inside an event cover.
  Picoseconds (*covered)(Spans children);
  // How far an event's children may extend beyond its ends.
  Picoseconds tolerance_ps = 0;
};

// A plane while it is read: keys, and events in order of start.
class KeyedPlane {
 public:
  // `trace` and the references in `by` must outlive it.
  KeyedPlane(const Trace& trace, uint32_t plane, const Definition& by)
      : by_(by), plane_(trace.planes[plane]) {
    constexpr std::array<std::string_view, kKeyStatCount> kNames = {"hlo_module", "program_id",
                                                                    "run_id", "scope_range_id"};
    for (const StatMetadata& stat : plane_.stat_metadata.entries) {
      const auto found = std::ranges::find(kNames, stat.name);
      if (found == kNames.end()) continue;
      stat_of_id_.emplace(stat.id, static_cast<KeyStat>(found - kNames.begin()));
    }
  }

  const Plane& plane() const { return plane_; }
  size_t event_count() const { return events_.size(); }

  void Add(const std::string& key, Picoseconds start_ps, Picoseconds duration_ps) {
    events_.push_back({keys_.PlaceOf(key), start_ps, start_ps + duration_ps});
  }

  KeyStats StatsOf(const FileEvent& event) const {
    KeyStats found;
    for (const Stat& stat : event.stats) {
      const auto at = stat_of_id_.find(stat.metadata_id);
      if (at == stat_of_id_.end()) continue;
      std::optional<std::string> text = by_.text(stat.value, plane_);
      if (text.has_value()) found[at->second] = std::move(text);
    }
    return found;
  }

  // "NAME(PROGRAM"; NAME is the metadata's name if no stat has one.
  std::string KeyBegin(const KeyStats& stats, const FileEvent& event) const {
    const uint32_t at = plane_.event_metadata.Find(event.metadata_id);
    const std::string_view name = stats[kHloModule]   ? std::string_view(*stats[kHloModule])
                                  : at == kNoMetadata ? std::string_view()
                                                      : plane_.event_metadata.entries[at].name;
    const auto program = stats[kProgramId].value_or(stats[kRunId].value_or("None"));
    return absl::StrCat(absl::string_view(name.data(), name.size()), "(", program);
  }

  void SortByStart() { std::ranges::stable_sort(events_, {}, &KeyedEvent::start_ps); }

  // tune-jax: a key that occurs again after another key is another run: KEY, KEY[1], KEY[2], ...
  void NumberRuns() {
    const size_t key_count = keys_.rows().size();
    std::vector<uint64_t> runs(key_count);
    std::vector<size_t> named(key_count);
    size_t previous = key_count;
    for (KeyedEvent& event : events_) {
      const size_t key = event.key;
      if (!HasPrefix(key)) continue;
      if (key != previous) {
        const uint64_t run = runs[key]++;
        named[key] = run == 0 ? key : keys_.PlaceOf(absl::StrCat(Key(key), "[", run, "]"));
      }
      previous = key;
      event.key = named[key];
    }
  }

  // tune-jax: several events of a key become CHILD-KEY, and KEY spans from their first start to
  // their last end.
  void AddParents() {
    struct Group {
      size_t count = 0;
      KeyedEvent parent;
    };
    std::vector<Group> groups(keys_.rows().size());
    std::vector<size_t> order;
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
        event.key = keys_.PlaceOf(absl::StrCat("CHILD-", Key(event.key)));
      }
    }
    for (const size_t key : order) {
      if (groups[key].count > 1) events_.push_back(groups[key].parent);
    }
    SortByStart();
  }

  // For keys with the prefix: the last event determines the time, the first one the position. With
  // `skip_negative`, negative times are ignored; otherwise only the last event of a key matters.
  std::vector<KeyTime> Times(bool skip_negative) {
    constexpr size_t kNowhere = ~size_t{0};
    std::vector<size_t> last(keys_.rows().size()), place(last.size(), kNowhere);
    for (size_t i = 0; i < events_.size(); ++i) last[events_[i].key] = i;
    std::vector<KeyTime> times;
    for (size_t i = 0; i < events_.size(); ++i) {
      const size_t key = events_[i].key;
      if (!HasPrefix(key)) continue;
      const bool matters = skip_negative || last[key] == i;
      // Like Python's division of an int by a float.
      const double time_s = matters ? static_cast<double>(TimeOf(events_[i])) / 1e12 : 0;
      if (skip_negative && time_s < 0) continue;
      if (place[key] == kNowhere) {
        place[key] = times.size();
        times.push_back({Key(key), 0});
      }
      times[place[key]].time_s = time_s;
    }
    return times;
  }

 private:
  const std::string& Key(size_t place) const { return keys_.rows()[place].first; }
  bool HasPrefix(size_t key) const { return Key(key).starts_with(by_.prefix); }

  bool IsChild(size_t key) {
    std::optional<bool>& known = keys_.at(key);
    if (!known.has_value()) known = by_.children(Key(key));
    return *known;
  }

  Picoseconds TimeOf(const KeyedEvent& parent) {
    if (!by_.children) return parent.end_ps - parent.start_ps;
    const Picoseconds begin_ps = parent.start_ps - by_.tolerance_ps;
    const Picoseconds end_ps = parent.end_ps + by_.tolerance_ps;
    if (end_ps < begin_ps) return 0;
    Spans found;
    auto event = std::ranges::lower_bound(events_, begin_ps, {}, &KeyedEvent::start_ps);
    for (; event != events_.end() && event->start_ps <= end_ps; ++event) {
      if (event->key == parent.key || event->end_ps > end_ps) continue;
      if (IsChild(event->key)) found.emplace_back(event->start_ps, event->end_ps);
    }
    return by_.covered(std::move(found));
  }

  const Definition by_;
  const Plane& plane_;
  absl::flat_hash_map<int64_t, KeyStat> stat_of_id_;
  InOrder<std::string, std::optional<bool>> keys_;  // whether the key is a child, if that was
                                                    // determined
  std::vector<KeyedEvent> events_;
};

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
    case StatType::kBytes:
      return PythonBytesRepr(value.text);
    case StatType::kRef:
      return std::string(ReferencedName(plane.stat_metadata, value.bits));
    default:  // their protos have no compressed strings
      return std::nullopt;
  }
}

// ---- ejkernel

// 0 and "" read as None. A dangling reference reads as "".
std::optional<std::string> EjkernelText(const StatValue& value, const Plane& plane) {
  const bool is_set = value.type == StatType::kDouble ? std::bit_cast<double>(value.bits) != 0
                                                      : value.bits != 0 || !value.text.empty();
  return is_set ? Written(value, plane).value_or("None") : "None";
}

Picoseconds CoveredByEjkernel(Spans children) {
  std::sort(children.begin(), children.end());
  return Covered(children);
}

// int(min_duration_ns * 1000)
Picoseconds LeastPs(double min_duration_ns) {
  const double least_ps = std::trunc(min_duration_ns * 1000);
  constexpr double kLimit = 1e30;  // longer than every duration
  return Picoseconds(std::clamp(least_ps, -kLimit, kLimit));
}

// ---- tune-jax

// The values of protobuf's Python classes.
std::optional<std::string> ProtoText(const StatValue& value, const Plane& plane) {
  const auto refers_to = static_cast<int64_t>(value.bits);
  const bool lost =
      value.type == StatType::kRef && plane.stat_metadata.Find(refers_to) == kNoMetadata;
  return lost ? "None" : Written(value, plane).value_or("None");
}

// The values of jax.profiler.ProfileData; it omits stats without a value.
std::optional<std::string> ProfileDataText(const StatValue& value, const Plane& plane) {
  if (value.type == StatType::kBytes) return std::string(value.text);
  return Written(value, plane);
}

Picoseconds CoveredByTuneJax(Spans children) {
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

// round(time_ns * 1000) of a double.
Picoseconds RoundedPs(int64_t time_ns) {
  return Picoseconds(std::nearbyint(static_cast<double>(time_ns) * 1000));
}

int64_t WrappingSum(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

}  // namespace

absl::StatusOr<std::vector<KeyTime>> EjkernelTimes(const Trace& trace, uint32_t plane,
                                                   const EjkernelOptions& options) {
  if (!std::isfinite(options.min_duration_ns)) {
    return absl::InvalidArgumentError("min_duration_ns: a finite number is needed");
  }
  KeyedPlane keyed(trace, plane,
                   {EjkernelText, options.prefix, options.children, CoveredByEjkernel});
  const uint64_t most = options.max_events.value_or(std::numeric_limits<uint64_t>::max());
  const Picoseconds least_ps = LeastPs(options.min_duration_ns);
  bool any_negative = false;
  const auto visit = [&](const FileEvent& event) {
    if (Picoseconds(event.duration_ps) >= least_ps) {
      const KeyStats stats = keyed.StatsOf(event);
      const auto scope = stats[kScopeRangeId].value_or("None");
      keyed.Add(absl::StrCat(keyed.KeyBegin(stats, event), "-", scope, ")"), event.offset_ps,
                event.duration_ps);
      any_negative |= event.duration_ps < 0;
    }
    return keyed.event_count() < most;
  };
  for (uint32_t i = 0; i < keyed.plane().line_count && keyed.event_count() < most; ++i) {
    RETURN_IF_ERROR(VisitFileEvents(trace, keyed.plane().first_line + i, visit));
  }
  keyed.SortByStart();
  return keyed.Times(/*skip_negative=*/any_negative);
}

absl::StatusOr<std::vector<KeyTime>> TuneJaxTimes(const Trace& trace, uint32_t plane,
                                                  const TuneJaxOptions& options) {
  KeyedPlane keyed(trace, plane,
                   {options.raw_protos ? ProtoText : ProfileDataText, options.prefix,
                    options.children, CoveredByTuneJax, /*tolerance_ps=*/2000});
  const uint32_t first = keyed.plane().first_line;
  for (uint32_t line = first; line < first + keyed.plane().line_count; ++line) {
    const int64_t begin_ns = trace.lines[line].timestamp_ns;
    RETURN_IF_ERROR(VisitFileEvents(trace, line, [&](const FileEvent& event) {
      Picoseconds start_ps = Picoseconds(begin_ns) * 1000 + event.offset_ps;
      Picoseconds duration_ps = event.duration_ps;
      if (!options.raw_protos) {
        start_ps = RoundedPs(WrappingSum(begin_ns, event.offset_ps / 1000));
        duration_ps = RoundedPs(event.duration_ps / 1000);
      }
      keyed.Add(keyed.KeyBegin(keyed.StatsOf(event), event) + ")", start_ps, duration_ps);
      return true;
    }));
  }
  keyed.SortByStart();
  const std::string lower = Lower(keyed.plane().name);
  if (absl::StrContains(lower, "gpu") || absl::StrContains(lower, "cpu")) {  // the plane has thunks
    keyed.NumberRuns();
    keyed.AddParents();
  }
  return keyed.Times(/*skip_negative=*/false);
}

}  // namespace xplane_time::compat
