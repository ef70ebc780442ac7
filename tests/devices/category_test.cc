// Which names are evidence for a category (devices/category.cc). Opcodes and the order of the
// evidence: hlo/hlo_test.cc.
#include <gtest/gtest.h>

#include <string_view>

#include "devices/device_kind.h"

namespace xplane_time {
namespace {

Category OfKernel(std::string_view name) {
  Draft draft;
  draft.kernel = name;
  return Classify(draft);
}

Category OfOp(std::string_view name) {
  Draft draft;
  draft.kernel = draft.hlo_op = name;
  return Classify(draft);
}

TEST(CategoryTest, KernelsOfCollectivesByLibraryOrByWord) {
  for (const std::string_view name :
       {"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "ncclKernel_SendRecv",
        "rccl_main",
        "mscclKernel_Sum_half_Simple",
        "nvshmemi_transfer_rma",
        "void mscclpp::allreduceKernel<half>",
        "oneccl_reduce",
        "hcclKernel",
        "hcom_allReduce_",
        "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)",
        "void flashinfer::trtllm_fusion::kernel_oneshot_lamport<...>",
        "void deep_ep::internode::dispatch<false, 9>",
        "void deep_ep::intranode::combine<half>",
        "void mori::moe::EpDispatchIntraNodeKernel<half>",
        "two_shot_all_reduce_kernel",
        "void multimem_one_shot_kernel<...>",
        "void aiter::cross_device_store<half>",
        "AllGatherKernel",
        "void moeA2ADispatchKernel<8>",
        "all_to_all_vdev_2d",
        "quickreduce::allreduce_prototype_twoshot",
        "ReduceScatterFp16",
        "alltoall_kernel"}) {
    EXPECT_EQ(CategoryName(OfKernel(name)), "collective") << name;
  }
}

TEST(CategoryTest, CopiesOfTheDriver) {
  for (const std::string_view name :
       {"Memcpy HtoD (Pageable -> Device)", "Memcpy PtoP (Device -> Device)", "Memset (Device)",
        "MemcpyD2H", "MemcpyP2P", "Memset", "MEMCPYDtoD", "CopyDeviceToDevice", "CopyHostToDevice",
        "__amd_rocclr_copyBuffer", "__amd_rocclr_copyBufferAligned.kd",
        "__amd_rocclr_fillBufferAligned.kd"}) {
    EXPECT_EQ(CategoryName(OfKernel(name)), "copy") << name;
  }
}

TEST(CategoryTest, AWordInTheNameOfAKernelIsNoEvidence) {
  for (const std::string_view name :
       {"_combined_routing_memset",
        "_masked_memcpy_kernel",
        "memcpy_kernel",
        "memset_rows",
        "copy_kernel",
        "fill_kernel",
        "copy_device_tiles",
        "copyBufferKernel",
        "moe_permute_copy",
        "Memcpyish",
        "memcpy2d_tiled",
        "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>",
        "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda>",
        "void at::native::CatArrayBatchedCopy<float>",
        "triton_poi_fused__to_copy_1",
        "triton_poi_fused_all_reduce_norm_0",
        "triton_red_fused_conditional_3",
        "triton_per_fused_call_4",
        "triton_poi_fused_nccl_0",
        "while_loop_kernel",
        "conditional_update",
        "call_rows",
        "tuple_gather",
        "parameter_update",
        "infeed_norm",
        "void cutlass::device_kernel<cutlass::gemm::collective::CollectiveMma<...>>",
        "void cutlass::device_kernel<flash::CollectiveAllGather<...>>",
        "small_reduce_kernel",
        "wall_reduce",
        "warpsum",
        "group_psum_kernel",
        "recall_to_all_rows",
        "upmax",
        "flamport",
        "memories::f"}) {
    EXPECT_EQ(CategoryName(OfKernel(name)), "compute") << name;
  }
}

TEST(CategoryTest, OpsOfTheCompilerMatchAsWholeWords) {
  for (const std::string_view name : {"while", "while.3", "cond.1.clone", "call-start.2", "tuple.9",
                                      "conditional.4", "infeed.1", "outfeed"}) {
    EXPECT_EQ(CategoryName(OfOp(name)), "other") << name;
  }
  for (const std::string_view name : {"copy", "copy.3", "copy-start.1", "copy-done.1.clone"}) {
    EXPECT_EQ(CategoryName(OfOp(name)), "copy") << name;
  }
  for (const std::string_view name :
       {"psum.3", "psum_invariant.7", "psum_scatter.2", "pmax", "pmin.1", "ppermute.3",
        "all-reduce-start.1", "all_gather_invariant.7", "ragged-all-to-all.2", "send-done.1"}) {
    EXPECT_EQ(CategoryName(OfOp(name)), "collective") << name;
  }
  for (const std::string_view name :
       {"while_fusion", "copy_fusion.2", "pmax_rows.1", "psums.1", "callee.1", "dot_general.2"}) {
    EXPECT_EQ(CategoryName(OfOp(name)), "compute") << name;
  }
}

TEST(CategoryTest, WhatTheTraceStatesComesBeforeNames) {
  Draft copy;
  copy.kernel = "anything";
  copy.is_copy = true;
  EXPECT_EQ(Classify(copy), Category::kCopy);
  Draft collective;
  collective.kernel = "anything";
  collective.collective = "_allgather_base";
  EXPECT_EQ(Classify(collective), Category::kCollective);
  Draft category;
  category.kernel = category.hlo_op = "fusion.3";
  category.hlo_category = "async collective-permute";
  EXPECT_EQ(Classify(category), Category::kCollective);
}

}  // namespace
}  // namespace xplane_time
