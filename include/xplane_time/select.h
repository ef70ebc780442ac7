// Select: which planes are devices, and which of them are wanted.
//
// Enters: a Trace and the text of --device. Leaves: the device planes of the wanted
// kinds, whether or not they executed anything. Which of their lines are executions is
// known to the device kind alone (src/devices).
//
//   gpu | tpu | cpu | custom | all     by kind
//   gpu:0,2                            by kind and ordinal
//   /device:GPU:0                      the plane with this name
//   GPU:0, TPU:0 SparseCore 1, XPU     as tables print planes; without a number: all of the name
//   re:REGEX                           RE2 search on plane names
//   (empty)                            the accelerators; the CPU only where a capture
//                                      has no accelerator plane at all
//
// A plane's kind comes from its whole name ("/device:GPU:7", also with " [7]" or " (pid 7)"
// appended), never from a word that it contains. Other planes that begin with "/device:" are custom
// devices.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "xplane_time/trace.h"

namespace xplane_time {

enum class DeviceKind : uint8_t { kGpu, kTpu, kCpu, kCustom };
std::string_view DeviceKindName(DeviceKind kind);

// A plane that may execute something. On CPU one plane holds several devices, told
// apart by the thunks' device_ordinal, and `ordinal` is empty here.
struct DevicePlane {
  uint32_t plane = 0;  // into Trace::planes
  DeviceKind kind = DeviceKind::kCustom;
  std::optional<int64_t> ordinal;
};

struct Selection {
  std::vector<DevicePlane> planes;  // wanted, in file order
  std::vector<int64_t> ordinals;    // wanted ordinals; empty: all. Applies to CPU devices too.
  std::string text;                 // what was asked for, for messages
  bool WantsOrdinal(int64_t ordinal) const;
};

// All planes of the trace that are devices.
std::vector<DevicePlane> FindDevicePlanes(const Trace& trace);

// For messages: the planes that are there, "/device:GPU:0 (54 events), ...".
std::string ListPlanes(const Trace& trace);

// Errors: InvalidArgument (selector or regex), FailedPrecondition (nothing matches; the
// message lists the planes that are there).
absl::StatusOr<Selection> SelectDevices(const Trace& trace, std::string_view text);

// Indices of all planes that `text` names, devices or not ("all": every plane):
// for commands that show raw rows. Same errors.
absl::StatusOr<std::vector<uint32_t>> SelectPlanes(const Trace& trace, std::string_view text);

}  // namespace xplane_time
