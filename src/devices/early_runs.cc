#include "devices/early_runs.h"

namespace xplane_time {

void EarlyRuns::Add(const DeviceExecutions& chunk, size_t row, bool by_scope,
                    std::optional<int64_t> label) {
  if (!right_) return;
  const uint32_t index = chunk.program[row];
  if (index >= programs_.size()) programs_.resize(index + 1);
  Program& program = programs_[index];
  const bool first = program.run == kNone;
  const bool changed = !first && program.by_scope != by_scope;
  const bool between = label.has_value() && program.gap && label != program.label;
  if (changed || between || (first && !label.has_value())) return GiveUp();
  program.by_scope = by_scope;
  program.gap = !label.has_value();
  if (label.has_value() && (first || label != program.label)) {
    const auto next = static_cast<uint32_t>(runs_.size());
    const auto [found, inserted] = program.run_of.try_emplace(*label, next);
    if (inserted) runs_.push_back({.program = index, .profile = {0, kUnset}});
    program.label = *label;
    program.run = found->second;
  }
  run_of_row_[row] = program.run;
  Cover(chunk, row, &runs_[program.run]);
}

}  // namespace xplane_time
