// The effect of a driver or runtime call that the host recorded. The name of the event determines
// it:
//
//   cudaLaunchKernel, cuLaunchKernelEx, hipExtModuleLaunchKernel   launches a kernel
//   cudaGraphLaunch, cuGraphLaunch (CudaGraph:6)                   launches a graph
//   cudaStreamBeginCapture, cudaStreamEndCapture                   launches in between become part
//   of
//                                                                  a graph and do not run
//   cudaDeviceSynchronize                                          waits for all earlier launches
//
// Other calls launch nothing, or only a copy or a fill. A device records no execution for a copy or
// fill of zero bytes.
#pragma once

#include <cstdint>
#include <string_view>

namespace xplane_time::gpu_runs {

enum class HostCall : uint8_t {
  kOther,
  kLaunchKernel,
  kLaunchGraph,
  kBeginCapture,
  kEndCapture,
  kSynchronizeDevice,
};

HostCall ClassifyHostCall(std::string_view name);

// Whether this may be the name of a kernel. XLA's profiler for CUDA names the event of a launch
// after the launched kernel or copy ("loop_add_fusion", "MemcpyH2D").
bool MayNameKernel(std::string_view name);

}  // namespace xplane_time::gpu_runs
