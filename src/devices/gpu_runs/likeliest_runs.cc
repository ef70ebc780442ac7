// Finds the likeliest split of a sequence into runs (likeliest_runs.h describes the cost).
//
// 1. A sequence of distinct kernels that repeats exactly, without idle times that matter, is split
//    by its period.
// 2. CandidateWindows proposes templates: what is between executions of other programs or very long
//    idle times, the most frequent windows of the candidate lengths (distances of the rarest
//    symbol), and windows between long idle times. Misfit() ranks them by symbol counts.
// 3. SplitBy aligns the sequence with each template (alignment.h), refits the idle model, and
//    aligns again (at most two refinements). Templates that cannot become the best are abandoned
//    early.
// 4. Further candidates: one run (OneRun), and splits that ignore the order of kernels, by symbol
//    counts or by the longest idle times (PriceContents).
// 5. The cheapest split is taken. It is doubtful if a different one costs less than kMargin more
//    (FindBest), if idle times cannot exclude a loop or a run spans other programs (IsVague), or if
//    a change at one position is about as cheap (RivalNearby).
//
// A long sequence is split by its first part of 1,024 to 65,536 executions; Extrapolate() continues
// with the best template, window by window. Time and memory are therefore linear.
#include "devices/gpu_runs/likeliest_runs.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "devices/gpu_runs/alignment.h"
#include "stats/order_statistics.h"

namespace xplane_time::gpu_runs {
namespace {

constexpr int64_t kNoisePs = 50'000;
// shorter idle times between runs of one kernel may be a loop
constexpr int64_t kBackToBackPs = 1'500'000;

// ---- candidates: parts of a sequence that may be the content of a run -----------------------

// The number of occurrences of each symbol.
using Content = absl::flat_hash_map<uint32_t, size_t>;

Content ContentOf(Symbols symbols) {
  Content content;
  for (const uint32_t symbol : symbols) ++content[symbol];
  return content;
}

// The smallest p < size such that the sequence repeats its first p symbols; 0: no such p. It uses
// the longest border of each prefix (Knuth, Morris, Pratt).
size_t RepeatedPeriod(Symbols s) {
  std::vector<size_t> border(s.size(), 0);
  for (size_t i = 1, k = 0; i < s.size(); ++i) {
    while (k > 0 && s[i] != s[k]) k = border[k - 1];
    if (s[i] == s[k]) ++k;
    border[i] = k;
  }
  const size_t period = s.size() - border.back();
  return period < s.size() && s.size() % period == 0 ? period : 0;
}

// The positions from `first` on with the `count` longest idle times, longest first; of equal times
// the first position. Position 0 has no idle time.
std::vector<size_t> LongestIdle(const RunClues& clues, size_t first, size_t count) {
  std::vector<size_t> places(clues.symbols.size() - first);
  std::iota(places.begin(), places.end(), first);
  const auto idle_ps = [&](size_t i) {
    return i == 0 || clues.idle_ps.empty() ? int64_t{0} : clues.idle_ps[i];
  };
  std::partial_sort(
      places.begin(), places.begin() + static_cast<ptrdiff_t>(count), places.end(),
      [&](size_t a, size_t b) { return std::pair(-idle_ps(a), a) < std::pair(-idle_ps(b), b); });
  places.resize(count);
  return places;
}

// Candidate lengths of a run: all lengths for a short sequence, and for a long one the frequent
// distances between occurrences of its rarest symbol.
std::set<size_t> CandidateLengths(Symbols s) {
  constexpr size_t kShort = 256, kLong = 8192;
  const size_t most_per_run = s.size() > kLong ? 8 : 32, keep = s.size() > kLong ? 1 : 3;
  std::set<size_t> lengths;
  if (s.size() <= kShort) {
    for (size_t p = 1; p <= s.size() / 2; ++p) lengths.insert(p);
    return lengths;
  }
  absl::flat_hash_map<uint32_t, std::vector<size_t>> occurrences;
  for (size_t i = 0; i < s.size(); ++i) occurrences[s[i]].push_back(i);
  const std::vector<size_t>* anchor = nullptr;
  for (const auto& [symbol, places] : occurrences) {
    if (places.size() < 3) continue;  // too rare to occur once per run
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
    for (size_t i = 0; i < std::min(keep, frequent.size()); ++i) lengths.insert(frequent[i].second);
  }
  return lengths;
}

// Hashes of all windows of a length, one after the other.
class RollingHash {
 public:
  RollingHash(Symbols s, size_t length) : s_(s), length_(length) {
    for (size_t i = 1; i < length; ++i) top_ *= kBase;
  }

