// SortParts: a stable sort of a few ascending parts, such as those from several lines or threads.
// SortNearly: a stable sort of entries that are at most a few places off.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace xplane_time {

// Merges parts pairwise. With more than 64 parts it sorts everything. O(n log parts).
template <typename Entries, typename Before>
void SortParts(Entries&& entries, Before before) {
  constexpr size_t kMostParts = 64;
  if (std::is_sorted(entries.begin(), entries.end(), before)) return;
  std::vector<size_t> bounds = {0};
  for (size_t i = 1; i < entries.size() && bounds.size() <= kMostParts; ++i) {
    if (before(entries[i], entries[i - 1])) bounds.push_back(i);
  }
  if (bounds.size() > kMostParts) {
    std::stable_sort(entries.begin(), entries.end(), before);
    return;
  }
  bounds.push_back(entries.size());
  const auto at = [&](size_t i) { return entries.begin() + static_cast<std::ptrdiff_t>(i); };
  while (bounds.size() > 2) {
    std::vector<size_t> merged = {0};
    for (size_t i = 0; i + 1 < bounds.size(); i += 2) {
      const size_t middle = bounds[i + 1], end = i + 2 < bounds.size() ? bounds[i + 2] : middle;
      if (end != middle) std::inplace_merge(at(bounds[i]), at(middle), at(end), before);
      merged.push_back(end);
    }
    bounds = std::move(merged);
  }
}

// An insertion sort. If an entry is too far off, it sorts everything.
template <typename Entries, typename Before>
void SortNearly(Entries&& entries, Before before) {
  constexpr size_t kMostSteps = 64;
  for (size_t i = 1; i < entries.size(); ++i) {
    if (!before(entries[i], entries[i - 1])) continue;
    const auto entry = entries[i];
    size_t at = i, steps = 0;
    for (; at > 0 && steps < kMostSteps && before(entry, entries[at - 1]); --at, ++steps) {
      entries[at] = entries[at - 1];
    }
    entries[at] = entry;
    if (steps < kMostSteps) continue;
    std::stable_sort(entries.begin(), entries.end(), before);
    return;
  }
}

}  // namespace xplane_time
