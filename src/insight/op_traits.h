// OpTraits: the properties by which an op is recognized after a recompilation.
//
//   TraitsOf(op_info, program)
//   // {.op = "dot.4", .op_name = "jit(f)/dot_general", .source = "model.py:12", .opcode = "dot",
//   //  .shape = "f32[64,32]", ...}
//
// Hashes exclude names and numbers that a compiler assigns anew each time, and they are the same
// in every process. 0: unknown.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/node_hash_map.h"
#include "devices/device_kind.h"
#include "hlo/program.h"

namespace xplane_time::insight {

// FNV-1a, and a mix of two of them.
uint64_t HashOf(std::string_view text);
uint64_t Mixed(uint64_t a, uint64_t b);
// Sorts hashes and removes repetitions.
void SortUnique(std::vector<uint64_t>* hashes);

// "loop_add_fusion" of "loop_add_fusion.3.clone", "sgemm_x_nn" of "sgemm_128x64_nn".
std::string WithoutNumbers(std::string_view name);
// "jit(main)/dot_general" of "jit(f)/jit(main)/dot_general": the first part names the function.
std::string_view WithinFunction(std::string_view op_name);

struct OpTraits {
  std::string kernel, op;       // op: hlo_op; empty: unknown
  std::string op_name, source;  // "jit(f)/dot_general", "model.py:12"
  std::string opcode, shape;    // "f32[64,32]"
  Category category = Category::kCompute;
  uint64_t shapes = 0;             // of the result and the operands
  uint64_t content = 0;            // attributes and fused ops
  uint64_t context = 0;            // content, and that of the operands
  uint32_t position = 0;           // in the program
  std::vector<uint64_t> inner;     // op_name and opcode of the computed ops; sorted, each once
  std::vector<std::string> lines;  // source lines of the computed ops; each once
};

// For the ops of one program. If it is null, only the data of the trace is used.
class TraitsReader {
 public:
  explicit TraitsReader(const HloProgram* program);

  // `position`: used if there is no program.
  OpTraits Of(const OpInfo& op, uint32_t position);

 private:
  struct Known {
    uint64_t content = 0, shape = 0;
    HloDetails details;
    bool is_sound = false;
  };
  // The content of a computation, independent of its caller.
  struct Called {
    uint64_t content = 0;
    std::vector<uint64_t> inner;
    std::vector<std::string> lines;
  };
  const Known& KnownOf(const HloInstruction& instruction);
  const Called& CalledOf(int64_t computation, int depth);
  // Of all called computations.
  Called AllCalled(const HloDetails& details, int depth);
  void Fill(const HloInstruction& instruction, OpTraits* traits);
  void FillContext(const HloDetails& details, OpTraits* traits);

  const HloProgram* const program_;
  // Needs stable addresses.
  absl::node_hash_map<const HloInstruction*, Known> known_;
  absl::node_hash_map<int64_t, Called> called_;
};

}  // namespace xplane_time::insight
