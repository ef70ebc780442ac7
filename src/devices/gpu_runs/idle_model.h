// IdleModel: how likely an idle time of the device is within a run, and between two.
//
// Such times are heavy-tailed: each kind is taken for Lomax distributed, with the likeliest
// of some scales. Where the scales of the two kinds hardly differ, idle time tells nothing.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "devices/gpu_runs/likeliest_runs.h"

namespace xplane_time::gpu_runs {

// What each idle time costs by each scale. Rows are worked out when they are first needed.
class IdleCosts {
 public:
  // Scales from 100 ns on, or less where no time is long.
  explicit IdleCosts(std::span<const int64_t> idle_ps);

  const std::vector<float>& Of(size_t scale);
  // The likeliest scale of some of the times.
  size_t Fit(const std::vector<size_t>& some);

 private:
  static constexpr size_t kScales = 18;

  std::span<const int64_t> idle_ps_;
  double least_ps_ = 1;
  std::array<std::vector<float>, kScales> rows_;
};

// The scales of idle times within and between runs.
struct IdleScales {
  size_t inner = 0, border = 0;
};

class IdleModel {
 public:
  // `costs` must outlive the model.
  IdleModel(const RunClues& clues, IdleCosts* costs)
      : clues_(clues), costs_(*costs), inner_(clues.symbols.size(), 0), border_(inner_) {}

  bool known() const { return !clues_.idle_ps.empty(); }
  double inner(size_t i) const { return inner_[i]; }
  double border(size_t i) const { return border_[i]; }
  // Of a kernel before which some are lost: it says little.
  double unknown(size_t i) const { return std::min(inner_[i], border_[i]); }
  const IdleScales& scales() const { return scales_; }

  // Before anything is known: the longest of all idle times are between runs.
  void Guess(size_t run_length);
  // By which executions are within and which begin runs.
  void Fit(const std::vector<size_t>& inner, const std::vector<size_t>& border);
  void Set(const IdleScales& scales);

 private:
  RunClues clues_;
  IdleCosts& costs_;
  IdleScales scales_;
  std::vector<double> inner_, border_;
};

}  // namespace xplane_time::gpu_runs
