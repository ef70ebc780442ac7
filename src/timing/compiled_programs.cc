#include "timing/compiled_programs.h"

#include <charconv>
#include <optional>
#include <string>

#include "status.h"

namespace xplane_time {
namespace {

// "19", or a fingerprint beyond int64 unchanged from the trace.
std::optional<uint64_t> ProgramNumber(const std::optional<std::string>& id) {
  if (!id.has_value()) return std::nullopt;
  const char *const begin = id->data(), *const end = begin + id->size();
  uint64_t number = 0;
  if (const auto [at, error] = std::from_chars(begin, end, number);
      error == std::errc() && at == end) {
    return number;
  }
  int64_t negative = 0;
  const auto [at, error] = std::from_chars(begin, end, negative);
  const bool whole = error == std::errc() && at == end;
  return whole ? std::optional(static_cast<uint64_t>(negative)) : std::nullopt;
}

}  // namespace

const HloProgram* CompiledPrograms::Of(uint32_t program) {
  if (program == kNone) return nullptr;
  const auto [place, is_new] = known_.try_emplace(program, nullptr);
  if (is_new) place->second = Search(device_.tables->programs[program]);
  return place->second;
}

HloPrograms::FoundOp CompiledPrograms::Find(const OpInfo& op, uint32_t program) {
  HloPrograms::FoundOp found;
  if (op.hlo_op.empty()) return found;
  found.program = Of(program);
  if (found.program != nullptr) found.instruction = found.program->Find(op.hlo_op);
  return found;
}

const HloProgram* CompiledPrograms::Search(const ProgramInfo& info) {
  const std::optional<uint64_t> number = ProgramNumber(info.program_id);
  const HloPrograms::Found found =
      number.has_value() ? device_.hlo->Find(*number) : HloPrograms::Found{};
  if (found.state == HloPrograms::State::kMissing) {
    diagnostics_->Count(DiagnosticCode::kHloMissing, {.plane = device_.plane.plane});
  } else if (found.program == nullptr) {
    const bool damaged = found.state == HloPrograms::State::kDamaged;
    Tell(info, damaged ? "damaged" : "two that differ");
  } else if (found.program->name() != info.function) {
    Tell(info, Cat("of ", found.program->name()));
  } else {
    return found.program;
  }
  return nullptr;
}

void CompiledPrograms::Tell(const ProgramInfo& info, std::string_view why) {
  diagnostics_->Note(DiagnosticCode::kHloUnusable,
                     Cat(info.function, "(", info.program_id.value_or(""), "): ", why),
                     {.plane = device_.plane.plane});
}

}  // namespace xplane_time
