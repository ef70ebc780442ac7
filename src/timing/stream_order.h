// StreamOrder: finds durations that are impossible because a stream executes one thing after the
// other.
//
//   stream   |-1-| |-2-| |-3---------------------------------------------- ... 3.4 s
//                              |-4-| |-5-| |-6-| |-7-|
//
// Kernel 3 ended before 4 began: its recorded end is wrong (a counter that overflowed).
//
// Small overlaps are valid: a kernel may start before the previous one ends (programmatic
// dependent launch, up to 4 us seen), and old profilers round to microseconds. Large overlaps are
// valid if a line is not a stream: the parallel branches of a graph, AMD's hardware queues. So this
// is the rule:
//
//   - An execution *overruns* if it still runs kSmallOverlapPs after a later execution of its
//     line starts, and both are not of one launch, like kernels of one graph.
//   - A line is in order if each kernel that overruns on it lasts at least kManyTimes as long
//     as the median of its other executions, of which there are kFewOthers or more. Otherwise
//     the line runs executions in parallel, and its durations are not judged.
//   - On a line in order, every execution that overruns is impossible.
//
// A kernel with fewer other executions is compared with all executions of the device that do not
// overrun. It is impossible if all of this holds: it is the only execution of its kernel that
// overruns; it lasts kFarLonger times as long as the longest of kManyExecutions or more; and it
// overlaps kManyLater executions, or lasts kFarBeyond times as long as the rest of the device's
// time, from the first start to the last end.
//
// The last execution of a line has no later execution that could contradict it. It is impossible
// (`is_last`) if it lasts that long compared with its kernel, or with all executions, and that far
// beyond the rest. The caller also checks that the host recorded no later event.
//
// Memory: kMaxOpen executions per line, and a few words for each kernel that overruns.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "devices/device_kind.h"

namespace xplane_time {

class StreamOrder {
 public:
  static constexpr int64_t kSmallOverlapPs = 10'000'000;
  static constexpr int64_t kManyTimes = 20, kFarLonger = 100, kFarBeyond = 10;
  static constexpr uint64_t kFewOthers = 3, kManyExecutions = 20, kManyLater = 10;

  // The kernel of an execution on a line.
  struct Key {
    uint32_t line, op, program;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  // `launch_id`: the place in Execution::numbers of the id of its launch.
  explicit StreamOrder(std::optional<size_t> launch_id) : launch_id_(launch_id) {}

  // In order of start; executions of one line that overlap are counted.
  void Add(const Execution& execution) {
    if (lines_.empty()) first_start_ps_ = execution.start_ps;
    Line& line = execution.line == last_line_ ? *last_ : FindLine(execution.line);
    if (execution.start_ps >= line.furthest_end_ps && !line.any_overruns) {
      for (size_t i = 0; i < line.count; ++i) AddOrdinary(line.open[i]);
      line.count = 0;
    } else {
      AddOverlapping(execution, &line);
    }
    line.open[line.count++] = {.key = {execution.line, execution.op, execution.program},
                               .start_ps = execution.start_ps,
                               .end_ps = execution.end_ps(),
                               .launch = LaunchOf(execution)};
    line.furthest_end_ps = std::max(line.furthest_end_ps, execution.end_ps());
  }

  struct Found {
    Key key = {};
    uint64_t count = 0;                     // of the executions that are impossible
    int64_t start_ps = 0, duration_ps = 0;  // of the longest of them
    uint64_t later = 0;                     // executions that start before its end
    int64_t overlap_ps = 0;                 // from the start of the first of these to its end
    bool is_last = false;
    // With is_last: when the device's first execution starts, and its last other one ends.
    Interval others = {};
  };
  // Whether an execution that ends then lasts beyond `others` by kFarBeyond times their length.
  static bool IsFarBeyond(int64_t end_ps, const Interval& others);

  // `median(key, count)`: of the durations of the kernel except its `count` longest; empty if fewer
  // than kFewOthers remain, or if they are unknown.
  struct Median {
    std::optional<int64_t> duration_ps = {};
    bool is_known = true;  // false: the kernel was filtered out
  };
  using MedianFunction = std::function<Median(const Key& key, uint64_t count)>;
  // After the last Add(), once.
  std::vector<Found> Finish(const MedianFunction& median);

  // After Finish(): how many executions started before the end of an earlier one on their line,
  // without those that only impossible ones overlap.
  uint64_t overlaps() const { return overlaps_; }
  uint32_t first_overlap() const { return first_overlap_; }  // its line
  // How many executions are copies of an earlier one: the same kernel on the same line, with the
  // same start, duration and launch. Executions without a launch or a duration are not compared.
  uint64_t copies() const { return copies_; }
  uint32_t first_copy() const { return first_copy_; }  // its line

 private:
  static constexpr size_t kMaxOpen = 8;
  struct Open {
    Key key = {};
    int64_t start_ps = 0, end_ps = 0;
    int64_t launch = 0;
    int64_t first_later_ps = 0;  // the start of the first execution that it overruns
    uint64_t later = 0;          // how many it overruns
    uint64_t alone = 0;          // of these, executions without overlaps
  };
  struct Line {
    int64_t furthest_end_ps = std::numeric_limits<int64_t>::min();
    bool any_overruns = false;  // of `open`
    size_t count = 0;
    std::array<Open, kMaxOpen> open;  // by start
  };
  struct Overruns {
    uint64_t count = 0, alone = 0;
    int64_t shortest_ps = 0;
    Open longest = {};
  };

  int64_t LaunchOf(const Execution& execution) const {
    return launch_id_.has_value() ? execution.numbers[*launch_id_] : 0;
  }
  Line& FindLine(uint32_t line);
  void AddOverlapping(const Execution& execution, Line* line);
  void Retire(const Open& open);
  // One that does not overrun.
  void AddOrdinary(const Open& open) {
    ++ordinary_;
    ordinary_end_ps_ = std::max(ordinary_end_ps_, open.end_ps);
    longest_ordinary_ps_ = std::max(longest_ordinary_ps_, open.end_ps - open.start_ps);
  }
  bool IsFarLonger(int64_t length_ps) const {
    return ordinary_ >= kManyExecutions &&
           length_ps / kFarLonger >= std::max<int64_t>(longest_ordinary_ps_, 1);
  }

  const std::optional<size_t> launch_id_;
  std::deque<Line> lines_;
  absl::flat_hash_map<uint32_t, size_t> place_of_line_;
  uint32_t last_line_ = kNone;
  Line* last_ = nullptr;
  std::map<Key, Overruns> overruns_;
  int64_t first_start_ps_ = 0;
  // Of the executions that do not overrun.
  uint64_t ordinary_ = 0;
  int64_t ordinary_end_ps_ = std::numeric_limits<int64_t>::min(), longest_ordinary_ps_ = 0;
  uint64_t overlaps_ = 0;
  uint32_t first_overlap_ = 0;
  uint64_t copies_ = 0;
  uint32_t first_copy_ = 0;
};

}  // namespace xplane_time
