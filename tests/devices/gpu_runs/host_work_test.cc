#include "devices/gpu_runs/host_work.h"

#include <gtest/gtest.h>

#include <string_view>

namespace xplane_time::gpu_runs {
namespace {

void ExpectAll(HostWork work, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) EXPECT_EQ(ClassifyHostWork(name), work) << name;
}

TEST(HostWork, Compiling) {
  ExpectAll(HostWork::kCompiles,
            {"backend_compile", "$compiler.py:326 backend_compile", "XlaCompile:#module=jit_f#",
             "PjRtStreamExecutorClient::Compile", "TpuCompiler::Compile",
             "compile_inner (dynamo_timed)", "CachingAutotuner.compile", "recompile", "Compilation",
             "torch/_inductor/compile_fx.py(93): compile_fx", "$pjit.py:12 lower_jaxpr_to_module"});
}

TEST(HostWork, WhatIsCompiledRuns) {
  ExpectAll(HostWork::kUnknown,
            {"Torch-Compiled Region: 0/1", "CompiledFunction", "$compiler.py:326 run",
             "torch/_dynamo/eval_frame.py(5): compile_wrapper", "compiler", "train"});
}

TEST(HostWork, WaitingForInput) {
  ExpectAll(HostWork::kWaitsForInput,
            {"enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "IteratorGetNextOp",
             "Iterator::GetNext", "next_batch", "$loader.py:7 next_batch", "data_loading",
             "torch/utils/data/dataloader.py(701): __next__", "__next__", "InfeedEnqueue"});
}

TEST(HostWork, WaitingForResultsIsNoInput) {
  ExpectAll(HostWork::kWaitsForResults,
            {"$array.py:9 block_until_ready", "np.asarray(jax.Array)", "cudaStreamSynchronize",
             "aten::item", "TransferToLiteral", "jax.device_get"});
}

TEST(HostWork, Dispatching) {
  ExpectAll(HostWork::kDispatches, {"PjitFunction(f)", "TfrtCpuLoadedExecutable::Execute",
                                    "jit_f:XLA GPU module", "aten::linear"});
}

}  // namespace
}  // namespace xplane_time::gpu_runs
