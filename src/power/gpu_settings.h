// GpuSettings sets the locked clock and the power cap of an NVIDIA GPU. SettingsGuard restores
// them, however the process that set them ends.
//
//   ASSIGN_OR_RETURN(auto guard, SettingsGuard::Start(library, Tell));   // before any thread
//   ASSIGN_OR_RETURN(auto gpu, GpuSettings::Open(library, "GPU-..."));
//   RETURN_IF_ERROR(gpu->CheckClocks({1410}));   // InvalidArgument names the nearest clocks
//   RETURN_IF_ERROR(gpu->Set({.clock_mhz = 1410}, guard.get()));   // Unavailable: needs root
//   if (!guard->PutBack()) ...                   // `Tell` got the command that restores them
//
//   process   hold, set       set  | returns, throws, is killed
//   guard     ...................... the pipe ends: restores
//
// Only the guard restores settings, so a normal exit uses the same path as a kill. The guard is a
// process in its own session. It blocks all signals and loads NVML when the pipe has ended. It sets
// the power limit to its previous value. It resets the clocks, because NVML does not report whether
// they were locked before. Not handled: SIGKILL to both processes, as when a container is killed.
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

// Empty settings are not changed.
struct GpuSetting {
  std::optional<int64_t> clock_mhz = {}, power_cap_w = {};
  bool operator==(const GpuSetting&) const = default;
};

// The settings to restore. Written to the pipe as raw bytes.
struct HeldSettings {
  char uuid[kNvmlTextSize] = {};
  bool clock = false;
  unsigned limit_mw = 0;  // previous power limit; 0 if it was not set
  bool asked = false;     // restoring was requested; false if the pipe ended without a request
};

class SettingsGuard {
 public:
  using Tell = std::function<void(std::string_view)>;
  // Calls `tell` in the guard's process for each setting that cannot be restored, and after
  // restoring the settings of a killed process. Errors: Unavailable (no process, no pipe).
  static absl::StatusOr<std::unique_ptr<SettingsGuard>> Start(std::string library, Tell tell);
  ~SettingsGuard() { PutBack(); }
  SettingsGuard(const SettingsGuard&) = delete;
  SettingsGuard& operator=(const SettingsGuard&) = delete;

  // Call before a setting is changed. Errors: Unavailable (the guard has ended).
  absl::Status Hold(const HeldSettings& held);
  // Restores all settings; afterwards no setting is held. Returns false if some could not be
  // restored; `tell` was called for them.
  bool PutBack();

 private:
  SettingsGuard(std::string library, Tell tell)
      : library_(std::move(library)), tell_(std::move(tell)) {}

  std::string library_;
  Tell tell_;
  io::Descriptor alive_;
  pid_t pid_ = -1;  // -1 after it ended
  HeldSettings held_;
};

class GpuSettings {
 public:
  // Errors: Unavailable.
  static absl::StatusOr<std::unique_ptr<GpuSettings>> Open(const std::string& library,
                                                           const std::string& uuid);

  // Check whether the GPU accepts the values. Errors: InvalidArgument, with the accepted values;
  // Unavailable if the driver has no such setting.
  absl::Status CheckClocks(std::span<const int64_t> clocks_mhz) const;
  absl::Status CheckCaps(std::span<const int64_t> caps_w) const;
  // Changes the settings that differ from the previous call. Errors: Unavailable.
  absl::Status Set(const GpuSetting& to, SettingsGuard* guard);
  std::optional<int64_t> ReadClockMhz() const;

 private:
  GpuSettings(std::unique_ptr<NvmlApi> nvml, NvmlDevice device, std::string uuid)
      : nvml_(std::move(nvml)), device_(device), uuid_(std::move(uuid)) {}
  absl::Status Failed(std::string_view function, NvmlReturn result) const;
  // Makes the guard hold the previous value as well.
  absl::Status SetHeld(HeldSettings held, SettingsGuard* guard, std::string_view function,
                       const std::function<NvmlReturn()>& set);

  std::unique_ptr<NvmlApi> nvml_;
  NvmlDevice device_;
  std::string uuid_;
  HeldSettings held_;
  GpuSetting now_;  // settings that this object has set
};

}  // namespace xplane_time::power
