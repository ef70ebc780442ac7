// The category of an execution: compute, copy, collective or other.
//
// The evidence, strongest first:
//
//   1. the opcode in the capture's Hlo Proto, unless it only states how an op runs (custom-call)
//   2. statements of the trace: the name of a collective (Kineto), the details of a copy
//      (memcpy_details, which also represents Kineto's gpu_memcpy and gpu_memset), hlo_category
//   3. names
//
// The authors of GPU kernels choose their names freely. A name therefore counts as evidence only if
// few kernels have it by accident:
//
// - Copies begin with the names that drivers use ("Memcpy DtoH", "__amd_rocclr_copyBuffer").
//   `_masked_memcpy_kernel` computes.
// - Ops of the compiler (`while.3`) match as whole words before the first dot. `while_loop_kernel`
//   computes.
// - Collectives match as words in the name ("all_reduce", "AllReduce", but not "small_reduce"), or
//   by a library whose kernels are all collectives. TorchInductor's `triton_poi_fused_all_reduce_0`
//   is named after the ops around it, and computes.
//
// --collective-re and --copy-re take precedence over these rules (timing/filters.h).
#include <algorithm>
#include <optional>
#include <span>
#include <string_view>

#include "absl/strings/ascii.h"
#include "devices/device_kind.h"

