#include "devices/gpu_runs/host_ranges.h"

#include <algorithm>
#include <span>
#include <tuple>

namespace xplane_time::gpu_runs {

uint32_t HostRanges::NameId(const Name& name) {
  const auto next = static_cast<uint32_t>(names_.size());
  const auto [found, is_new] = ids_.try_emplace({name.function, name.module}, next);
  if (is_new) names_.push_back(name);
  return found->second;
}

void HostRanges::Order() {
  const auto key = [](const Range& range) {
    return std::tuple(range.owner, range.interval.start_ps, -range.interval.end_ps);
  };
  std::ranges::stable_sort(ranges_, {}, key);
  std::vector<uint32_t> open;
  for (uint32_t i = 0; i < ranges_.size(); ++i) {
    const Range& range = ranges_[i];
    const auto [own, is_first] = own_.try_emplace(range.owner, Own{i, i});
    own->second.end = i + 1;
    if (is_first) open.clear();
    // Later ones begin no earlier.
    while (!open.empty() && ranges_[open.back()].interval.end_ps <= range.interval.start_ps) {
      open.pop_back();
    }
    const bool too_deep = open.size() == kMostDepth;
    around_.push_back({open.empty() ? kNoRange : open.back(), too_deep});
    if (too_deep) {
      ++too_deep_;
    } else {
      open.push_back(i);
    }
  }
}

uint32_t HostRanges::LastBegun(const Owner& owner, int64_t time_ps) const {
  const auto own = own_.find(owner);
  if (own == own_.end()) return kNoRange;
  const std::span<const Range> ranges =
      std::span(ranges_).subspan(own->second.begin, own->second.end - own->second.begin);
  const auto after = std::ranges::upper_bound(
      ranges, time_ps, {},
      [](const Range& range) -> const int64_t& { return range.interval.start_ps; });
  const auto begun = static_cast<uint32_t>(after - ranges.begin());
  return begun == 0 ? kNoRange : own->second.begin + begun - 1;
}

}  // namespace xplane_time::gpu_runs
