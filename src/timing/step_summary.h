// The limiting cause of a device's steps.
#pragma once

#include <cstdint>
#include <optional>
#include <ranges>
#include <span>
#include <vector>

#include "timing/analysis.h"
#include "timing/device_parts.h"
#include "timing/filters.h"

namespace xplane_time {

// The runs of each program.
std::vector<std::span<const RunSample>> SamplesByProgram(std::span<const RunSample> samples);
// The runs of the program with the largest active time. Empty: no program was active, or a tie.
std::span<const RunSample> LongestProgram(std::span<const RunSample> samples);

// Filters change no steps, except that --function may name the function with the steps. Empty:
// neither marks nor a function; or the device's times are not known (PartsWatch::parts()).
std::optional<StepSummary> SummarizeSteps(const DeviceAnalysis& device, const PartsWatch& watch,
                                          const Filters& filters);

// The row whose steps take longest, of those that have `steps`; end: none has. A report and a brief
// speak of the same device.
template <typename Rows>
auto FindLongestSteps(const Rows& rows) {
  auto longest = std::ranges::end(rows);
  const auto median_ps = [](const auto& row) { return row.steps->step_median_ps.value_or(-1); };
  for (auto row = std::ranges::begin(rows); row != std::ranges::end(rows); ++row) {
    if (!row->steps.has_value()) continue;
    if (longest == std::ranges::end(rows) || median_ps(*row) > median_ps(*longest)) longest = row;
  }
  return longest;
}

}  // namespace xplane_time