namespace xplane_time {
namespace {

using Words = std::span<const std::string_view>;

char Folded(char c) { return c == '_' ? '-' : absl::ascii_tolower(static_cast<unsigned char>(c)); }

// Ignores case and the difference between `_` and `-`.
bool StartsWith(std::string_view text, std::string_view word) {
  return text.size() >= word.size() &&
         std::equal(word.begin(), word.end(), text.begin(),
                    [](char wanted, char found) { return Folded(found) == wanted; });
}

bool StartsWithAny(std::string_view text, Words words) {
  return std::ranges::any_of(words, [&](auto word) { return StartsWith(text, word); });
}

// Whether a word begins here: after a character that is not a letter, or at a capital
// ("ncclAllReduce").
bool BeginsWord(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  return at == 0 || !absl::ascii_isalpha(byte(at - 1)) || absl::ascii_isupper(byte(at));
}

enum class Where : uint8_t { kAnywhere, kAtWord };
bool ContainsAny(std::string_view text, Words words, Where where) {
  for (size_t at = 0; at < text.size(); ++at) {
    if (where == Where::kAtWord && !BeginsWord(text, at)) continue;
    if (StartsWithAny(text.substr(at), words)) return true;
  }
  return false;
}

bool IsAny(std::string_view text, Words words) { return std::ranges::count(words, text) > 0; }

// Whether an op is one of the words: "while", "while.3", "while.3.clone" and, for asynchronous ops,
// "while-start.3" are `while`.
bool IsOp(std::string_view op, Words words) {
  std::string_view stem = op.substr(0, op.find('.'));
  for (const std::string_view half : {"-start", "-done"}) {
    if (stem.ends_with(half)) stem.remove_suffix(half.size());
  }
  return std::ranges::any_of(
      words, [&](auto word) { return stem.size() == word.size() && StartsWith(stem, word); });
}

// ---- collectives

constexpr std::string_view kCollectives[] = {"all-reduce",         "all-gather",
                                             "all-to-all",         "reduce-scatter",
                                             "allreduce",          "allgather",
                                             "alltoall",           "reducescatter",
                                             "collective-permute", "collective-broadcast",
                                             "collectivepermute",  "collectivebroadcast"};
// Waiting for another device.
constexpr std::string_view kExchanges[] = {"send-done", "recv-done"};
// JAX names ops after its primitives.
constexpr std::string_view kCollectivePrimitives[] = {
    "psum", "psum-invariant", "psum-scatter", "pmax", "pmin", "ppermute", "pshuffle", "pgather"};
// Libraries, and parts of them, whose kernels only move data between devices.
constexpr std::string_view kCollectiveLibraries[] = {"nccl",  "rccl",   "nvshmem", "rocshmem",
                                                     "msccl", "oneccl", "xccl",    "hccl"};
constexpr std::string_view kCollectiveKernels[] = {
    "cross-device-reduce",  // custom all-reduce of vLLM and SGLang
    "cross-device-store",   // AITER
    "multimem",             // reductions in the switch (NVLink SHARP)
    "lamport",              // the one-shot protocol of TensorRT-LLM and FlashInfer
    "deep-ep::",            // DeepEP
    "mori::",               // AMD's expert parallelism
    "moe-a2a",
    "moea2a"  // TensorRT-LLM
};
// CUTLASS calls the cooperation of the threads of one block "collective".
constexpr std::string_view kOfOneDevice[] = {"cutlass", "cute::"};

// "triton_poi_fused_all_reduce_norm_0": TorchInductor lists the ops that it fused or that are
// adjacent.
bool IsNamedAfterOps(std::string_view kernel) {
  return kernel.starts_with("triton_") && kernel.find("_fused_") != kernel.npos;
}

bool NamesCollective(std::string_view name) {
  return !IsNamedAfterOps(name) && ContainsAny(name, kCollectives, Where::kAtWord) &&
         !ContainsAny(name, kOfOneDevice, Where::kAnywhere);
}

bool IsKernelOfCollective(std::string_view kernel) {
  if (IsNamedAfterOps(kernel)) return false;
  return ContainsAny(kernel, kCollectiveLibraries, Where::kAnywhere) ||
         ContainsAny(kernel, kCollectiveKernels, Where::kAtWord);
}

bool IsCollective(const Draft& draft, std::string_view op) {
  return !draft.collective.empty() ||
         draft.hlo_category.find("collective") != draft.hlo_category.npos ||
         ContainsAny(draft.hlo_category, kCollectives, Where::kAtWord) ||
         ContainsAny(draft.hlo_category, kExchanges, Where::kAtWord) || NamesCollective(op) ||
         NamesCollective(draft.kernel) || StartsWithAny(op, kExchanges) ||
         IsOp(op, kCollectivePrimitives);
}

// ---- copies

constexpr std::string_view kCopyOps[] = {"copy"};
// Copy kernels of AMD's GPU driver.
constexpr std::string_view kCopyKernels[] = {"--amd-rocclr-copy", "--amd-rocclr-fill"};
constexpr std::string_view kDriverCopies[] = {"memcpy", "memset"};
constexpr std::string_view kPlaces[] = {"device", "host"};

// "Memcpy DtoH (Device -> Pageable)", "MemcpyD2H", "Memset", "MEMCPYHtoD", "CopyDeviceToHost".
bool IsDriverCopy(std::string_view kernel) {
  if (StartsWithAny(kernel, kCopyKernels)) return true;
  if (StartsWith(kernel, "copy")) return StartsWithAny(kernel.substr(4), kPlaces);
  if (!StartsWithAny(kernel, kDriverCopies)) return false;
  const std::string_view rest = kernel.substr(kDriverCopies[0].size());
  if (rest.empty() || rest[0] == ' ' || rest[0] == '(') return true;
  // A direction: one letter before and after "2" or "to".
  constexpr std::string_view kWays[] = {"2", "to"};
  return absl::ascii_isalpha(static_cast<unsigned char>(rest[0])) &&
         StartsWithAny(rest.substr(1), kWays);
}

// ---- control, and operations of the host

constexpr std::string_view kControlOps[] = {"while", "conditional", "cond",   "call",
                                            "tuple", "parameter",   "infeed", "outfeed"};
constexpr std::string_view kControlCategories[] = {"infeed", "outfeed", "host send", "host recv"};

// ---- opcodes

constexpr std::string_view kControlOpcodes[] = {
    "while", "conditional", "call", "tuple", "parameter", "infeed", "outfeed", "send", "recv"};
constexpr std::string_view kCopyOpcodes[] = {"copy", "copy-start", "copy-done"};
// These state how an op runs, but not what it does.
constexpr std::string_view kOpenOpcodes[] = {"custom-call", "async-start", "async-update",
                                             "async-done"};

std::optional<Category> FindCategory(std::string_view opcode) {
  if (opcode.empty() || IsAny(opcode, kOpenOpcodes)) return std::nullopt;
  if (ContainsAny(opcode, kCollectives, Where::kAtWord) || IsAny(opcode, kExchanges)) {
    return Category::kCollective;
  }
  if (IsAny(opcode, kCopyOpcodes)) return Category::kCopy;
  return IsAny(opcode, kControlOpcodes) ? Category::kOther : Category::kCompute;
}

}  // namespace

Category Classify(const Draft& draft) {
  const std::optional<Category> by_opcode = FindCategory(draft.opcode);
  if (by_opcode == Category::kCollective) return Category::kCollective;
  // An op may run kernels of a library or of the driver, unless it is the kernel itself.
  const std::string_view op = draft.hlo_op.empty() ? draft.kernel : draft.hlo_op;
  const bool is_op = by_opcode.has_value() && draft.kernel == op;
  if (!is_op && IsKernelOfCollective(draft.kernel)) return Category::kCollective;
  if (!by_opcode.has_value() && IsCollective(draft, op)) return Category::kCollective;
  if (draft.is_copy || by_opcode == Category::kCopy) return Category::kCopy;
  if (!is_op && IsDriverCopy(draft.kernel)) return Category::kCopy;
  if (by_opcode.has_value()) return *by_opcode;
  if (IsOp(op, kCopyOps) || draft.hlo_category.starts_with("copy")) return Category::kCopy;
  const bool is_control = IsOp(op, kControlOps) ||
                          ContainsAny(draft.hlo_category, kControlCategories, Where::kAnywhere);
  return is_control ? Category::kOther : Category::kCompute;
}

bool HasBody(const Draft& draft) {
  constexpr std::string_view kOps[] = {"while", "conditional", "cond", "call"};
  if (!draft.opcode.empty()) return IsAny(draft.opcode, kOps);
  const std::string_view op = draft.hlo_op.empty() ? draft.kernel : draft.hlo_op;
  return IsAny(draft.hlo_category, kOps) || IsOp(op, kOps);
}

}  // namespace xplane_time
