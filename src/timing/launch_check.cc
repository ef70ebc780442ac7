#include "timing/launch_check.h"

#include <algorithm>

#include "saturate.h"

namespace xplane_time {

void LaunchCheck::Add(std::span<const Execution> chunk) {
  for (const Execution& execution : chunk) {
    Stream* const stream = StreamOf(execution.line);
    stream->last_end_ps = std::max(stream->last_end_ps, execution.end_ps());
    longest_ps_ = std::max(longest_ps_, execution.duration_ps);
    const auto id = static_cast<uint64_t>(execution.numbers[launch_id_]);
    Known& launch = known_[id % kKnown];
    if (launch.id != id) launch = Find(id);
    if (!launch.found) {
      ++without_launch_;
      continue;
    }
    stream->last_launch_ps = std::max(stream->last_launch_ps, launch.launched_ps);
    if (execution.run != kNone) AddToRun(execution.run, launch.launched_ps, launch.line);
    if (execution.start_ps >= launch.launched_ps) continue;
    if (early_.count++ == 0) early_.line = execution.line;
    early_.most_ps =
        std::max(early_.most_ps, SaturatingSub(launch.launched_ps, execution.start_ps));
  }
}

void LaunchCheck::AddToRun(uint32_t run, int64_t launched_ps, uint32_t line) {
  if (run >= runs_.size()) runs_.resize(size_t{run} + 1);
  RunLaunches& launches = runs_[run];
  if (launches.first_ps == kNoTimePs || launched_ps < launches.first_ps) {
    launches.first_ps = launched_ps;
    launches.line = line;
  }
  launches.last_ps = std::max(launches.last_ps, launched_ps);
}

LaunchCheck::Stream* LaunchCheck::StreamOf(uint32_t line) {
  if (line != last_line_) {
    const auto [found, is_new] = stream_of_line_.try_emplace(line, streams_.size());
    if (is_new) streams_.emplace_back();
    last_line_ = line;
    last_stream_ = found->second;
  }
  return &streams_[last_stream_];
}

LaunchCheck::Known LaunchCheck::Find(uint64_t correlation_id) {
  const auto launch = evidence_.launches.FindFirst(correlation_id, &place_);
  if (!launch.has_value()) return {.id = correlation_id};
  has_executed_[evidence_.launches.IndexOf(correlation_id, place_)] = true;
  if (launch->line != launching_line_) {
    launching_line_ = launch->line;
    launching_lines_.insert(launch->line);
  }
  return {correlation_id, true, launch->start_ps, launch->line};
}

}  // namespace xplane_time
