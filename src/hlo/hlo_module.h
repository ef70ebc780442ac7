// Hlo Protos: the compiler's own text of a program, as far as it is read here.
//
//   HloProto 1 hlo_module; HloModuleProto 3 computations; HloComputationProto
//   2 instructions; HloInstructionProto 1 name, 2 opcode
//
// Enters: the bytes of a stat `Hlo Proto`. Leaves: its instructions, one after the other.
// Not handled here: shapes, operands, schedules.
#ifndef XPLANE_TIME_SRC_HLO_HLO_MODULE_H_
#define XPLANE_TIME_SRC_HLO_HLO_MODULE_H_

#include <string_view>

#include "absl/functional/function_ref.h"

namespace xplane_time {

struct HloInstruction {
  std::string_view name;    // "all_gather.7"
  std::string_view opcode;  // "all-gather"
};

// Views into `hlo_proto`. Time and memory: one pass, nothing kept. False at damage, after
// the instructions before it.
bool VisitInstructions(std::string_view hlo_proto,
                       absl::FunctionRef<void(const HloInstruction&)> visit);

}  // namespace xplane_time

#endif  // XPLANE_TIME_SRC_HLO_HLO_MODULE_H_
