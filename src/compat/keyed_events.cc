#include "compat/keyed_events.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

namespace xplane_time::compat {

KeyId Keys::IdOf(std::string_view text) {
  const auto found = ids_.find({text.data(), text.size()});
  if (found != ids_.end()) return found->second;
  const auto next = static_cast<KeyId>(texts_.size());
  texts_.emplace_back(text);
  ids_.emplace(texts_.back(), next);
  return next;
}

bool KeyTest::Passes(KeyId key) {
  if (known_.size() < keys_.size()) known_.resize(keys_.size());
  std::optional<bool>& known = known_[key];
  if (!known.has_value()) known = test_(keys_.Text(key));
  return *known;
}

KeyStatReader::KeyStatReader(const Plane& plane, StatText text) : plane_(plane), text_(text) {
  constexpr std::array<std::string_view, kKeyStatCount> kNames = {"hlo_module", "program_id",
                                                                  "run_id", "scope_range_id"};
  for (const StatMetadata& stat : plane.stat_metadata.entries) {
    const auto found = std::find(kNames.begin(), kNames.end(), stat.name);
    if (found != kNames.end()) {
      stat_of_id_.emplace(stat.id, static_cast<KeyStat>(found - kNames.begin()));
    }
  }
}

KeyStats KeyStatReader::Read(const FileEvent& event) const {
  KeyStats found;
  for (const Stat& stat : event.stats) {
    const auto at = stat_of_id_.find(stat.metadata_id);
    if (at == stat_of_id_.end()) continue;
    std::optional<std::string> text = text_(stat.value, plane_);
    if (text.has_value()) found[at->second] = std::move(text);
  }
  return found;
}

std::string_view RawName(const Plane& plane, int64_t metadata_id) {
  const uint32_t at = plane.event_metadata.Find(metadata_id);
  return at == kNoMetadata ? std::string_view() : plane.event_metadata.entries[at].name;
}

void SortByStart(std::vector<KeyedEvent>* events) {
  std::stable_sort(events->begin(), events->end(), [](const KeyedEvent& a, const KeyedEvent& b) {
    return a.start_ps < b.start_ps;
  });
}

std::span<const KeyedEvent> StartingIn(std::span<const KeyedEvent> events, Picoseconds begin_ps,
                                       Picoseconds end_ps) {
  const auto first = std::lower_bound(
      events.begin(), events.end(), begin_ps,
      [](const KeyedEvent& event, Picoseconds start_ps) { return event.start_ps < start_ps; });
  const auto last = std::upper_bound(
      first, events.end(), end_ps,
      [](Picoseconds start_ps, const KeyedEvent& event) { return start_ps < event.start_ps; });
  return {first, last};
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
