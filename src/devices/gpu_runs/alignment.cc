// Aligns a sequence of kernels with repetitions of a template: a beam search (Aligner), and the
// model of idle times (IdleModel).
//
// A Reading is a state after the first i symbols: the position in the template, and a hole, which
// is a range of the template that was passed over. Each symbol extends every state of the previous
// layer:
//
//   Continue   next position in the same run; a kernel out of the hole (a swap); a position
//              before (a loop repeats); a position further ahead (opens a hole)
//   NextRun    a new run begins; what is missing of the previous run becomes a hole
//   Foreign    the symbol is not in the template
//
// A hole costs LossCost when it can no longer be filled. Each layer keeps the kBeam cheapest
// distinct states, so time and memory are O(symbols). Trace() follows the parents back from the
// cheapest final state.
#include "devices/gpu_runs/alignment.h"

#include <cmath>
#include <numeric>

namespace xplane_time::gpu_runs {
namespace {

// Cost of the idle time between runs: usually longer, but a run may begin directly after the
// previous one.
double Either(double longer, double back_to_back) {
  constexpr double kLonger = 0.8;
  return -std::log(kLonger * std::exp(-longer) + (1 - kLonger) * std::exp(-back_to_back));
}

enum class Step : uint8_t { kSameRun, kNextRun, kRunBefore };

// A reading of the executions so far. The last one is at position `at` of the template (-1: none of
// this run yet). Positions [hole, hole_end) of the template were passed over and may still follow;
// with `hole_before` they belong to the previous run.
struct Reading {
  int32_t at = -1, hole = 0, hole_end = 0;
  bool hole_before = false;
  Step step = Step::kNextRun;
  bool after_loss = false;
  double excused = 0;   // cost of an idle time that only a loss in the hole explains
  uint32_t parent = 0;  // index in the previous layer
  double cost = 0;

  bool SameState(const Reading& other) const {
    return at == other.at && hole == other.hole && hole_end == other.hole_end &&
           hole_before == other.hole_before;
  }
  double Owed() const { return LossCost(hole_end - hole); }
};

// Finds the cheapest reading, symbol by symbol, with a beam of the best states.
class Aligner {
 public:
  Aligner(Symbols symbols, const Template& pattern, const IdleModel& idle)
      : symbols_(symbols), pattern_(pattern), idle_(idle) {}

  Alignment Run(double limit) {
    double left = 0;  // lower bound of the cost of the remaining symbols
    for (size_t i = 1; i < symbols_.size(); ++i) left += idle_.unknown(i);
    for (size_t i = 0; i < symbols_.size(); ++i) {
      if (i > 0) left -= idle_.unknown(i);
      most_ = limit - left;
      const auto found = pattern_.places.find(symbols_[i]);
      begin_ = nodes_.size();
      if (i == 0) {
        Begin(found == pattern_.places.end() ? nullptr : &found->second);
      } else {
        const size_t before = layers_.back();
        for (size_t n = before; n < begin_; ++n) {
          parent_ = static_cast<uint32_t>(n - before);
          const Reading from = nodes_[n];
          if (found == pattern_.places.end()) {
            Foreign(from, i);
          } else {
            Continue(from, i, found->second);
            NextRun(from, i, found->second);
          }
        }
      }
      layers_.push_back(begin_);
      if (begin_ == nodes_.size()) return {};
    }
    return Trace();
  }

 private:
  static constexpr size_t kBeam = 12, kPlacesAhead = 3;

  void Begin(const std::vector<int32_t>* places) {
    if (places == nullptr) return Add({.cost = kForeign});
    for (size_t k = 0; k < std::min(kPlacesAhead, places->size()); ++k) {
      const int32_t at = (*places)[k];
      Add({.at = at, .cost = at > 0 ? kEdge : 0});
      if (at > 0) Add({.at = at, .hole = 0, .hole_end = at});
    }
  }

  void Foreign(Reading from, size_t i) {
    from.parent = parent_;
    from.after_loss = false;
    const double cost = from.cost + kForeign;
    from.step = Step::kSameRun;
    from.cost = cost + idle_.inner(i);
    Add(from);
    from.step = Step::kNextRun;
    from.cost = cost + idle_.border(i) + from.Owed() + LossCost(pattern_.size() - 1 - from.at);
    from.at = -1;
    from.hole = from.hole_end = 0;
    from.excused = 0;
    Add(from);
  }

