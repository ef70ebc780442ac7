#include "hlo/hlo_module.h"

#include "read/wire_message.h"

namespace xplane_time {
namespace {

// Hands each sub-message `number` of a message to `visit(bytes) -> bool`.
template <typename Visit>
bool ForEachMessage(std::string_view bytes, uint32_t number, Visit visit) {
  WireCursor cursor(bytes, 0);
  return ForEachField(&cursor, [&](uint32_t field, WireType type) {
    if (field != number || type != WireType::kLength) return cursor.Skip(field, type);
    std::string_view value;
    return cursor.ReadBytes(&value) && visit(value);
  });
}

bool ReadInstruction(std::string_view bytes, HloInstruction* instruction) {
  WireCursor cursor(bytes, 0);
  return ForEachField(&cursor, [&](uint32_t field, WireType type) {
    if (type == WireType::kLength && field == 1) return cursor.ReadBytes(&instruction->name);
    if (type == WireType::kLength && field == 2) return cursor.ReadBytes(&instruction->opcode);
    return cursor.Skip(field, type);
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
