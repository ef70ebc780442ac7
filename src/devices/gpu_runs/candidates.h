// Candidates: which parts of a sequence of kernels may be the content of a run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "devices/gpu_runs/likeliest_runs.h"

namespace xplane_time::gpu_runs {

// How often each symbol occurs.
using Content = absl::flat_hash_map<uint32_t, size_t>;
Content ContentOf(Symbols symbols);

// The smallest p < size of which the sequence is a repetition; 0: it is none.
size_t RepeatedPeriod(Symbols symbols);

// The places from `first` on with the `count` longest idle times, longest first; of equal
// ones the first. The place 0 has none.
std::vector<size_t> LongestIdle(const RunClues& clues, size_t first, size_t count);

// A window of the sequence that may be the content of a run.
struct Window {
  size_t begin = 0, size = 0;
};

// At most `most` windows, the likeliest first, and last the whole sequence.
std::vector<Window> CandidateWindows(const RunClues& clues, size_t most);

}  // namespace xplane_time::gpu_runs
