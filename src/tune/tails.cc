#include "tune/tails.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace xplane_time {
namespace {

constexpr double kWrong = 0.01;       // of all flags together
constexpr size_t kFewestForP95 = 20;  // below, it would be the maximum
constexpr double kSpike = 0.1, kDeviations = 6, kSdOverMad = 1.4826;

// Of sorted values, by the nearest rank.
double Quantile(const std::vector<double>& sorted, double share) {
  const double rank = std::ceil(share * static_cast<double>(sorted.size()));
  return sorted[static_cast<size_t>(std::max(1.0, rank)) - 1];
}

// Times of a variant by round; of two in a round the first.
using Times = std::map<size_t, double>;

struct Shape {
  double median = 0, p95 = 0, spike_at = 0;
};

Shape ShapeOf(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  Shape shape = {.median = Quantile(times, 0.5), .p95 = Quantile(times, 0.95)};
  for (double& each : times) each = std::abs(each - shape.median);
  std::sort(times.begin(), times.end());
  const double sd = kSdOverMad * Quantile(times, 0.5);
  shape.spike_at = shape.median + std::max(kSpike * shape.median, kDeviations * sd);
  return shape;
}

int64_t CountOver(const std::vector<double>& times, double threshold) {
  return std::count_if(times.begin(), times.end(), [&](double t) { return t > threshold; });
}

double RateOver(const std::vector<double>& times, double threshold) {
  return static_cast<double>(CountOver(times, threshold)) / static_cast<double>(times.size());
}

struct Pair {
  std::vector<double> pick, rival;
};

Pair InCommon(const Times& pick, const Times& rival) {
  Pair pair;
  for (const auto& [round, time] : pick) {
    const auto other = rival.find(round);
    if (other == rival.end()) continue;
    pair.pick.push_back(time);
    pair.rival.push_back(other->second);
  }
  return pair;
}

bool IsWorse(const std::vector<double>& pick, double pick_over, const std::vector<double>& rival,
             double rival_over, double alpha) {
  return FisherWorse(CountOver(pick, pick_over), static_cast<int64_t>(pick.size()),
                     CountOver(rival, rival_over), static_cast<int64_t>(rival.size())) < alpha;
}

void Flag(const Pair& pair, uint32_t rival, double delta, double alpha,
          std::vector<TailFlag>* flags) {
  if (pair.pick.empty()) return;
  const Shape pick = ShapeOf(pair.pick), other = ShapeOf(pair.rival);
  std::vector<double> both = pair.pick;
  both.insert(both.end(), pair.rival.begin(), pair.rival.end());
  const double over = ShapeOf(both).p95;
  if (pair.pick.size() >= kFewestForP95 && pick.p95 > other.p95 * (1 + delta) &&
      IsWorse(pair.pick, over, pair.rival, over, alpha)) {
    flags->push_back({rival, "p95", pick.p95 / pick.median, other.p95 / other.median});
  }
  if (IsWorse(pair.pick, pick.spike_at, pair.rival, other.spike_at, alpha)) {
    flags->push_back({rival, "spikes", RateOver(pair.pick, pick.spike_at),
                      RateOver(pair.rival, other.spike_at)});
  }
}

// Those that the pick is held against, each once.
std::vector<uint32_t> Rivals(const Verdict& verdict, std::optional<uint32_t> baseline) {
  std::vector<uint32_t> rivals = verdict.tied;
  const Ratio* runner_up = nullptr;
  for (const Ratio& each : verdict.ratios) {
    if (each.variant == verdict.pick) continue;
    if (runner_up == nullptr || each.est < runner_up->est) runner_up = &each;
  }
  if (runner_up != nullptr) rivals.push_back(runner_up->variant);
  if (baseline.has_value()) rivals.push_back(*baseline);
  std::sort(rivals.begin(), rivals.end());
  rivals.erase(std::unique(rivals.begin(), rivals.end()), rivals.end());
  std::erase(rivals, *verdict.pick);
  return rivals;
}

std::vector<Times> TimesOf(std::span<const RoundResult> rounds, size_t places) {
  std::vector<Times> times(places);
  for (size_t i = 0; i < rounds.size(); ++i) {
    if (rounds[i].discarded) continue;
    for (const Sample& sample : rounds[i].samples) {
      if (sample.status != SampleStatus::kOk || sample.variant >= places) continue;
      times[sample.variant].emplace(i, static_cast<double>(sample.t_ps));
    }
  }
  return times;
}

// Of each variant all or none.
std::vector<std::optional<std::vector<double>>> EnergiesOf(std::span<const RoundResult> rounds,
                                                           size_t places) {
  std::vector<std::optional<std::vector<double>>> energies(places, std::vector<double>());
  for (const RoundResult& round : rounds) {
    if (round.discarded) continue;
    for (const Sample& sample : round.samples) {
      if (sample.status != SampleStatus::kOk || sample.variant >= places) continue;
      auto& of = energies[sample.variant];
      if (!sample.energy_uj.has_value()) of.reset();
      if (of.has_value()) of->push_back(*sample.energy_uj);
    }
  }
  return energies;
}

std::optional<double> Median(std::optional<std::vector<double>> values) {
  if (!values.has_value() || values->empty()) return std::nullopt;
  return ShapeOf(*std::move(values)).median;
}

}  // namespace

double FisherWorse(int64_t a_over, int64_t a, int64_t b_over, int64_t b) {
  const auto log_choose = [](int64_t n, int64_t k) {
    const auto log_factorial = [](int64_t of) { return std::lgamma(static_cast<double>(of) + 1); };
    return log_factorial(n) - log_factorial(k) - log_factorial(n - k);
  };
  const int64_t over = a_over + b_over;
  double chance = 0;
  for (int64_t k = a_over; k <= std::min(over, a); ++k) {
    if (over - k > b) continue;
    chance += std::exp(log_choose(a, k) + log_choose(b, over - k) - log_choose(a + b, over));
  }
  return std::min(1.0, chance);
}

void AddTails(std::span<const RoundResult> rounds, std::optional<uint32_t> baseline,
              TuneOutcome* outcome) {
  size_t places = 0;
  for (const TunedVariant& each : outcome->variants) places += each.measured.has_value() ? 1 : 0;
  const std::vector<Times> times = TimesOf(rounds, places);
  std::vector<std::optional<std::vector<double>>> energies = EnergiesOf(rounds, places);
  for (TunedVariant& each : outcome->variants) {
    if (!each.measured.has_value() || times[*each.measured].empty()) continue;
    std::vector<double> own;
    for (const auto& [round, time] : times[*each.measured]) own.push_back(time);
    const Shape shape = ShapeOf(own);
    each.tail = {.samples = own.size(),
                 .typical_ps = shape.median,
                 .typical_uj = Median(std::move(energies[*each.measured])),
                 .spike_rate = RateOver(own, shape.spike_at)};
    if (own.size() >= kFewestForP95) each.tail->p95_ratio = shape.p95 / shape.median;
  }
  const Verdict& verdict = outcome->verdict;
  if (!verdict.pick.has_value()) return;
  const std::vector<uint32_t> rivals = Rivals(verdict, baseline);
  const double alpha = kWrong / (2.0 * std::max<double>(1, static_cast<double>(rivals.size())));
  for (const uint32_t rival : rivals) {
    Flag(InCommon(times[*verdict.pick], times[rival]), rival, verdict.delta, alpha,
         &outcome->tail_flags);
  }
}

}  // namespace xplane_time
