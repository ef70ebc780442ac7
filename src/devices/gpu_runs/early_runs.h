// EarlyRuns: the runs of a GPU's programs as far as the executions so far tell, so that one
// pass is enough where scopes or launches split a program.
//
// Each execution has a label, that of its run, by scope or by launch. The guess is wrong
// where a program changes from one to the other, and where an execution without a label
// turns out not to be inside a run.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "devices/executions.h"

namespace xplane_time::gpu_runs {

class EarlyRuns {
 public:
  bool right() const { return right_; }
  void GiveUp() { right_ = false; }

  // Before the rows of a chunk.
  void Start(const DeviceExecutions& chunk) { run_of_row_.assign(chunk.size(), kNone); }
  // An execution of a program. No label: it belongs to the run before, if to any.
  void Add(const DeviceExecutions& chunk, size_t row, bool by_scope, std::optional<int64_t> label) {
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
      if (inserted) runs_.push_back({.program = index});
      program.label = *label;
      program.run = found->second;
    }
    run_of_row_[row] = program.run;
    runs_[program.run].Cover(chunk, row);
  }
  // Of the chunk's rows.
  std::vector<uint32_t>& run_of_row() { return run_of_row_; }
  std::vector<Run> TakeRuns() { return std::move(runs_); }

 private:
  struct Program {
    bool by_scope = false;
    absl::flat_hash_map<int64_t, uint32_t> run_of;  // by label
    int64_t label = 0;                              // the last
    uint32_t run = kNone;                           // its run
    bool gap = false;                               // executions without a label came after it
  };

  bool right_ = true;
  std::vector<Program> programs_;
  std::vector<Run> runs_;
  std::vector<uint32_t> run_of_row_;
};

}  // namespace xplane_time::gpu_runs
