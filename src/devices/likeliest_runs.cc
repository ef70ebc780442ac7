#include "devices/likeliest_runs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "stats/order_statistics.h"

namespace xplane_time {
namespace {

using Symbols = std::span<const uint32_t>;

// Costs in nats: what is seldom costs much.
constexpr double kSymbol = 1.2;      // each kernel of the template
constexpr double kAllRepeat = 3;     // a template that is a repetition itself
constexpr double kLoss = 4.5;        // kernels that a run lacks: the first,
constexpr double kLossMore = 0.7;    // and each one next to it
constexpr double kEdge = 5;          // the capture began or ended within a run
constexpr double kSwap = 1.2;        // a kernel after one that follows it, each place,
constexpr double kBorderSwap = 1.2;  // which is of the next run
constexpr double kAgain = 6;         // a loop goes round once more
constexpr double kForeign = 6;       // a kernel that is not in the template
constexpr double kOther = 1;         // another program executed within a run
constexpr double kHostDiffers = 5;
constexpr double kScramble = 3;  // a run in another order than those before
// A rival that costs less than this more makes a split doubtful.
constexpr double kMargin = 3.5;

constexpr int64_t kNoisePs = 50'000;
constexpr int64_t kBackToBackPs = 1'500'000;  // runs of one kernel that leave less may be a loop

// ---- idle time -------------------------------------------------------------------------

// What each idle time costs where such times are Lomax distributed (they are heavy-tailed)
// with one of some scales. Rows are worked out when they are first needed.
class IdleCosts {
 public:
  static constexpr size_t kScales = 18;

  // From 100 ns on, or less where no time is long.
  explicit IdleCosts(std::span<const int64_t> idle_ps) : idle_ps_(idle_ps) {
    constexpr double kLeastPs = 100'000, kLongestToLeast = 16;
    for (const int64_t one_ps : idle_ps) longest_ps_ = std::max(longest_ps_, one_ps);
    least_ps_ = std::clamp(static_cast<double>(longest_ps_) / kLongestToLeast, 1.0, kLeastPs);
  }

  const std::vector<float>& Of(size_t scale) {
    std::vector<float>& row = rows_[scale];
    if (row.size() == idle_ps_.size()) return row;
    constexpr double kExponent = 4;
    const double scale_ps = least_ps_ * static_cast<double>(uint64_t{1} << scale);
    for (const int64_t idle_ps : idle_ps_) {
      const double times = static_cast<double>(idle_ps) / scale_ps;
      row.push_back(
          static_cast<float>(std::log(scale_ps / least_ps_) + kExponent * std::log1p(times)));
    }
    return row;
  }

  // The likeliest scale of some of the times.
  size_t Fit(const std::vector<size_t>& some) {
    size_t best = 0;
    double least = std::numeric_limits<double>::infinity();
    for (size_t scale = 0; scale < kScales; ++scale) {
      const std::vector<float>& row = Of(scale);
      double sum = 0;
      for (const size_t i : some) sum += row[i];
      if (sum >= least) continue;
      least = sum;
      best = scale;
    }
    return best;
  }

 private:
  std::span<const int64_t> idle_ps_;
  int64_t longest_ps_ = 0;
  double least_ps_ = 1;
  std::array<std::vector<float>, kScales> rows_;
};

// The scales of idle times within and between runs.
struct IdleScales {
  size_t inner = 0, border = 0;
};

// How long the device idles within and between runs.
class IdleModel {
 public:
  IdleModel(const RunClues& clues, IdleCosts* costs) : clues_(clues), costs_(*costs) {
    inner_.assign(clues.symbols.size(), 0);
    border_ = inner_;
  }

  bool known() const { return !clues_.idle_ps.empty(); }
  double inner(size_t i) const { return inner_[i]; }
  double border(size_t i) const { return border_[i]; }
  // Of a kernel before which some are lost: it says little.
  double unknown(size_t i) const { return std::min(inner_[i], border_[i]); }
  const IdleScales& scales() const { return scales_; }

  // Before anything is known: the longest of all idle times are between runs.
  void Guess(size_t run_length) {
    std::vector<size_t> order(clues_.symbols.size() - 1);
    std::iota(order.begin(), order.end(), 1);
    if (!known() || order.empty()) return Set({});
    const size_t borders = std::min(order.size(), std::max<size_t>(1, order.size() / run_length));
    const auto cut = order.end() - static_cast<ptrdiff_t>(borders);
    std::nth_element(order.begin(), cut, order.end(),
                     [&](size_t a, size_t b) { return clues_.idle_ps[a] < clues_.idle_ps[b]; });
    Fit({order.begin(), cut}, {cut, order.end()});
  }

