// Sets clocks and power caps through NVML, with a guard process that restores them.
//
// Before each change, the process writes what has to be restored to a pipe (SettingsGuard::Hold),
// so that the guard knows it even if the process is killed during the change. If NVML reports that
// the setting was not changed, the previous state is written again. The guard reads the pipe to its
// end; the last message counts. PutBack closes the pipe and waits for the guard. If the guard
// itself was killed, the process restores the settings directly.
#include "power/gpu_settings.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "status.h"

namespace xplane_time::power {
namespace {

constexpr int64_t kMwPerW = 1000;
constexpr char kLock[] = "nvmlDeviceSetGpuLockedClocks",
               kReset[] = "nvmlDeviceResetGpuLockedClocks",
               kSetLimit[] = "nvmlDeviceSetPowerManagementLimit",
               kGetLimit[] = "nvmlDeviceGetPowerManagementLimit",
               kLimits[] = "nvmlDeviceGetPowerManagementLimitConstraints",
               kClocks[] = "nvmlDeviceGetSupportedGraphicsClocks";

absl::StatusOr<std::unique_ptr<NvmlApi>> Initialized(const std::string& library) {
  PowerAbsence absence;
  auto nvml = OpenNvml(library, &absence);
  if (nvml == nullptr) return Unavailable(absence.message, "; ", absence.fix);
  const NvmlReturn result = nvml->init();
  if (result != kNvmlSuccess) return Unavailable("nvmlInit: ", NvmlErrorText(result));
  nvml->initialized = true;
  return nvml;
}

// Restores the held settings. Calls `tell` with the repairing command for each setting that cannot
// be restored. Returns true if all were restored.
bool PutBackNow(const std::string& library, const HeldSettings& held,
                const SettingsGuard::Tell& tell) {
  bool all_back = true;
  const auto nvml = Initialized(library);
  const auto put_back = [&](std::string_view what, const std::string& command,
                            std::string_view function, auto call) {
    std::string why(nvml.status().message());
    if (nvml.ok()) {
      NvmlDevice device = nullptr;
      NvmlReturn result = (*nvml)->device_by_uuid(held.uuid, &device);
      if (result == kNvmlSuccess) result = call(**nvml, device);
      if (result == kNvmlSuccess) return;
      why = Cat(function, ": ", NvmlErrorText(result));
    }
    all_back = false;
    tell(Cat("THE SETTINGS OF THE GPU ARE STILL CHANGED: ", what, " of ", held.uuid,
             " cannot be restored: ", why, "; run as root: nvidia-smi -i ", held.uuid, " ",
             command));
  };
  if (held.clock) {
    put_back("the locked clock", "-rgc", kReset,
             [](const NvmlApi& api, NvmlDevice device) { return api.reset_locked_clocks(device); });
  }
  if (held.limit_mw > 0) {
    put_back("the power limit", Cat("-pl ", static_cast<double>(held.limit_mw) / kMwPerW),
             kSetLimit, [&](const NvmlApi& api, NvmlDevice device) {
               return api.set_power_limit(device, held.limit_mw);
             });
  }
  return all_back;
}

// The last message before the writing end is closed.
HeldSettings ReadToItsEnd(int alive) {
  HeldSettings held, next;
  for (;;) {
    const ssize_t got = read(alive, &next, sizeof next);
    if (got == static_cast<ssize_t>(sizeof next)) held = next;
    if (got == 0 || (got < 0 && errno != EINTR)) return held;
  }
}

// Runs after fork, in a process that had no other threads. The new session shields it from Ctrl-C.
[[noreturn]] void BecomeGuard(int alive, const std::string& library,
                              const SettingsGuard::Tell& tell) {
  setsid();
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, nullptr);
  dup2(alive, STDIN_FILENO);
  // A reader of the process's output must not wait for the guard.
  dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
  closefrom(STDERR_FILENO + 1);
  const HeldSettings held = ReadToItsEnd(STDIN_FILENO);
  if (!held.clock && held.limit_mw == 0) _exit(0);
  const bool all_back = PutBackNow(library, held, tell);
  if (all_back && !held.asked) {
    tell(Cat("xplane-time was killed; the clock and power limit of ", held.uuid, " were restored"));
  }
  _exit(all_back ? 0 : 1);
}

// Whether the result implies that the setting was not changed.
bool ChangedNothing(NvmlReturn result) {
  return result == kNvmlNoPermission || result == kNvmlNotSupported ||
         result == kNvmlInvalidArgument || result == kNvmlFunctionNotFound;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SettingsGuard>> SettingsGuard::Start(std::string library,
                                                                    Tell tell) {
  std::unique_ptr<SettingsGuard> guard(new SettingsGuard(std::move(library), std::move(tell)));
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return Unavailable("cannot create a pipe to the process that restores the GPU's settings: ",
                       strerror(errno));
  const io::Descriptor read_end(ends[0]);
  guard->alive_ = io::Descriptor(ends[1]);
  guard->pid_ = fork();
  if (guard->pid_ == 0) BecomeGuard(read_end.get(), guard->library_, guard->tell_);
  if (guard->pid_ < 0)
    return Unavailable("cannot start the process that restores the GPU's settings: ",
                       strerror(errno));
  return guard;
}

absl::Status SettingsGuard::Hold(const HeldSettings& held) {
  held_ = held;
  ssize_t written = -1;
  do {  // smaller than PIPE_BUF, so it is written at once
    written = write(alive_.get(), &held_, sizeof held_);
  } while (written < 0 && errno == EINTR);
  if (written == static_cast<ssize_t>(sizeof held_)) return absl::OkStatus();
  return Unavailable("the process that restores the GPU's settings ended: ", strerror(errno),
                     "; no further settings are changed");
}

bool SettingsGuard::PutBack() {
  if (pid_ < 0) return true;
  held_.asked = true;
  static_cast<void>(Hold(held_));  // a guard that has ended is detected below
  alive_.Close();
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  if (WIFEXITED(status)) return WEXITSTATUS(status) == 0;
  return PutBackNow(library_, held_, tell_);  // the guard was killed
}

absl::StatusOr<std::unique_ptr<GpuSettings>> GpuSettings::Open(const std::string& library,
                                                               const std::string& uuid) {
  ASSIGN_OR_RETURN(auto nvml, Initialized(library));
  NvmlDevice device = nullptr;
  const NvmlReturn result = nvml->device_by_uuid(uuid.c_str(), &device);
  std::unique_ptr<GpuSettings> gpu(new GpuSettings(std::move(nvml), device, uuid));
  if (result != kNvmlSuccess) return gpu->Failed("nvmlDeviceGetHandleByUUID", result);
  uuid.copy(gpu->held_.uuid, sizeof gpu->held_.uuid - 1);
  return gpu;
}

absl::Status GpuSettings::Failed(std::string_view function, NvmlReturn result) const {
  const std::string what = Cat(uuid_, ": ", function, ": ", NvmlErrorText(result));
  if (result == kNvmlNoPermission) {
    return Unavailable(what,
                       ": only root may lock clocks and cap the power; run as root, in a container "
                       "with --cap-add SYS_ADMIN, or ask the administrator of the machine");
  }
  return Unavailable(what, FixOf(result).empty() ? "" : "; ", FixOf(result));
}

// For the fastest memory clock, which running programs use.
absl::Status GpuSettings::CheckClocks(std::span<const int64_t> clocks_mhz) const {
  constexpr unsigned kMost = 4096;
  if (!nvml_->lock_clocks.is_there()) return Failed(kLock, kNvmlFunctionNotFound);
  if (!nvml_->reset_locked_clocks.is_there()) return Failed(kReset, kNvmlFunctionNotFound);
  std::vector<unsigned> memory(kMost), known(kMost);
  unsigned count = kMost;
  NvmlReturn result = nvml_->supported_memory_clocks(device_, &count, memory.data());
  if (result != kNvmlSuccess) return Failed("nvmlDeviceGetSupportedMemoryClocks", result);
  memory.resize(std::min(count, kMost));
  const unsigned fastest = memory.empty() ? 0 : *std::ranges::max_element(memory);
  count = kMost;
  result = nvml_->supported_graphics_clocks(device_, fastest, &count, known.data());
  if (result == kNvmlSuccess && count == 0) result = kNvmlNotSupported;
  if (result != kNvmlSuccess) return Failed(kClocks, result);
  known.resize(std::min(count, kMost));
  std::ranges::sort(known);
  for (const int64_t mhz : clocks_mhz) {
    const auto above = std::ranges::lower_bound(known, mhz);
    if (above != known.end() && *above == mhz) continue;
    std::vector<unsigned> nearest;
    if (above != known.begin()) nearest.push_back(*(above - 1));
    if (above != known.end()) nearest.push_back(*above);
    return InvalidArgument("--clock-mhz: ", uuid_, " does not support a clock of ", mhz,
                           " MHz; it supports ", known.size(), " clocks from ", known.front(),
                           " to ", known.back(), " MHz, nearest ", absl::StrJoin(nearest, " and "),
                           " (nvidia-smi -q -d SUPPORTED_CLOCKS)");
  }
  return absl::OkStatus();
}

absl::Status GpuSettings::CheckCaps(std::span<const int64_t> caps_w) const {
  if (!nvml_->set_power_limit.is_there()) return Failed(kSetLimit, kNvmlFunctionNotFound);
  unsigned least_mw = 0, most_mw = 0, now_mw = 0;
  NvmlReturn result = nvml_->power_limit_range(device_, &least_mw, &most_mw);
  if (result != kNvmlSuccess) return Failed(kLimits, result);
  result = nvml_->management_power_limit(device_, &now_mw);
  if (result != kNvmlSuccess) return Failed(kGetLimit, result);
  for (const int64_t cap_w : caps_w) {
    if (cap_w >= 0 && cap_w * kMwPerW >= least_mw && cap_w * kMwPerW <= most_mw) continue;
    return InvalidArgument("--power-cap-w: ", uuid_, " supports power caps from ",
                           least_mw / kMwPerW, " to ", most_mw / kMwPerW, " W, not ", cap_w, " W");
  }
  return absl::OkStatus();
}

absl::Status GpuSettings::SetHeld(HeldSettings held, SettingsGuard* guard,
                                  std::string_view function,
                                  const std::function<NvmlReturn()>& set) {
  RETURN_IF_ERROR(guard->Hold(held));
  const NvmlReturn result = set();
  // A setting that was not changed need not be restored.
  if (ChangedNothing(result)) held = held_;
  held_ = held;
  if (result == kNvmlSuccess) return absl::OkStatus();
  RETURN_IF_ERROR(guard->Hold(held_));
  return Failed(function, result);
}

absl::Status GpuSettings::Set(const GpuSetting& to, SettingsGuard* guard) {
  if (to.clock_mhz.has_value() && to.clock_mhz != now_.clock_mhz) {
    const auto mhz = static_cast<unsigned>(*to.clock_mhz);
    HeldSettings held = held_;
    held.clock = true;
    RETURN_IF_ERROR(
        SetHeld(held, guard, kLock, [&] { return nvml_->lock_clocks(device_, mhz, mhz); }));
    now_.clock_mhz = to.clock_mhz;
  }
  if (!to.power_cap_w.has_value() || to.power_cap_w == now_.power_cap_w) return absl::OkStatus();
  HeldSettings held = held_;
  if (held.limit_mw == 0) {
    const NvmlReturn result = nvml_->management_power_limit(device_, &held.limit_mw);
    if (result != kNvmlSuccess) return Failed(kGetLimit, result);
  }
  const auto limit_mw = static_cast<unsigned>(*to.power_cap_w * kMwPerW);
  RETURN_IF_ERROR(
      SetHeld(held, guard, kSetLimit, [&] { return nvml_->set_power_limit(device_, limit_mw); }));
  now_.power_cap_w = to.power_cap_w;
  return absl::OkStatus();
}

std::optional<int64_t> GpuSettings::ReadClockMhz() const {
  unsigned mhz = 0;
  if (nvml_->clock(device_, kNvmlClockSm, &mhz) != kNvmlSuccess) return std::nullopt;
  return mhz;
}

}  // namespace xplane_time::power
