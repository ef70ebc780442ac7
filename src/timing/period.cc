#include "timing/period.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "absl/container/flat_hash_map.h"

namespace xplane_time {
namespace {

using Symbols = std::span<const uint32_t>;

// The smallest p with s[i] == s[i + p] everywhere (Knuth, Morris, Pratt); n if none.
size_t SmallestPeriod(Symbols s) {
  std::vector<size_t> border(s.size(), 0);
  for (size_t i = 1, k = 0; i < s.size(); ++i) {
    while (k > 0 && s[i] != s[k]) k = border[k - 1];
    if (s[i] == s[k]) ++k;
    border[i] = k;
  }
  return s.size() - border.back();
}

// Cuts a sequence along a template.
class TemplateSplitter {
 public:
  TemplateSplitter(Symbols s, Symbols pattern)
      : s_(s),
        pattern_(pattern),
        swap_reach_(std::clamp<size_t>(pattern.size() / 4, 1, 8)),
        back_reach_(std::min<size_t>(pattern.size() / 4, 8)) {
    for (size_t i = 0; i < pattern.size(); ++i) places_[pattern[i]].push_back(i);
  }

  struct Split {
    std::vector<size_t> starts;
    size_t complete = 0, missing = 0, swapped = 0;
  };

  // Nothing where some run would not be a subset of the template.
  std::optional<Split> Run() const {
    Split split;
    for (size_t at = 0; at < s_.size();) {
      const size_t length = RunLength(at, &split.swapped);
      if (length == 0) return std::nullopt;
      split.starts.push_back(at);
      split.complete += length == pattern_.size() ? 1 : 0;
      split.missing += pattern_.size() - length;
      at += length;
    }
    return split;
  }

 private:
  bool ExactAt(size_t at) const {
    return at + pattern_.size() <= s_.size() &&
           std::equal(pattern_.begin(), pattern_.end(), s_.begin() + static_cast<ptrdiff_t>(at));
  }

  // How many symbols from `at` on fit into one run, going back by at most `reach`
  // places of the template.
  size_t Fitting(size_t at, size_t reach) const {
    std::unordered_map<uint32_t, std::vector<bool>> used;
    size_t furthest = 0, length = 0;
    while (length < pattern_.size() && at + length < s_.size()) {
      const auto places = places_.find(s_[at + length]);
      if (places == places_.end()) break;
      std::vector<bool>& taken = used[places->first];
      taken.resize(places->second.size());
      size_t i = 0;
      while (i < taken.size() && (taken[i] || places->second[i] + reach < furthest)) ++i;
      if (i == taken.size()) break;
      taken[i] = true;
      furthest = std::max(furthest, places->second[i]);
      ++length;
    }
    return length;
  }

  size_t RunLength(size_t at, size_t* swapped) const {
    if (ExactAt(at)) return pattern_.size();
    const size_t partial = Fitting(at, back_reach_);
    for (size_t length = 1; length <= partial && length < pattern_.size(); ++length) {
      if (at + length == s_.size() || ExactAt(at + length)) return length;
    }
    if (Fitting(at, swap_reach_) == pattern_.size()) {
      ++*swapped;
      return pattern_.size();
    }
    return partial;
  }

