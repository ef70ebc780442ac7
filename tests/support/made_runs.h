// MadeRuns: executions of one program on a simulated device, for which the run of each is known.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "devices/gpu_runs/likeliest_runs.h"

namespace xplane_time::gpu_runs {

enum class Loops : uint8_t { kNone, kFixed, kVarying, kWholeBody };

// Properties of a simulated world. Probabilities are per kernel.
struct RunWorld {
  const char* name = "";
  int most_streams = 1;
  bool launches_known = false;  // otherwise in order of start: streams swap neighbours
  bool runs_overlap = false;    // a run is launched while another stream is still busy
  double lost = 0;
  Loops loops = Loops::kNone;
  bool rounds_wait = false;  // each iteration of a loop waits for the host first
  bool host_counts = false;
};

struct MadeRuns {
  std::vector<uint32_t> symbols, run;
  std::vector<int64_t> idle_ps;
  size_t runs = 0;
  bool host_counts = false;

  RunClues clues() const {
    RunClues clues{.symbols = symbols, .idle_ps = idle_ps, .after_other = {}, .host_runs = {}};
    if (host_counts) clues.host_runs = runs;
    return clues;
  }
};

// Makes 1 to 7 runs of 1 to 12 kernels.
MadeRuns MakeRuns(const RunWorld& world, std::mt19937* random);

}  // namespace xplane_time::gpu_runs
