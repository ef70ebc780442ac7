// Differences of mean log times and their standard errors.
//
// Sides (Unpaired-, PairedDifference): the variance between captures, at least the variance that
// the samples within them imply. Unpaired: the larger of Welch's and the pooled variance, with the
// smaller degrees of freedom. With a known offset_std, the variance is at least the one that it
// implies, and the degrees of freedom follow from it.
//
// Variants (DifferenceOf): in rounds, the mean over captures of the centre of the log ratios within
// rounds (OfRounds). The scatter between captures is the error, unless F tests at 25 % cannot
// distinguish it from the scatter of rounds (Bancroft 1944). In that case it is the scatter of
// rounds, times FindAllowance. Without rounds, one value per capture (OfCaptures); a single capture
// has the allowance for drift instead of scatter.
//
// With few captures, one pair of variants says little about the scatter between captures: two
// captures leave one degree of freedom. So it is also pooled over all variants (PoolSpread): the
// interaction of variant and capture in an analysis of variance, with (V - 1)(C - 1) degrees of
// freedom. A pair's scatter is the larger of its own and the pooled one. Its degrees of freedom are
// those of the pooled one, at most kMaxPooling times its own. Without that limit, one pair that
// varies more than the others would be wrong too often (simulated in pick_test.cc).
//
// P(best) (ProbabilityOfBest): a simulation with the estimates and errors of the verdict. In each
// replicate, the difference of a variant to the leader is its estimate plus its standard error
// times a deviate of Student's t. Two differences share the leader, so their deviates have a
// correlation of 1/2. For two variants, P(best) is therefore one minus the one-sided p-value. A
// bootstrap over units was rejected: it ignores the scatter between captures and the error of the
// spread, and gave a probability of 1.000 to variants that the intervals did not separate.
#include "compare/differences.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <set>
#include <tuple>

#include "compare/clock_steps.h"
#include "stats/distributions.h"
#include "stats/random.h"

namespace xplane_time::compare {
namespace {

using stats::FisherTail, stats::HuberCentre, stats::Mean, stats::StudentTail, stats::Variance;

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kPoolingLevel = 0.25;

// The variance of a difference of two values with stated errors, as a mean over captures. The
// errors may have opposite signs, and do not decrease with the number of captures.
double StatedVariance(std::span<const Centre> pairs) {
  double sum = 0;
  for (size_t i = 0; i < pairs.size(); i += 2) {
    const double both = std::sqrt(pairs[i].variance) + std::sqrt(pairs[i + 1].variance);
    sum += both * both;
  }
  return sum / static_cast<double>(pairs.size() / 2);
}

// The variances of several centres within their captures.
struct Within {
  double sum = 0, weighted_squares = 0;  // weighted_squares: sum of variance^2 / df
};

Within WithinOf(std::span<const Centre> centres) {
  Within within;
  for (const Centre& centre : centres) {
    within.sum += centre.variance;
    if (centre.df > 0) within.weighted_squares += centre.variance * centre.variance / centre.df;
  }
  return within;
}

struct SideMoments {
  double mean = 0, between = 0;  // variance of centres, ddof 1
  double within = 0;             // mean variance of a centre within its process
  double within_df = 0;          // by Satterthwaite
  double k = 0;
};

// Degrees of freedom of a sum of independent variances.
double SatterthwaiteDf(double total, double weighted_squares) {
  return weighted_squares > 0 ? total * total / weighted_squares : kInfinity;
}

SideMoments MomentsOf(std::span<const Centre> centres) {
  std::vector<double> values;
  for (const Centre& centre : centres) values.push_back(centre.value);
  const double k = static_cast<double>(centres.size());
  const auto [sum, weighted_squares] = WithinOf(centres);
  const double within = sum / k, within_df = SatterthwaiteDf(sum, weighted_squares);
  // If captures happen to agree, the centre is still no more certain than its samples imply.
  return {Mean(values), std::max(Variance(values), within), within, within_df, k};
}

struct TimedSample {
  int64_t start_ps;
  const std::string* id;
  double log_time;  // NaN: excluded, but it keeps its place in its round
};

std::vector<TimedSample> InOrder(const Measurements& capture) {
  std::vector<TimedSample> samples;
  for (const Series& series : capture.series) {
    if (!series.variant_id.has_value()) continue;
    for (const Sampled& sample : series.samples) {
      samples.push_back({sample.start_ps, &*series.variant_id, std::log(sample.value)});
    }
    for (const int64_t start_ps : series.left_out) {
      samples.push_back({start_ps, &*series.variant_id, kMissing});
    }
  }
  std::ranges::stable_sort(samples, {}, &TimedSample::start_ps);
  return samples;
}

using Round = std::map<std::string, double>;

std::vector<Round> RoundsOf(const Measurements& capture) {
  std::vector<Round> rounds;
  for (const TimedSample& sample : InOrder(capture)) {
    if (rounds.empty() || rounds.back().contains(*sample.id)) rounds.emplace_back();
    rounds.back()[*sample.id] = sample.log_time;
  }
  return rounds;
}

// Whether at least half of the rounds hold all variants. Without start times the order is unknown.
bool InRounds(const Measurements& capture, const std::vector<Round>& rounds) {
  std::set<std::string_view> variants;
  for (const Round& round : rounds) {
    for (const auto& [id, ignored] : round) variants.insert(id);
  }
  const bool has_start_times = std::ranges::any_of(capture.series, [](const Series& series) {
    return std::ranges::any_of(
        series.samples, [](int64_t start_ps) { return start_ps != 0; }, &Sampled::start_ps);
  });
  const auto whole = std::ranges::count(rounds, variants.size(), &Round::size);
  return has_start_times && !rounds.empty() && 2 * static_cast<size_t>(whole) >= rounds.size();
}

// The logarithms of the runs that count, by variant.
std::map<std::string, std::vector<double>> LogsOf(const Measurements& capture) {
  std::map<std::string, std::vector<double>> logs;
  for (const TimedSample& sample : InOrder(capture)) {
    if (!std::isnan(sample.log_time)) logs[*sample.id].push_back(sample.log_time);
  }
  return logs;
}

// The centre of values in several captures, and its two variances: from the scatter between the
// captures' centres, and from the scatter within captures. Each capture has the same weight,
// however many values it has.
struct Scatter {
  double centre = 0;
  size_t captures = 0;
  double between = 0, within = 0;  // variances of a capture's centre
  double between_df = 0, within_df = 0;

