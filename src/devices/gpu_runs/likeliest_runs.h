// LikeliestRuns: splits the executions of one program into runs where neither scopes nor
// launches tell them apart.
//
//   a b c a b c a b c      -> [a b c] [a b c] [a b c]   what repeats is a run
//   a b c a b   a b c      -> [a b c] [a b]   [a b c]   a run may lack kernels
//   a b c b a c a b c      -> [a b c] [b a c] [a b c]   two streams swap neighbours,
//   a b a c b c            -> [a b . c] [a . b c]       also where one run meets the next
//   a b b c a b b b c      -> [a b b c] [a b b b c]     a loop may go round more often
//   a b c d                -> [a b c d]                 no repetition: one run
//
// Each way of splitting has a cost, its negative log likelihood in nats: of the content of
// a run (the template), of each kernel that a run lacks, has once more, or has out of
// order, and of the idle time before each kernel, which is long between runs and short
// within one. The cheapest is taken. Where another one costs hardly more, or idle time does
// not tell a loop around all kernels from runs, the split is doubtful.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace xplane_time::gpu_runs {

using Symbols = std::span<const uint32_t>;  // small ids of what was executed

// Executions in order of launch where that is known, else of start. Columns of one length.
struct RunClues {
  Symbols symbols;
  std::span<const int64_t> idle_ps;  // before it, since all before have ended; or empty: unknown
  std::span<const uint8_t> after_other;  // another program executed in between; or empty
  std::optional<size_t> host_runs;       // executions that the host recorded

  bool FollowsOther(size_t i) const { return !after_other.empty() && after_other[i] != 0; }
};

struct LikeliestRuns {
  std::vector<uint32_t> run;     // of each execution, from 0, in order of their begin
  std::optional<size_t> rivals;  // doubtful: it may as well be so many runs
};

// Time and memory are linear in the number of executions, whatever they are.
LikeliestRuns SplitLikeliest(const RunClues& clues);

// The last place before `limit` where all before are of earlier runs than all after; 0: none.
size_t LastBorder(std::span<const uint32_t> run, size_t limit);

}  // namespace xplane_time::gpu_runs
