// Attributes the energy of one device to its kernels.
//
// 1. Clock. If the polls are on the capture's axis, FitPowers fits powers and lag at once.
//    Otherwise FitWithoutClock proposes offsets (alignment.h), fits at each of them and keeps the
//    best. If a second place explains the readings about as well, the clock is ambiguous and there
//    are no numbers.
// 2. Sums (SumUp): measured, active and idle energy over the time that the windows stand for. The
//    windows of a counter cover it without gaps. A power reading also stands for the time since the
//    reading before it, up to two periods.
// 3. Energies (FillEnergies, energies.h): power times busy time of each kernel, for the whole
//    capture, or only for the span of the windows if much ran outside of it. Balance then makes
//    measured = active + idle + residual.
// 4. Checks (PoorFit): the residuals of a good fit are independent and as large as the sensor's
//    noise. Residuals that follow each other belong to a load that the trace does not contain.
//    Residuals far above the noise point to clocks that drift. If the kernels have no measurable
//    power, the log belongs to another device. Windows at the power limit and their neighbours are
//    excluded, because the device changes its clocks there.
//
// The cost is that of the fit: O(windows x kernels^2) for each step.
#include "energy/attribution.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>

#include "energy/alignment.h"
#include "stats/distributions.h"
#include "stats/order_statistics.h"
#include "status.h"