  void Continue(Reading from, size_t i, const std::vector<int32_t>& places) {
    from.parent = parent_;
    from.step = Step::kSameRun;
    from.after_loss = false;
    if (from.hole < from.hole_end &&
        pattern_.symbols[static_cast<size_t>(from.hole)] == symbols_[i]) {
      Reading to = from;
      to.step = from.hole_before ? Step::kRunBefore : Step::kSameRun;
      const int32_t late = from.at - from.hole + (from.hole_before ? pattern_.size() : 0);
      to.cost = from.cost + kSwap * late + (from.hole_before ? kBorderSwap : 0) + idle_.inner(i) +
                to.excused;
      to.excused = 0;
      if (++to.hole == to.hole_end) to.hole = to.hole_end = 0;
      Add(to);
    }
    const auto ahead = std::upper_bound(places.begin(), places.end(), from.at);
    if (ahead != places.begin()) {  // the loop repeats
      Reading to = from;
      to.at = *(ahead - 1);
      to.cost = from.cost + from.Owed() + kAgain + idle_.inner(i);
      to.hole = to.hole_end = 0;
      to.excused = 0;
      Add(to);
    }
    for (auto at = ahead; at != places.end() && at - ahead < static_cast<ptrdiff_t>(kPlacesAhead);
         ++at) {
      Reading to = from;
      to.at = *at;
      to.after_loss = *at > from.at + 1;
      const double idle = to.after_loss ? idle_.after_loss(i) : idle_.inner(i);
      to.cost += idle;
      if (to.after_loss || Passed(from, *at)) {
        to.cost += from.Owed();
        to.hole = to.after_loss ? from.at + 1 : 0;
        to.hole_end = to.after_loss ? *at : 0;
        to.hole_before = false;
        to.excused = idle_.inner(i) - idle;
      }
      Add(to);
    }
  }

  // Whether the position is too far from the hole for it to be filled.
  static bool Passed(const Reading& from, int32_t at) {
    return from.hole < from.hole_end && at > (from.hole_before ? 0 : from.hole_end) + kReach;
  }

  void NextRun(const Reading& from, size_t i, const std::vector<int32_t>& places) {
    const int32_t tail = pattern_.size() - 1 - from.at;
    for (size_t k = 0; k < std::min(kPlacesAhead, places.size()); ++k) {
      Reading to{.at = places[k], .step = Step::kNextRun, .parent = parent_};
      const int32_t head = places[k];
      to.cost = from.cost + from.Owed() + idle_.border(i);
      const double cost = to.cost;
      if (tail > 0) {  // what the previous run lacks may still follow
        to.cost = cost + LossCost(head);
        to.hole = from.at + 1;
        to.hole_end = pattern_.size();
        to.hole_before = true;
        Add(to);
      }
      to.cost = cost + LossCost(tail);
      to.hole = 0;
      to.hole_end = head;
      to.hole_before = false;
      if (tail == 0 || head > 0) Add(to);
    }
  }

  // Adds a state to the layer, which keeps the best states and each state once.
  void Add(const Reading& to) {
    if (to.cost > most_) return;
    const bool full = nodes_.size() - begin_ == kBeam;
    if (full && to.cost >= nodes_[worst_].cost) return;
    size_t place = full ? worst_ : nodes_.size();
    for (size_t n = begin_; n < nodes_.size(); ++n) {
      if (!nodes_[n].SameState(to)) continue;
      if (to.cost >= nodes_[n].cost) return;
      place = n;
    }
    if (place == nodes_.size()) nodes_.emplace_back();
    nodes_[place] = to;
    worst_ = begin_;
    for (size_t n = begin_; n < nodes_.size(); ++n) {
      if (nodes_[n].cost > nodes_[worst_].cost) worst_ = n;
    }
  }

  Alignment Trace() const {
    Alignment found;
    const size_t size = symbols_.size();
    size_t node = 0;
    for (size_t n = layers_.back(); n < nodes_.size(); ++n) {
      const double tail = nodes_[n].at + 1 < pattern_.size() ? kEdge : 0;
      const double cost = nodes_[n].cost + nodes_[n].Owed() + tail;
      if (cost < found.cost) {
        found.cost = cost;
        node = n;
      }
    }
    found.run.resize(size);
    found.at.resize(size);
    found.after_loss.resize(size);
    std::vector<Step> steps(size);
    for (size_t i = size; i-- > 0;) {
      steps[i] = nodes_[node].step;
      found.at[i] = nodes_[node].at;
      found.after_loss[i] = nodes_[node].after_loss;
      if (i > 0) node = layers_[i - 1] + nodes_[node].parent;
    }
    uint32_t run = 0;
    for (size_t i = 1; i < size; ++i) {
      if (steps[i] == Step::kNextRun) ++run;
      found.run[i] = steps[i] == Step::kRunBefore ? run - 1 : run;
    }
    return found;
  }

