#include "devices/gpu_runs/likeliest_runs.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "devices/gpu_runs/alignment.h"
#include "devices/gpu_runs/candidates.h"
#include "devices/gpu_runs/costs.h"
#include "devices/gpu_runs/idle_model.h"
#include "stats/order_statistics.h"

namespace xplane_time::gpu_runs {
namespace {

constexpr int64_t kNoisePs = 50'000;
constexpr int64_t kBackToBackPs = 1'500'000;  // runs of one kernel that leave less may be a loop

// ---- splits ----------------------------------------------------------------------------

struct Split {
  Template pattern;
  Alignment alignment;
  double cost = 0;
  IdleScales scales;
  bool by_counts = false;  // `at` is not known
};

double HostCost(const RunClues& clues, size_t runs) {
  return clues.host_runs.value_or(runs) == runs ? 0 : kHostDiffers;
}

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
  split.alignment = Align(clues.symbols, split.pattern, idle);
  const double fixed = kSymbol * static_cast<double>(content.size()) +
                       (RepeatedPeriod(content) > 0 ? kAllRepeat : 0);
  const bool hopeless = split.alignment.cost + fixed > best + kHopeless;
  for (int i = 0; idle.known() && !hopeless && i < kRefinements; ++i) {
    FitIdle(clues, split.alignment, &idle);
    split.alignment = Align(clues.symbols, split.pattern, idle);
  }
  split.scales = idle.scales();
  split.cost = split.alignment.cost + fixed + HostCost(clues, split.alignment.runs());
  return split;
}

// ---- splits in whatever order ----------------------------------------------------------

size_t CountIn(const Content& content, uint32_t symbol) {
  const auto found = content.find(symbol);
  return found == content.end() ? 0 : found->second;
}

// Of all counts.
size_t CommonDivisor(const Content& content) {
  size_t divisor = 0;
  for (const auto& [symbol, times] : content) divisor = std::gcd(divisor, times);
  return divisor;
}

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
    for (const Content& run : runs) counts.push_back(CountIn(run, symbol));
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
  if (CommonDivisor(typical) > 1) cost += kAllRepeat;
  for (const Content& one : contents) {
    size_t missing = 0, more = 0;
    for (const auto& [symbol, times] : typical) {
      const size_t has = CountIn(one, symbol);
      missing += times > has ? times - has : 0;
      more += has > times ? has - times : 0;
    }
    cost += LossCost(static_cast<int32_t>(missing)) + kAgain * static_cast<double>(more);
  }
  cost += HostCost(clues, contents.size());
  Alignment alignment;
  alignment.at.assign(run.size(), 0);
  alignment.after_loss.assign(run.size(), false);
  alignment.run = std::move(run);
  return {Template(content), std::move(alignment), cost, idle.scales(), true};
}

// The k-th occurrences of each symbol are of the k-th run: where every symbol occurs as
// often as there are runs, or a multiple.
std::vector<uint32_t> RunsByCounts(Symbols symbols, size_t runs) {
  const Content count = ContentOf(symbols);
  Content seen;
  std::vector<uint32_t> run;
  for (uint32_t symbol : symbols)
    run.push_back(static_cast<uint32_t>(seen[symbol]++ / (count.at(symbol) / runs)));
  return run;
}

// A run begins after each of the longest idle times.
std::vector<uint32_t> RunsByIdle(const RunClues& clues, size_t runs) {
  std::vector<uint32_t> run(clues.symbols.size(), 0);
  for (const size_t begin : LongestIdle(clues, 1, runs - 1)) run[begin] = 1;
  std::partial_sum(run.begin(), run.end(), run.begin());
  return run;
}

// ---- doubt -------------------------------------------------------------------------------

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
  const Content content = ContentOf(split.pattern.symbols);
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
  if (!complete.front() && !complete.back() && CommonDivisor(ContentOf(clues.symbols)) > 1)
    return true;
  std::vector<int64_t> border_ps;
  size_t longer = 0;
  for (size_t i = 1; i < clues.symbols.size(); ++i) {
    if (alignment.run[i] == alignment.run[i - 1]) continue;
    border_ps.push_back(clues.idle_ps[i]);
    const bool is_longer = clues.idle_ps[i] / kClearlyLonger > within_ps || clues.FollowsOther(i);
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
  const size_t most_runs = CommonDivisor(ContentOf(clues.symbols));
  for (size_t runs = 2; runs <= std::min(most_runs, kMostInAnyOrder); ++runs) {
    if (most_runs % runs != 0) continue;
    splits.push_back(PriceContents(clues, RunsByCounts(clues.symbols, runs), &costs));
  }
  for (size_t runs = 2; runs <= std::min(kMostByIdle, clues.idle_ps.size()); ++runs) {
    splits.push_back(PriceContents(clues, RunsByIdle(clues, runs), &costs));
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
      window = AlignPart(size) ? WindowSize() : window * 2;
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
  bool AlignPart(size_t size) {
    const RunClues part = Part(clues_, done_, size);
    IdleCosts costs(part.idle_ps);
    IdleModel idle(part, &costs);
    idle.Set(split_.scales);
    const Alignment found = Align(part.symbols, split_.pattern, idle);
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

  const RunClues& clues_;
  const Split& split_;
  LikeliestRuns out_;
  size_t done_ = 0, misfits_ = 0;
  uint32_t runs_ = 0;
};

}  // namespace

size_t LastBorder(std::span<const uint32_t> run, size_t limit) {
  std::vector<uint32_t> least(run.begin(), run.end());
  for (size_t i = run.size() - 1; i-- > 0;) least[i] = std::min(least[i], least[i + 1]);
  uint32_t most = 0;
  size_t border = 0;
  for (size_t i = 0; i < limit; ++i) {
    if (i > 0 && least[i] > most) border = i;
    most = std::max(most, run[i]);
  }
  return border;
}

LikeliestRuns SplitLikeliest(const RunClues& clues) {
  constexpr size_t kFirstPart = 1024, kLongestPart = 65'536, kEnoughRuns = 4;
  constexpr size_t kWork = 100'000, kMostWindows = 32;  // windows tried on a first part
  const size_t size = clues.symbols.size();
  if (size == 0) return {};
  const size_t period = RepeatedPeriod(clues.symbols);
  const bool all_differ = period > 0 && ContentOf(clues.symbols.first(period)).size() == period;
  if (all_differ && !IdleTells(clues)) {
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

}  // namespace xplane_time::gpu_runs
