// HloOpcodes: what the compiler calls an op. Names do not tell: jax names HLO ops after its
// primitives, so that `pmax.7` is an all-reduce and `cond.1.clone` a conditional.
//
// The plane `/host:metadata` has one event metadata entry a program, with the program's Hlo
// Proto. A program is read when one of its ops is first asked for.
//
//   HloOpcodes opcodes(trace, plane);
//   opcodes.Of(program_id, "pmax.7")    // "all-reduce"; empty: unknown
//
// Of a program's HloProto (1 hlo_module; HloModuleProto 3 computations;
// HloComputationProto 2 instructions; HloInstructionProto 1 name, 2 opcode) nothing else is
// read: no shapes, operands, schedules.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "xplane_time/trace.h"

namespace xplane_time {

// "all_gather.7", "all-gather"
using OnInstruction = absl::FunctionRef<void(std::string_view name, std::string_view opcode)>;
// Views into `hlo_proto`. Time and memory: one pass, nothing kept. False at damage, after
// the instructions before it.
bool VisitInstructions(std::string_view hlo_proto, OnInstruction visit);

class HloOpcodes {
 public:
  // Of the file and host of `plane`. Both must outlive it.
  HloOpcodes(const Trace& trace, const Plane& plane) : trace_(trace), plane_(plane) {}

  // Empty where the program, or the op in it, is unknown, and where the program's Hlo Proto
  // is damaged or not the only one with its id.
  std::string_view Of(const StatValue& program_id, std::string_view hlo_op);

 private:
  struct Program {
    std::string_view hlo_proto;
    bool is_read = false;
    absl::flat_hash_map<absl::string_view, std::string_view> opcodes = {};  // by instruction
  };
  void FindPrograms();
  void AddPlane(const Plane& metadata);

  const Trace& trace_;
  const Plane& plane_;
  bool is_searched_ = false;
  absl::flat_hash_map<uint64_t, Program> programs_;  // by id
};

}  // namespace xplane_time
