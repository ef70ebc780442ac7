// LikeliestRuns: splits the executions of one program into runs if neither scopes nor launches
// separate them.
//
//   a b c a b c a b c      -> [a b c] [a b c] [a b c]   a repetition is a run
//   a b c a b   a b c      -> [a b c] [a b]   [a b c]   a run may lack kernels
//   a b c b a c a b c      -> [a b c] [b a c] [a b c]   two streams swap neighbours,
//   a b a c b c            -> [a b . c] [a . b c]       also at the border of two runs
//   a b b c a b b b c      -> [a b b c] [a b b b c]     a loop may repeat more often
//   a b c d                -> [a b c d]                 no repetition: one run
//
// Each split has a cost, its negative log likelihood in nats: the cost of the content of a run (the
// template), of each kernel that a run lacks, repeats or has out of order, and of the idle time
// before each kernel, which is long between runs and short within runs. A run that spans executions
// of another program on its own stream is unlikely. The cheapest split is taken. It is doubtful if
// another split costs little more, if idle times cannot distinguish runs from a loop around all
// kernels, or if a run spans another program although the device waits there as long as between
// runs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace xplane_time::gpu_runs {

using Symbols = std::span<const uint32_t>;  // small ids of the executed kernels

// Whether other programs executed between two executions of a program.
enum class Between : uint8_t {
  kNone,
  kOther,          // on other streams only
  kOtherOnStream,  // on the stream of the later execution
};

// Executions in order of launch if it is known, else of start. All columns have the same length.
struct RunClues {
  Symbols symbols;
  // idle time before each execution, since all earlier ones have ended; empty: unknown
  std::span<const int64_t> idle_ps;
  std::span<const Between> after_other;  // which other programs executed in between; or empty
  std::optional<size_t> host_runs;       // number of executions that the host recorded

  bool FollowsOther(size_t i) const {
    return !after_other.empty() && after_other[i] != Between::kNone;
  }
  // A stream executes in order, so a program hardly has other programs inside its run.
  bool FollowsOtherOnStream(size_t i) const {
    return !after_other.empty() && after_other[i] == Between::kOtherOnStream;
  }
};

struct LikeliestRuns {
  std::vector<uint32_t> run;  // run of each execution, from 0 in order of their begin
  // set if the split is doubtful: the number of runs of another likely split
  std::optional<size_t> rivals;
};

// Time and memory are linear in the number of executions.
LikeliestRuns SplitLikeliest(const RunClues& clues);

// The last position before `limit` at which all earlier executions belong to earlier runs than all
// later ones; 0: none.
size_t LastBorder(std::span<const uint32_t> run, size_t limit);

}  // namespace xplane_time::gpu_runs