namespace xplane_time::energy {
namespace {

using Eigen::ArrayX;
using Eigen::ArrayXd;
using Eigen::Index;
using Eigen::VectorXd;

// The range of a sensor's own lag. A lag beyond it is an offset of the clocks.
constexpr double kLeastLagS = -0.02, kMostLagS = 0.3;
// How far the clocks of a log and of a trace may be apart. Counters in a trace have its clock.
constexpr double kClockSlackS = 0.48;
// Two positions of a log fit alike if their squared residuals differ by less than this factor, or
// if one explains this share of the other's log likelihood.
constexpr double kAlike = 1.2, kExplainsAlike = 0.7, kExplainsSome = 0.1;
// With fewer windows beyond the columns, neither the powers nor their uncertainty is known.
constexpr double kLeastDegrees = 6;
constexpr double kLeastWindowLengths = 10;  // windows that overlap must span this many window
                                            // lengths
constexpr double kMomentaryS = 0.025;
constexpr double kAloneBlockS = 1;  // a kernel that runs alone for this long is measured directly
// A kernel is alone in a window if other kernels take at most this share of the window's length.
constexpr double kAlone = 0.01;

bool IsTrack(const PowerChannel& channel) { return channel.source == "trace"; }

Sensor MakeSensor(const PowerChannel& channel, std::span<const Poll> polls) {
  const PollSource source = IsTrack(channel) ? PollSource::kTrack : PollSource::kRecorder;
  Sensor sensor = {.kind = channel.kind,
                   .publications = FindPublications(polls, channel.kind, source)};
  if (channel.prior_window_ns.has_value()) {
    sensor.prior_window_s = static_cast<double>(*channel.prior_window_ns) / 1e9;
  }
  return sensor;
}

// The least lag of a sensor whose clock is right: it cannot show power before it is drawn. Its
// publications are known to a bracket.
double LeastLagS(const Publications& publications) {
  std::vector<double> widths_s = {0};
  for (const Update& each : publications.updates) widths_s.push_back(each.high_s - each.low_s);
  return kLeastLagS - stats::Median(widths_s);
}

void Shift(double by_s, std::vector<Poll>* polls) {
  for (Poll& poll : *polls) {
    poll.before_s += by_s;
    poll.after_s += by_s;
    if (poll.sampled_s.has_value()) *poll.sampled_s += by_s;
  }
}

void Fail(std::string_view reason, std::string message, Attribution* found) {
  found->reason = reason;
  found->message = std::move(message);
}

// Averages that are published before their window has ended do so; they share noise.
bool WindowsOverlap(const Fit& fit) { return fit.window_s > 1.5 * fit.grid.period_s; }

double SquareNoise(const Fit& fit) {
  return fit.relative_noise * fit.relative_noise * static_cast<double>(fit.residual_j.size()) /
         fit.degrees;
}

// How well a fit explains the changes of the power, as a log likelihood. A share alone would not
// do: if the log barely overlaps the capture, many columns explain few windows well.
double Explained(const Fit& fit) {
  const ArrayXd power_w = fit.energy_j.array() / (fit.to_s - fit.from_s).array();
  const double mean_w = power_w.mean();
  const double all = (power_w - mean_w).square().mean() / (mean_w * mean_w);
  return static_cast<double>(power_w.size()) / 2 * std::log(all / SquareNoise(fit));
}

// Fits at each likely position of the log. Moves the polls to the best position.
std::optional<Fit> FitWithoutClock(const PowerChannel& channel, std::span<const BusyCurve> kernels,
                                   double capture_s, int threads, std::vector<Poll>* polls,
                                   Attribution* found) {
  constexpr size_t kMostPlaces = 5;
  constexpr LagRange kAround = {-0.15, 0.15};
  const std::vector<double> offsets_s =
      LikelyOffsetsS(MakeSensor(channel, *polls), UnionOf(kernels), capture_s, kMostPlaces);
  struct Place {
    double offset_s = 0;
    Fit fit;
    double explained = 0;
    // Start of the capture on the log's axis. Offsets near each other lead to the same place.
    double StartS() const { return offset_s - fit.lag_s; }
  };
  std::vector<Place> places;
  for (const double offset_s : offsets_s) {
    std::vector<Poll> moved = *polls;
    Shift(offset_s, &moved);
    std::optional<Fit> fit =
        FitPowers(MakeSensor(channel, moved), kernels, capture_s, kAround, threads);
    if (!fit.has_value() || fit->degrees < kLeastDegrees) continue;
    const double explained = Explained(*fit);
    places.push_back({offset_s, *std::move(fit), explained});
  }
  if (places.empty()) return std::nullopt;
  Place& best = *std::ranges::max_element(places, {}, &Place::explained);
  const bool has_rival = std::ranges::any_of(places, [&](const Place& place) {
    return std::abs(place.StartS() - best.StartS()) > 2 * best.fit.grid.period_s &&
           (place.explained > kExplainsAlike * best.explained ||
            // If nothing ran there, there is little to explain, and little remains unexplained.
            (SquareNoise(place.fit) < kAlike * SquareNoise(best.fit) &&
             place.explained > kExplainsSome * best.explained));
  });
  found->clock = has_rival ? EnergyClock::kAmbiguous : EnergyClock::kEstimated;
  Shift(best.offset_s, polls);
  return std::move(best.fit);
}

// The time that each window stands for. The windows of a counter are adjacent. A power reading also
// stands for the unobserved time before it, up to two periods in all.
ArrayXd RepresentedS(const Fit& fit, bool is_counter) {
  ArrayXd length_s = (fit.to_s - fit.from_s).array();
  if (is_counter) return length_s;
  ArrayXd represented_s = length_s;
  for (Index n = 0; n < length_s.size(); ++n) {
    const double since_s = n == 0 ? fit.grid.period_s : fit.to_s[n] - fit.to_s[n - 1];
    represented_s[n] = std::min(since_s, 2 * fit.grid.period_s);
  }
  return represented_s;
}

// The device's sums over the time that the windows stand for.
void SumUp(bool is_counter, double capture_s, Attribution* found) {
  const Fit& fit = found->fit;
  const ArrayXd represented_s = RepresentedS(fit, is_counter);
  const ArrayXd scale = represented_s / (fit.to_s - fit.from_s).array();
  const VectorXd active_j = fit.busy_s * fit.power_w.head(fit.busy_s.cols());
  found->covered_s = represented_s.sum();
  found->from_s = fit.from_s.minCoeff();
  found->to_s = fit.to_s.maxCoeff();
  found->measured_j = (scale * fit.energy_j.array()).sum();
  found->active_j = (scale * active_j.array()).sum();
  VectorXd idle_s = VectorXd::Zero(fit.power_w.size());  // seconds, weighted by the idle terms
  for (Index n = 0; n < scale.size(); ++n) {
    idle_s += represented_s[n] * fit.IdleTerms((fit.from_s[n] + fit.to_s[n]) / 2, capture_s);
  }
  found->idle_j = idle_s.dot(fit.power_w);
  found->idle_half_width_j = stats::StudentQuantile(0.025, fit.degrees) *
                             std::sqrt(std::max(0.0, idle_s.dot(fit.covariance * idle_s)));
  found->residual_share =
      (scale * fit.residual_j.array().abs()).sum() / std::max(1e-300, found->measured_j);
}

// The executions in the time from the first window to the last.
std::vector<BusyCurve> Clipped(std::span<const BusyCurve> kernels, double from_s, double to_s) {
  const auto from_ps = std::llround(from_s * kPsPerS), to_ps = std::llround(to_s * kPsPerS);
  std::vector<BusyCurve> clipped;
  for (const BusyCurve& kernel : kernels) {
    std::vector<Interval> inside;
    for (const Interval& each : kernel.intervals()) {
      const Interval part = {std::max<int64_t>(each.start_ps, from_ps),
                             std::min<int64_t>(each.end_ps, to_ps)};
      if (part.start_ps < part.end_ps) inside.push_back(part);
    }
    clipped.emplace_back(std::move(inside));
  }
  return clipped;
}

// Energies of the whole capture or, if more than 5 % of the running time lies outside the span of
// the windows, of that span.
void FillEnergies(std::span<const BusyCurve> kernels, double capture_s, int threads,
                  Attribution* found) {
  constexpr double kMostOutside = 0.05;
  const auto total_s = [](std::span<const BusyCurve> curves) {
    VectorXd total(static_cast<Index>(curves.size()));
    for (size_t k = 0; k < curves.size(); ++k) total[static_cast<Index>(k)] = curves[k].total_s();
    return total;
  };
  const std::array edges_s = {found->from_s, found->to_s};
  double inside_s = 0;
  for (const BusyCurve& kernel : kernels) {
    const std::vector<double> before_s = kernel.At(edges_s);
    inside_s += before_s[1] - before_s[0];
  }
  std::vector<BusyCurve> clipped;
  found->busy_s = total_s(kernels);
  found->known_to_s = capture_s;
  if (inside_s < (1 - kMostOutside) * found->busy_s.sum()) {
    clipped = Clipped(kernels, found->from_s, found->to_s);
    found->known_from_s = found->from_s, found->known_to_s = found->to_s;
    kernels = clipped;
    found->busy_s = total_s(kernels);
  }
  found->energies = EnergiesOf(found->fit, kernels, capture_s, threads);
  found->known = Resolve(found->energies);
}

// The active energy becomes that of all executions, also those that no window covers. The residual
// takes the difference.
void Balance(Attribution* found) {
  const Energies& energies = found->energies;
  const VectorXd ones = VectorXd::Ones(energies.active_j.size());
  found->unseen_j =
      energies.active_j.sum() - std::exchange(found->active_j, energies.active_j.sum());
  found->active_half_width_j =
      energies.quantile * std::sqrt(std::max(0.0, ones.dot(energies.active_covariance * ones)));
  found->residual_j = found->measured_j - found->active_j - found->idle_j;
  // If idle and active energy cannot be separated, keep both within [0, measured].
  found->idle_j = std::clamp(found->idle_j, 0.0, std::max(0.0, found->measured_j));
  found->active_j = found->measured_j - found->residual_j - found->idle_j;
}

// Counts the windows in which each kernel ran. A kernel is measured if most of its time lies in
// series of adjacent windows of a second or more in which no other kernel ran.
void CountWindows(Attribution* found) {
  const Fit& fit = found->fit;
  const ArrayXd length_s = (fit.to_s - fit.from_s).array();
  const ArrayXd all_s = fit.busy_s.rowwise().sum().array();
  for (Index k = 0; k < fit.busy_s.cols(); ++k) {
    const ArrayXd own_s = fit.busy_s.col(k).array();
    found->windows.push_back(static_cast<uint64_t>((own_s > 0).count()));
    double alone_s = 0;
    for (Index n = 0; n < own_s.size();) {
      Index end = n;
      double block_s = 0;
      while (end < own_s.size() && own_s[end] > 0.5 * length_s[end] &&
             all_s[end] - own_s[end] < kAlone * length_s[end]) {
        block_s += own_s[end++];
      }
      if (end > n && fit.to_s[end - 1] - fit.from_s[n] >= 0.8 * kAloneBlockS) alone_s += block_s;
      n = end + 1;
    }
    found->measured.push_back(alone_s > 0.5 * own_s.sum());
  }
}

// Marks the windows whose mean power is close to the limit or above it. The power may exceed the
// limit until the clocks are low enough. Marks no window if windows overlap, if the limit is
// unknown, or if even idle windows reach it.
ArrayX<bool> AreAtLimit(const Fit& fit, std::optional<double> limit_w) {
  constexpr double kNearly = 0.97;
  ArrayX<bool> none = ArrayX<bool>::Constant(fit.energy_j.size(), false);
  if (!limit_w.has_value() || WindowsOverlap(fit)) return none;
  const ArrayXd length_s = (fit.to_s - fit.from_s).array();
  ArrayX<bool> at_limit = fit.energy_j.array() > kNearly * *limit_w * length_s;
  const bool also_idle = (at_limit && fit.busy_s.rowwise().sum().array() <= 0).any();
  return also_idle ? none : at_limit;
}

// Selects the windows that judge the fit: those that are neither at the limit nor near a window at
// the limit. Near the limit the device changes its clocks, and a kernel has more than one power.
ArrayX<bool> AreJudged(const ArrayX<bool>& at_limit) {
  constexpr Index kNextTo = 2;
  ArrayX<bool> judged = !at_limit;
  for (Index n = 0; n < at_limit.size(); ++n) {
    const Index from = std::max<Index>(0, n - kNextTo);
    const Index to = std::min<Index>(at_limit.size(), n + kNextTo + 1);
    if (at_limit[n]) judged.segment(from, to - from) = false;
  }
  return judged;
}

// Autocorrelation of the residuals at the given lag; 0 if they are independent.
double Autocorrelation(const VectorXd& residuals, Index lag) {
  const Index n = residuals.size() - lag;
  return residuals.head(n).dot(residuals.tail(n)) / residuals.squaredNorm();
}

// True if residuals follow each other: at lag 1 or, if a load is in step with the sensor, at lags 2
// to
// 5. Overlapping windows share noise, so for them only a positive correlation at lag 1 counts.
//    Early and late publications cause a correlation of -1/2 at lag 1, not less. If polls are about
//    as rare as publications, errors of the instants drift slowly, and some correlation is allowed.
bool FollowsALoad(const Fit& fit, const ArrayX<bool>& judged, double poll_s) {
  constexpr double kMostStandardDeviations = 5, kLeast = -0.6, kMostOfSeldom = 0.35;
  constexpr Index kMostLag = 5;
  const VectorXd whitened = judged.select(fit.whitened.array(), 0.0).matrix();
  const Index n = judged.count();
  const double sd = 1 / std::sqrt(static_cast<double>(n));
  const bool overlap = WindowsOverlap(fit);
  const double most = std::max(kMostStandardDeviations * sd,
                               poll_s > 0.9 * fit.grid.period_s ? kMostOfSeldom : 0.0);
  for (Index lag = 1; lag <= (overlap ? 1 : kMostLag) && 4 * lag < n; ++lag) {
    if (Autocorrelation(whitened, lag) > most) return true;
  }
  return !overlap && Autocorrelation(whitened, 1) < kLeast - 2 * sd;
}

// The sensor's noise as a share of a window, from the differences of adjacent idle windows. Empty
// if there are too few of them.
std::optional<double> IdleNoise(const Fit& fit) {
  constexpr size_t kLeastIdle = 8;
  // median of the absolute difference of two normal values
  constexpr double kOfNormal = 0.6745 * std::numbers::sqrt2;
  if (WindowsOverlap(fit)) return std::nullopt;
  const ArrayXd length_s = (fit.to_s - fit.from_s).array();
  const ArrayXd power_w = fit.energy_j.array() / length_s;
  const ArrayXd busy = fit.busy_s.rowwise().sum().array() / length_s;
  std::vector<double> differ;
  for (Index n = 1; n < power_w.size(); ++n) {
    if (busy[n] > 0 || busy[n - 1] > 0 || power_w[n - 1] <= 0) continue;
    differ.push_back(std::abs(power_w[n] - power_w[n - 1]) / power_w[n - 1]);
  }
  if (differ.size() < kLeastIdle) return std::nullopt;
  return stats::Median(differ) / kOfNormal;
}

// True if the residuals are negligible, except those of a few windows: an edge of a constant power
// that the fitted instants miss by some milliseconds.
bool IsExactButForEdges(const Attribution& found) {
  constexpr double kMostShare = 0.002, kFew = 8;
  const ArrayXd square = found.fit.residual_j.array().square();
  const double windows = std::pow(square.sum(), 2) / std::max(1e-300, square.square().sum());
  return found.residual_share < kMostShare && windows < kFew;
}

// The rms residual of the judged windows, as a share of the mean window.
double ComputeRmsNoise(const Fit& fit, const ArrayX<bool>& judged) {
  const double square_j = judged.select(fit.residual_j.array().square(), 0.0).sum() /
                          static_cast<double>(judged.count());
  const double windows = static_cast<double>(judged.size());
  return std::sqrt(square_j * windows / fit.degrees) / fit.energy_j.mean();
}

// Explains why the kernels do not explain the power; empty if they do.
std::string_view PoorFit(const Attribution& found, std::span<const Poll> polls,
                         const ArrayX<bool>& at_limit) {
  constexpr double kMostNoise = 5, kLeastNoise = 0.05;
  // Near windows at the limit, the fit is slightly wrong in all other windows too, so their
  // residuals follow each other. That is ignored up to this noise.
  constexpr double kLeastLoad = 0.02;
  constexpr double kRounding = 1e-4;  // such residuals are only rounding errors of the readings
  constexpr Index kLeastJudged = 20;
  const Fit& fit = found.fit;
  const double poll_s =
      (polls.back().before_s - polls.front().before_s) / static_cast<double>(polls.size());
  const ArrayX<bool> judged = AreJudged(at_limit);
  const bool enough = judged.count() >= std::min(kLeastJudged, judged.size());
  const double noise = ComputeRmsNoise(fit, judged);
  const bool matters = noise > (judged.all() ? kRounding : kLeastLoad) && (judged.all() || enough);
  if (matters && !IsExactButForEdges(found) && FollowsALoad(fit, judged, poll_s)) {
    return "the unexplained power follows a load that did not run in this trace; did something "
           "else run on the device?";
  }
  const std::optional<double> idle_noise = IdleNoise(fit);
  if (enough && idle_noise.has_value() && noise > std::max(kLeastNoise, kMostNoise * *idle_noise)) {
    return "the power varies far more than the executions and the noise of the sensor explain; do "
           "the clocks of log and trace agree?";
  }
  const VectorXd ones = VectorXd::Ones(found.energies.active_j.size());
  const double active_j = found.energies.active_j.sum();
  const double half_j = found.energies.quantile *
                        std::sqrt(std::max(0.0, ones.dot(found.energies.active_covariance * ones)));
  if (active_j < 2 * half_j && half_j < 0.1 * found.energies.idle_j) {
    return "the device did not draw more power when kernels ran; does the log belong to another "
           "device?";
  }
  return "";
}

// A quick check before the fit, which takes long for thousands of kernels: whatever the lag, fewer
// updates lie in the capture than the fit has columns.
bool HasFewUpdates(const Sensor& sensor, size_t kernels, double capture_s, const LagRange& lags) {
  const auto near = std::ranges::count_if(sensor.publications.updates, [&](const Update& each) {
    return each.high_s >= lags.from_s && each.low_s <= capture_s + lags.to_s;
  });
  return static_cast<double>(near) < static_cast<double>(kernels) + 1 + kLeastDegrees;
}

bool HasFewWindows(const Fit& fit) {
  const double lengths = (fit.to_s[fit.to_s.size() - 1] - fit.from_s[0]) / fit.window_s;
  return fit.degrees < kLeastDegrees || (WindowsOverlap(fit) && lengths < kLeastWindowLengths);
}

}  // namespace

Attribution Attribute(const PowerChannel& channel, std::vector<Poll> polls,
                      std::span<const BusyCurve> kernels, double capture_s,
                      const AttributionOptions& options) {
  const auto [clock_known, limit_w, threads] = options;
  Attribution found;
  std::optional<Fit> fit;
  double least_lag_s = 0;
  if (clock_known) {
    if (polls.empty() || polls.back().after_s < 0 || polls.front().before_s > capture_s) {
      Fail("no_overlap", "the log and the trace do not overlap in time", &found);
      return found;
    }
    Sensor sensor = MakeSensor(channel, polls);
    least_lag_s = LeastLagS(sensor.publications);
    LagRange lags;
    lags.from_s = least_lag_s - (IsTrack(channel) ? 0 : kClockSlackS);
    if (!HasFewUpdates(sensor, kernels.size(), capture_s, lags)) {
      fit = FitPowers(std::move(sensor), kernels, capture_s, lags, threads);
    }
  } else {
    fit = FitWithoutClock(channel, kernels, capture_s, threads, &polls, &found);
  }
  if (!fit.has_value() || HasFewWindows(*fit)) {
    Fail("few_windows",
         "the capture contains too few updates of the sensor for so many kernels; record longer: "
         "at least 20 updates, more updates than kernels, and ten times the sensor's window",
         &found);
    return found;
  }
  if (found.clock == EnergyClock::kAmbiguous) {
    Fail("clock_ambiguous",
         "the trace has no start time, and the log matches it at several places; record with a "
         "profiler that writes the start, or let the load start and end within the capture",
         &found);
    return found;
  }
  if (clock_known && (fit->lag_s < kLeastLagS || fit->lag_s > kMostLagS)) {
    found.clock = EnergyClock::kEstimated;
  }
  found.fit = *std::move(fit);
  SumUp(channel.kind == ReadingKind::kCumulative, capture_s, &found);
  FillEnergies(kernels, capture_s, threads, &found);
  Balance(&found);
  CountWindows(&found);
  const ArrayX<bool> at_limit = AreAtLimit(found.fit, limit_w);
  found.windows_at_limit = static_cast<size_t>(at_limit.count());
  found.poor_fit = PoorFit(found, polls, at_limit);
  // The window of a momentary power may be any short one around it.
  const double momentary_s = std::min(found.fit.window_s, kMomentaryS);
  if (clock_known && found.fit.lag_s < least_lag_s - momentary_s) {
    found.poor_fit =
        "by the best fit, the sensor shows power before it is drawn (see the lag); do the clocks "
        "of "
        "log and trace agree?";
  }
  return found;
}

Attribution Model(double power_w, std::span<const BusyCurve> kernels, double capture_s) {
  const auto count = static_cast<Index>(kernels.size());
  Attribution found;
  Fit& fit = found.fit;  // one window without noise
  fit.power_w = VectorXd::Zero(count + 1);
  fit.power_w[count] = power_w;
  fit.covariance = Eigen::MatrixXd::Zero(count + 1, count + 1);
  fit.degrees = 1;
  fit.from_s = VectorXd::Zero(1);
  fit.to_s = VectorXd::Constant(1, capture_s);
  fit.energy_j = VectorXd::Constant(1, power_w * capture_s);
  fit.residual_j = VectorXd::Zero(1);
  fit.busy_s.resize(1, count);
  for (Index k = 0; k < count; ++k) fit.busy_s(0, k) = kernels[static_cast<size_t>(k)].total_s();
  SumUp(/*is_counter=*/true, capture_s, &found);
  FillEnergies(kernels, capture_s, 1, &found);
  Balance(&found);
  found.windows.assign(kernels.size(), 1);
  found.measured.assign(kernels.size(), false);
  return found;
}

}  // namespace xplane_time::energy
