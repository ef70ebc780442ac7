#include "insight/op_costs.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_set.h"
#include "json/json.h"

namespace xplane_time::insight {
namespace {

// Inside of a fusion these read a part of an operand, or more than once.
constexpr std::string_view kPartial[] = {"concatenate",
                                         "convolution",
                                         "dynamic-reshape",
                                         "dynamic-slice",
                                         "dynamic-update-slice",
                                         "fft",
                                         "gather",
                                         "pad",
                                         "reduce-window",
                                         "scatter",
                                         "select-and-scatter",
                                         "slice",
                                         "sort",
                                         "topk",
                                         "triangular-solve"};
// The cost of these is unknown here.
constexpr std::string_view kOpaque[] = {"async-done", "async-start", "async-update", "call",
                                        "cholesky",   "conditional", "custom-call",  "while"};

template <typename Words>
bool IsAny(std::string_view text, const Words& words) {
  return std::find(std::begin(words), std::end(words), text) != std::end(words);
}

// The numbers of gemm_backend_config.dot_dimension_numbers.lhs_contracting_dimensions, which are
// stored as texts. Empty if they are absent, or if C is added to the product (beta).
std::optional<std::vector<int64_t>> ContractedOf(std::string_view backend_config, bool* adds) {
  const json::Json config = json::Parse(backend_config);
  const json::Json* const gemm = json::Find(config, "gemm_backend_config");
  if (gemm == nullptr) return std::nullopt;
  const json::Json* const beta = json::Find(*gemm, "beta");
  *adds = beta != nullptr && json::ValueOf<double>(*beta) != 0;
  const json::Json* const dims = json::Find(*gemm, "dot_dimension_numbers");
  const json::Json* const lhs =
      dims == nullptr ? nullptr : json::Find(*dims, "lhs_contracting_dimensions");
  if (lhs == nullptr || !lhs->is_array()) return std::nullopt;
  std::vector<int64_t> contracted;
  for (const json::Json& each : *lhs) {
    const std::string text = each.is_string() ? each.get<std::string>() : each.dump();
    int64_t dim = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), dim);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    contracted.push_back(dim);
  }
  return contracted;
}

}  // namespace

void OpCosts::Fused::Add(std::optional<int64_t> of_product, int32_t type) {
  flops_type = !flops.has_value() || type == flops_type ? type : int32_t{HloShape::kInvalid};
  int64_t sum = 0;
  products_known &=
      of_product.has_value() && !__builtin_add_overflow(flops.value_or(0), *of_product, &sum);
  flops = sum;
}

std::optional<HloShape> OpCosts::ShapeOf(int64_t instruction) const {
  const HloInstruction* const found = program_.FindId(instruction);
  std::optional<HloDetails> details = found == nullptr ? std::nullopt : ReadDetails(*found);
  return details.has_value() ? std::optional(std::move(details->shape)) : std::nullopt;
}

std::optional<int64_t> OpCosts::BytesOf(const HloDetails& details, const HloShape& result) const {
  std::optional<int64_t> sum = result.Bytes();
  absl::flat_hash_set<int64_t> seen;
  for (const int64_t operand : details.operands) {
    if (!seen.insert(operand).second) continue;
    const std::optional<HloShape> shape = ShapeOf(operand);
    const std::optional<int64_t> bytes = shape.has_value() ? shape->Bytes() : std::nullopt;
    if (!sum.has_value() || !bytes.has_value() || __builtin_add_overflow(*sum, *bytes, &*sum)) {
      return std::nullopt;
    }
  }
  return sum;
}

std::optional<int64_t> OpCosts::ProductFlops(const HloDetails& details, const HloShape& result,
                                             const std::vector<int64_t>& contracted,
                                             int32_t* type) const {
  const std::optional<HloShape> left =
      details.operands.empty() ? std::nullopt : ShapeOf(details.operands[0]);
  const std::optional<int64_t> elements = result.Elements();
  if (!left.has_value() || result.type == HloShape::kTuple || !elements.has_value()) {
    return std::nullopt;
  }
  *type = left->type;
  int64_t flops = 0;
  if (__builtin_mul_overflow(*elements, 2, &flops)) return std::nullopt;
  for (const int64_t dim : contracted) {
    const bool is_there = dim >= 0 && static_cast<size_t>(dim) < left->dims.size();
    const int64_t size = is_there ? left->dims[static_cast<size_t>(dim)] : -1;
    if (size < 0 || __builtin_mul_overflow(flops, size, &flops)) return std::nullopt;
  }
  return flops;
}

