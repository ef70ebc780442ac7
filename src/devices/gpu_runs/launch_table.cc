#include "devices/gpu_runs/launch_table.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

namespace xplane_time::gpu_runs {
namespace {

// Sorts what consists of a few ascending parts, as a few threads leave it; else anything.
template <typename Entry, typename Before>
void SortParts(std::span<Entry> entries, Before before) {
  constexpr size_t kMostParts = 64;
  std::vector<size_t> bounds = {0};
  for (size_t i = 1; i < entries.size() && bounds.size() <= kMostParts; ++i) {
    if (before(entries[i], entries[i - 1])) bounds.push_back(i);
  }
  if (bounds.size() > kMostParts) {
    std::sort(entries.begin(), entries.end(), before);
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

}  // namespace

template <typename Id>
void LaunchList<Id>::AddAll(const LaunchList& other) {
  for (const Entry& entry : other.entries_.values()) Append(entry);
}

template <typename Id>
void LaunchList<Id>::Order() {
  const std::span<Entry> entries = entries_.values();
  // Ids mostly grow: then there is nothing to merge with what is in order already.
  const std::span<Entry> added = entries.subspan(ordered_);
  SortParts(added, Before);
  const bool follows = ordered_ == 0 || added.empty() || !Before(added[0], entries[ordered_ - 1]);
  if (!follows) {
    std::inplace_merge(entries.begin(), added.begin(), entries.end(), Before);
  }
  const auto same = [](const Entry& a, const Entry& b) { return a.id == b.id; };
  const auto repeated = std::adjacent_find(entries.begin(), entries.end(), same);
  auto count = static_cast<size_t>(repeated - entries.begin());
  for (size_t i = count; i < entries.size(); ++i) {
    if (count > 0 && same(entries[count - 1], entries[i])) {
      entries[count - 1].line = kAmbiguous;
    } else {
      entries[count++] = entries[i];
    }
  }
  entries_.Shrink(count);
  ordered_ = count;
  next_order_ = std::max(next_order_, 2 * count);
}

template <typename Id>
std::optional<Launch> LaunchList<Id>::Find(Id id, size_t* place) const {
  const std::span<const Entry> entries = entries_.values();
  const auto before = [&](const Entry& entry) { return entry.id < id; };
  // Strides that double, to either side of the place, and a search in between.
  size_t low = std::min(*place, entries.size()), high = low, stride = 1;
  while (low > 0 && !before(entries[low - 1])) {
    high = low - 1;
    low -= std::min(low, std::exchange(stride, 2 * stride));
  }
  stride = 1;
  while (high < entries.size() && before(entries[high])) {
    low = high + 1;
    high = std::min(entries.size(), high + std::exchange(stride, 2 * stride));
  }
  const auto at = static_cast<size_t>(
      std::partition_point(entries.begin() + static_cast<std::ptrdiff_t>(low),
                           entries.begin() + static_cast<std::ptrdiff_t>(high), before) -
      entries.begin());
  *place = at;
  const bool only = at < entries.size() && entries[at].id == id && entries[at].line != kAmbiguous;
  if (!only) return std::nullopt;
  return Launch{entries[at].start_ps, entries[at].line};
}

template class LaunchList<uint32_t>;
template class LaunchList<uint64_t>;

}  // namespace xplane_time::gpu_runs
