#include "hlo/opcodes.h"

#include <span>

#include "read/wire.h"
#include "status.h"

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

bool IsNumber(const StatValue& value) {
  return value.type == StatType::kInt64 || value.type == StatType::kUint64;
}

}  // namespace

bool VisitInstructions(std::string_view hlo_proto,
                       absl::FunctionRef<void(const HloInstruction&)> visit) {
  constexpr uint32_t kModule = 1, kComputation = 3, kInstruction = 2;
  return ForEachMessage(hlo_proto, kModule, [&](std::string_view module) {
    return ForEachMessage(module, kComputation, [&](std::string_view computation) {
      return ForEachMessage(computation, kInstruction, [&](std::string_view bytes) {
        HloInstruction instruction;
        Damage ignored;
        const bool sound = ReadMessage(bytes, 0, 0, &ignored, [&](const WireField& field) {
          if (field.key() == Length(1)) instruction.name = field.bytes;
          if (field.key() == Length(2)) instruction.opcode = field.bytes;
          return true;
        });
        if (sound) visit(instruction);
        return sound;
      });
    });
  });
}

void HloOpcodes::FindPrograms() {
  is_searched_ = true;
  for (const Plane& other : trace_.planes) {
    const bool same_host = other.file == plane_.file && other.host == plane_.host;
    if (same_host && other.name == "/host:metadata") AddPlane(other);
  }
}

// A program's id is its key, but on a CPU, where a stat has it.
void HloOpcodes::AddPlane(const Plane& metadata) {
  const std::span<const Stat> all(metadata.metadata_stats);
  for (const EventMetadata& entry : metadata.event_metadata.entries) {
    auto id = static_cast<uint64_t>(entry.id);
    std::string_view hlo_proto;
    for (const Stat& stat : all.subspan(entry.first_stat, entry.stat_count)) {
      const std::string_view name =
          ReferencedName(metadata.stat_metadata, static_cast<uint64_t>(stat.metadata_id));
      if (name == "program_id" && IsNumber(stat.value)) id = stat.value.bits;
      if (name == "Hlo Proto" && stat.value.type == StatType::kBytes) hlo_proto = stat.value.text;
    }
    if (hlo_proto.empty()) continue;
    const auto [found, inserted] = programs_.try_emplace(id, Program{hlo_proto, false, {}});
    if (!inserted && found->second.hlo_proto != hlo_proto) found->second.hlo_proto = {};
  }
}

void HloOpcodes::Read(Program* program) {
  program->is_read = true;
  const bool sound = VisitInstructions(program->hlo_proto, [&](const HloInstruction& found) {
    program->opcodes.try_emplace(Absl(found.name), found.opcode);
  });
  if (!sound) program->opcodes.clear();
}

std::string_view HloOpcodes::Of(const StatValue& program_id, std::string_view hlo_op) {
  if (hlo_op.empty() || !IsNumber(program_id)) return {};
  if (!is_searched_) FindPrograms();
  const auto program = programs_.find(program_id.bits);
  if (program == programs_.end()) return {};
  if (!program->second.is_read) Read(&program->second);
  const auto& opcodes = program->second.opcodes;
  const auto found = opcodes.find(Absl(hlo_op));
  return found == opcodes.end() ? std::string_view() : found->second;
}

}  // namespace xplane_time
