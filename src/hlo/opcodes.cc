#include "hlo/opcodes.h"

#include <iterator>
#include <span>
#include <utility>

#include "read/wire.h"
#include "status.h"

namespace xplane_time {
namespace {

// HloProto.hlo_module, HloModuleProto.computations, HloComputationProto.instructions.
constexpr uint32_t kPath[] = {1, 3, 2};

// A message that so many steps of the path lead to.
bool VisitBelow(size_t steps, std::string_view message, OnInstruction visit) {
  const bool is_instruction = steps == std::size(kPath);
  std::string_view name, opcode;
  Damage ignored;
  const bool sound = ReadMessage(message, 0, 0, &ignored, [&](const WireField& field) {
    if (!is_instruction) {
      return field.key() != Length(kPath[steps]) || VisitBelow(steps + 1, field.bytes, visit);
    }
    if (field.key() == Length(1)) name = field.bytes;
    if (field.key() == Length(2)) opcode = field.bytes;
    return true;
  });
  if (sound && is_instruction) visit(name, opcode);
  return sound;
}

bool IsNumber(const StatValue& value) {
  return value.type == StatType::kInt64 || value.type == StatType::kUint64;
}

}  // namespace

bool VisitInstructions(std::string_view hlo_proto, OnInstruction visit) {
  return VisitBelow(0, hlo_proto, visit);
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
    const auto [found, inserted] = programs_.try_emplace(id, Program{hlo_proto});
    if (!inserted && found->second.hlo_proto != hlo_proto) found->second.hlo_proto = {};
  }
}

std::string_view HloOpcodes::Of(const StatValue& program_id, std::string_view hlo_op) {
  if (hlo_op.empty() || !IsNumber(program_id)) return {};
  if (!is_searched_) FindPrograms();
  const auto found = programs_.find(program_id.bits);
  if (found == programs_.end()) return {};
  Program& program = found->second;
  if (!std::exchange(program.is_read, true)) {
    const auto add = [&](std::string_view name, std::string_view opcode) {
      program.opcodes.try_emplace(Absl(name), opcode);
    };
    if (!VisitInstructions(program.hlo_proto, add)) program.opcodes.clear();
  }
  const auto opcode = program.opcodes.find(Absl(hlo_op));
  return opcode == program.opcodes.end() ? std::string_view() : opcode->second;
}

}  // namespace xplane_time
