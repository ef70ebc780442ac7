// GraphOps: finds the ops of the kernels of CUDA graphs.
//
// JAX launches most of a program as one graph. The profiler records its nodes, but not their ops:
// each node has the hlo_op of the whole graph.
//
//   in the trace                          in the program, in the order of its schedule
//   node 0  gemm_fusion_dot_3             gemm_fusion_dot.3
//   node 1  loop_add_fusion               loop_add_fusion
//   node 2  gemm_fusion_dot_3             gemm_fusion_dot.4     equal: compiled once, for both
//   node 3  nvjet_sm90_tst_256x128        custom-call.1         (__cublas$gemm)
//
// XLA names a kernel after the first op that it was made for, and adds nodes in the order of the
// schedule. Nodes of libraries come after the others, also in schedule order. So nodes are counted:
// if the number of nodes with the kernel of some equal ops is the number of these ops in the
// program, the nodes are these ops, in order. Ops that ran outside of graphs do not count. If the
// numbers differ, or if there are several ops without an order, they stay unknown.
//
// XLA does not guarantee this order. It was compared with the same programs without graphs
// (docs/graphs.md).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "devices/device_kind.h"
#include "hlo/program.h"
#include "xplane_time/trace.h"

namespace xplane_time {

class GraphOps {
 public:
  GraphOps() = default;
  // For the executions on these lines of `plane`. Errors: those of reading events. The programs
  // must outlive it.
  static absl::StatusOr<GraphOps> Read(const Trace& trace, const Plane& plane,
                                       std::span<const uint32_t> lines, const GraphStats& stats,
                                       HloPrograms* programs);

  struct Op {
    const HloInstruction* instruction = nullptr;
    // As the profiler has it without graphs: what the op names have in common of all that is in a
    // fusion, up to a "/".
    std::string_view scope = {};
  };
  // Null: not known.
  const Op* Find(uint64_t program_id, int64_t node) const {
    const auto found = ops_.find({program_id, node});
    return found == ops_.end() ? nullptr : &found->second;
  }

 private:
  absl::flat_hash_map<std::pair<uint64_t, int64_t>, Op> ops_;  // by program and node
};

}  // namespace xplane_time
