// What a way to read a sequence of kernels as runs costs, and the cheapest one for a given
// content. Costs are negative log likelihoods in nats, so that what is seldom costs much.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "devices/gpu_runs/likeliest_runs.h"

namespace xplane_time::gpu_runs {

inline constexpr double kSymbol = 1.2;      // each kernel of the template
inline constexpr double kAllRepeat = 3;     // a template that is a repetition itself
inline constexpr double kLoss = 4.5;        // kernels that a run lacks: the first,
inline constexpr double kLossMore = 0.7;    // and each one next to it
inline constexpr double kEdge = 5;          // the capture began or ended within a run
inline constexpr double kSwap = 1.2;        // a kernel after one that follows it, each place,
inline constexpr double kBorderSwap = 1.2;  // which is of the next run
inline constexpr int32_t kReach = 8;        // a swap goes hardly further
inline constexpr double kAgain = 6;         // a loop goes round once more
inline constexpr double kForeign = 6;       // a kernel that is not in the template
inline constexpr double kOther = 1;         // another program executed within a run
inline constexpr double kHostDiffers = 5;
inline constexpr double kScramble = 3;  // a run in another order than those before
// A rival that costs less than this more makes a split doubtful.
inline constexpr double kMargin = 3.5;

inline double LossCost(int32_t count) { return count > 0 ? kLoss + kLossMore * (count - 1) : 0; }

// The scales of idle times within and between runs.
struct IdleScales {
  size_t inner = 0, border = 0;
  bool operator==(const IdleScales&) const = default;
};

// How likely an idle time of the device is within a run, and between two. Such times are
// heavy-tailed: each kind is taken for Lomax distributed, with the likeliest of some scales.
// Where the scales of the two kinds hardly differ, idle time tells nothing.
class IdleModel {
 public:
  // Scales from 100 ns on, or less where no time is long.
  explicit IdleModel(const RunClues& clues);

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
  static constexpr size_t kScales = 18;

  // What each idle time costs by a scale. Rows are worked out when they are first needed.
  const std::vector<float>& CostsBy(size_t scale);
  // The likeliest scale of some of the times.
  size_t LikeliestScale(const std::vector<size_t>& some);
  // What the shortest times cost by a scale: [n] of n of them.
  const std::vector<double>& SumsBy(size_t scale);
  // By what some times cost by each scale.
  template <typename CostBy>
  static size_t Likeliest(const CostBy& cost_by) {
    size_t best = 0;
    double least = std::numeric_limits<double>::infinity();
    for (size_t scale = 0; scale < kScales; ++scale) {
      const double cost = cost_by(scale);
      if (cost >= least) continue;
      least = cost;
      best = scale;
    }
    return best;
  }
  void SetTwo(bool has_inner, const IdleScales& scales, size_t of_all);

  RunClues clues_;
  double least_ps_ = 1;
  std::array<std::vector<float>, kScales> costs_;
  std::array<std::vector<double>, kScales> sums_;
  std::vector<size_t> ascending_;  // places but the first, by their idle time
  bool is_set_ = false;
  IdleScales scales_;
  std::vector<double> inner_, border_;
};

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
  std::vector<int32_t> at;       // in the template; empty: not known
  std::vector<bool> after_loss;  // kernels are lost right before it
  size_t runs() const { return run.empty() ? 0 : *std::max_element(run.begin(), run.end()) + 1; }
};

// The cheapest reading; none where it costs more than `limit`. Time and memory: linear in the
// number of symbols.
Alignment Align(Symbols symbols, const Template& pattern, const IdleModel& idle,
                double limit = std::numeric_limits<double>::infinity());

}  // namespace xplane_time::gpu_runs
