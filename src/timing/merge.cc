#include "xplane_time/merge.h"

#include <algorithm>
#include <cassert>

#include "timing/saturate.h"

namespace xplane_time {
namespace {

bool StartsBefore(const Interval& a, const Interval& b) { return a.start_ps < b.start_ps; }

// Traces are sorted nearly always; looking first makes that case linear.
void SortByStart(std::vector<Interval>& intervals) {
  if (std::is_sorted(intervals.begin(), intervals.end(), StartsBefore)) return;
  std::sort(intervals.begin(), intervals.end(), StartsBefore);
}

}  // namespace

void UnionLength::Add(int64_t start_ps, int64_t end_ps) {
  assert(start_ps <= end_ps);
  assert(!any_ || start_ps >= last_start_ps_);
  const int64_t uncovered_ps = any_ ? std::max(start_ps, end_ps_) : start_ps;
  if (uncovered_ps < end_ps) {
    length_ps_ = SaturatingAdd(length_ps_, SaturatingSub(end_ps, uncovered_ps));
  }
  end_ps_ = any_ ? std::max(end_ps_, end_ps) : end_ps;
  last_start_ps_ = start_ps;
  any_ = true;
}

int64_t UnionLengthPs(std::vector<Interval> intervals) {
  SortByStart(intervals);
  UnionLength length;
  for (const Interval& interval : intervals) length.Add(interval.start_ps, interval.end_ps);
  return length.length_ps();
}

std::vector<Interval> MergeIntervals(std::vector<Interval> intervals) {
  SortByStart(intervals);
  std::vector<Interval> merged;
  for (const Interval& interval : intervals) {
    if (interval.start_ps == interval.end_ps) continue;
    if (merged.empty() || merged.back().end_ps < interval.start_ps) {
      merged.push_back(interval);
    } else {
      merged.back().end_ps = std::max(merged.back().end_ps, interval.end_ps);
    }
  }
  return merged;
}

}  // namespace xplane_time
