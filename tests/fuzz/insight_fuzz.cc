// Whatever a reader accepts can be explained: no crash, no endless loop, and parts add up.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "io/gzip.h"
#include "xplane_time/headroom.h"
#include "xplane_time/read.h"
#include "xplane_time/where.h"

namespace xplane_time {
namespace {

void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

// Sums saturate where the times of a damaged trace do.
bool IsSmall(const TimeParts& time) { return *time.span_ps < INT64_MAX / 4; }

void CheckParts(const TimeParts& time, int64_t foreign_ps) {
  if (!time.compute_ps.has_value()) return;
  Require(*time.span_ps >= 0 && *time.idle_ps >= 0, "span and idle time >= 0");
  if (!IsSmall(time)) return;
  Require(*time.compute_ps + *time.collective_exposed_ps + *time.copy_exposed_ps + *time.other_ps +
                  *time.idle_ps + foreign_ps ==
              *time.span_ps,
          "parts add up to the span");
  Require(time.idle_host_ps.value_or(0) + time.idle_launch_ps.value_or(0) + *time.idle_unknown_ps ==
              *time.idle_ps,
          "idle parts add up to idle time");
  Require(*time.copy_exposed_ps + *time.copy_hidden_ps <= *time.copy_ps,
          "exposed + hidden <= in flight");
}

void CheckWhere(const WhereReport& report) {
  for (const WhereDevice& row : report.devices) CheckParts(row.time, 0);
  for (const WhereStep& row : report.steps) CheckParts(row.time, 0);
  for (const WhereFunction& row : report.functions) {
    CheckParts(row.time, row.foreign_ps.value_or(0));
  }
}

void CheckHeadroom(const HeadroomReport& report) {
  for (const HeadroomRow& row : report.ops) {
    Require(!row.recoverable_ps.has_value() || *row.recoverable_ps >= 0, "recoverable >= 0");
    Require(row.recoverable_ps.has_value() || row.reason.has_value(), "unknown has a reason");
  }
}

void TryAll(const Trace& trace, const Diagnostics& reading) {
  for (const char* device : {"", "all"}) {
    if (auto where = FindWhere(trace, {.device = device}, reading); where.ok()) CheckWhere(*where);
    HeadroomOptions options = {.peak_flops_per_s = 1e12, .peak_bytes_per_s = 1e12};
    options.select.device = device;
    if (auto report = BuildHeadroom(trace, options, reading); report.ok()) CheckHeadroom(*report);
  }
}

}  // namespace
}  // namespace xplane_time

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (xplane_time::LooksLikeGzip(bytes)) return 0;
  xplane_time::Diagnostics reading;
  auto trace = xplane_time::OpenTraceFromMemory(bytes, "trace", {}, &reading);
  if (trace.ok()) xplane_time::TryAll(*trace, reading);
  return 0;
}