// A workspace, the second part of its result, is not counted.
OpCost OpCosts::OfGemmCall(const HloDetails& details) const {
  constexpr std::string_view kTargets[] = {"__cublas$gemm", "__cublas$lt$matmul"};
  if (!IsAny(details.custom_call_target, kTargets)) return {};
  const HloShape& shape = details.shape;
  const HloShape& result =
      shape.type == HloShape::kTuple && !shape.tuple.empty() ? shape.tuple[0] : shape;
  bool adds = false;
  const auto contracted = ContractedOf(details.backend_config, &adds);
  OpCost cost;
  if (!adds) cost.bytes = BytesOf(details, result);
  if (contracted.has_value()) {
    cost.flops = ProductFlops(details, result, *contracted, &cost.flops_type);
  }
  return cost;
}

void OpCosts::AddInstruction(const HloInstruction& each, Fused* all) {
  if (IsAny(each.opcode, kPartial)) all->reads_all = false;
  if (IsAny(each.opcode, kOpaque) || each.opcode.empty()) {
    all->reads_all = all->products_known = false;
  }
  const bool is_dot = each.opcode == "dot", is_fusion = each.opcode == "fusion";
  if (each.opcode == "convolution" || each.opcode == "ragged-dot") all->products_known = false;
  if (!is_dot && !is_fusion) return;
  const std::optional<HloDetails> details = ReadDetails(each);
  if (!details.has_value()) {
    all->reads_all = all->products_known = false;
    return;
  }
  if (is_fusion) {
    if (!AddFused(*details, all)) all->reads_all = all->products_known = false;
    return;
  }
  int32_t type = HloShape::kInvalid;
  const auto flops = ProductFlops(*details, details->shape, details->lhs_contracting, &type);
  all->Add(flops, type);
}

bool OpCosts::AddFused(const HloDetails& fusion, Fused* all) {
  for (const int64_t id : fusion.called) {
    const auto [place, is_new] = fused_.try_emplace(id);
    if (is_new) {
      const HloComputation* const computation = program_.FindComputation(id);
      if (computation == nullptr || nested_ == kMostNested) return false;
      Fused own;
      ++nested_;
      for (uint32_t i = 0; i < computation->count; ++i) {
        AddInstruction(program_.instructions()[computation->first + i], &own);
      }
      --nested_;
      fused_[id] = own;
    }
    const std::optional<Fused>& own = fused_[id];
    if (!own.has_value()) return false;  // it calls itself, or is missing
    all->reads_all &= own->reads_all;
    all->products_known &= own->products_known;
    if (own->flops.has_value()) all->Add(own->flops, own->flops_type);
  }
  return !fusion.called.empty();
}

OpCost OpCosts::Of(const HloInstruction& op) {
  const bool is_dot = op.opcode == "dot", is_fusion = op.opcode == "fusion";
  if (!is_dot && !is_fusion && op.opcode != "custom-call") return {};
  const std::optional<HloDetails> details = ReadDetails(op);
  if (!details.has_value()) return {};
  OpCost cost;
  if (is_dot) {
    cost.flops = ProductFlops(*details, details->shape, details->lhs_contracting, &cost.flops_type);
    cost.bytes = BytesOf(*details, details->shape);
    return cost;
  }
  if (!is_fusion) return OfGemmCall(*details);
  Fused fused;
  if (!AddFused(*details, &fused)) return {};
  if (fused.products_known) cost.flops = fused.flops;
  cost.has_no_products = fused.products_known && !fused.flops.has_value();
  cost.flops_type = fused.flops_type;
  if (fused.reads_all) cost.bytes = BytesOf(*details, details->shape);
  return cost;
}

}  // namespace xplane_time::insight
