// Select: finds the planes that are devices, and the devices that the user wants.
//
// Input: a Trace and the text of --device. Output: the device planes of the wanted kinds, even if
// they executed nothing. Only the code of the device kinds (src/devices) knows which lines have
// executions.
//
//   gpu | tpu | cpu | custom | all     by kind
//   gpu:0,2                            by kind and ordinal
//   /device:GPU:0                      the plane with this name
//   GPU:0, TPU:0 SparseCore 1, XPU     as tables print planes; without a number: all with the name
//   re:REGEX                           RE2 search on plane names
//   (empty)                            the accelerators; the CPU only if a capture
//                                      has no accelerator plane at all
//
// The whole name of a plane determines its kind ("/device:GPU:7", also with " [7]" or " (pid 7)"
// appended); a word inside the name does not. Other planes that begin with "/device:" are custom
// devices.
//
// Example:
//
//   Diagnostics diagnostics;
//   const std::vector<std::string> paths = {"trace.xplane.pb"};
//   auto trace = OpenTrace(*FindInputs(paths, {}), {}, &diagnostics);
//   if (!trace.ok()) return trace.status();
//   auto selection = SelectDevices(*trace, "gpu:0");
//   if (!selection.ok()) return selection.status();
//   for (const DevicePlane& device : selection->planes) {
//     std::cout << trace->planes[device.plane].name << '\n';  // "/device:GPU:0"
//   }
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

// A plane that may have executions. A CPU plane contains several devices, which differ by the
// device_ordinal of their thunks; `ordinal` is then empty.
struct DevicePlane {
  uint32_t plane = 0;  // into Trace::planes
  DeviceKind kind = DeviceKind::kCustom;
  std::optional<int64_t> ordinal;
};

struct Selection {
  std::vector<DevicePlane> planes;  // wanted, in file order
  std::vector<int64_t> ordinals;    // wanted ordinals; empty: all. Applies to CPU devices too.
  std::string text;                 // the selector of the user, for messages
  bool WantsOrdinal(int64_t ordinal) const;
};

// All planes of the trace that are devices.
std::vector<DevicePlane> FindDevicePlanes(const Trace& trace);

// The planes of the trace for messages: "/device:GPU:0 (54 events), ...".
std::string ListPlanes(const Trace& trace);

// Selects devices. Errors: InvalidArgument (invalid selector or regex), FailedPrecondition (no
// match; the message lists the planes of the trace).
absl::StatusOr<Selection> SelectDevices(const Trace& trace, std::string_view text);

// Indices of all planes that `text` selects, devices or not ("all": every plane). For commands that
// show raw rows. Errors: as SelectDevices.
absl::StatusOr<std::vector<uint32_t>> SelectPlanes(const Trace& trace, std::string_view text);

}  // namespace xplane_time
