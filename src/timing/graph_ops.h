// GraphOps: which ops the kernels of CUDA graphs are.
//
// JAX launches most of a program as one graph. The profiler knows the nodes of it, but not their
// ops: the hlo_op of each is that of the whole graph.
//
//   in the trace                          in the program, in the order of its schedule
//   node 0  gemm_fusion_dot_3             gemm_fusion_dot.3
//   node 1  loop_add_fusion               loop_add_fusion
//   node 2  gemm_fusion_dot_3             gemm_fusion_dot.4     alike: compiled once, for both
//   node 3  nvjet_sm90_tst_256x128        custom-call.1         (__cublas$gemm)
//
// XLA names a kernel after the first op that it was made for, and adds nodes in the order of the
// schedule; those of libraries come after the others, in that order, too. So it is counted: where
// as many nodes of one graph as there are ops in the program have the kernel of one of these ops,
// all alike, they are those ops, in order. Ops that ran outside of graphs do not count. Where the
// numbers differ, or there are several and no order, they stay unknown.
//
// Nobody promises this order. It was compared with the same programs without graphs
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
  // Of the executions on these lines of `plane`. Errors: of reading events. The programs outlive
  // it.
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
