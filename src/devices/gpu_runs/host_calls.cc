#include "devices/gpu_runs/host_calls.h"

#include <algorithm>

#include "absl/strings/ascii.h"

namespace xplane_time::gpu_runs {

HostCall ClassifyHostCall(std::string_view name) {
  const auto has = [name](std::string_view word) { return name.find(word) != name.npos; };
  if (has("GraphLaunch")) return HostCall::kLaunchGraph;
  if (has("Launch") && has("Kernel")) return HostCall::kLaunchKernel;
  if (has("StreamBeginCapture")) return HostCall::kBeginCapture;
  if (has("StreamEndCapture")) return HostCall::kEndCapture;
  const bool synchronizes = has("DeviceSynchronize") || has("CtxSynchronize");
  return synchronizes ? HostCall::kSynchronizeDevice : HostCall::kOther;
}

bool MayNameKernel(std::string_view name) {
  constexpr std::string_view kOfApis[] = {"cuda", "cu", "hip"};
  constexpr std::string_view kOthers[] = {"Memcpy",       "Memset",        "Memory",
                                          "HostRegister", "Overhead",      "UnifiedMemory",
                                          "CudaGraph",    "HostUnregister"};
  const auto begins = [name](std::string_view word) { return name.starts_with(word); };
  const auto is_call = [&](std::string_view api) {
    return begins(api) && name.size() > api.size() &&
           absl::ascii_isupper(static_cast<unsigned char>(name[api.size()]));
  };
  return !name.empty() && std::ranges::none_of(kOthers, begins) &&
         std::ranges::none_of(kOfApis, is_call);
}

}  // namespace xplane_time::gpu_runs
