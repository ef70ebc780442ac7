// GpuSettings: an NVIDIA GPU's locked clock and its power cap; SettingsGuard: they go back,
// whatever ends the process that set them.
//
//   ASSIGN_OR_RETURN(auto guard, SettingsGuard::Start(library, Tell));   // before any thread
//   ASSIGN_OR_RETURN(auto gpu, GpuSettings::Open(library, "GPU-..."));
//   RETURN_IF_ERROR(gpu->CheckClocks({1410}));      // InvalidArgument: the nearest are 1395 and
//   ... RETURN_IF_ERROR(gpu->Set({.clock_mhz = 1410}, guard.get()));   // Unavailable: only root
//   may if (!guard->PutBack()) ...                      // it has told which command does it
//
//   process   hold, set       set  | returns, throws, is killed
//   guard     ...................... the pipe ends: puts back
//
// The guard is the only one that puts back: each normal end goes the way of a kill. It is a process
// in a session of its own, deaf to signals, and loads NVML when the pipe has ended. The power limit
// becomes what it was. Clocks are reset: NVML does not tell whether they were locked before. Not
// handled: SIGKILL to both, as when a container is killed.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "io/descriptor.h"
#include "power/nvml_api.h"

namespace xplane_time::power {

// What is empty stays as it is.
struct GpuSetting {
  std::optional<int64_t> clock_mhz = {}, power_cap_w = {};
  bool operator==(const GpuSetting&) const = default;
};

// What is to be put back. Goes through a pipe as it is.
struct HeldSettings {
  char uuid[kNvmlTextSize] = {};
  bool clock = false;
  unsigned limit_mw = 0;  // what the power limit was; 0: it was not set
  bool asked = false;     // to put it back; false: the pipe ended without
};

class SettingsGuard {
 public:
  using Tell = std::function<void(std::string_view)>;
  // `tell` is told in the guard's process what cannot be put back, and of a process that was killed
  // what was. Errors: Unavailable (no process, no pipe).
  static absl::StatusOr<std::unique_ptr<SettingsGuard>> Start(std::string library, Tell tell);
  ~SettingsGuard() { PutBack(); }
  SettingsGuard(const SettingsGuard&) = delete;
  SettingsGuard& operator=(const SettingsGuard&) = delete;

  // Before anything of it is set. Errors: Unavailable (the guard is gone).
  absl::Status Hold(const HeldSettings& held);
  // All of it; afterwards nothing is held. False: not all of it could be; `tell` was told.
  bool PutBack();

 private:
  SettingsGuard(std::string library, Tell tell)
      : library_(std::move(library)), tell_(std::move(tell)) {}

  std::string library_;
  Tell tell_;
  io::Descriptor alive_;
  pid_t pid_ = -1;  // -1: it ended
  HeldSettings held_;
};

class GpuSettings {
 public:
  // Errors: Unavailable.
  static absl::StatusOr<std::unique_ptr<GpuSettings>> Open(const std::string& library,
                                                           const std::string& uuid);

  // Whether the GPU takes them. Errors: InvalidArgument, with what it takes; Unavailable: the
  // driver has no such setting.
  absl::Status CheckClocks(std::span<const int64_t> clocks_mhz) const;
  absl::Status CheckCaps(std::span<const int64_t> caps_w) const;
  // What differs from what was set before. Errors: Unavailable.
  absl::Status Set(const GpuSetting& to, SettingsGuard* guard);
  std::optional<int64_t> ReadClockMhz() const;

 private:
  GpuSettings(std::unique_ptr<NvmlApi> nvml, NvmlDevice device, std::string uuid)
      : nvml_(std::move(nvml)), device_(device), uuid_(std::move(uuid)) {}
  absl::Status Failed(std::string_view function, NvmlReturn result) const;
  // Holds what it is before, too.
  absl::Status SetHeld(HeldSettings held, SettingsGuard* guard, std::string_view function,
                       const std::function<NvmlReturn()>& set);

  std::unique_ptr<NvmlApi> nvml_;
  NvmlDevice device_;
  std::string uuid_;
  HeldSettings held_;
  GpuSetting now_;  // what was set here
};

}  // namespace xplane_time::power