  Symbols s_, pattern_;
  size_t swap_reach_, back_reach_;
  std::unordered_map<uint32_t, std::vector<size_t>> places_;
};

// Template lengths worth a try, ascending. All of them for short sequences; for long
// ones the frequent distances between occurrences of the rarest symbol.
std::vector<size_t> CandidateLengths(Symbols s, size_t alphabet) {
  constexpr size_t kShort = 512, kMostPerRun = 32, kKeep = 3;
  std::vector<size_t> lengths;
  if (s.size() <= kShort) {
    for (size_t p = alphabet; p <= s.size() / 2; ++p) lengths.push_back(p);
    return lengths;
  }
  std::map<uint32_t, std::vector<size_t>> occurrences;
  for (size_t i = 0; i < s.size(); ++i) occurrences[s[i]].push_back(i);
  const auto& anchor =
      std::min_element(occurrences.begin(), occurrences.end(), [](const auto& a, const auto& b) {
        return a.second.size() < b.second.size();
      })->second;
  for (size_t per_run = 1; per_run <= kMostPerRun && per_run < anchor.size(); ++per_run) {
    std::map<size_t, size_t> count;
    for (size_t i = 0; i + per_run < anchor.size(); ++i) ++count[anchor[i + per_run] - anchor[i]];
    std::vector<std::pair<size_t, size_t>> frequent;
    for (const auto& [distance, times] : count) frequent.emplace_back(times, distance);
    std::sort(frequent.rbegin(), frequent.rend());
    for (size_t i = 0; i < std::min(kKeep, frequent.size()); ++i) {
      if (frequent[i].second >= alphabet) lengths.push_back(frequent[i].second);
    }
  }
  std::sort(lengths.begin(), lengths.end());
  lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  return lengths;
}

// Starts of the most frequent windows of a length (by a rolling hash), each distinct
// window once: at most kTemplates, more frequent and earlier ones first.
std::vector<size_t> FrequentWindows(Symbols s, size_t length) {
  constexpr uint64_t kBase = 0x9e3779b97f4a7c15;
  constexpr size_t kTemplates = 16;
  uint64_t hash = 0, top = 1;
  for (size_t i = 1; i < length; ++i) top *= kBase;
  struct Seen {
    size_t count = 0, first = 0;
  };
  absl::flat_hash_map<uint64_t, Seen> seen;
  for (size_t i = 0; i < s.size(); ++i) {
    if (i >= length) hash -= top * (uint64_t{s[i - length]} + 1);
    hash = hash * kBase + s[i] + 1;
    if (i + 1 < length) continue;
    Seen& window = seen[hash];
    if (window.count++ == 0) window.first = i + 1 - length;
  }
  std::vector<Seen> windows;
  for (const auto& [ignored, window] : seen) {
    if (window.count > 1) windows.push_back(window);
  }
  std::sort(windows.begin(), windows.end(), [](const Seen& a, const Seen& b) {
    return a.count != b.count ? a.count > b.count : a.first < b.first;
  });
  std::vector<size_t> starts;
  for (size_t i = 0; i < std::min(kTemplates, windows.size()); ++i) {
    starts.push_back(windows[i].first);
  }
  return starts;
}

using Split = TemplateSplitter::Split;

// Idle time before the runs: the more of it, the less inside them.
double IdleBetweenRuns(const Split& split, std::span<const int64_t> idle_ps) {
  double sum = 0;
  if (idle_ps.empty()) return sum;
  for (size_t start : split.starts) sum += static_cast<double>(idle_ps[start]);
  return sum;
}

bool Better(const Split& a, const Split& b, std::span<const int64_t> idle_ps) {
  const auto cost = [&](const Split& split) {
    return std::tuple(split.missing + split.swapped, split.starts.size(),
                      -IdleBetweenRuns(split, idle_ps));
  };
  return cost(a) < cost(b);
}

enum class Demand : uint8_t { kHalf, kMost };

// kMost: 3/4 of the runs are complete, or half of them and hardly anything is missing.
bool Meets(const Split& split, size_t symbols, Demand demand) {
  if (split.complete < 2 || split.complete * 2 < split.starts.size()) return false;
  return demand == Demand::kHalf || split.complete * 4 >= split.starts.size() * 3 ||
         split.missing * 10 <= symbols;
}

// The shortest template, shorter than `below`, that meets the demand.
std::optional<Split> SplitByTemplate(Symbols s, std::span<const int64_t> idle_ps, Demand demand,
                                     size_t below) {
  std::vector<uint32_t> distinct(s.begin(), s.end());
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  if (distinct.size() >= below) return std::nullopt;
  // Passes over the sequence, so that one without any template ends soon: what is found is
  // found among the first few lengths.
  size_t passes = std::max<size_t>(128, 20'000'000 / s.size());
  const auto spend = [&](size_t count) { return passes -= std::min(passes, count), passes > 0; };
  for (size_t length : CandidateLengths(s, distinct.size())) {
    if (length >= below || !spend(4)) break;
    std::optional<Split> best;
    for (size_t start : FrequentWindows(s, length)) {
      if (!spend(1)) break;
      auto split = TemplateSplitter(s, s.subspan(start, length)).Run();
      if (!split.has_value() || !Meets(*split, s.size(), demand)) continue;
      if (!best.has_value() || Better(*split, *best, idle_ps)) best = std::move(split);
    }
    if (best.has_value()) return best;
  }
  return std::nullopt;
}

}  // namespace

std::vector<uint32_t> SplitByPeriod(std::span<const uint32_t> symbols,
                                    std::span<const int64_t> idle_ps) {
  // Losses that repeat by chance make an exact period of several runs; looking for that
  // costs more than linear time.
  constexpr size_t kMostForRepeatedLosses = 100'000;
  std::vector<uint32_t> run(symbols.size(), 0);
  if (symbols.empty()) return run;
  const size_t period = SmallestPeriod(symbols);
  const bool exact = period < symbols.size() && symbols.size() % period == 0;
  std::optional<Split> split;
  if (!exact || symbols.size() <= kMostForRepeatedLosses) {
    split = SplitByTemplate(symbols, idle_ps, Demand::kMost, exact ? period : symbols.size());
  }
  if (!exact && !split.has_value())
    split = SplitByTemplate(symbols, idle_ps, Demand::kHalf, symbols.size());
  if (split.has_value()) {
    for (size_t start : split->starts) {
      if (start > 0) run[start] = 1;
    }
    std::partial_sum(run.begin(), run.end(), run.begin());
  } else if (exact) {
    for (size_t i = 0; i < run.size(); ++i) run[i] = static_cast<uint32_t>(i / period);
  }
  return run;
}

}  // namespace xplane_time
