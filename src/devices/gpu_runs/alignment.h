// The cost of reading a sequence of kernels as runs with a given content (the template), and the
// cheapest reading. Costs are negative log likelihoods in nats, so that rare events cost much.
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

inline constexpr double kSymbol = 1.2;    // each kernel of the template
inline constexpr double kAllRepeat = 3;   // a template that is a repetition itself
inline constexpr double kLoss = 4.5;      // the first of consecutive kernels that a run lacks
inline constexpr double kLossMore = 0.7;  // each further one
inline constexpr double kEdge = 5;        // the capture began or ended within a run
inline constexpr double kSwap = 1.2;      // each position by which a kernel is late
// additional cost if the kernel that was passed is of the next run
inline constexpr double kBorderSwap = 1.2;
inline constexpr int32_t kReach = 8;   // maximum distance of a usual swap
inline constexpr double kAgain = 6;    // a loop repeats its body once more
inline constexpr double kForeign = 6;  // a kernel that is not in the template
// another program executed within a run: on another stream, and on the same stream (cheaper than
// two runs that both lack kernels)
inline constexpr double kOtherProgram = 1, kOtherOnStream = 8;
inline constexpr double kHostDiffers = 5;
inline constexpr double kScramble = 3;  // a run in another order than earlier runs
// A split is doubtful if a rival costs less than this more.
inline constexpr double kMargin = 3.5;

inline double LossCost(int32_t count) { return count > 0 ? kLoss + kLossMore * (count - 1) : 0; }

// Indices of the scales of idle times within and between runs.
struct IdleScales {
  size_t inner = 0, border = 0;
  bool operator==(const IdleScales&) const = default;
};

// The likelihood of an idle time of the device within a run and between two runs. Idle times are
// heavy-tailed, so each kind is modelled by a Lomax distribution with the likeliest of several
// scales. If the scales of both kinds hardly differ, idle times carry no information.
class IdleModel {
 public:
  // The scales begin at 100 ns, or lower if no idle time is long.
  explicit IdleModel(const RunClues& clues);

  bool known() const { return !clues_.idle_ps.empty(); }
  double inner(size_t i) const { return inner_[i]; }
  double border(size_t i) const { return border_[i]; }
  // Cost of the idle time before a kernel if kernels before it are lost, which carries little
  // information.
  double unknown(size_t i) const { return std::min(inner_[i], border_[i]); }
  // The same, if the lost kernels are of the same run. Losses do not explain other programs.
  double after_loss(size_t i) const { return clues_.FollowsOther(i) ? inner_[i] : unknown(i); }
  const IdleScales& scales() const { return scales_; }

  // An initial estimate: the longest idle times are between runs.
  void Guess(size_t run_length);
  // Fits both scales, given which executions are within runs and which begin runs.
  void Fit(const std::vector<size_t>& inner, const std::vector<size_t>& border);
  void Set(const IdleScales& scales);

 private:
  static constexpr size_t kScales = 18;

  // The cost of each idle time at a scale. Computed on first use.
  const std::vector<float>& CostsBy(size_t scale);
  // The likeliest scale for some of the times.
  size_t LikeliestScale(const std::vector<size_t>& some);
  // Cumulative costs of the shortest times at a scale: [n] is the sum of the n shortest.
  const std::vector<double>& SumsBy(size_t scale);
  // The scale with the smallest `cost_by(scale)`.
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
  std::vector<size_t> ascending_;  // positions except the first, by idle time
  bool is_set_ = false;
  IdleScales scales_;
  std::vector<double> inner_, border_;
};

// The content of a run, in order.
struct Template {
  explicit Template(Symbols content) : symbols(content.begin(), content.end()) {
    for (int32_t i = 0; i < size(); ++i) places[symbols[static_cast<size_t>(i)]].push_back(i);
  }
  int32_t size() const { return static_cast<int32_t>(symbols.size()); }

  std::vector<uint32_t> symbols;
  absl::flat_hash_map<uint32_t, std::vector<int32_t>> places;
};

struct Alignment {
  double cost = std::numeric_limits<double>::infinity();
  std::vector<uint32_t> run;
  std::vector<int32_t> at;       // positions in the template; empty: unknown
  std::vector<bool> after_loss;  // kernels are missing directly before it
  size_t runs() const { return run.empty() ? 0 : *std::max_element(run.begin(), run.end()) + 1; }
};

// The cheapest reading; empty if it costs more than `limit`. Time and memory are linear in the
// number of symbols.
Alignment Align(Symbols symbols, const Template& pattern, const IdleModel& idle,
                double limit = std::numeric_limits<double>::infinity());

}  // namespace xplane_time::gpu_runs
