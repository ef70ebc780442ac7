// Steps: the time from the end of one step's work to the end of the next one's.
//
//   mark         |-- 7 --|       |-- 8 --|        |-- 9 --|
//   members        |--| |----|     |---|                 |--|
//   device   |x|     |--|      |x|
//   steps        |---- 7 ----|   |- 8 -|          |-- 9 ----|
//
// A step ends with its last member, or with the previous step if that ends later. It begins where
// the previous step ended. If its mark begins later than that, it begins with its mark or its first
// member, whichever is earlier. So the time in which a device waits inside a marked step belongs to
// the step. Time between two marks belongs to none. The first step begins with its mark, but not
// before the device's first execution; without a mark it begins with its first member.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "xplane_time/intervals.h"

namespace xplane_time {

struct StepMembers {
  int64_t start_ps, end_ps;                   // first start, last end
  std::optional<int64_t> mark_start_ps = {};  // on the device's clock
};

struct PlacedStep {
  enum class Begin : uint8_t { kPreviousEnd, kMark, kMember };
  Interval interval;
  Begin begin = Begin::kPreviousEnd;
  size_t ended_by = 0;  // the step whose last member is its end: itself or an earlier one
};

// Steps in the order of their first members. `first_ps`: the device's first start.
std::vector<PlacedStep> PlaceSteps(int64_t first_ps, std::span<const StepMembers> members);

// How many steps at the beginning have no known start: a first one without a mark.
inline size_t CountUntimed(std::span<const StepMembers> members) {
  return members.empty() || members[0].mark_start_ps.has_value() ? 0 : 1;
}
// The median of the spans of the other steps. Empty: there are no other steps.
std::optional<double> MedianSpan(std::span<const StepMembers> members,
                                 std::span<const PlacedStep> placed);
// The median distance between the starts of consecutive steps among them. Empty: there are fewer
// than two.
std::optional<double> MedianPeriod(std::span<const StepMembers> members,
                                   std::span<const PlacedStep> placed);

}  // namespace xplane_time
