// What calls of drivers and runtimes launch, by their names.
#include "devices/gpu_runs/host_calls.h"

#include <gtest/gtest.h>

namespace xplane_time::gpu_runs {
namespace {

TEST(HostCallsTest, Launches) {
  for (const char* name :
       {"cudaLaunchKernel", "cuLaunchKernel", "cuLaunchKernelEx", "cudaLaunchKernelExC",
        "cudaLaunchCooperativeKernel", "hipLaunchKernel", "hipExtLaunchKernel",
        "hipModuleLaunchKernel", "hipExtModuleLaunchKernel", "urEnqueueKernelLaunch"}) {
    EXPECT_EQ(ClassifyHostCall(name), HostCall::kLaunchKernel) << name;
  }
  for (const char* name : {"cudaGraphLaunch", "hipGraphLaunch", "cuGraphLaunch (CudaGraph:6)"}) {
    EXPECT_EQ(ClassifyHostCall(name), HostCall::kLaunchGraph) << name;
  }
}

TEST(HostCallsTest, LaunchNothing) {
  for (const char* name :
       {"", "cudaMalloc", "cudaMemcpyAsync", "hipMemsetAsync", "cudaEventRecord",
        "cudaStreamSynchronize", "cudaStreamIsCapturing", "cudaLaunchHostFunc", "INVALID",
        "cudaGraphAddKernelNode", "cudaGraphInstantiate", "cudaGraphKernelNodeSetParams"}) {
    EXPECT_EQ(ClassifyHostCall(name), HostCall::kOther) << name;
  }
}

TEST(HostCallsTest, CapturesAndSynchronizations) {
  EXPECT_EQ(ClassifyHostCall("cudaStreamBeginCapture"), HostCall::kBeginCapture);
  EXPECT_EQ(ClassifyHostCall("cuStreamBeginCapture_v2"), HostCall::kBeginCapture);
  EXPECT_EQ(ClassifyHostCall("hipStreamEndCapture"), HostCall::kEndCapture);
  EXPECT_EQ(ClassifyHostCall("cudaDeviceSynchronize"), HostCall::kSynchronizeDevice);
  EXPECT_EQ(ClassifyHostCall("cuCtxSynchronize"), HostCall::kSynchronizeDevice);
}

TEST(HostCallsTest, NamesOfKernels) {
  for (const char* name : {"loop_add_fusion", "cutlass::Kernel2<x>", "custom_call", "hipster",
                           "void cublasLt::splitKreduce_kernel<32>"}) {
    EXPECT_TRUE(MayNameKernel(name)) << name;
  }
  for (const char* name : {"", "MemcpyH2D", "MemoryAlloc", "cuStreamSynchronize", "cudaMalloc",
                           "hipFree", "Memset 1"}) {
    EXPECT_FALSE(MayNameKernel(name)) << name;
  }
}

}  // namespace
}  // namespace xplane_time::gpu_runs
