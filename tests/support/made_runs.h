// MadeRuns: the executions of one program on a made device, with the run of each known.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "devices/gpu_runs/likeliest_runs.h"

namespace xplane_time::gpu_runs {

enum class Loops : uint8_t { kNone, kFixed, kVarying, kWholeBody };

// What a made world is like. Probabilities are per kernel.
struct RunWorld {
  const char* name = "";
  int most_streams = 1;
  bool launches_known = false;  // else in order of start: streams swap neighbours
  bool runs_overlap = false;    // a run is launched while another stream still works
  double lost = 0;
  Loops loops = Loops::kNone;
  bool rounds_wait = false;  // for the host, before each round of a loop
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

// 1 to 7 runs of 1 to 12 kernels.
MadeRuns MakeRuns(const RunWorld& world, std::mt19937* random);

}  // namespace xplane_time::gpu_runs