  // By which executions are within and which begin runs.
  void Fit(const std::vector<size_t>& inner, const std::vector<size_t>& border) {
    // What differs less may as well be two halves of one distribution.
    constexpr size_t kTwoKinds = 2;
    if (!known()) return Set({});
    const IdleScales scales{costs_.Fit(inner), costs_.Fit(border)};
    if (!inner.empty() && scales.border >= scales.inner + kTwoKinds) return Set(scales);
    std::vector<size_t> all(inner);
    all.insert(all.end(), border.begin(), border.end());
    const size_t scale = costs_.Fit(all);
    Set({scale, scale});
  }

  void Set(const IdleScales& scales) {
    scales_ = scales;
    for (size_t i = 1; i < inner_.size(); ++i) {
      if (known()) {
        inner_[i] = costs_.Of(scales.inner)[i];
        border_[i] = inner_[i];
        if (scales.border != scales.inner)
          border_[i] = Either(costs_.Of(scales.border)[i], inner_[i]);
      }
      if (!clues_.after_other.empty() && clues_.after_other[i] != 0)
        inner_[i] = border_[i] + kOther;
    }
  }

 private:
  // A run may also begin as soon as the one before has ended.
  static double Either(double longer, double back_to_back) {
    constexpr double kLonger = 0.8;
    return -std::log(kLonger * std::exp(-longer) + (1 - kLonger) * std::exp(-back_to_back));
  }

  RunClues clues_;
  IdleCosts& costs_;
  IdleScales scales_;
  std::vector<double> inner_, border_;
};

// ---- alignment -------------------------------------------------------------------------

// The content of a run, in order.
struct Template {
  explicit Template(Symbols content) : symbols(content.begin(), content.end()) {
    for (uint32_t i = 0; i < symbols.size(); ++i) places[symbols[i]].push_back(i);
  }
  int32_t size() const { return static_cast<int32_t>(symbols.size()); }

  std::vector<uint32_t> symbols;
  absl::flat_hash_map<uint32_t, std::vector<int32_t>> places;
};

double LossCost(int32_t count) { return count > 0 ? kLoss + kLossMore * (count - 1) : 0; }

enum class Step : uint8_t { kSameRun, kNextRun, kRunBefore };

// A way to read the executions so far: the last one is at `at` of the template (-1: none of
// it yet), and [hole, hole_end) of the template was passed over, in the run before if
// `hole_before`; it may still come.
struct Reading {
  int32_t at = -1, hole = 0, hole_end = 0;
  bool hole_before = false;
  Step step = Step::kNextRun;
  bool after_loss = false;
  uint32_t parent = 0;  // in the layer before
  double cost = 0;

  bool SameState(const Reading& other) const {
    return at == other.at && hole == other.hole && hole_end == other.hole_end &&
           hole_before == other.hole_before;
  }
  double Owed() const { return LossCost(hole_end - hole); }
};

struct Alignment {
  double cost = std::numeric_limits<double>::infinity();
  std::vector<uint32_t> run;
  std::vector<int32_t> at;       // in the template
  std::vector<bool> after_loss;  // kernels are lost right before it
  size_t runs() const { return run.empty() ? 0 : *std::max_element(run.begin(), run.end()) + 1; }
};

// Finds the cheapest reading, symbol by symbol, with the few best ones so far.
class Aligner {
 public:
  Aligner(Symbols symbols, const Template& pattern, const IdleModel& idle)
      : symbols_(symbols), pattern_(pattern), idle_(idle) {}

  Alignment Run() {
    for (size_t i = 0; i < symbols_.size(); ++i) {
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
      KeepBest();
    }
    return Trace();
  }

 private:
  static constexpr size_t kBeam = 12, kPlacesAhead = 3;
  static constexpr int32_t kReach = 8;  // a swap goes hardly further

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
    Add(from);
  }

