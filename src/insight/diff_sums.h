// The sums of a diff: amounts of time by program and capture, their means, and the noise of their
// differences.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "insight/diff_capture.h"
#include "insight/diff_match.h"

namespace xplane_time::insight {

// A kernel of one side, over its captures.
struct SideOp {
  uint32_t program = 0;
  OpTraits traits;
  std::vector<OwnTimes> times;  // by capture
};

struct SideProgram {
  std::string function;
  std::vector<std::string> program_ids;
  uint64_t signature = 0, suspect_runs = 0;
  uint32_t block = 0;            // equal on both sides for programs that match
  std::vector<UnitTimes> times;  // by capture; of runs
};

// The captures of a side as one: programs and kernels of all of them, matched to each other.
struct Side {
  std::vector<std::string> sources;
  std::vector<SideProgram> programs;
  std::vector<SideOp> ops;
  std::vector<UnitTimes> times;  // by capture; of steps or captures
  bool any_launch = true;        // in all captures
  int64_t clock_step_ps = 0;     // the largest
};

// Fills `rows`, `sums`, `total`, `functions` and both sides' totals of the report, whose `per` and
// `decision` are set.
void FillSums(const Side& base, const Side& head, const std::vector<OpMatch>& matches,
              DiffReport* report);

}  // namespace xplane_time::insight
