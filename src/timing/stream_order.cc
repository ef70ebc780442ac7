#include "timing/stream_order.h"

#include <algorithm>
#include <span>

#include "saturate.h"

namespace xplane_time {

StreamOrder::Line& StreamOrder::FindLine(uint32_t line) {
  const auto [found, is_new] = place_of_line_.try_emplace(line, lines_.size());
  if (is_new) lines_.emplace_back();
  last_line_ = line;
  last_ = &lines_[found->second];
  return *last_;
}

// Removes what has ended, and counts what has not.
void StreamOrder::AddOverlapping(const Execution& execution, Line* line) {
  size_t kept = 0;
  line->any_overruns = false;
  for (size_t i = 0; i < line->count; ++i) {
    Open& open = line->open[i];
    if (open.end_ps <= execution.start_ps) {
      Retire(open);
      continue;
    }
    line->open[kept++] = open;
  }
  line->count = kept;
  const int64_t launch = LaunchOf(execution);
  Open* only = nullptr;
  for (Open& open : std::span(line->open).first(kept)) {
    const bool is_of_one_launch = launch != 0 && open.launch == launch;
    if (SaturatingSub(open.end_ps, execution.start_ps) > kSmallOverlapPs && !is_of_one_launch) {
      if (open.later++ == 0) open.first_later_ps = execution.start_ps;
      only = &open;
    }
    line->any_overruns |= open.later > 0;
  }
  const Key key = {execution.line, execution.op, execution.program};
  const auto is_copied = [&](const Open& open) {
    return launch != 0 && open.launch == launch && open.key == key &&
           open.start_ps == execution.start_ps && open.end_ps == execution.end_ps();
  };
  if (std::ranges::any_of(std::span(line->open).first(kept), is_copied) && copies_++ == 0) {
    first_copy_ = execution.line;
  }
  if (kept == 1 && only != nullptr) ++only->alone;
  if (kept > 0 && overlaps_++ == 0) first_overlap_ = execution.line;
  if (kept < kMaxOpen) return;
  Open* const first_to_end = std::ranges::min_element(line->open, {}, &Open::end_ps);
  Retire(*first_to_end);
  std::move(first_to_end + 1, line->open.data() + kept, first_to_end);
  --line->count;
}

void StreamOrder::Retire(const Open& open) {
  if (open.later == 0) return AddOrdinary(open);
  Overruns& overruns = overruns_[open.key];
  const int64_t length_ps = open.end_ps - open.start_ps;
  if (overruns.count == 0 || length_ps > overruns.longest.end_ps - overruns.longest.start_ps) {
    overruns.longest = open;
  }
  overruns.shortest_ps =
      overruns.count == 0 ? length_ps : std::min(overruns.shortest_ps, length_ps);
  ++overruns.count;
  overruns.alone += open.alone;
}

bool StreamOrder::IsFarBeyond(int64_t end_ps, const Interval& others) {
  if (others.end_ps <= others.start_ps || end_ps <= others.end_ps) return false;
  return SaturatingSub(end_ps, others.end_ps) / kFarBeyond >=
         SaturatingSub(others.end_ps, others.start_ps);
}

std::vector<StreamOrder::Found> StreamOrder::Finish(const MedianFunction& median) {
  const auto lasts_many_times = [](int64_t length_ps, int64_t usual_ps) {
    return length_ps / kManyTimes >= std::max<int64_t>(usual_ps, 1);
  };
  std::vector<Open> lasts;
  for (const Line& line : lines_) {
    for (const Open& open : std::span(line.open).first(line.count)) {
      if (open.later > 0) {
        Retire(open);
      } else {
        lasts.push_back(open);
      }
    }
  }
  std::vector<Found> found;
  std::ranges::stable_sort(lasts, {}, &Open::end_ps);
  for (const Open& last : lasts) {
    const Interval others = {first_start_ps_, ordinary_end_ps_};
    const int64_t length_ps = last.end_ps - last.start_ps;
    if (IsFarBeyond(last.end_ps, others)) {
      const Median usual = median(last.key, 1);
      const bool is_long = usual.duration_ps.has_value()
                               ? lasts_many_times(length_ps, *usual.duration_ps)
                               : usual.is_known && IsFarLonger(length_ps);
      if (is_long) {
        found.push_back({.key = last.key,
                         .count = 1,
                         .start_ps = last.start_ps,
                         .duration_ps = length_ps,
                         .is_last = true,
                         .others = others});
        continue;
      }
    }
    AddOrdinary(last);
  }
  const Interval others = {first_start_ps_, ordinary_end_ps_};
  const auto is_impossible = [&](const Key& key, const Overruns& overruns) {
    const Median usual = median(key, overruns.count);
    if (!usual.is_known) return true;  // no decision
    if (usual.duration_ps.has_value()) {
      return lasts_many_times(overruns.shortest_ps, *usual.duration_ps);
    }
    const Open& only = overruns.longest;
    return overruns.count == 1 && IsFarLonger(only.end_ps - only.start_ps) &&
           (only.later >= kManyLater || IsFarBeyond(only.end_ps, others));
  };
  for (auto begin = overruns_.begin(); begin != overruns_.end();) {
    const uint32_t line = begin->first.line;
    const auto end = std::find_if(begin, overruns_.end(),
                                  [&](const auto& each) { return each.first.line != line; });
    const bool in_order = std::all_of(
        begin, end, [&](const auto& each) { return is_impossible(each.first, each.second); });
    for (; begin != end; ++begin) {
      const auto& [key, overruns] = *begin;
      if (!in_order || !median(key, overruns.count).is_known) continue;
      const Open& longest = overruns.longest;
      found.push_back({.key = key,
                       .count = overruns.count,
                       .start_ps = longest.start_ps,
                       .duration_ps = longest.end_ps - longest.start_ps,
                       .later = longest.later,
                       .overlap_ps = longest.end_ps - longest.first_later_ps});
      overlaps_ -= overruns.alone;
    }
  }
  return found;
}

}  // namespace xplane_time
