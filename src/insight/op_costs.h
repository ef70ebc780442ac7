// OpCosts: the FLOPs and bytes of an op of a program, computed from its shapes.
//
//   OpCosts costs(program);
//   // {.flops = 2 m n k, .bytes = ..., .flops_type = 16}
//   costs.Of(*program.Find("custom-call.1"))
//
//   FLOPs   of matrix products: dot, also in fusions, and the GEMM calls of cuBLAS and hipBLASLt:
//           2 x elements of the result x contracted elements
//
//   bytes   of matrix products, and of fusions that read all of their operands: distinct operands
//           and the result. Unknown if an op inside reads only a part (a slice, a gather, ...)
//
// Both follow XLA's cost model. All other costs are unknown: bodies of loops and branches, which
// run a number of times that depends on data, other calls, convolutions.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "hlo/program.h"

namespace xplane_time::insight {

struct OpCost {
  std::optional<int64_t> flops, bytes;  // of one execution
  // xla.PrimitiveType of the left operands of its products; kInvalid: no products, or types differ.
  int32_t flops_type = HloShape::kInvalid;
  bool has_no_products = false;  // so its FLOPs do not limit it, although they are not counted
};

class OpCosts {
 public:
  explicit OpCosts(const HloProgram& program) : program_(program) {}  // which outlives it

  OpCost Of(const HloInstruction& op);

 private:
  // The cost of a fused computation, independent of its caller.
  struct Fused {
    bool reads_all = true;  // of its parameters
    bool products_known = true;
    std::optional<int64_t> flops;  // empty: no product
    int32_t flops_type = HloShape::kInvalid;
    void Add(std::optional<int64_t> of_product, int32_t type);
  };
  std::optional<HloShape> ShapeOf(int64_t instruction) const;
  std::optional<int64_t> BytesOf(const HloDetails& details, const HloShape& result) const;
  std::optional<int64_t> ProductFlops(const HloDetails& details, const HloShape& result,
                                      const std::vector<int64_t>& contracted, int32_t* type) const;
  OpCost OfGemmCall(const HloDetails& details) const;
  // False if a called computation is missing, calls itself, or is nested deeper than any real
  // program.
  bool AddFused(const HloDetails& fusion, Fused* all);
  void AddInstruction(const HloInstruction& each, Fused* all);

  static constexpr int kMostNested = 64;
  const HloProgram& program_;
  int nested_ = 0;
  absl::flat_hash_map<int64_t, std::optional<Fused>> fused_;  // by computation; empty: begun
};

}  // namespace xplane_time::insight
