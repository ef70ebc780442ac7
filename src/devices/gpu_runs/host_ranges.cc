// Sorts ranges and links each one to the ranges around it, so that all ranges open at a time are
// found by following one chain from the last range that began. Ranges may overlap without nesting,
// so chains may contain ranges that have ended. When a chain gets longer than kMostLinks,
// LinkAnew() rebuilds it from the open ranges only. The cost of a look-up is O(log ranges +
// kMostLinks).
#include "devices/gpu_runs/host_ranges.h"

#include <algorithm>
#include <span>
#include <tuple>

#include "xplane_time/read.h"

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
  std::vector<Open> open;
  int64_t first_end_ps = kNoTimePs;  // earliest end of the open ranges
  const auto end_ps = [&](const Open& each) { return ranges_[each.range].interval.end_ps; };
  for (uint32_t i = 0; i < ranges_.size(); ++i) {
    const Range& range = ranges_[i];
    const int64_t start_ps = range.interval.start_ps;
    const auto [own, is_first] = own_.try_emplace(range.owner, Own{i, i});
    own->second.end = i + 1;
    if (is_first) open.clear();
    // Later ranges begin no earlier.
    while (!open.empty() && end_ps(open.back()) <= start_ps) open.pop_back();
    if (open.empty()) first_end_ps = range.interval.end_ps;
    const bool is_long = !open.empty() && links_[open.back().link].length >= kMostLinks;
    if (is_long || (open.size() >= kMostOpen && start_ps >= first_end_ps)) {
      std::erase_if(open, [&](const Open& each) { return end_ps(each) <= start_ps; });
      first_end_ps = end_ps(*std::ranges::min_element(open, {}, end_ps));
    }
    if (is_long) LinkAnew(&open);
    const uint32_t next = open.empty() ? kNone : open.back().link;
    if (open.size() >= kMostOpen) {
      ++too_deep_;
      link_of_.push_back(next);
      continue;
    }
    open.push_back({i, AddLink(i, next)});
    link_of_.push_back(open.back().link);
    first_end_ps = std::min(first_end_ps, range.interval.end_ps);
  }
}

uint32_t HostRanges::AddLink(uint32_t range, uint32_t next) {
  links_.push_back({range, next, next == kNone ? 1 : links_[next].length + 1});
  return static_cast<uint32_t>(links_.size()) - 1;
}

// Makes a chain of the open ranges only.
void HostRanges::LinkAnew(std::vector<Open>* open) {
  uint32_t link = kNone;
  for (Open& each : *open) each.link = link = AddLink(each.range, link);
}

uint32_t HostRanges::LastBegun(const Owner& owner, int64_t time_ps) const {
  const auto own = own_.find(owner);
  if (own == own_.end()) return kNone;
  const std::span<const Range> ranges =
      std::span(ranges_).subspan(own->second.begin, own->second.end - own->second.begin);
  const auto after = std::ranges::upper_bound(
      ranges, time_ps, {},
      [](const Range& range) -> const int64_t& { return range.interval.start_ps; });
  const auto begun = static_cast<uint32_t>(after - ranges.begin());
  return begun == 0 ? kNone : own->second.begin + begun - 1;
}

}  // namespace xplane_time::gpu_runs
