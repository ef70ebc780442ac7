// Align: the cheapest way to read a sequence of kernels as runs with one content.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "devices/gpu_runs/idle_model.h"
#include "devices/gpu_runs/likeliest_runs.h"

namespace xplane_time::gpu_runs {

// The content of a run, in order.
struct Template {
  explicit Template(Symbols content) : symbols(content.begin(), content.end()) {
    for (uint32_t i = 0; i < symbols.size(); ++i) places[symbols[i]].push_back(i);
  }
  int32_t size() const { return static_cast<int32_t>(symbols.size()); }

  std::vector<uint32_t> symbols;
  absl::flat_hash_map<uint32_t, std::vector<int32_t>> places;
};

struct Alignment {
  double cost = std::numeric_limits<double>::infinity();
  std::vector<uint32_t> run;
  std::vector<int32_t> at;       // in the template
  std::vector<bool> after_loss;  // kernels are lost right before it
  size_t runs() const { return run.empty() ? 0 : *std::max_element(run.begin(), run.end()) + 1; }
};

// Time and memory: linear in the number of symbols.
Alignment Align(Symbols symbols, const Template& pattern, const IdleModel& idle);

}  // namespace xplane_time::gpu_runs
