// EarlyRuns: the runs of a GPU's programs as far as the executions so far tell, so that one
// pass is enough where scopes or correlation split a program.
//
// Each execution has a label, that of its run, by scope or by correlation. The guess is
// wrong where a program changes from one to the other, and where an execution without a
// label turns out not to be inside a run.
#ifndef XPLANE_TIME_SRC_DEVICES_EARLY_RUNS_H_
#define XPLANE_TIME_SRC_DEVICES_EARLY_RUNS_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "devices/device_kind.h"
#include "xplane_time/runs.h"

namespace xplane_time {

class EarlyRuns {
 public:
  bool right() const { return right_; }
  void GiveUp() { right_ = false; }

  // Before the rows of a chunk.
  void Start(const DeviceExecutions& chunk) { run_of_row_.assign(chunk.size(), kNone); }
  // An execution of a program. No label: it belongs to the run before, if to any.
  void Add(const DeviceExecutions& chunk, size_t row, bool by_scope, std::optional<int64_t> label);
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

}  // namespace xplane_time

#endif  // XPLANE_TIME_SRC_DEVICES_EARLY_RUNS_H_
