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
    if (id != last_id_) Find(id);
    if (!found_) {
      ++without_launch_;
      continue;
    }
    stream->last_launch_ps = std::max(stream->last_launch_ps, launched_ps_);
    if (execution.start_ps >= launched_ps_) continue;
    if (early_.count++ == 0) early_.line = execution.line;
    early_.most_ps = std::max(early_.most_ps, SaturatingSub(launched_ps_, execution.start_ps));
  }
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

void LaunchCheck::Find(uint64_t correlation_id) {
  last_id_ = correlation_id;
  found_ = false;
  if (correlation_id == 0) return;
  const auto launch = evidence_.launches.FindFirst(correlation_id, &place_);
  if (!launch.has_value()) return;
  found_ = true;
  has_executed_[evidence_.launches.IndexOf(correlation_id, place_)] = true;
  launched_ps_ = launch->start_ps;
  if (launch->line == launching_line_) return;
  launching_line_ = launch->line;
  launching_lines_.insert(launch->line);
}

}  // namespace xplane_time
