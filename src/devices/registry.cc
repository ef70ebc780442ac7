// The list of device kinds, the classification of planes, and functions that all kinds share.
#include <algorithm>
#include <array>
#include <charconv>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "devices/device_kind.h"
#include "xplane_time/select.h"

namespace xplane_time {
namespace {

// The first kind that claims a plane gets it.
constexpr std::array<const KindRules*, 4> kKinds = {&kGpuRules, &kTpuRules, &kCpuRules,
                                                    &kCustomRules};

}  // namespace

const KindRules& RulesOf(DeviceKind kind) {
  return **std::find_if(kKinds.begin(), kKinds.end(),
                        [&](const KindRules* rules) { return rules->kind == kind; });
}

const KindRules* FindKind(std::string_view name) {
  const auto view = [](std::string_view text) {
    return absl::string_view(text.data(), text.size());
  };
  for (const KindRules* rules : kKinds) {
    if (absl::EqualsIgnoreCase(view(name), view(rules->name))) return rules;
  }
  return nullptr;
}

const KindRules* FindKindOfPlane(std::string_view plane_name, std::optional<int64_t>* ordinal) {
  for (const KindRules* rules : kKinds) {
    *ordinal = std::nullopt;
    if (rules->claims(plane_name, ordinal)) return rules;
  }
  return nullptr;
}

std::string_view DeviceKindName(DeviceKind kind) { return RulesOf(kind).name; }

std::vector<DevicePlane> FindDevicePlanes(const Trace& trace) {
  std::vector<DevicePlane> devices;
  for (uint32_t i = 0; i < trace.planes.size(); ++i) {
    std::optional<int64_t> ordinal;
    const KindRules* rules = FindKindOfPlane(trace.planes[i].name, &ordinal);
    if (rules != nullptr) devices.push_back({i, rules->kind, ordinal});
  }
  return devices;
}

bool HasEvents(const Trace& trace, const Plane& plane) {
  const auto lines = std::span(trace.lines).subspan(plane.first_line, plane.line_count);
  return std::ranges::any_of(lines, [](const Line& line) { return line.event_count > 0; });
}

bool HasStat(const Plane& plane, std::string_view name) {
  const auto& entries = plane.stat_metadata.entries;
  return !name.empty() && std::any_of(entries.begin(), entries.end(),
                                      [&](const StatMetadata& stat) { return stat.name == name; });
}

std::vector<uint8_t> EntriesWith(const Plane& plane, std::span<const std::string_view> stats) {
  absl::flat_hash_set<int64_t> ids;
  for (const StatMetadata& stat : plane.stat_metadata.entries) {
    if (std::ranges::count(stats, stat.name) > 0) ids.insert(stat.id);
  }
  std::vector<uint8_t> with;
  for (const EventMetadata& entry : plane.event_metadata.entries) {
    const auto own = std::span(plane.metadata_stats).subspan(entry.first_stat, entry.stat_count);
    const auto wanted = [&](const Stat& stat) { return ids.contains(stat.metadata_id); };
    with.push_back(std::ranges::any_of(own, wanted) ? 1 : 0);
  }
  return with;
}

std::vector<uint8_t> EntriesWorthReading(const Plane& plane, const KindRules& rules) {
  std::vector<uint8_t> worth = EntriesWith(plane, std::span(&rules.needed_stat, 1));
  for (size_t i = 0; i < worth.size(); ++i) {
    if (rules.marks_completion(plane.event_metadata.entries[i].shown_name())) worth[i] = 1;
  }
  return worth;
}

bool IsHalfOfPair(std::string_view op) {
  const size_t dash = op.rfind('-');
  if (dash == op.npos) return false;
  const std::string_view end = op.substr(dash, op.find('.', dash) - dash);
  return end == "-start" || end == "-done";
}

bool CompletesLater(const Completions& completions, int64_t flow, int64_t end_ps) {
  if (completions.empty()) return false;
  const auto completion = completions.find(flow);
  return completion == completions.end() || completion->second > end_ps;
}

std::string_view LineRoleName(LineRole role) {
  constexpr std::string_view kNames[] = {"execution", "run", "host", "derived", "async", "counter"};
  return kNames[static_cast<size_t>(role)];
}

std::optional<int64_t> OrdinalAfter(std::string_view plane_name, std::string_view prefix) {
  if (!plane_name.starts_with(prefix)) return std::nullopt;
  plane_name.remove_prefix(prefix.size());
  int64_t ordinal = 0;
  const char* end = plane_name.data() + plane_name.size();
  const auto [at, error] = std::from_chars(plane_name.data(), end, ordinal);
  if (error != std::errc() || ordinal < 0) return std::nullopt;
  const std::string_view rest(at, static_cast<size_t>(end - at));
  return rest.empty() || IsSubprocess(rest) ? std::optional<int64_t>(ordinal) : std::nullopt;
}

bool IsSubprocess(std::string_view rest) {
  return (rest.starts_with(" [") && rest.ends_with("]")) ||
         (rest.starts_with(" (") && rest.ends_with(")"));
}

}  // namespace xplane_time
