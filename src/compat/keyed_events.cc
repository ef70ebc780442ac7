#include "compat/keyed_events.h"

#include <algorithm>
#include <span>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace xplane_time::compat {

absl::int128 Covered(const Spans& sorted) {
  if (sorted.empty()) return 0;
  absl::int128 total = 0;
  auto [start, end] = sorted.front();
  for (const auto& [next_start, next_end] : std::span(sorted).subspan(1)) {
    if (next_start > end) {
      total += end - start;
      start = next_start;
      end = next_end;
    } else {
      end = std::max(end, next_end);
    }
  }
  return total + end - start;
}

KeyedReading::KeyedReading(const Trace& trace, uint32_t plane, StatText text,
                           const std::string& prefix, const NameTest& children)
    : trace_(trace),
      plane_(trace.planes[plane]),
      text_(text),
      prefix_(prefix),
      children_(children) {
  constexpr std::array<std::string_view, kKeyStatCount> kNames = {"hlo_module", "program_id",
                                                                  "run_id", "scope_range_id"};
  for (const StatMetadata& stat : plane_.stat_metadata.entries) {
    const auto found = std::find(kNames.begin(), kNames.end(), stat.name);
    if (found != kNames.end()) {
      stat_of_id_.emplace(stat.id, static_cast<KeyStat>(found - kNames.begin()));
    }
  }
}

KeyStats KeyedReading::StatsOf(const FileEvent& event) const {
  KeyStats found;
  for (const Stat& stat : event.stats) {
    const auto at = stat_of_id_.find(stat.metadata_id);
    if (at == stat_of_id_.end()) continue;
    std::optional<std::string> text = text_(stat.value, plane_);
    if (text.has_value()) found[at->second] = std::move(text);
  }
  return found;
}

std::string KeyedReading::KeyBegin(const KeyStats& stats, const FileEvent& event) const {
  const uint32_t at = plane_.event_metadata.Find(event.metadata_id);
  const std::string_view name = stats[kHloModule]   ? std::string_view(*stats[kHloModule])
                                : at == kNoMetadata ? std::string_view()
                                                    : plane_.event_metadata.entries[at].name;
  const auto program = stats[kProgramId].value_or(stats[kRunId].value_or("None"));
  return absl::StrCat(absl::string_view(name.data(), name.size()), "(", program);
}

KeyId KeyedReading::IdOf(std::string_view key) {
  const auto found = ids_.find({key.data(), key.size()});
  if (found != ids_.end()) return found->second;
  const auto next = static_cast<KeyId>(keys_.size());
  ids_.emplace(keys_.emplace_back(key), next);
  return next;
}

void KeyedReading::SortByStart() {
  std::stable_sort(events_.begin(), events_.end(), [](const KeyedEvent& a, const KeyedEvent& b) {
    return a.start_ps < b.start_ps;
  });
}

bool KeyedReading::IsChild(KeyId key) {
  is_child_.resize(keys_.size());
  std::optional<bool>& known = is_child_[key];
  if (!known.has_value()) known = children_(keys_[key]);
  return *known;
}

Picoseconds KeyedReading::TimeOf(const KeyedEvent& parent) {
  if (!children_) return parent.end_ps - parent.start_ps;
  const Picoseconds begin_ps = parent.start_ps - TolerancePs();
  const Picoseconds end_ps = parent.end_ps + TolerancePs();
  if (end_ps < begin_ps) return 0;
  Spans found;
  auto event = std::lower_bound(
      events_.begin(), events_.end(), begin_ps,
      [](const KeyedEvent& a, Picoseconds start_ps) { return a.start_ps < start_ps; });
  for (; event != events_.end() && event->start_ps <= end_ps; ++event) {
    if (event->key == parent.key || event->end_ps > end_ps) continue;
    if (IsChild(event->key)) found.emplace_back(event->start_ps, event->end_ps);
  }
  return CoveredBy(found);
}

// Only the last event of a key matters, unless times below 0 are skipped.
std::vector<KeyTime> KeyedReading::Times(bool skip_negative) {
  constexpr size_t kNowhere = ~size_t{0};
  std::vector<size_t> last(keys_.size()), place(keys_.size(), kNowhere);
  for (size_t i = 0; i < events_.size(); ++i) last[events_[i].key] = i;
  std::vector<KeyTime> times;
  for (size_t i = 0; i < events_.size(); ++i) {
    const KeyId key = events_[i].key;
    if (!HasPrefix(key)) continue;
    const bool matters = skip_negative || last[key] == i;
    const double time_s = matters ? SecondsOf(TimeOf(events_[i])) : 0;
    if (skip_negative && time_s < 0) continue;
    if (place[key] == kNowhere) {
      place[key] = times.size();
      times.push_back({keys_[key], 0});
    }
    times[place[key]].time_s = time_s;
  }
  return times;
}

std::vector<uint32_t> PlanesWith(const Trace& trace, std::string_view text) {
  std::vector<uint32_t> found;
  for (uint32_t plane = 0; plane < trace.planes.size(); ++plane) {
    const std::string_view name = trace.planes[plane].name;
    const std::string lower = absl::AsciiStrToLower({name.data(), name.size()});
    if (absl::StrContains(lower, absl::AsciiStrToLower({text.data(), text.size()}))) {
      found.push_back(plane);
    }
  }
  return found;
}

}  // namespace xplane_time::compat
