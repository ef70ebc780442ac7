#include "hlo/hlo_module.h"

#include "read/wire.h"

namespace xplane_time {
namespace {

// Hands each sub-message `number` of a message to `visit(bytes) -> bool`.
template <typename Visit>
bool ForEachMessage(std::string_view bytes, uint32_t number, Visit visit) {
  Damage ignored;
  return ReadMessage(bytes, 0, 0, &ignored, [&](const WireField& field) {
    return field.key() != Length(number) || visit(field.bytes);
  });
}

bool ReadInstruction(std::string_view bytes, HloInstruction* instruction) {
  Damage ignored;
  return ReadMessage(bytes, 0, 0, &ignored, [&](const WireField& field) {
    if (field.key() == Length(1)) instruction->name = field.bytes;
    if (field.key() == Length(2)) instruction->opcode = field.bytes;
    return true;
  });
}

}  // namespace

bool VisitInstructions(std::string_view hlo_proto,
                       absl::FunctionRef<void(const HloInstruction&)> visit) {
  constexpr uint32_t kModule = 1, kComputation = 3, kInstruction = 2;
  return ForEachMessage(hlo_proto, kModule, [&](std::string_view module) {
    return ForEachMessage(module, kComputation, [&](std::string_view computation) {
      return ForEachMessage(computation, kInstruction, [&](std::string_view bytes) {
        HloInstruction instruction;
        if (!ReadInstruction(bytes, &instruction)) return false;
        visit(instruction);
        return true;
      });
    });
  });
}

}  // namespace xplane_time
