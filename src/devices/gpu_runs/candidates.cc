#include "devices/gpu_runs/candidates.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>
#include <utility>

#include "devices/gpu_runs/costs.h"

namespace xplane_time::gpu_runs {
namespace {

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
  std::vector<size_t> cuts = LongestIdle(clues, 0, std::min(kMost, size));
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
  explicit Misfit(Symbols s) : s_(s), count_(ContentOf(s)) {}

  double Of(const Window& window) const {
    const Content content = ContentOf(s_.subspan(window.begin, window.size));
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
  Content count_;
};

}  // namespace

Content ContentOf(Symbols symbols) {
  Content content;
  for (const uint32_t symbol : symbols) ++content[symbol];
  return content;
}

// By the longest border of each prefix (Knuth, Morris, Pratt).
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

}  // namespace xplane_time::gpu_runs