  // Whether the captures differ by no more than their values explain.
  bool Agrees() const {
    return within_df > 0 && within > 0 &&
           FisherTail(between / within, between_df, within_df) > kPoolingLevel;
  }
};

// Outliers are clamped within each capture. Across captures, clamping would hide a minority of
// captures that contradict the others.
Scatter ScatterByCapture(const Units& units, const std::vector<double>& values,
                         const std::vector<uint32_t>& capture) {
  std::vector<std::vector<double>> groups;  // the values are in the order of the captures
  for (size_t i = 0; i < values.size(); ++i) {
    if (i == 0 || capture[i] != capture[i - 1]) groups.emplace_back();
    groups.back().push_back(values[i]);
  }
  std::vector<double> centres;
  Scatter out;
  double squares = 0, shares = 0;
  for (std::vector<double>& group : groups) {
    const double n = static_cast<double>(group.size());
    const Centre own = units.CentreOf(std::move(group));
    centres.push_back(own.value);
    squares += own.df * own.variance * n;
    out.within_df += own.df;
    shares += 1 / n;
  }
  const double k = static_cast<double>(centres.size());
  out.centre = Mean(centres);
  out.captures = centres.size();
  out.between = Variance(centres);
  out.between_df = k - 1;
  if (out.within_df > 0) out.within = squares / out.within_df * shares / k;
  return out;
}

// The factor of the standard error from rounds if a test with `df` finds that captures agree. With
// few captures, the test overlooks scatter that is large enough to prove a wrong winner. With these
// factors, it does so with a probability of at most 1 %, whatever the scatter is (pick_test.cc).
double FindAllowance(double df) {
  constexpr double kAllowances[] = {6, 1.8, 1.35, 1.15, 1.1};  // for 1, 2, ... degrees of freedom
  const auto at = static_cast<size_t>(std::max(df, 1.0)) - 1;
  return at < std::size(kAllowances) ? kAllowances[at] : 1;
}

Difference OfRounds(const Units& units, const PooledSpread& spread,
                    const std::vector<double>& values, const std::vector<uint32_t>& capture) {
  const Scatter scatter = ScatterByCapture(units, values, capture);
  const double k = static_cast<double>(scatter.captures);
  Difference out = {.estimate = scatter.centre,
                    .standard_error = std::sqrt(scatter.within / k),
                    .df = scatter.within_df,
                    .units = values.size(),
                    .captures = scatter.captures};
  const bool is_sole = scatter.captures == 1;
  if (is_sole && (spread.agrees || !(spread.df > 0))) return out;
  const double between_df =
      std::clamp(spread.df, scatter.between_df, kMaxPooling * std::max(scatter.between_df, 1.0));
  if (spread.agrees && scatter.Agrees()) {
    out.standard_error *= FindAllowance(between_df);
    return out;
  }
  const double between = std::max(scatter.between, spread.between);
  out.standard_error = std::max(out.standard_error, std::sqrt(between / k));
  out.df = between_df;
  out.captures_differ = true;
  return out;
}

// The scatter between captures over all variants that ran in every capture, from the rounds that
// hold all of these. Each value is taken relative to the mean of its round, as a variant's own
// scatter around this mean has half of the variance of a difference of two variants.
PooledSpread PoolSpread(const Units& units) {
  std::set<uint32_t> captures(units.capture.begin(), units.capture.end());
  std::vector<const std::vector<double>*> variants;
  for (const auto& [id, logs] : units.log_time) {
    std::set<uint32_t> ran;
    for (size_t i = 0; i < logs.size(); ++i) {
      if (!std::isnan(logs[i])) ran.insert(units.capture[i]);
    }
    if (ran.size() == captures.size()) variants.push_back(&logs);
  }
  std::vector<size_t> whole;  // rounds
  std::vector<uint32_t> capture;
  for (size_t i = 0; i < units.size(); ++i) {
    const bool is_whole =
        std::ranges::none_of(variants, [i](const auto* logs) { return std::isnan((*logs)[i]); });
    if (!is_whole) continue;
    whole.push_back(i);
    capture.push_back(units.capture[i]);
  }
  const std::set<uint32_t> with_whole(capture.begin(), capture.end());
  if (variants.size() < 2 || with_whole.size() < 2) return {};
  std::vector<double> means(whole.size());  // by round
  for (const auto* logs : variants) {
    for (size_t i = 0; i < whole.size(); ++i) {
      means[i] += (*logs)[whole[i]] / static_cast<double>(variants.size());
    }
  }
  Scatter sum;  // of squares
  for (const auto* logs : variants) {
    std::vector<double> values(whole.size());
    for (size_t i = 0; i < whole.size(); ++i) values[i] = (*logs)[whole[i]] - means[i];
    const Scatter own = ScatterByCapture(units, values, capture);
    sum.between += own.between * own.between_df;
    sum.between_df += own.between_df;
    sum.within += own.within * own.within_df;
    sum.within_df += own.within_df;
  }
  // The values of a round sum to 0, so one variant's share of the degrees of freedom is lost.
  const double count = static_cast<double>(variants.size()), free = (count - 1) / count;
  sum.between_df *= free;
  sum.within_df *= free;
  sum.between *= 2 / sum.between_df;
  if (sum.within_df > 0) sum.within *= 2 / sum.within_df;
  return {.between = sum.between, .df = sum.between_df, .agrees = sum.Agrees()};
}

Centre FindTypical(const Units& units, const std::vector<double>& logs) {
  std::vector<double> values;
  std::vector<uint32_t> capture;
  for (size_t i = 0; i < logs.size(); ++i) {
    if (std::isnan(logs[i])) continue;
    values.push_back(logs[i]);
    capture.push_back(units.capture[i]);
  }
  if (units.in_rounds) {
    const Difference typical = OfRounds(units, PooledSpread(), values, capture);
    return {typical.estimate, typical.standard_error * typical.standard_error, typical.df};
  }
  const double n = static_cast<double>(values.size());
  return {Mean(values), Variance(values) / n, n - 1};
}

void FillSteps(std::span<const Measurements> captures, Units* units) {
  const ClockSteps steps_ps = FindClockSteps(captures);
  for (const Measurements& capture : captures) {
    for (const Series& series : capture.series) {
      if (!series.variant_id.has_value() || series.samples.empty()) continue;
      double& step_ps = units->step_ps[*series.variant_id];
      step_ps = std::max(step_ps, steps_ps.at(ClockOf(series)));
    }
  }
}

Difference OfCaptures(const std::vector<double>& differences, const std::vector<Centre>& within,
                      double drift_std, bool stated) {
  const double n = static_cast<double>(differences.size());
  const auto [sum, weighted] = WithinOf(within);
  const double inside = stated ? StatedVariance(within) : sum;
  Difference out;
  out.estimate = Mean(differences);
  out.units = out.captures = differences.size();
  if (differences.size() == 1) {
    const double variance = drift_std * drift_std + inside;
    out.standard_error = std::sqrt(variance);
    // A single run shows no scatter.
    const bool known = std::ranges::all_of(
        within, [](double df) { return df > 0; }, &Centre::df);
    out.df = !known ? 0 : stated ? kStatedDf : SatterthwaiteDf(variance, weighted);
    return out;
  }
  out.standard_error = stated ? std::sqrt(Variance(differences) / n + inside)
                              : std::sqrt(std::max(Variance(differences), inside / n) / n);
  out.df = stated ? std::min(n - 1, kStatedDf) : n - 1;
  return out;
}

// Turns a standard normal `deviate` into one of Student's t, with the help of a second one (Bailey
// 1994). The map is monotone in the radius of both.
double StudentDeviate(double deviate, double second, double df) {
  const double square = deviate * deviate + second * second;
  if (square == 0 || std::isinf(df)) return deviate;
  return deviate * std::sqrt(df * std::expm1(square / df) / square);
}

}  // namespace

Difference UnpairedDifference(std::span<const Centre> base, std::span<const Centre> head,
                              std::optional<double> offset_std) {
  const SideMoments b = MomentsOf(base), h = MomentsOf(head);
  const double shares = 1 / b.k + 1 / h.k;
  const double free = b.k + h.k - 2;
  Difference out;
  out.estimate = h.mean - b.mean;
  double variance = 0;
  if (free > 0) {
    const double pooled = ((b.k - 1) * b.between + (h.k - 1) * h.between) / free * shares;
    variance = pooled;
    out.df = free;
    if (b.k > 1 && h.k > 1) {
      const double vb = b.between / b.k, vh = h.between / h.k, welch = vb + vh;
      if (welch > 0) {
        const double df = welch * welch / (vb * vb / (b.k - 1) + vh * vh / (h.k - 1));
        out.df = std::min(free, df);
      }
      variance = std::max(pooled, welch);
    }
  }
  if (offset_std.has_value()) {
    const double wb = b.within / b.k, wh = h.within / h.k;
    const double known = *offset_std * *offset_std * shares + wb + wh;
    variance = std::max(variance, known);
    out.df = SatterthwaiteDf(known, wb * wb / b.within_df + wh * wh / h.within_df);
  }
  out.standard_error = std::sqrt(variance);
  out.spread = std::sqrt(out.df > 0 ? variance / shares : (b.within + h.within) / 2);
  return out;
}

Difference PairedDifference(std::span<const Centre> base, std::span<const Centre> head,
                            std::optional<double> offset_std) {
  std::vector<Centre> pairs(base.size());
  for (size_t i = 0; i < base.size(); ++i) {
    pairs[i] = {head[i].value - base[i].value, head[i].variance + base[i].variance,
                std::min(head[i].df, base[i].df)};
  }
  const SideMoments moments = MomentsOf(pairs);
  Difference out;
  out.estimate = moments.mean;
  double variance = moments.k > 1 ? moments.between : 0;
  out.df = moments.k - 1;
  if (offset_std.has_value()) {
    const double known = 2 * *offset_std * *offset_std + moments.within, w = moments.within;
    variance = std::max(variance, known);
    out.df = SatterthwaiteDf(known, w * w / moments.within_df);
  }
  out.standard_error = std::sqrt(variance / moments.k);
  out.spread = std::sqrt((out.df > 0 ? variance : moments.within) / 2);
  return out;
}

bool NaturalLess::operator()(const std::string& a, const std::string& b) const {
  const auto key = [](const std::string& id) {
    const bool is_number =
        !id.empty() && id.size() < 19 && id.find_first_not_of("0123456789") == id.npos;
    return std::tuple(!is_number, is_number ? std::stoull(id) : 0, std::string_view(id));
  };
  return key(a) < key(b);
}

std::vector<double> Units::Present(const std::string& id) const {
  std::vector<double> logs = log_time.at(id);
  std::erase_if(logs, [](double value) { return std::isnan(value); });
  return logs;
}

Centre Units::CentreOf(std::vector<double> values) const {
  if (robust) return HuberCentre(std::move(values));
  const double n = static_cast<double>(values.size());
  return {Mean(values), Variance(values) / n, n - 1};
}

size_t WildRuns(std::span<const Measurements> captures) {
  size_t wild = 0;
  for (const Measurements& capture : captures) {
    for (const auto& [ignored, logs] : LogsOf(capture)) {
      const double centre = HuberCentre(logs).value;
      const double reach =
          stats::OutlierReach(static_cast<double>(logs.size())) * stats::RobustSd(logs, centre);
      wild += logs.size() - stats::MeanWithin(logs, centre, reach).kept;
    }
  }
  return wild;
}

Units MakeUnits(std::span<const Measurements> captures, bool robust) {
  std::vector<std::vector<Round>> rounds;
  Units units;
  units.in_rounds = true;
  units.robust = robust;
  for (const Measurements& capture : captures) {
    rounds.push_back(RoundsOf(capture));
    units.in_rounds &= InRounds(capture, rounds.back());
  }
  std::vector<Round> values;  // by unit
  for (size_t i = 0; i < captures.size(); ++i) {
    if (units.in_rounds) {
      for (Round& round : rounds[i]) {
        std::erase_if(round, [](const auto& each) { return std::isnan(each.second); });
        if (!round.empty()) values.push_back(std::move(round));
      }
    } else {
      Round& centres = values.emplace_back();
      for (auto& [id, logs] : LogsOf(captures[i])) {
        const Centre centre = units.CentreOf(std::move(logs));
        centres[id] = centre.value;
        units.within.try_emplace(id, captures.size()).first->second[i] = centre;
      }
      for (const Series& series : captures[i].series) {
        if (!series.log_error.has_value() || !series.variant_id.has_value()) continue;
        Centre& centre = units.within.at(*series.variant_id)[i];
        centre.variance = *series.log_error * *series.log_error;
        centre.df = kStatedDf;
        units.stated = true;
      }
    }
    units.capture.resize(values.size(), static_cast<uint32_t>(i));
  }
  for (size_t i = 0; i < values.size(); ++i) {
    for (const auto& [id, log_time] : values[i]) {
      units.log_time.try_emplace(id, values.size(), kMissing).first->second[i] = log_time;
    }
  }
  if (units.in_rounds) units.spread = PoolSpread(units);
  for (const auto& [id, logs] : units.log_time) units.typical[id] = FindTypical(units, logs);
  if (!units.stated) FillSteps(captures, &units);
  return units;
}

Difference DifferenceOf(const Units& units, const std::string& a, const std::string& b,
                        double drift_std) {
  const std::vector<double>&first = units.log_time.at(a), &second = units.log_time.at(b);
  std::vector<double> differences;
  std::vector<uint32_t> capture;
  std::vector<Centre> within;
  for (size_t i = 0; i < units.size(); ++i) {
    if (std::isnan(first[i]) || std::isnan(second[i])) continue;
    differences.push_back(second[i] - first[i]);
    capture.push_back(units.capture[i]);
    if (units.in_rounds) continue;
    within.push_back(units.within.at(a)[i]);
    within.push_back(units.within.at(b)[i]);
  }
  if (differences.empty()) return {};
  Difference out = units.in_rounds ? OfRounds(units, units.spread, differences, capture)
                                   : OfCaptures(differences, within, drift_std, units.stated);
  if (units.step_ps.empty()) return out;
  const double step_ps = std::max(units.step_ps.at(a), units.step_ps.at(b));
  if (step_ps == 0) return out;
  const double log_time = (units.typical.at(a).value + units.typical.at(b).value) / 2;
  out.resolution = FindResolution(step_ps, log_time);
  out.standard_error = std::hypot(out.standard_error, out.resolution);
  return out;
}

std::map<std::string, double> ProbabilityOfBest(const Units& units, const std::string& leader,
                                                double drift_std, uint32_t replicates,
                                                uint64_t seed) {
  // A variant that is faster than the leader with a lower probability wins no replicate.
  constexpr double kLeastTail = 1e-8;
  struct Contender {
    const std::string* id;
    Difference difference;  // log of the variant - log of the leader
    double wins = 0;
  };
  std::map<std::string, double> shares;
  std::vector<Contender> contenders;
  for (const auto& [id, ignored] : units.log_time) {
    shares[id] = 0;
    if (id == leader) continue;
    const Difference d = DifferenceOf(units, leader, id, drift_std);
    if (!(d.df > 0)) return {};
    const bool is_behind =
        d.estimate > 0 &&
        !(d.standard_error > 0 && StudentTail(d.estimate / d.standard_error, d.df) > kLeastTail);
    if (!is_behind) contenders.push_back({&id, d});
  }
  stats::MersenneRandom random(seed);
  double wins_of_leader = 0;
  for (uint32_t replicate = 0; replicate < replicates; ++replicate) {
    const double of_leader = random.Normal();
    double* wins = &wins_of_leader;
    double least = 0;
    for (Contender& one : contenders) {
      const double deviate = (random.Normal() - of_leader) / std::numbers::sqrt2;
      const Difference& d = one.difference;
      const double value =
          d.estimate + d.standard_error * StudentDeviate(deviate, random.Normal(), d.df);
      if (value >= least) continue;
      least = value;
      wins = &one.wins;
    }
    *wins += 1;
  }
  for (const Contender& one : contenders) shares[*one.id] = one.wins / replicates;
  shares[leader] = wins_of_leader / replicates;
  return shares;
}

}  // namespace xplane_time::compare
