// OpCosts: what an op of a program computes and moves, from its shapes.
//
//   OpCosts costs(program);
//   costs.Of(*program.Find("custom-call.1"))   // {.flops = 2 m n k, .bytes = ..., .flops_type =
//   16}
//
//   FLOPs   of matrix products: dot, also in fusions, and the GEMM calls of cuBLAS and hipBLASLt.
//           2 x elements of the result x those contracted
//   bytes   of the same, and of fusions that read all of their operands: distinct operands and the
//           result. None where an op inside reads a part only (a slice, a gather, ...)
//
// Both as XLA's own cost model has them. All else is unknown: bodies of loops and branches, which
// run as often as data says, other calls, convolutions.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "hlo/program.h"

namespace xplane_time::insight {

struct OpCost {
  std::optional<int64_t> flops, bytes;  // of one execution
  // xla.PrimitiveType of the left operands of its products; kInvalid: they differ, or none.
  int32_t flops_type = HloShape::kInvalid;
};

class OpCosts {
 public:
  explicit OpCosts(const HloProgram& program) : program_(program) {}  // which outlives it

  OpCost Of(const HloInstruction& op);

 private:
  // What a fused computation does, whatever calls it.
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
  // False where one that is called is missing, calls itself, or nests deeper than any program's.
  bool AddFused(const HloDetails& fusion, Fused* all);
  void AddInstruction(const HloInstruction& each, Fused* all);

  static constexpr int kMostNested = 64;
  const HloProgram& program_;
  int nested_ = 0;
  absl::flat_hash_map<int64_t, std::optional<Fused>> fused_;  // by computation; empty: begun
};

}  // namespace xplane_time::insight
