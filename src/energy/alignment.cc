// Finds where a power log lies on the axis of a trace, by correlating power with running time.
//
// 1. LevelsOf reduces the log to windows with a mean power, at most about kMostWindows of them.
// 2. For each offset at which log and capture overlap, in steps of a quarter of the sensor's
//    period, ScoreAt fits a line of power over the share of time that kernels ran. The score is n
//    log(1 / (1 - r^2)), twice the log likelihood ratio of the line. Negative slopes score 0.
// 3. The best offsets that are at least two periods apart are returned. The caller fits all kernels
//    at each of them, because different offsets may score alike.
//
// O(offsets x windows x log intervals).
#include "energy/alignment.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace xplane_time::energy {
namespace {

constexpr size_t kMostWindows = 1'500, kMinAlignedWindows = 12, kMostOffsets = 20'000;

struct Levels {
  std::vector<double> from_s, to_s, power_w;
};

// Mean power between updates. For power readings, the mean power of the time before each reading.
Levels LevelsOf(const Sensor& sensor) {
  const std::vector<Update>& updates = sensor.publications.updates;
  const size_t stride = updates.size() / kMostWindows + 1;
  const auto middle = [&](size_t i) { return (updates[i].low_s + updates[i].high_s) / 2; };
  Levels levels;
  for (size_t i = stride; i < updates.size(); i += stride) {
    const double from_s = middle(i - stride), to_s = middle(i);
    const bool is_counter = sensor.kind == ReadingKind::kCumulative;
    const bool was_reset = is_counter && updates[i].part != updates[i - stride].part;
    if (to_s <= from_s || was_reset) continue;
    const auto gained = static_cast<double>(updates[i].value - updates[i - stride].value);
    levels.from_s.push_back(is_counter ? from_s : middle(i - 1));
    levels.to_s.push_back(to_s);
    levels.power_w.push_back(is_counter ? gained / 1e6 / (to_s - from_s)
                                        : static_cast<double>(updates[i].value) / 1e3);
  }
  return levels;
}

// Scores an offset: n times the log of the ratio of the squares without and with the fitted line
// of power over running time. 0 if there are too few windows.
double ScoreAt(const Levels& levels, const BusyCurve& busy, double capture_s, double offset_s) {
  std::vector<double> from_s, to_s, power_w;
  for (size_t i = 0; i < levels.power_w.size(); ++i) {
    if (levels.from_s[i] + offset_s < 0 || levels.to_s[i] + offset_s > capture_s) continue;
    from_s.push_back(levels.from_s[i] + offset_s);
    to_s.push_back(levels.to_s[i] + offset_s);
    power_w.push_back(levels.power_w[i]);
  }
  if (power_w.size() < kMinAlignedWindows) return 0;
  const std::vector<double> before_s = busy.At(from_s), after_s = busy.At(to_s);
  const auto n = static_cast<double>(power_w.size());
  double x = 0, y = 0, xx = 0, yy = 0, xy = 0;
  for (size_t i = 0; i < power_w.size(); ++i) {
    const double share = (after_s[i] - before_s[i]) / (to_s[i] - from_s[i]);
    x += share, y += power_w[i];
    xx += share * share, yy += power_w[i] * power_w[i], xy += share * power_w[i];
  }
  const double sxx = xx - x * x / n, syy = yy - y * y / n, sxy = xy - x * y / n;
  if (sxx <= 1e-12 * n || syy <= 0 || sxy <= 0) return 0;
  return -n * std::log(std::max(1e-12, 1 - sxy * sxy / (sxx * syy)));
}

}  // namespace

std::vector<double> LikelyOffsetsS(const Sensor& sensor, const BusyCurve& busy, double capture_s,
                                   size_t most) {
  const std::vector<Update>& updates = sensor.publications.updates;
  if (updates.size() < kLeastUpdates) return {};
  const Levels levels = LevelsOf(sensor);
  const double log_from_s = updates.front().low_s, log_to_s = updates.back().high_s;
  const double period_s = (log_to_s - log_from_s) / static_cast<double>(updates.size() - 1);
  // All offsets at which the log and the capture overlap.
  const double first_s = -log_to_s, span_s = capture_s + log_to_s - log_from_s;
  const double step_s = std::max(period_s / 4, span_s / static_cast<double>(kMostOffsets));
  std::vector<std::pair<double, double>> scored;  // score, offset
  for (double offset_s = first_s; offset_s <= first_s + span_s; offset_s += step_s) {
    const double score = ScoreAt(levels, busy, capture_s, offset_s);
    if (score > 0) scored.emplace_back(score, offset_s);
  }
  std::stable_sort(scored.begin(), scored.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<double> offsets_s;
  for (const auto& [score, offset_s] : scored) {
    const bool is_apart = std::ranges::all_of(offsets_s, [&, at_s = offset_s](double other_s) {
      return std::abs(at_s - other_s) > std::max(2 * period_s, 2 * step_s);
    });
    if (is_apart) offsets_s.push_back(offset_s);
    if (offsets_s.size() == most) break;
  }
  return offsets_s;
}

}  // namespace xplane_time::energy