  // The hash of the window that ends at `i`, for i = 0, 1, 2 ... Before the first whole window: of
  // a part.
  uint64_t Next(size_t i) {
    if (i >= length_) hash_ -= top_ * (uint64_t{s_[i - length_]} + 1);
    return hash_ = hash_ * kBase + s_[i] + 1;
  }

 private:
  static constexpr uint64_t kBase = 0x9e3779b97f4a7c15;
  Symbols s_;
  size_t length_;
  uint64_t hash_ = 0, top_ = 1;
};

// Whether a long sequence may hold two runs: whether windows that are too long to repeat by chance
// occur again in several places.
bool MayRepeat(Symbols s) {
  constexpr double kHardly = 64, kSeldom = 32;
  const auto size = static_cast<double>(s.size());
  double nats = 0;  // information per symbol
  for (const auto& [symbol, times] : ContentOf(s)) {
    const double share = static_cast<double>(times) / size;
    nats -= share * std::log(share);
  }
  if (nats * size <= kHardly * std::log(kHardly * size)) return true;
  const auto length = static_cast<size_t>(std::ceil(std::log(kHardly * size) / nats));
  RollingHash hash(s, length);
  absl::flat_hash_set<uint64_t> seen;
  size_t again = 0;
  for (size_t i = 0; i < s.size(); ++i) {
    const uint64_t window = hash.Next(i);
    if (i + 1 >= length && !seen.insert(window).second) ++again;
  }
  return static_cast<double>(again) * kSeldom > size;
}

// Adds the most frequent windows of a length.
void AddFrequentWindows(Symbols s, size_t length, std::vector<Symbols>* windows) {
  constexpr size_t kKeep = 16;
  struct Seen {
    size_t count = 0, first = 0, free_from = 0;  // occurrences without overlap
  };
  absl::flat_hash_map<uint64_t, Seen> seen;
  RollingHash hash(s, length);
  for (size_t i = 0; i < s.size(); ++i) {
    const uint64_t of_window = hash.Next(i);
    if (i + 1 < length) continue;
    const size_t begin = i + 1 - length;
    Seen& window = seen[of_window];
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
  for (size_t i = 0; i < keep; ++i) windows->push_back(s.subspan(frequent[i].first, length));
}

// Adds windows from one long idle time to another.
void AddWindowsByIdle(const RunClues& clues, std::vector<Symbols>* windows) {
  constexpr size_t kMost = 8;
  const size_t size = clues.symbols.size();
  const std::vector<size_t> longest = LongestIdle(clues, 0, std::min(kMost, size));
  std::set<size_t> cuts(longest.begin(), longest.end());
  cuts.insert({0, size});
  for (auto begin = cuts.begin(); begin != cuts.end(); ++begin) {
    for (auto end = std::next(begin); end != cuts.end(); ++end) {
      windows->push_back(clues.symbols.subspan(*begin, *end - *begin));
    }
  }
}

// The executions that very likely begin runs: those after other programs on their stream. If there
// are none: those after idle times that are many times longer than all shorter ones.
std::vector<size_t> LikelyBegins(const RunClues& clues) {
  constexpr int64_t kManyTimes = 100;
  const size_t size = clues.symbols.size();
  std::vector<size_t> begins;
  for (size_t i = 1; i < size; ++i) {
    if (clues.FollowsOtherOnStream(i)) begins.push_back(i);
  }
  if (!begins.empty() || clues.idle_ps.size() < 2) return begins;
  std::vector<int64_t> ascending_ps(clues.idle_ps.begin() + 1, clues.idle_ps.end());
  std::ranges::sort(ascending_ps);
  int64_t least_ps = 0, most_times = 0;
  for (size_t i = 1; i < ascending_ps.size(); ++i) {
    const int64_t times = ascending_ps[i] / std::max(kNoisePs, ascending_ps[i - 1]);
    if (times < kManyTimes || times <= most_times) continue;
    most_times = times;
    least_ps = ascending_ps[i];
  }
  for (size_t i = 1; most_times > 0 && i < size; ++i) {
    if (clues.idle_ps[i] >= least_ps) begins.push_back(i);
  }
  return begins;
}

// The most frequent different contents between executions that very likely begin runs.
std::vector<Symbols> LikelyRuns(const RunClues& clues) {
  constexpr size_t kMost = 6;
  struct Seen {
    size_t count = 0, begin = 0;
  };
  std::map<std::vector<uint32_t>, Seen> seen;
  std::vector<size_t> begins = LikelyBegins(clues);
  if (begins.empty()) return {};
  begins.push_back(clues.symbols.size());
  size_t begin = 0;
  for (const size_t end : begins) {
    const Symbols run = clues.symbols.subspan(begin, end - begin);
    Seen& one = seen[{run.begin(), run.end()}];
    if (one.count++ == 0) one.begin = begin;
    begin = end;
  }
  std::vector<std::tuple<size_t, size_t, size_t>> frequent;  // count, begin, size
  for (const auto& [content, one] : seen) {
    frequent.emplace_back(one.count, one.begin, content.size());
  }
  std::ranges::sort(frequent, [](const auto& a, const auto& b) {
    return std::pair(std::get<0>(b), std::get<1>(a)) < std::pair(std::get<0>(a), std::get<1>(b));
  });
  std::vector<Symbols> runs;
  for (const auto& [count, first, size] : frequent) {
    if (runs.size() < kMost) runs.push_back(clues.symbols.subspan(first, size));
  }
  return runs;
}

// The misfit of a window as a template: its size, and the difference between the symbol counts and
// those of runs with this content. `count`: counts of all symbols.
double Misfit(const Content& count, size_t size, Symbols window) {
  const double runs = std::round(static_cast<double>(size) / static_cast<double>(window.size()));
  double more = 0, known = 0;
  for (const auto& [symbol, times] : ContentOf(window)) {
    const auto all = static_cast<double>(count.at(symbol));
    more += std::abs(all - runs * static_cast<double>(times));
    known += all;
  }
  return kSymbol * static_cast<double>(window.size()) + kAgain * more +
         kForeign * (static_cast<double>(size) - known);
}

// Parts of the sequence that may be the content of a run: LikelyRuns(), and at most `most` others,
// the likeliest first.
std::vector<Symbols> CandidateWindows(const RunClues& clues, size_t most) {
  const Symbols s = clues.symbols;
  std::vector<Symbols> windows;
  for (size_t length : CandidateLengths(s)) AddFrequentWindows(s, length, &windows);
  AddWindowsByIdle(clues, &windows);
  const Content count = ContentOf(s);
  // also ordered by position and length
  std::set<std::tuple<double, const uint32_t*, size_t>> ranked;
  for (const Symbols& window : windows) {
    ranked.emplace(Misfit(count, s.size(), window), window.data(), window.size());
  }
  windows = LikelyRuns(clues);
  most += windows.size();
  for (const auto& [ignored, begin, size] : ranked) {
    if (windows.size() < most && size < s.size()) windows.emplace_back(begin, size);
  }
  return windows;
}

// ---- splits ----------------------------------------------------------------------------

struct Split {
  Template pattern;
  Alignment alignment;
  double cost = 0;
  IdleScales scales;
  std::optional<size_t> rivals = {};  // set for the best split if it is doubtful
};

double HostCost(const RunClues& clues, size_t runs) {
  return clues.host_runs.value_or(runs) == runs ? 0 : kHostDiffers;
}

double FixedCost(Symbols content) {
  return kSymbol * static_cast<double>(content.size()) +
         (RepeatedPeriod(content) > 0 ? kAllRepeat : 0);
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

// The split with all executions in one run.
Split OneRun(const RunClues& clues, IdleModel* idle) {
  const size_t size = clues.symbols.size();
  Split split{.pattern = Template(clues.symbols), .alignment = {}, .scales = {}};
  Alignment& alignment = split.alignment;
  alignment.run.assign(size, 0);
  alignment.after_loss.assign(size, false);
  alignment.at.resize(size);
  std::iota(alignment.at.begin(), alignment.at.end(), 0);
  FitIdle(clues, alignment, idle);
  split.scales = idle->scales();
  split.cost = FixedCost(clues.symbols) + HostCost(clues, 1);
  for (size_t i = 1; i < size; ++i) split.cost += idle->inner(i);
  return split;
}

// The split by a template. It is refined only if it may become better than `best`.
Split SplitBy(const RunClues& clues, Symbols content, double best, IdleModel* idle) {
  constexpr int kRefinements = 2;
  constexpr double kHopeless = 25;
  Split split{.pattern = Template(content), .alignment = {}, .scales = {}};
  idle->Guess(content.size());
  const double fixed = FixedCost(content);
  const double limit = best + kHopeless - fixed;
  split.alignment = Align(clues.symbols, split.pattern, *idle, limit);
  for (int i = 0; idle->known() && !split.alignment.run.empty() && i < kRefinements; ++i) {
    const IdleScales before = idle->scales();
    FitIdle(clues, split.alignment, idle);
    if (idle->scales() == before) break;
    split.alignment = Align(clues.symbols, split.pattern, *idle, limit);
  }
  split.scales = idle->scales();
  split.cost = split.alignment.cost + fixed + HostCost(clues, split.alignment.runs());
  return split;
}

// ---- splits that ignore the order of kernels -------------------------------------------------

size_t CountIn(const Content& content, uint32_t symbol) {
  const auto found = content.find(symbol);
  return found == content.end() ? 0 : found->second;
}

// The greatest common divisor of all counts.
size_t CommonDivisor(const Content& content) {
  size_t divisor = 0;
  for (const auto& [symbol, times] : content) divisor = std::gcd(divisor, times);
  return divisor;
}

// The number of occurrences of each symbol in each run.
std::vector<Content> ContentOfRuns(Symbols symbols, const std::vector<uint32_t>& run) {
  std::vector<Content> contents(run.empty() ? 0 : *std::max_element(run.begin(), run.end()) + 1);
  for (size_t i = 0; i < symbols.size(); ++i) ++contents[run[i]][symbols[i]];
  return contents;
}

// The median count of each symbol over the runs.
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

// The number of executions far from the position of the same execution in the first run. Such
// executions are in random order, not swapped.
size_t OutOfOrder(Symbols symbols, const std::vector<uint32_t>& run) {
  const size_t runs = *std::max_element(run.begin(), run.end()) + 1;
  std::vector<size_t> sizes(runs, 0);  // so far
  std::vector<Content> seen(runs);
  absl::flat_hash_map<uint32_t, std::vector<size_t>> places;  // positions in the first run
  for (size_t i = 0; i < run.size(); ++i) {
    if (run[i] == 0) places[symbols[i]].push_back(sizes[0]++);
  }
  size_t count = 0;
  for (size_t i = 0; i < run.size(); ++i) {
    if (run[i] == 0) continue;
    const auto place = static_cast<int64_t>(sizes[run[i]]++);
    const size_t nth = seen[run[i]][symbols[i]]++;
    const auto first = places.find(symbols[i]);
    if (first == places.end() || nth >= first->second.size()) continue;
    count += std::abs(place - static_cast<int64_t>(first->second[nth])) > kReach ? 1 : 0;
  }
  return count;
}

// Makes a split whose cost does not depend on the order of kernels within a run.
Split PriceContents(const RunClues& clues, std::vector<uint32_t> run, IdleModel* idle) {
  const std::vector<Content> contents = ContentOfRuns(clues.symbols, run);
  const Content typical = TypicalContent(clues.symbols, contents);
  std::vector<uint32_t> content;
  for (const auto& [symbol, times] : typical) content.insert(content.end(), times, symbol);
  std::vector<size_t> inner, border;
  for (size_t i = 1, latest = 0; i < run.size(); ++i) {
    (run[i] > latest ? border : inner).push_back(i);
    latest = std::max<size_t>(latest, run[i]);
  }
  idle->Fit(inner, border);
  double cost = kSymbol * static_cast<double>(content.size()) +
                kScramble * static_cast<double>(contents.size() - 1);
  uint32_t latest = 0;
  for (size_t i = 1; i < run.size(); ++i) {
    cost += run[i] > latest ? idle->border(i) : idle->inner(i);
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
  cost += kForeign * static_cast<double>(OutOfOrder(clues.symbols, run));
  cost += HostCost(clues, contents.size());
  Alignment alignment;
  alignment.after_loss.assign(run.size(), false);
  alignment.run = std::move(run);
  return {.pattern = Template(content),
          .alignment = std::move(alignment),
          .cost = cost,
          .scales = idle->scales()};
}

// The k-th occurrences of each symbol belong to the k-th run. The count of every symbol must be a
// multiple of the number of runs.
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

// The longest idle time within runs; if there are many, the second longest. Idle times directly
// after lost kernels are ignored.
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

// Whether each run has exactly the content of the template.
std::vector<bool> CompleteRuns(const RunClues& clues, const Split& split) {
  const Content content = ContentOf(split.pattern.symbols);
  std::vector<bool> complete;
  for (const Content& run : ContentOfRuns(clues.symbols, split.alignment.run))
    complete.push_back(run == content);
  return complete;
}

// Whether any idle time is long enough to be meaningful.
bool IdleTells(const RunClues& clues) {
  return std::any_of(clues.idle_ps.begin(), clues.idle_ps.end(),
                     [](int64_t idle_ps) { return idle_ps >= kNoisePs; });
}

// Whether every k-th border is clearly longer than all others. The runs may then be the iterations
// of a loop, k of them per run.
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

// Whether a run spans other programs, although the device waits there about as long
// as between runs. The run may then be several.
bool SpansOthers(const RunClues& clues, const Alignment& alignment) {
  constexpr int64_t kClearlyShorter = 2;
  const auto idle_ps = [&](size_t i) { return clues.idle_ps.empty() ? 0 : clues.idle_ps[i]; };
  std::vector<int64_t> border_ps;
  int64_t longest_ps = -1;  // within runs, after other programs
  for (size_t i = 1; i < clues.symbols.size(); ++i) {
    if (alignment.run[i] != alignment.run[i - 1]) {
      border_ps.push_back(idle_ps(i));
    } else if (clues.FollowsOther(i)) {
      longest_ps = std::max(longest_ps, idle_ps(i));
    }
  }
  if (longest_ps < 0) return false;
  return border_ps.empty() || longest_ps >= stats::UpperMedian(border_ps) / kClearlyShorter;
}

// Whether idle times cannot separate the runs. They may then be the iterations of a loop, or begin
// elsewhere if one lacks kernels.
bool IsVague(const RunClues& clues, const Split& split) {
  constexpr int64_t kClearlyLonger = 2;
  const Alignment& alignment = split.alignment;
  const size_t runs = alignment.runs();
  if (clues.host_runs == runs) return false;
  if (SpansOthers(clues, alignment)) return true;
  if (runs < 2 || !IdleTells(clues)) return false;
  const bool one_kernel = split.pattern.size() == 1;
  const int64_t within_ps =
      one_kernel ? kBackToBackPs / kClearlyLonger : LongestWithin(clues, alignment);
  const std::vector<bool> complete = CompleteRuns(clues, split);
  // No kernel is missing in total, but the first and the last run are incomplete.
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

// The number of runs in a similarly likely split that differs at one position: two runs become one,
// or one run is split at a long idle time.
std::optional<size_t> RivalNearby(const RunClues& clues, const Split& split,
                                  const IdleModel& idle) {
  const Alignment& a = split.alignment;
  const int32_t last = split.pattern.size() - 1;
  for (size_t i = 1; i < clues.symbols.size(); ++i) {
    const int32_t before = a.at[i - 1], now = a.at[i];
    const double apart = LossCost(last - before) + LossCost(now);
    const double together = now > before ? LossCost(now - before - 1) : kAgain;
    const double longer = idle.inner(i) - idle.border(i);  // > 0: as idle as between runs
    if (a.run[i] == a.run[i - 1]) {
      if (clues.FollowsOtherOnStream(i)) continue;  // see SpansOthers()
      const double gain = a.after_loss[i] ? std::max(0.0, longer) : longer;
      if (now > before && apart - together - gain < kMargin) return a.runs() + 1;
    } else if (a.run[i] == a.run[i - 1] + 1 && now > before && i + 1 < clues.symbols.size()) {
      if (together + longer - apart < kMargin) return a.runs() - 1;
    }
  }
  return std::nullopt;
}

Split FindBest(const RunClues& clues, size_t most_windows) {
  IdleModel idle(clues);
  std::vector<Split> splits = {OneRun(clues, &idle)};
  // cost of the best split with several runs
  double least = std::numeric_limits<double>::infinity();
  for (const Symbols& content : CandidateWindows(clues, most_windows)) {
    splits.push_back(SplitBy(clues, content, least, &idle));
    least = std::min(least, splits.back().cost);
  }
  constexpr size_t kMostInAnyOrder = 64, kMostByIdle = 12;
  const size_t most_runs = CommonDivisor(ContentOf(clues.symbols));
  for (size_t runs = 2; runs <= std::min(most_runs, kMostInAnyOrder); ++runs) {
    if (most_runs % runs != 0) continue;
    splits.push_back(PriceContents(clues, RunsByCounts(clues.symbols, runs), &idle));
  }
  for (size_t runs = 2; runs <= std::min(kMostByIdle, clues.idle_ps.size()); ++runs) {
    splits.push_back(PriceContents(clues, RunsByIdle(clues, runs), &idle));
  }
  const auto cheaper = [](const Split& a, const Split& b) { return a.cost < b.cost; };
  const auto best = std::min_element(splits.begin(), splits.end(), cheaper);
  Split found = *best;
  const Split* rival = nullptr;
  for (const Split& split : splits) {
    if (split.cost - best->cost >= kMargin || split.alignment.run == best->alignment.run) continue;
    if (rival == nullptr || split.cost < rival->cost) rival = &split;
  }
  idle.Set(best->scales);
  if (rival != nullptr) {
    found.rivals = rival->alignment.runs();
  } else if (IsVague(clues, *best)) {
    found.rivals = 1;
  } else if (!best->alignment.at.empty()) {
    found.rivals = RivalNearby(clues, *best, idle);
  }
  return found;
}

// Whether a long sequence has few different symbols. It is then hardly one run, in any order.
bool KeepsRecurring(Symbols s) {
  constexpr size_t kLong = 1024, kOften = 32;
  return s.size() > kLong && ContentOf(s).size() * kOften < s.size();
}

RunClues Part(const RunClues& clues, size_t begin, size_t size) {
  RunClues part;
  part.symbols = clues.symbols.subspan(begin, size);
  if (!clues.idle_ps.empty()) part.idle_ps = clues.idle_ps.subspan(begin, size);
  if (!clues.after_other.empty()) part.after_other = clues.after_other.subspan(begin, size);
  return part;
}

// Continues the split of a first part with its template.
LikeliestRuns Extrapolate(const RunClues& clues, const Split& split) {
  const std::vector<uint32_t>& content = split.pattern.symbols;
  const size_t size = clues.symbols.size();
  const size_t first_window = std::max<size_t>(1024, 8 * content.size());
  const auto template_at = [&](size_t at) {
    return at + content.size() <= size &&
           std::equal(content.begin(), content.end(),
                      clues.symbols.begin() + static_cast<ptrdiff_t>(at));
  };
  LikeliestRuns out;
  uint32_t runs = 0;
  for (size_t misfits = 0, window = first_window;;) {
    const size_t done = out.run.size(), next = done + content.size();
    if (done == size) {
      // If much does not fit, the first part was not representative.
      if (misfits * 10 > size) out.rivals = std::max<size_t>(1, size / content.size());
      return out;
    }
    if (template_at(done) && (next == size || template_at(next))) {
      out.run.insert(out.run.end(), content.size(), runs++);
      continue;
    }
    const size_t part_size = std::min(window, size - done);
    const RunClues part = Part(clues, done, part_size);
    IdleModel idle(part);
    idle.Set(split.scales);
    const Alignment found = Align(part.symbols, split.pattern, idle);
    const bool last = done + part_size == size;
    const size_t end = last ? part_size : LastBorder(found.run, part_size - content.size());
    window = end == 0 ? 2 * window : first_window;  // 0: too short to find the end of a run
    const uint32_t first_run = runs;
    for (size_t i = 0; i < end; ++i) {
      out.run.push_back(first_run + found.run[i]);
      runs = std::max(runs, out.run.back() + 1);
      misfits += found.after_loss[i] || found.at[i] < 0 ? 1 : 0;
    }
  }
}

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
  // number of windows that are tried on a first part
  constexpr size_t kWork = 100'000, kMostWindows = 32;
  const size_t size = clues.symbols.size();
  if (size == 0) return {};
  const size_t period = RepeatedPeriod(clues.symbols);
  const bool all_differ = period > 0 && ContentOf(clues.symbols.first(period)).size() == period;
  if (all_differ && !IdleTells(clues)) {
    LikeliestRuns found;  // an exact repetition
    size_t others = 0;    // within runs
    for (size_t i = 0; i < size; ++i) {
      found.run.push_back(static_cast<uint32_t>(i / period));
      others += i % period != 0 && clues.FollowsOtherOnStream(i) ? 1 : 0;
    }
    if (others > 0) found.rivals = size / period + others;
    return found;
  }
  const auto doubtful_one = [size] {
    return LikeliestRuns{.run = std::vector<uint32_t>(size, 0), .rivals = 2};
  };
  // A sequence whose first part does not repeat may still repeat later.
  if (size > kLongestPart && !MayRepeat(clues.symbols.first(kLongestPart))) return doubtful_one();
  for (size_t part = std::min(size, kFirstPart);; part = std::min(size, 4 * part)) {
    const RunClues first = part == size ? clues : Part(clues, 0, part);
    Split best = FindBest(first, std::clamp<size_t>(kWork / part, 3, kMostWindows));
    const bool is_one = best.alignment.runs() == 1;
    if (part == size && is_one && clues.host_runs != 1 && KeepsRecurring(clues.symbols)) {
      return doubtful_one();
    }
    if (part == size) return {std::move(best.alignment.run), best.rivals};
    if (best.alignment.runs() < kEnoughRuns && part < kLongestPart) continue;
    if (is_one) return doubtful_one();
    LikeliestRuns all = Extrapolate(clues, best);
    if (!all.rivals.has_value() && best.rivals.has_value()) all.rivals = best.rivals;
    return all;
  }
}

}  // namespace xplane_time::gpu_runs