  void Continue(const Reading& from, size_t i, const std::vector<int32_t>& places) {
    Reading to = from;
    to.parent = parent_;
    to.step = Step::kSameRun;
    to.after_loss = false;
    if (from.hole < from.hole_end &&
        pattern_.symbols[static_cast<size_t>(from.hole)] == symbols_[i]) {
      to.step = from.hole_before ? Step::kRunBefore : Step::kSameRun;
      const int32_t late = from.at - from.hole + (from.hole_before ? pattern_.size() : 0);
      to.cost = from.cost + kSwap * late + (from.hole_before ? kBorderSwap : 0) + idle_.inner(i);
      if (++to.hole == to.hole_end) to.hole = to.hole_end = 0;
      Add(to);
    }
    to = from;
    to.parent = parent_;
    to.step = Step::kSameRun;
    const auto ahead = std::upper_bound(places.begin(), places.end(), from.at);
    if (ahead != places.begin()) {  // once more
      to.at = *(ahead - 1);
      to.after_loss = false;
      to.cost = from.cost + from.Owed() + kAgain + idle_.inner(i);
      to.hole = to.hole_end = 0;
      Add(to);
    }
    for (auto at = ahead; at != places.end() && at - ahead < static_cast<ptrdiff_t>(kPlacesAhead);
         ++at) {
      to = from;
      to.parent = parent_;
      to.step = Step::kSameRun;
      to.at = *at;
      to.after_loss = *at > from.at + 1;
      to.cost = from.cost + (to.after_loss ? idle_.unknown(i) : idle_.inner(i));
      if (to.after_loss || Passed(from, *at)) {
        to.cost += from.Owed();
        to.hole = to.after_loss ? from.at + 1 : 0;
        to.hole_end = to.after_loss ? *at : 0;
        to.hole_before = false;
      }
      Add(to);
    }
  }