  Symbols symbols_;
  const Template& pattern_;
  const IdleModel& idle_;
  std::vector<Reading> nodes_;
  std::vector<size_t> layers_;  // first state of each symbol
  size_t begin_ = 0;            // first state of the current layer
  size_t worst_ = 0;            // the most expensive state of the layer
  double most_ = 0;             // maximum cost of a state in the layer
  uint32_t parent_ = 0;
};

}  // namespace

IdleModel::IdleModel(const RunClues& clues)
    : clues_(clues), inner_(clues.symbols.size(), 0), border_(inner_) {
  constexpr double kLeastPs = 100'000, kLongestToLeast = 16;
  int64_t longest_ps = 0;
  for (const int64_t one_ps : clues.idle_ps) longest_ps = std::max(longest_ps, one_ps);
  least_ps_ = std::clamp(static_cast<double>(longest_ps) / kLongestToLeast, 1.0, kLeastPs);
  if (!known() || clues.idle_ps.size() < 2) return;
  ascending_.resize(clues.idle_ps.size() - 1);
  std::iota(ascending_.begin(), ascending_.end(), 1);
  std::ranges::stable_sort(ascending_, {}, [&](size_t i) { return clues.idle_ps[i]; });
}

const std::vector<float>& IdleModel::CostsBy(size_t scale) {
  std::vector<float>& row = costs_[scale];
  if (row.size() == clues_.idle_ps.size()) return row;
  constexpr double kExponent = 4;
  const double scale_ps = least_ps_ * static_cast<double>(uint64_t{1} << scale);
  for (const int64_t idle_ps : clues_.idle_ps) {
    const double times = static_cast<double>(idle_ps) / scale_ps;
    row.push_back(
        static_cast<float>(std::log(scale_ps / least_ps_) + kExponent * std::log1p(times)));
  }
  return row;
}

size_t IdleModel::LikeliestScale(const std::vector<size_t>& some) {
  return Likeliest([&](size_t scale) {
    const std::vector<float>& row = CostsBy(scale);
    double sum = 0;
    for (const size_t i : some) sum += row[i];
    return sum;
  });
}

const std::vector<double>& IdleModel::SumsBy(size_t scale) {
  std::vector<double>& sums = sums_[scale];
  if (!sums.empty()) return sums;
  const std::vector<float>& row = CostsBy(scale);
  sums.push_back(0);
  for (const size_t i : ascending_) sums.push_back(sums.back() + row[i]);
  return sums;
}

void IdleModel::Guess(size_t run_length) {
  const size_t size = ascending_.size();
  if (!known() || size == 0) return Set({});
  const size_t inner = size - std::min(size, std::max<size_t>(1, size / run_length));
  const auto of = [&](size_t from, size_t to) {
    return Likeliest([&](size_t scale) { return SumsBy(scale)[to] - SumsBy(scale)[from]; });
  };
  SetTwo(inner > 0, {of(0, inner), of(inner, size)}, of(0, size));
}

void IdleModel::Fit(const std::vector<size_t>& inner, const std::vector<size_t>& border) {
  if (!known()) return Set({});
  std::vector<size_t> all(inner);
  all.insert(all.end(), border.begin(), border.end());
  SetTwo(!inner.empty(), {LikeliestScale(inner), LikeliestScale(border)}, LikeliestScale(all));
}

void IdleModel::SetTwo(bool has_inner, const IdleScales& scales, size_t of_all) {
  // A smaller difference may be two halves of one distribution.
  constexpr size_t kTwoKinds = 2;
  const bool are_two = has_inner && scales.border >= scales.inner + kTwoKinds;
  Set(are_two ? scales : IdleScales{of_all, of_all});
}

void IdleModel::Set(const IdleScales& scales) {
  if (is_set_ && scales == scales_) return;
  is_set_ = true;
  scales_ = scales;
  for (size_t i = 1; i < inner_.size(); ++i) {
    if (known()) {
      inner_[i] = CostsBy(scales.inner)[i];
      border_[i] = inner_[i];
      if (scales.border != scales.inner) {
        border_[i] = Either(CostsBy(scales.border)[i], inner_[i]);
      }
    }
    if (clues_.FollowsOther(i)) {
      inner_[i] = border_[i] + (clues_.FollowsOtherOnStream(i) ? kOtherOnStream : kOtherProgram);
    }
  }
}

Alignment Align(Symbols symbols, const Template& pattern, const IdleModel& idle, double limit) {
  return Aligner(symbols, pattern, idle).Run(limit);
}

}  // namespace xplane_time::gpu_runs
