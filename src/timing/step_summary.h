// The limiting cause of a device's steps.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "timing/analysis.h"
#include "timing/device_parts.h"

namespace xplane_time {

// The runs of each program.
std::vector<std::span<const RunSample>> SamplesByProgram(std::span<const RunSample> samples);
// The program with the largest active time, if it has two runs or more. Empty: no such program, or
// a tie.
std::span<const RunSample> LongestProgram(std::span<const RunSample> samples);

// Empty: neither marks nor a function; or the device's times are not known (PartsWatch::parts()).
std::optional<StepSummary> SummarizeSteps(const DeviceAnalysis& device, const PartsWatch& watch);

}  // namespace xplane_time
