#include "xplane_time/merge.h"

#include <algorithm>
#include <cassert>

#include "saturate.h"

namespace xplane_time {
namespace {

bool StartsBefore(const Interval& a, const Interval& b) { return a.start_ps < b.start_ps; }

// Traces are sorted nearly always; looking first makes that case linear.
void SortByStart(std::vector<Interval>& intervals) {
  if (std::is_sorted(intervals.begin(), intervals.end(), StartsBefore)) return;
  std::sort(intervals.begin(), intervals.end(), StartsBefore);
}

}  // namespace

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
