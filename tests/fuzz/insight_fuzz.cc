// Every trace that a reader accepts can be explained: no crash, no endless loop, and the parts add
// up.
#include <cstdint>

#include "insight/diff.h"
#include "tests/fuzz/on_trace.h"
#include "xplane_time/brief.h"
#include "xplane_time/headroom.h"
#include "xplane_time/where.h"

namespace xplane_time {
namespace {

// Sums saturate if the times of a damaged trace do.
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

void CheckBrief(const BriefReport& report) {
  for (const BriefDevice& device : report.devices) {
    Require(device.recoverable_ps >= 0 && device.recoverable_ps <= device.span_ps,
            "findings are disjoint");
  }
}

// Compares a capture with itself.
void CheckDiff(const Trace& trace, const DiffOptions& options, const Diagnostics& reading) {
  const auto capture = insight::MeasureForDiff(trace, options, reading);
  if (!capture.ok()) return;
  const auto diff = insight::DiffOf({*capture}, {*capture}, options);
  if (!diff.ok() || diff->base.total_ps >= INT64_MAX / 4) return;
  int64_t sum_ps = 0;
  for (const DiffRow& row : diff->rows) {
    Require(row.delta_ps == 0, "nothing changed");
    if (row.base.has_value()) sum_ps += row.base->total_ps;
  }
  Require(sum_ps == diff->base.total_ps, "rows add up to the total");
}

void TryAll(const Trace& trace, const Diagnostics& reading) {
  for (const char* device : {"", "all"}) {
    if (auto where = FindWhere(trace, {.device = device}, reading); where.ok()) CheckWhere(*where);
    if (auto brief = FindBrief(trace, {.device = device}, reading); brief.ok()) CheckBrief(*brief);
    HeadroomOptions options = {.peak_flops_per_s = 1e12, .peak_bytes_per_s = 1e12};
    options.select.device = device;
    if (auto report = BuildHeadroom(trace, options, reading); report.ok()) CheckHeadroom(*report);
    for (const DiffPer per : {DiffPer::kStep, DiffPer::kRun, DiffPer::kCapture}) {
      CheckDiff(trace, {.select = options.select, .per = per}, reading);
    }
  }
}

}  // namespace
}  // namespace xplane_time

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return xplane_time::OnTrace(data, size, xplane_time::TryAll);
}