  // Too far from the hole for it to be filled.
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
      if (tail > 0) {  // what the run before lacks may still come
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

  void Add(const Reading& to) {
    for (size_t n = begin_; n < nodes_.size(); ++n) {
      if (!nodes_[n].SameState(to)) continue;
      if (to.cost < nodes_[n].cost) nodes_[n] = to;
      return;
    }
    nodes_.push_back(to);
  }

  void KeepBest() {
    if (nodes_.size() - begin_ <= kBeam) return;
    const auto begin = nodes_.begin() + static_cast<ptrdiff_t>(begin_);
    const auto cheaper = [](const Reading& a, const Reading& b) { return a.cost < b.cost; };
    std::nth_element(begin, begin + kBeam, nodes_.end(), cheaper);
    nodes_.resize(begin_ + kBeam);
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
  std::vector<size_t> layers_;  // where each symbol's readings begin
  size_t begin_ = 0;
  uint32_t parent_ = 0;
};

// ---- templates -------------------------------------------------------------------------

// The smallest p with s[i] == s[i + p] everywhere (Knuth, Morris, Pratt); the size if none.
size_t SmallestPeriod(Symbols s) {
  std::vector<size_t> border(s.size(), 0);
  for (size_t i = 1, k = 0; i < s.size(); ++i) {
    while (k > 0 && s[i] != s[k]) k = border[k - 1];
    if (s[i] == s[k]) ++k;
    border[i] = k;
  }
  return s.size() - border.back();
}

bool IsRepetition(Symbols s) {
  const size_t period = SmallestPeriod(s);
  return period < s.size() && s.size() % period == 0;
}

// The period of a repetition of different symbols; 0: it is none.
size_t PlainPeriod(Symbols s) {
  const size_t period = SmallestPeriod(s);
  const absl::flat_hash_set<uint32_t> different(s.begin(),
                                                s.begin() + static_cast<ptrdiff_t>(period));
  return period < s.size() && s.size() % period == 0 && different.size() == period ? period : 0;
}

// A window of the sequence that may be the content of a run.
struct Window {
  size_t begin = 0, size = 0;
};

// Lengths worth a try: all of a short sequence; of a long one the frequent distances
// between occurrences of its rarest symbol.
std::vector<size_t> CandidateLengths(Symbols s) {
  constexpr size_t kShort = 256, kLong = 8192;
  const size_t most_per_run = s.size() > kLong ? 8 : 32, keep = s.size() > kLong ? 1 : 3;
  std::vector<size_t> lengths;
  if (s.size() <= kShort) {
    for (size_t p = 1; p <= s.size() / 2; ++p) lengths.push_back(p);
    return lengths;
  }
  absl::flat_hash_map<uint32_t, std::vector<size_t>> occurrences;
  for (size_t i = 0; i < s.size(); ++i) occurrences[s[i]].push_back(i);
  const std::vector<size_t>* anchor = nullptr;
  for (const auto& [symbol, places] : occurrences) {
    if (places.size() < 3) continue;  // hardly one a run
    if (anchor == nullptr ||
        std::pair(places.size(), places[0]) < std::pair(anchor->size(), (*anchor)[0])) {
      anchor = &places;
    }
  }
  if (anchor == nullptr) return lengths;
  for (size_t per_run = 1; per_run <= most_per_run && per_run < anchor->size(); ++per_run) {
    absl::flat_hash_map<size_t, size_t> count;
    for (size_t i = 0; i + per_run < anchor->size(); ++i)
      ++count[(*anchor)[i + per_run] - (*anchor)[i]];
    std::vector<std::pair<size_t, size_t>> frequent;
    for (const auto& [distance, times] : count) frequent.emplace_back(times, distance);
    std::sort(frequent.rbegin(), frequent.rend());
    for (size_t i = 0; i < std::min(keep, frequent.size()); ++i)
      lengths.push_back(frequent[i].second);
  }
  std::sort(lengths.begin(), lengths.end());
  lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  return lengths;
}

// The windows of a length that occur most often, by a rolling hash.
void AddFrequentWindows(Symbols s, size_t length, std::vector<Window>* windows) {
  constexpr uint64_t kBase = 0x9e3779b97f4a7c15;
  constexpr size_t kKeep = 16;
  uint64_t hash = 0, top = 1;
  for (size_t i = 1; i < length; ++i) top *= kBase;
  struct Seen {
    size_t count = 0, first = 0, free_from = 0;  // without overlap
  };
  absl::flat_hash_map<uint64_t, Seen> seen;
  for (size_t i = 0; i < s.size(); ++i) {
    if (i >= length) hash -= top * (uint64_t{s[i - length]} + 1);
    hash = hash * kBase + s[i] + 1;
    if (i + 1 < length) continue;
    const size_t begin = i + 1 - length;
    Seen& window = seen[hash];
    if (window.count == 0) window.first = begin;
    if (begin < window.free_from) continue;
    ++window.count;
    window.free_from = begin + length;
  }
  std::vector<Seen> frequent;
  for (const auto& [ignored, window] : seen) {
    if (window.count > 1) frequent.push_back(window);
  }
  const size_t keep = std::min(kKeep, frequent.size());
  std::partial_sort(frequent.begin(), frequent.begin() + static_cast<ptrdiff_t>(keep),
                    frequent.end(), [](const Seen& a, const Seen& b) {
                      return a.count != b.count ? a.count > b.count : a.first < b.first;
                    });
  for (size_t i = 0; i < keep; ++i) windows->push_back({frequent[i].first, length});
}

// Windows from one long idle time to another.
void AddWindowsByIdle(const RunClues& clues, std::vector<Window>* windows) {
  constexpr size_t kMost = 8;
  const size_t size = clues.symbols.size();
  std::vector<size_t> cuts(size);
  std::iota(cuts.begin(), cuts.end(), 0);
  const size_t keep = std::min(kMost, size);
  const auto idle_ps = [&](size_t i) {
    return i == 0 || clues.idle_ps.empty() ? int64_t{0} : clues.idle_ps[i];
  };
  std::partial_sort(
      cuts.begin(), cuts.begin() + static_cast<ptrdiff_t>(keep), cuts.end(),
      [&](size_t a, size_t b) { return std::pair(-idle_ps(a), a) < std::pair(-idle_ps(b), b); });
  cuts.resize(keep);
  cuts.push_back(0);
  cuts.push_back(size);
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  for (size_t i = 0; i < cuts.size(); ++i) {
    for (size_t j = i + 1; j < cuts.size(); ++j) windows->push_back({cuts[i], cuts[j] - cuts[i]});
  }
}

// What speaks against a window: its size, and symbols that occur more or less often than
// runs with its content would have them.
class Misfit {
 public:
  explicit Misfit(Symbols s) : s_(s) {
    for (uint32_t symbol : s) ++count_[symbol];
  }

  double Of(const Window& window) const {
    absl::flat_hash_map<uint32_t, size_t> content;
    for (uint32_t symbol : s_.subspan(window.begin, window.size)) ++content[symbol];
    const auto size = static_cast<double>(s_.size());
    const double runs = std::round(size / static_cast<double>(window.size));
    double more = 0, known = 0;
    for (const auto& [symbol, times] : content) {
      const auto all = static_cast<double>(count_.at(symbol));
      more += std::abs(all - runs * static_cast<double>(times));
      known += all;
    }
    return kSymbol * static_cast<double>(window.size) + kAgain * more + kForeign * (size - known);
  }

 private:
  Symbols s_;
  absl::flat_hash_map<uint32_t, size_t> count_;
};

std::vector<Window> CandidateWindows(const RunClues& clues, size_t most) {
  const Symbols s = clues.symbols;
  std::vector<Window> windows;
  for (size_t length : CandidateLengths(s)) AddFrequentWindows(s, length, &windows);
  AddWindowsByIdle(clues, &windows);
  const Misfit misfit(s);
  std::vector<std::tuple<double, size_t, size_t>> ranked;
  for (const Window& window : windows)
    ranked.emplace_back(misfit.Of(window), window.begin, window.size);
  std::sort(ranked.begin(), ranked.end());
  ranked.erase(std::unique(ranked.begin(), ranked.end()), ranked.end());
  ranked.resize(std::min(most, ranked.size()));
  windows.clear();
  for (const auto& [ignored, begin, size] : ranked) windows.push_back({begin, size});
  windows.push_back({0, s.size()});  // one run
  return windows;
}

// ---- splits ----------------------------------------------------------------------------

struct Split {
  Template pattern;
  Alignment alignment;
  double cost = 0;
  IdleScales scales;
  bool by_counts = false;  // `at` is not known
};

void FitIdle(const RunClues& clues, const Alignment& alignment, IdleModel* idle) {
  std::vector<size_t> inner, border;
  for (size_t i = 1; i < clues.symbols.size(); ++i) {
    if (alignment.run[i] != alignment.run[i - 1]) {
      border.push_back(i);
    } else if (!alignment.after_loss[i]) {
      inner.push_back(i);
    }
  }
  idle->Fit(inner, border);
}

// Refined only where it may become better than `best`.
Split SplitBy(const RunClues& clues, Symbols content, double best, IdleCosts* costs) {
  constexpr int kRefinements = 2;
  constexpr double kHopeless = 25;
  Split split{.pattern = Template(content), .alignment = {}, .scales = {}};
  IdleModel idle(clues, costs);
  idle.Guess(content.size());
  split.alignment = Aligner(clues.symbols, split.pattern, idle).Run();
  const double fixed =
      kSymbol * static_cast<double>(content.size()) + (IsRepetition(content) ? kAllRepeat : 0);
  const bool hopeless = split.alignment.cost + fixed > best + kHopeless;
  for (int i = 0; idle.known() && !hopeless && i < kRefinements; ++i) {
    FitIdle(clues, split.alignment, &idle);
    split.alignment = Aligner(clues.symbols, split.pattern, idle).Run();
  }
  split.scales = idle.scales();
  split.cost = split.alignment.cost + fixed;
  if (clues.host_runs.has_value() && *clues.host_runs != split.alignment.runs()) {
    split.cost += kHostDiffers;
  }
  return split;
}

// ---- splits in whatever order -------------------------------------------------------------

using Content = absl::flat_hash_map<uint32_t, size_t>;

// Of each run: how often each symbol occurs.
std::vector<Content> ContentOfRuns(Symbols symbols, const std::vector<uint32_t>& run) {
  std::vector<Content> contents(run.empty() ? 0 : *std::max_element(run.begin(), run.end()) + 1);
  for (size_t i = 0; i < symbols.size(); ++i) ++contents[run[i]][symbols[i]];
  return contents;
}

// The median count of each symbol.
Content TypicalContent(Symbols symbols, const std::vector<Content>& runs) {
  Content typical;
  for (uint32_t symbol : symbols) {
    if (typical.contains(symbol)) continue;
    std::vector<size_t> counts;
    for (const Content& run : runs) {
      const auto found = run.find(symbol);
      counts.push_back(found == run.end() ? 0 : found->second);
    }
    typical[symbol] = stats::UpperMedian(counts);
  }
  return typical;
}

// A split for which the order of kernels within a run is not held to.
Split PriceContents(const RunClues& clues, std::vector<uint32_t> run, IdleCosts* costs) {
  const std::vector<Content> contents = ContentOfRuns(clues.symbols, run);
  const Content typical = TypicalContent(clues.symbols, contents);
  std::vector<uint32_t> content;
  for (const auto& [symbol, times] : typical) content.insert(content.end(), times, symbol);
  std::vector<size_t> inner, border;
  for (size_t i = 1, latest = 0; i < run.size(); ++i) {
    (run[i] > latest ? border : inner).push_back(i);
    latest = std::max<size_t>(latest, run[i]);
  }
  IdleModel idle(clues, costs);
  idle.Fit(inner, border);
  double cost = kSymbol * static_cast<double>(content.size()) +
                kScramble * static_cast<double>(contents.size() - 1);
  uint32_t latest = 0;
  for (size_t i = 1; i < run.size(); ++i) {
    cost += run[i] > latest ? idle.border(i) : idle.inner(i);
    cost += run[i] < latest ? kSwap + kBorderSwap : 0;
    latest = std::max(latest, run[i]);
  }
  size_t rounds = 0;
  for (const auto& [symbol, times] : typical) rounds = std::gcd(rounds, times);
  if (rounds > 1) cost += kAllRepeat;
  for (const Content& one : contents) {
    size_t missing = 0, more = 0;
    for (const auto& [symbol, times] : typical) {
      const auto found = one.find(symbol);
      const size_t has = found == one.end() ? 0 : found->second;
      missing += times > has ? times - has : 0;
      more += has > times ? has - times : 0;
    }
    cost += LossCost(static_cast<int32_t>(missing)) + kAgain * static_cast<double>(more);
  }
  if (clues.host_runs.has_value() && *clues.host_runs != contents.size()) cost += kHostDiffers;
  Alignment alignment;
  alignment.at.assign(run.size(), 0);
  alignment.after_loss.assign(run.size(), false);
  alignment.run = std::move(run);
  return {Template(content), std::move(alignment), cost, idle.scales(), true};
}

// The k-th occurrences of each symbol are of the k-th run: where every symbol occurs as
// often as there are runs, or a multiple.
std::vector<uint32_t> RunsByCounts(Symbols symbols, size_t runs) {
  Content count, seen;
  for (uint32_t symbol : symbols) ++count[symbol];
  std::vector<uint32_t> run;
  for (uint32_t symbol : symbols)
    run.push_back(static_cast<uint32_t>(seen[symbol]++ / (count[symbol] / runs)));
  return run;
}

// A run begins after each of the longest idle times.
std::vector<uint32_t> RunsByIdle(std::span<const int64_t> idle_ps, size_t runs) {
  std::vector<size_t> order(idle_ps.size() - 1);
  std::iota(order.begin(), order.end(), 1);
  std::partial_sort(
      order.begin(), order.begin() + static_cast<ptrdiff_t>(runs - 1), order.end(),
      [&](size_t a, size_t b) { return std::pair(-idle_ps[a], a) < std::pair(-idle_ps[b], b); });
  std::vector<uint32_t> run(idle_ps.size(), 0);
  for (size_t i = 0; i + 1 < runs; ++i) run[order[i]] = 1;
  std::partial_sum(run.begin(), run.end(), run.begin());
  return run;
}

size_t MostRunsByCounts(Symbols s) {
  absl::flat_hash_map<uint32_t, size_t> count;
  for (uint32_t symbol : s) ++count[symbol];
  size_t divisor = 0;
  for (const auto& [symbol, times] : count) divisor = std::gcd(divisor, times);
  return divisor;
}

// The longest idle time within runs; of many, but for one. Those before which kernels are
// lost say nothing.
int64_t LongestWithin(const RunClues& clues, const Alignment& alignment) {
  constexpr size_t kMany = 8;
  int64_t longest_ps = 0, second_ps = 0;
  size_t count = 0;
  for (size_t i = 1; i < clues.symbols.size(); ++i) {
    if (alignment.run[i] != alignment.run[i - 1] || alignment.after_loss[i]) continue;
    ++count;
    second_ps = std::max(second_ps, std::min(longest_ps, clues.idle_ps[i]));
    longest_ps = std::max(longest_ps, clues.idle_ps[i]);
  }
  return count < kMany ? longest_ps : second_ps;
}

// Which runs have exactly the content of the template.
std::vector<bool> CompleteRuns(const RunClues& clues, const Split& split) {
  Content content;
  for (uint32_t symbol : split.pattern.symbols) ++content[symbol];
  std::vector<bool> complete;
  for (const Content& run : ContentOfRuns(clues.symbols, split.alignment.run))
    complete.push_back(run == content);
  return complete;
}

// Whether any time is long enough to mean something.
bool IdleTells(const RunClues& clues) {
  return std::any_of(clues.idle_ps.begin(), clues.idle_ps.end(),
                     [](int64_t idle_ps) { return idle_ps >= kNoisePs; });
}

// Whether every k-th border is clearly longer than all others: the runs may be the rounds
// of a loop, k of them a run.
bool LooksLikeRounds(const std::vector<int64_t>& border_ps, int64_t times) {
  const size_t runs = border_ps.size() + 1;
  for (size_t k = 2; k * 2 <= runs; ++k) {
    if (runs % k != 0) continue;
    int64_t longest_other_ps = 0, shortest_ps = std::numeric_limits<int64_t>::max();
    for (size_t i = 0; i < border_ps.size(); ++i) {
      if ((i + 1) % k == 0) {
        shortest_ps = std::min(shortest_ps, border_ps[i]);
      } else {
        longest_other_ps = std::max(longest_other_ps, border_ps[i]);
      }
    }
    if (shortest_ps / times > longest_other_ps) return true;
  }
  return false;
}

// Whether idle time does not tell the runs apart, so that they may be the rounds of a loop,
// or begin elsewhere where one lacks kernels.
bool IsVague(const RunClues& clues, const Split& split) {
  constexpr int64_t kClearlyLonger = 2;
  const Alignment& alignment = split.alignment;
  const size_t runs = alignment.runs();
  if (clues.idle_ps.empty() || runs < 2 || clues.host_runs == runs) return false;
  if (!IdleTells(clues)) return false;
  const bool one_kernel = split.pattern.size() == 1;
  const int64_t within_ps =
      one_kernel ? kBackToBackPs / kClearlyLonger : LongestWithin(clues, alignment);
  const std::vector<bool> complete = CompleteRuns(clues, split);
  // In all nothing is missing, yet the first and the last run are in part.
  if (!complete.front() && !complete.back() && MostRunsByCounts(clues.symbols) > 1) return true;
  std::vector<int64_t> border_ps;
  size_t longer = 0;
  for (size_t i = 1; i < clues.symbols.size(); ++i) {
    if (alignment.run[i] == alignment.run[i - 1]) continue;
    border_ps.push_back(clues.idle_ps[i]);
    const bool is_longer = clues.idle_ps[i] / kClearlyLonger > within_ps ||
                           (!clues.after_other.empty() && clues.after_other[i] != 0);
    longer += is_longer ? 1 : 0;
    if (!is_longer && !(complete[alignment.run[i]] && complete[alignment.run[i - 1]])) return true;
  }
  if (LooksLikeRounds(border_ps, kClearlyLonger)) return true;
  const size_t borders = border_ps.size();
  return one_kernel ? longer * 4 < borders * 3 : longer * 2 < borders;
}

// How many runs there may be as well, by a change at one place: two runs that together
// are one, or one run with a long idle time inside.
std::optional<size_t> RivalNearby(const RunClues& clues, const Split& split,
                                  const IdleModel& idle) {
  const Alignment& a = split.alignment;
  const int32_t last = split.pattern.size() - 1;
  for (size_t i = 1; i < clues.symbols.size(); ++i) {
    const int32_t before = a.at[i - 1], now = a.at[i];
    const double apart = LossCost(last - before) + LossCost(now);
    const double together = now > before ? LossCost(now - before - 1) : kAgain;
    const double longer = idle.inner(i) - idle.border(i);  // > 0: idle like between runs
    if (a.run[i] == a.run[i - 1]) {
      const double gain = a.after_loss[i] ? std::max(0.0, longer) : longer;
      if (now > before && apart - together - gain < kMargin) return a.runs() + 1;
    } else if (a.run[i] == a.run[i - 1] + 1 && now > before && i + 1 < clues.symbols.size()) {
      if (together + longer - apart < kMargin) return a.runs() - 1;
    }
  }
  return std::nullopt;
}

struct Best {
  Split split;
  std::optional<size_t> rivals;
};

Best FindBest(const RunClues& clues, size_t most_windows) {
  std::vector<Split> splits;
  IdleCosts costs(clues.idle_ps);
  double least = std::numeric_limits<double>::infinity();
  for (const Window& window : CandidateWindows(clues, most_windows)) {
    const Symbols content = clues.symbols.subspan(window.begin, window.size);
    splits.push_back(SplitBy(clues, content, least, &costs));
    least = std::min(least, splits.back().cost);
  }
  constexpr size_t kMostInAnyOrder = 64, kMostByIdle = 12;
  const size_t most_runs = MostRunsByCounts(clues.symbols);
  for (size_t runs = 2; runs <= std::min(most_runs, kMostInAnyOrder); ++runs) {
    if (most_runs % runs != 0) continue;
    splits.push_back(PriceContents(clues, RunsByCounts(clues.symbols, runs), &costs));
  }
  for (size_t runs = 2; runs <= std::min(kMostByIdle, clues.idle_ps.size()); ++runs) {
    splits.push_back(PriceContents(clues, RunsByIdle(clues.idle_ps, runs), &costs));
  }
  const auto cheaper = [](const Split& a, const Split& b) { return a.cost < b.cost; };
  const auto best = std::min_element(splits.begin(), splits.end(), cheaper);
  Best found{*best, {}};
  const Split* rival = nullptr;
  for (const Split& split : splits) {
    if (split.cost - best->cost >= kMargin || split.alignment.run == best->alignment.run) continue;
    if (rival == nullptr || split.cost < rival->cost) rival = &split;
  }
  IdleModel idle(clues, &costs);
  idle.Set(best->scales);
  if (rival != nullptr) {
    found.rivals = rival->alignment.runs();
  } else if (IsVague(clues, *best)) {
    found.rivals = 1;
  } else if (!best->by_counts) {
    found.rivals = RivalNearby(clues, *best, idle);
  }
  return found;
}

RunClues Part(const RunClues& clues, size_t begin, size_t size) {
  RunClues part;
  part.symbols = clues.symbols.subspan(begin, size);
  if (!clues.idle_ps.empty()) part.idle_ps = clues.idle_ps.subspan(begin, size);
  if (!clues.after_other.empty()) part.after_other = clues.after_other.subspan(begin, size);
  return part;
}

// Goes on along a template that a first part showed.
class Extrapolation {
 public:
  Extrapolation(const RunClues& clues, const Split& split) : clues_(clues), split_(split) {}

  LikeliestRuns Run() {
    const size_t length = split_.pattern.symbols.size();
    size_t window = WindowSize();
    while (done_ < clues_.symbols.size()) {
      if (RepeatsHere()) {
        Append(length);
        continue;
      }
      const size_t size = std::min(window, clues_.symbols.size() - done_);
      window = Align(size) ? WindowSize() : window * 2;
    }
    // Where much does not fit, the first part was not like the rest.
    if (misfits_ * 10 > clues_.symbols.size()) {
      out_.rivals = std::max<size_t>(1, clues_.symbols.size() / length);
    }
    return std::move(out_);
  }

 private:
  size_t WindowSize() const { return std::max<size_t>(1024, 8 * split_.pattern.symbols.size()); }

  bool TemplateAt(size_t at) const {
    const std::vector<uint32_t>& content = split_.pattern.symbols;
    return at + content.size() <= clues_.symbols.size() &&
           std::equal(content.begin(), content.end(),
                      clues_.symbols.begin() + static_cast<ptrdiff_t>(at));
  }
  bool RepeatsHere() const {
    const size_t next = done_ + split_.pattern.symbols.size();
    return TemplateAt(done_) && (next == clues_.symbols.size() || TemplateAt(next));
  }

  void Append(size_t size) {
    out_.run.insert(out_.run.end(), size, runs_++);
    done_ += size;
  }

  // False where the part is not long enough to tell where a run ends.
  bool Align(size_t size) {
    const RunClues part = Part(clues_, done_, size);
    IdleCosts costs(part.idle_ps);
    IdleModel idle(part, &costs);
    idle.Set(split_.scales);
    const Alignment found = Aligner(part.symbols, split_.pattern, idle).Run();
    const bool last = done_ + size == clues_.symbols.size();
    const size_t end = last ? size : LastBorder(found.run, size - split_.pattern.symbols.size());
    if (end == 0) return false;
    uint32_t most = 0;
    for (size_t i = 0; i < end; ++i) {
      out_.run.push_back(runs_ + found.run[i]);
      most = std::max(most, found.run[i]);
      misfits_ += found.after_loss[i] || found.at[i] < 0 ? 1 : 0;
    }
    runs_ += most + 1;
    done_ += end;
    return true;
  }

  // Where all before are of earlier runs than all after; before `limit`.
  static size_t LastBorder(const std::vector<uint32_t>& run, size_t limit) {
    std::vector<uint32_t> least(run);
    for (size_t i = run.size() - 1; i-- > 0;) least[i] = std::min(least[i], least[i + 1]);
    uint32_t most = 0;
    size_t border = 0;
    for (size_t i = 0; i < limit; ++i) {
      if (i > 0 && least[i] > most) border = i;
      most = std::max(most, run[i]);
    }
    return border;
  }

  const RunClues& clues_;
  const Split& split_;
  LikeliestRuns out_;
  size_t done_ = 0, misfits_ = 0;
  uint32_t runs_ = 0;
};

}  // namespace

LikeliestRuns SplitLikeliest(const RunClues& clues) {
  constexpr size_t kFirstPart = 1024, kLongestPart = 65'536, kEnoughRuns = 4;
  constexpr size_t kWork = 100'000, kMostWindows = 32;  // windows tried on a first part
  const size_t size = clues.symbols.size();
  if (size == 0) return {};
  if (const size_t period = PlainPeriod(clues.symbols); period > 0 && !IdleTells(clues)) {
    LikeliestRuns found;  // taken at its word
    for (size_t i = 0; i < size; ++i) found.run.push_back(static_cast<uint32_t>(i / period));
    return found;
  }
  for (size_t part = std::min(size, kFirstPart);; part = std::min(size, 4 * part)) {
    const RunClues first = part == size ? clues : Part(clues, 0, part);
    Best best = FindBest(first, std::clamp<size_t>(kWork / part, 3, kMostWindows));
    if (part == size) return {std::move(best.split.alignment.run), best.rivals};
    if (best.split.alignment.runs() < kEnoughRuns && part < kLongestPart) continue;
    LikeliestRuns all = Extrapolation(clues, best.split).Run();
    if (!all.rivals.has_value() && best.rivals.has_value()) all.rivals = best.rivals;
    return all;
  }
}

}  // namespace xplane_time
