// DiffCapture: what one capture gives to a diff.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "insight/op_traits.h"
#include "xplane_time/diff.h"

namespace xplane_time::insight {

inline constexpr size_t kPers = 3;  // DiffPer

// Time other than the kernels' own. Busy is the union of the executions that count.
struct UnitTimes {
  uint64_t units = 0;
  int64_t span_ps = 0, busy_ps = 0, foreign_ps = 0;
  int64_t idle_host_ps = 0, idle_launch_ps = 0, idle_unknown_ps = 0;
  // Sums of the squares of these times over the units; `idle`: of all three kinds together.
  struct Squares {
    double span = 0, busy = 0, foreign = 0;
    double idle_host = 0, idle_launch = 0, idle_unknown = 0, idle = 0;
  };
  Squares squares = {};
  int64_t idle_ps() const { return idle_host_ps + idle_launch_ps + idle_unknown_ps; }
  void Add(const UnitTimes& more);
};

struct OwnTimes {
  int64_t own_ps = 0, hidden_ps = 0;
  uint64_t count = 0;
  double squares = 0;  // of own_ps of the executions
  void Add(const OwnTimes& more);
};

// A function's program; those of several devices that were compiled from one are one.
struct DiffProgram {
  std::string function;  // empty: of kernels in no function
  std::vector<std::string> program_ids = {};
  uint64_t signature = 0;  // of the device's ops
  uint64_t suspect_runs = 0;
  UnitTimes runs = {};
};

struct DiffOp {
  uint32_t program = 0;
  OpTraits traits;
  std::array<OwnTimes, kPers> times = {};  // by DiffPer
};

struct DiffCapture {
  std::string source;
  std::vector<InputRow> inputs;
  std::vector<std::string> devices, kinds, clocks, models;  // each once, sorted
  bool any_launch = false;
  bool any_step = false, any_run = false;
  std::array<UnitTimes, kPers> times;  // kRun: over programs
  std::vector<DiffProgram> programs;
  std::vector<DiffOp> ops;
  uint64_t ops_with_hlo = 0;
  int64_t clock_step_ps = 0;  // 0: unknown
  std::vector<DiagnosticRow> diagnostics;
};

// Errors: as BuildReport.
absl::StatusOr<DiffCapture> MeasureForDiff(const Trace& trace, const DiffOptions& options,
                                           const Diagnostics& reading);

}  // namespace xplane_time::insight
