// What a call of the driver or the runtime, which the host recorded, makes a device do. The name of
// the event decides:
//
//   cudaLaunchKernel, cuLaunchKernelEx, hipExtModuleLaunchKernel   launches a kernel
//   cudaGraphLaunch, cuGraphLaunch (CudaGraph:6)                   launches a graph
//   cudaStreamBeginCapture, cudaStreamEndCapture                   what is launched in between
//                                                                  becomes part of a graph, and
//                                                                  does not run
//   cudaDeviceSynchronize                                          waits for all that was launched
//
// All others launch nothing, or only a copy or a fill, for which a device records nothing if it is
// of no bytes.
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

// Whether this may be the name of a kernel: XLA's profiler for CUDA names the event of a launch
// after what is launched ("loop_add_fusion", "MemcpyH2D").
bool MayNameKernel(std::string_view name);

}  // namespace xplane_time::gpu_runs
