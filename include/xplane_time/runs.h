// Runs: what executed on each device splits into runs of functions. A run is one execution
// of a compiled function on one device.
//
//   GPU   events on stream lines with equal (hlo_module, program_id), split by annotation
//         scopes, by launches or by likelihood (src/devices/gpu_runs/splitter.h)
//   TPU   one `XLA Modules` event; ops belong by start time on the profile clock and
//         are measured by the device clock where they carry it
//   CPU   thunks with equal (hlo_module, program_id, run_id, device_ordinal)
//
//         run 0                    run 1
//   |-k0-| |--k1--|      ... |-k0-| |--k1--|
//   |----- span ---|         active = union of the kernels, gap = span - active
//
// The rules of a device kind are in one file (src/devices). Filters come after the
// split: they choose what counts, never where a run begins. `min_duration_ps` and
// `max_events` (report.h) come before it: what they leave out is not seen at all.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"

namespace xplane_time {

enum class Clock : uint8_t { kProfile, kDevice };
enum class ClockChoice : uint8_t { kAuto, kDevice, kProfile };
std::string_view ClockName(Clock clock);
// "auto", "device", "profile". Errors: InvalidArgument.
absl::StatusOr<ClockChoice> ParseClockChoice(std::string_view text);

enum class Category : uint8_t { kCompute, kCopy, kCollective, kOther };
std::string_view CategoryName(Category category);

}  // namespace xplane_time
