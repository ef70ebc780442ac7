#include "xplane_time/normalize.h"

#include <limits>

namespace xplane_time {
namespace {

__extension__ typedef __int128 Int128;  // holds every sum below

constexpr int64_t kPsPerNs = 1000;

}  // namespace

int64_t ChooseBaseNs(std::span<const Line> lines) {
  int64_t base_ns = 0;
  for (const Line& line : lines) {
    // The timestamp of a line without events puts nothing on the axis.
    if (line.event_count == 0 || line.timestamp_ns < kEpochTimestampNs) continue;
    if (base_ns == 0 || line.timestamp_ns < base_ns) base_ns = line.timestamp_ns;
  }
  return base_ns;
}

std::optional<int64_t> ToAxisPs(int64_t timestamp_ns, int64_t base_ns, int64_t offset_ps) {
  const Int128 start_ps = (Int128{timestamp_ns} - base_ns) * kPsPerNs + offset_ps;
  if (start_ps < std::numeric_limits<int64_t>::min()) return std::nullopt;
  if (start_ps > std::numeric_limits<int64_t>::max()) return std::nullopt;
  return static_cast<int64_t>(start_ps);
}

std::optional<int64_t> EndPs(int64_t start_ps, int64_t duration_ps) {
  int64_t end_ps = 0;
  if (duration_ps < 0 || __builtin_add_overflow(start_ps, duration_ps, &end_ps)) {
    return std::nullopt;
  }
  return end_ps;
}

}  // namespace xplane_time
