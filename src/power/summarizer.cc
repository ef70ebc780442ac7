#include "power/summarizer.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "power/sources.h"
#include "stats/location.h"
#include "status.h"
#include "saturate.h"

namespace xplane_time::power {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000, kMillisecondNs = 1'000'000;
constexpr size_t kMostWaiting = size_t{1} << 16;
// Windows times channels: what is kept of each pair is some 300 to 900 bytes.
constexpr size_t kMostPairs = size_t{1} << 20;
constexpr size_t kMostFindings = 1000;
constexpr size_t kMostColumns = size_t{1} << 18, kLeastColumns = 16;  // of all series; of one

}  // namespace

void Summarizer::Header(LogHeader header) {
  summary_.machine_json = std::move(header.machine_json);
  summary_.command = std::move(header.command);
  summary_.host = std::move(header.host);
  summary_.inventory = std::move(header.inventory);
  periods_ns_ = std::move(header.periods_ns);
  passes_.resize(periods_ns_.size() + 1);  // the last one is the caller's
  if (header.clocks.has_value()) ClocksAt(0, *header.clocks);
  for (const PowerChannel& channel : summary_.inventory.channels) AddChannel(channel);
  if (header.t_ns.has_value()) Begin(*header.t_ns);
}

void Summarizer::Channel(PowerChannel channel, PowerDevice device) {
  auto& devices = summary_.inventory.devices;
  if (!device.id.empty() && std::find(devices.begin(), devices.end(), device) == devices.end()) {
    devices.push_back(std::move(device));
  }
  summary_.inventory.channels.push_back(channel);
  AddChannel(channel);
}

void Summarizer::AddChannel(const PowerChannel& channel) {
  constexpr int64_t kSlowNs = kSecondNs;
  int64_t expected_ns = 0;
  for (const auto& [source, period_ns] : periods_ns_) {
    if (source == channel.source) expected_ns = period_ns;
  }
  if (channel.slow) expected_ns = std::max(expected_ns, kSlowNs);
  ChannelState state;
  state.is_energy = IsPowerOrEnergy(channel);
  const size_t share = kMostColumns / std::max<size_t>(1, summary_.inventory.channels.size());
  const size_t columns = std::max(kLeastColumns, std::min(options_.max_columns, share));
  if (options_.max_columns > 0) state.series = std::make_unique<Series>(kMillisecondNs, columns);
  state.in_windows = summary_.windows.size() * (channels_.size() + 1) <= kMostPairs;
  if (!state.in_windows) ++dropped_channels_;
  state.fold =
      std::make_unique<ChannelFold>(channel, expected_ns, state.in_windows ? &edges_ : &no_edges_,
                                    &suspensions_, state.series.get());
  channels_.push_back(std::move(state));
}

void Summarizer::Begin(int64_t t_ns) {
  begun_ = true;
  newest_ns_ = t_ns;
  if (options_.whole) Open(t_ns, "");
  for (const PowerWindow& each : options_.windows) {
    Close(Open(each.begin_ns, each.name), each.end_ns, /*cut=*/false);
  }
}

void Summarizer::Readings(size_t s, int64_t t_ns, std::span<const Reading> readings) {
  if (!begun_) Begin(t_ns);
  Passes& passes = passes_[s];
  const int64_t period_ns = s < periods_ns_.size() ? periods_ns_[s].second : 0;
  if (passes.reads++ == 0) {
    passes.first_ns = passes.last_ns = t_ns;
  } else {
    const int64_t gap_ns = t_ns - passes.last_ns;
    passes.longest_gap_ns = std::max(passes.longest_gap_ns, gap_ns);
    if (period_ns > 0 && gap_ns > period_ns + period_ns / 2) {
      passes.missed += static_cast<uint64_t>((gap_ns + period_ns / 2) / period_ns - 1);
    }
    passes.last_ns = std::max(passes.last_ns, t_ns);
  }
  for (const Reading& reading : readings) {
    ChannelState& channel = channels_[reading.channel];
    passes.latencies.Add(reading.after_ns - reading.before_ns);
    if (IsOfNoTime(reading, period_ns, &channel)) continue;
    const int64_t call_ns = reading.after_ns - reading.before_ns;
    const int64_t at_ns = reading.sampled_ns.value_or(reading.before_ns + call_ns / 2);
    const int64_t doubt_ns = reading.sampled_ns.has_value() ? 0 : call_ns - call_ns / 2;
    if (at_ns <= channel.last_ns) {
      ++backwards_;
      continue;
    }
    channel.last_ns = at_ns;
    channel.waiting.push_back({at_ns, reading.value.value_or(0), reading.reason, doubt_ns});
    if (channel.waiting.size() > kMostWaiting) Fold(channel.waiting[kMostWaiting / 2].t_ns);
    newest_ns_ = std::max(newest_ns_, at_ns);
  }
  Advance(t_ns);
}

// Of an energy by a call that took much longer than others: nobody knows when in it. Where the
// first call was the slow one, the second tells.
bool Summarizer::IsOfNoTime(const Reading& reading, int64_t period_ns, ChannelState* channel) {
  if (!channel->is_energy || reading.sampled_ns.has_value()) return false;
  const int64_t call_ns = reading.after_ns - reading.before_ns;
  channel->quickest_call_ns = std::min(channel->quickest_call_ns, call_ns);
  const int64_t usual_ns = std::max(period_ns, channel->quickest_call_ns);
  const int64_t most_ns = kGapPeriods * std::min(usual_ns, kLatestNs / kGapPeriods);
  if (channel->last_ns < 0) {
    channel->first_call_ns = call_ns;
  } else if (channel->first_call_ns > most_ns && channel->waiting.size() == 1) {
    channel->waiting.clear();
    ++slow_calls_;
  }
  if (channel->last_ns >= 0) channel->first_call_ns = 0;
  if (call_ns <= most_ns) return false;
  ++slow_calls_;
  return true;
}

void Summarizer::Advance(int64_t t_ns) {
  newest_ns_ = std::max(newest_ns_, t_ns);
  if (newest_ns_ - folded_ns_ > kLagNs + kLagNs / 2) Fold(newest_ns_ - kLagNs);
}

void Summarizer::Fold(int64_t before_ns) {
  folded_ns_ = std::max(folded_ns_, before_ns);
  for (ChannelState& channel : channels_) {
    size_t done = 0;
    while (done < channel.waiting.size() && channel.waiting[done].t_ns < folded_ns_) {
      channel.fold->Add(channel.waiting[done++]);
    }
    channel.waiting.erase(channel.waiting.begin(),
                          channel.waiting.begin() + static_cast<std::ptrdiff_t>(done));
  }
}

void Summarizer::ClocksAt(int64_t, const Clocks& clocks) {
  const auto offset = [](int64_t a, int64_t b) { return a - b; };
  if (!clocks_.has_value()) {
    summary_.start_unix_ns = clocks.realtime_ns;
  } else if (clocks.monotonic_ns <= clocks_->monotonic_ns) {
    ++backwards_;
    return;
  } else {
    const int64_t slept_ns = offset(clocks.boottime_ns, clocks.monotonic_ns) -
                             offset(clocks_->boottime_ns, clocks_->monotonic_ns);
    if (slept_ns > kMillisecondNs) {
      suspensions_.push_back({clocks_->monotonic_ns, clocks.monotonic_ns, slept_ns});
      Note("suspended", absl::StrCat("the machine slept ", slept_ns / kMillisecondNs, " ms"));
    }
    const int64_t stepped_ns = offset(clocks.realtime_ns, clocks.boottime_ns) -
                               offset(clocks_->realtime_ns, clocks_->boottime_ns);
    if (stepped_ns > kMillisecondNs || stepped_ns < -kMillisecondNs) {
      Note("clock_step", absl::StrCat("the wall clock stepped by ", stepped_ns / kMillisecondNs,
                                      " ms; energies and durations do not use it"));
    }
  }
  clocks_ = clocks;
}

void Summarizer::Mark(int64_t t_ns, std::string_view window, bool end) {
  if (!begun_) Begin(t_ns);
  const auto open = open_.find(window);
  if (t_ns < folded_ns_) {
    t_ns = folded_ns_;
    ++late_marks_;
  }
  if (end) {
    if (open != open_.end() && !window.empty()) {
      Close(open->second, t_ns, /*cut=*/false);
    } else if (dropped_windows_ == 0) {
      Note("end_without_begin", absl::StrCat("window \"", std::string(window), "\""));
    }
  } else if (open != open_.end() || window.empty()) {
    Note("begin_of_open", absl::StrCat("window \"", std::string(window), "\" was open"));
  } else if (IsFull()) {
    ++dropped_windows_;
  } else {
    Open(t_ns, window);
  }
  Advance(t_ns);
}

bool Summarizer::IsFull() const {
  return summary_.windows.size() >= options_.max_windows || open_.size() >= kMostOpenWindows ||
         (summary_.windows.size() + 1) * channels_.size() > kMostPairs;
}

uint32_t Summarizer::Open(int64_t t_ns, std::string_view name) {
  const auto window = static_cast<uint32_t>(summary_.windows.size());
  WindowSummary& summary = summary_.windows.emplace_back();
  summary.name = name;
  if (!name.empty()) summary.number = ++numbers_[summary.name];
  summary.begin_ns = t_ns;
  if (clocks_.has_value()) {
    summary.begin_unix_ns = SaturatingAdd(clocks_->realtime_ns - clocks_->monotonic_ns, t_ns);
  }
  edges_.Insert({t_ns, window, /*end=*/false});
  open_.emplace(summary.name, window);
  return window;
}

void Summarizer::Close(uint32_t window, int64_t t_ns, bool cut) {
  WindowSummary& summary = summary_.windows[window];
  summary.end_ns = std::max(t_ns, summary.begin_ns);
  summary.cut = cut;
  edges_.Insert({summary.end_ns, window, /*end=*/true});
  open_.erase(summary.name);
}

void Summarizer::Finding(int64_t, PowerFinding finding) {
  Note(finding.code, finding.message, finding.count);
}

// Of one kind the first message and how many there were.
void Summarizer::Note(std::string_view code, std::string_view message, uint64_t count) {
  for (PowerFinding& finding : summary_.findings) {
    if (finding.code != code) continue;
    finding.count += count;
    return;
  }
  if (summary_.findings.size() >= kMostFindings) return;
  PowerFinding& finding = summary_.findings.emplace_back();
  finding.code = code;
  finding.count = count;
  finding.message = message;
}

PowerSummary Summarizer::Finish(const LogEnd& end) {
  const int64_t end_ns = end_ns_.value_or(newest_ns_);
  const auto still_open = open_;
  for (const auto& [name, window] : still_open) {
    Close(window, std::max(end_ns, folded_ns_), /*cut=*/!name.empty() || !end.complete);
  }
  Fold(std::numeric_limits<int64_t>::max());
  for (ChannelState& channel : channels_) channel.fold->Finish();
  Build(end);
  return std::move(summary_);
}

}  // namespace xplane_time::power

namespace xplane_time {

absl::StatusOr<PowerSummary> SummarizePowerLog(const std::string& path,
                                               const PowerSummaryOptions& options) {
  power::Summarizer summarizer(options);
  ASSIGN_OR_RETURN(const power::LogEnd end, power::ReadPowerLog(path, &summarizer));
  return summarizer.Finish(end);
}

absl::StatusOr<PowerSummary> SummarizePowerLogText(std::string_view text, const std::string& name,
                                                   const PowerSummaryOptions& options) {
  power::Summarizer summarizer(options);
  ASSIGN_OR_RETURN(const power::LogEnd end, power::ReadPowerLogText(text, name, &summarizer));
  return summarizer.Finish(end);
}

}  // namespace xplane_time

// What the folds hold, as estimates.

namespace xplane_time::power {
namespace {

constexpr double kJPerPj = 1e-12, kWPerMw = 1e-3, kNsPerS = 1e9;
// Where counter and integral are compared, and how far they may be apart.
constexpr double kMostApart = 0.05;
constexpr int64_t kComparablePeriods = 20;
constexpr double kAllButRounding = 1 - 1e-9;

bool Covers(double coverage) { return coverage >= kAllButRounding; }

double CoverageOf(int64_t covered_ns, const WindowSummary& window) {
  const int64_t duration_ns = window.end_ns - window.begin_ns;
  return duration_ns <= 0 ? 0 : static_cast<double>(covered_ns) / static_cast<double>(duration_ns);
}

double SecondsOf(const WindowSummary& window) {
  return static_cast<double>(window.end_ns - window.begin_ns) / kNsPerS;
}

// So much of the time at that power is that energy.
double CoverageAt(double energy_j, double mean_w, const WindowSummary& window) {
  const double all_j = mean_w * SecondsOf(window);
  return all_j > 0 ? energy_j / all_j : 0;
}

double MeanW(double energy_j, int64_t covered_ns) {
  return energy_j / static_cast<double>(covered_ns) * kNsPerS;
}

// Power was at its mean at some time, whatever the readings say.
void SetPeak(const std::optional<double>& peak_mw, EnergyEstimate* out) {
  if (!peak_mw.has_value()) return;
  const double peak_w = std::max(out->peak_w.value_or(0), *peak_mw * kWPerMw);
  out->peak_w = std::max(peak_w, *out->mean_w);
}

void SetLimits(double lo_j, double hi_j, EnergyLimits limits, EnergyEstimate* out) {
  out->limits = limits;
  if (IsUnbounded(limits)) return;
  out->lo_j = lo_j;
  out->hi_j = hi_j;
}

// Why something is missing, the strongest reason first.
PowerReason ReasonOf(const EnergyPart& part, const ReadingPart& readings, int64_t period_ns) {
  if (part.suspended) return PowerReason::kSuspended;
  if (part.resets > 0) return PowerReason::kReset;
  if (part.jumps > 0) return PowerReason::kImplausible;
  if (readings.unknown > 0) return readings.reason;
  if (readings.n == 0) return PowerReason::kNoSamples;
  if (readings.longest_gap_ns > kGapPeriods * period_ns) return PowerReason::kGap;
  return PowerReason::kNoSamples;  // at an edge
}

}  // namespace

std::vector<Summarizer::Domain> Summarizer::Domains() const {
  std::vector<Domain> domains;
  for (const ChannelState& state : channels_) {
    if (!state.fold->has_energy() || !state.in_windows) continue;
    const PowerChannel& channel = state.fold->channel();
    const auto same = [&](const Domain& each) {
      return each.blank.source == channel.source && each.blank.device == channel.device &&
             each.blank.domain == channel.domain;
    };
    auto at = std::find_if(domains.begin(), domains.end(), same);
    if (at == domains.end()) {
      domains.push_back({{.source = channel.source,
                          .device = channel.device,
                          .domain = channel.domain,
                          .modelled = FactsOf(channel.source).modelled,
                          .estimator = options_.estimator}});
      at = domains.end() - 1;
    }
    at->blank.in_total |= channel.in_total;
    if (channel.kind == ReadingKind::kCumulative) {
      if (at->counter == nullptr) at->counter = &state;
      // An instant says more than an average over a longer time.
    } else if (at->power == nullptr || (channel.kind == ReadingKind::kInstant &&
                                        at->power->fold->channel().kind == ReadingKind::kAverage)) {
      at->power = &state;
    }
  }
  for (Domain& domain : domains) {
    for (const PowerDevice& device : summary_.inventory.devices) {
      domain.blank.shared |= device.id == domain.blank.device && (device.shared || device.mig);
    }
  }
  // The sensor of an APU holds what RAPL's packages say.
  const auto is_package = [](const Domain& each) {
    return FactsOf(each.blank.source).measures == Measures::kProcessors &&
           each.blank.domain == "package" && each.blank.in_total;
  };
  if (std::any_of(domains.begin(), domains.end(), is_package)) {
    for (Domain& domain : domains) domain.blank.in_total &= domain.blank.domain != kSocketDomain;
  }
  return domains;
}

void Summarizer::EstimateByCounter(const Domain& domain, uint32_t window,
                                   EnergyEstimate* out) const {
  out->estimator = EnergyEstimator::kCounter;
  if (domain.counter == nullptr) {
    out->reason = PowerReason::kUnsupported;
    return;
  }
  const ChannelFold& fold = *domain.counter->fold;
  const EnergyPart part = fold.EnergyOf(window);
  const ReadingPart readings = fold.ReadingsOf(window);
  out->readings = readings.n;
  out->longest_gap_ns = readings.longest_gap_ns;
  out->resets = part.resets;
  out->wraps = part.wraps;
  out->jumps = part.jumps;
  out->coverage = CoverageOf(part.covered_ns, summary_.windows[window]);
  if (!Covers(out->coverage)) out->reason = ReasonOf(part, readings, fold.rhythm().period_ns);
  if (part.covered_ns <= 0) {
    if (out->reason == PowerReason::kKnown) out->reason = PowerReason::kNoSamples;
    return;
  }
  out->energy_j = part.energy_pj * kJPerPj;
  SetLimits(part.lo_pj * kJPerPj, part.hi_pj * kJPerPj, part.limits, out);
  out->mean_w = MeanW(*out->energy_j, part.covered_ns);
  SetPeak(part.peak_mw, out);
}

void Summarizer::EstimateByPower(const Domain& domain, uint32_t window, EnergyEstimate* out) const {
  if (domain.power == nullptr) {
    out->reason = PowerReason::kUnsupported;
    return;
  }
  const ChannelFold& fold = *domain.power->fold;
  const EnergyPart part = fold.EnergyOf(window);
  const ReadingPart readings = fold.ReadingsOf(window);
  const WindowSummary& summary = summary_.windows[window];
  const auto duration_ns = static_cast<double>(summary.end_ns - summary.begin_ns);
  out->readings = readings.n;
  out->jumps = part.jumps;
  out->longest_gap_ns = readings.longest_gap_ns;
  int64_t covered_ns = part.covered_ns;
  bool known = covered_ns > 0;
  double energy_pj = part.energy_pj, mean_ns = static_cast<double>(covered_ns);
  std::optional<double> peak_mw = part.peak_mw;
  // The peak of the same readings as the mean, which may be others than those that hold.
  if (out->estimator != EnergyEstimator::kHeld) peak_mw = static_cast<double>(readings.max);
  if (out->estimator == EnergyEstimator::kTrapezoid) {
    covered_ns = readings.last_ns - readings.first_ns;
    known = readings.n >= 2;
    energy_pj = readings.trapezoid;
    mean_ns = static_cast<double>(covered_ns);
  } else if (out->estimator == EnergyEstimator::kEndpointMean) {
    covered_ns = readings.last_ns - readings.first_ns;
    known = readings.n >= 2;
    mean_ns = duration_ns;
    energy_pj =
        (static_cast<double>(readings.first) + static_cast<double>(readings.last)) / 2 * mean_ns;
  }
  out->coverage = CoverageOf(covered_ns, summary);
  if (!Covers(out->coverage)) out->reason = ReasonOf(part, readings, fold.rhythm().period_ns);
  if (!known) {
    const bool one = readings.n == 1 && out->reason == PowerReason::kGap;
    if (one || out->reason == PowerReason::kKnown) out->reason = PowerReason::kNoSamples;
    return;
  }
  out->energy_j = energy_pj * kJPerPj;
  out->mean_w = energy_pj * kJPerPj / mean_ns * kNsPerS;
  SetPeak(peak_mw, out);
  // What is stated is stated of the time between readings too.
  if (domain.blank.modelled) SetLimits(*out->energy_j, *out->energy_j, EnergyLimits::kBounds, out);
}

// Whoever made the estimate: the counter's bounds hold. What is chosen here is moved into them; of
// an estimator that was asked for it is told.
void Summarizer::TakeLimitsOfCounter(const Domain& domain, uint32_t window,
                                     EnergyEstimate* out) const {
  if (domain.counter == nullptr || !out->energy_j.has_value()) return;
  const EnergyPart part = domain.counter->fold->EnergyOf(window);
  const double counter_coverage = CoverageOf(part.covered_ns, summary_.windows[window]);
  const double lo_j = part.lo_pj * kJPerPj, hi_j = part.hi_pj * kJPerPj;
  out->limits = part.covered_ns > 0 ? part.limits : EnergyLimits::kCounterCoversPart;
  if (IsUnbounded(out->limits)) return;
  if (out->limits == EnergyLimits::kBounds && part.spanned && Covers(out->coverage)) {
    SetLimits(lo_j, hi_j, EnergyLimits::kBounds, out);
  } else if (std::min(counter_coverage, out->coverage) >= kNearlyWholeCoverage) {
    // What only the readings cover is taken to be as the rest.
    const double more = std::max(0.0, out->coverage / counter_coverage - 1);
    SetLimits(lo_j, hi_j + more * part.energy_pj * kJPerPj, EnergyLimits::kInterval, out);
  } else {
    out->limits = EnergyLimits::kCounterCoversPart;
    return;
  }
  const double inside_j = std::clamp(*out->energy_j, *out->lo_j, *out->hi_j);
  if (inside_j == *out->energy_j) return;
  if (options_.estimator != EnergyEstimator::kBest) {
    out->inconsistent = true;
    return;
  }
  out->energy_j = inside_j;
  out->mean_w = MeanW(inside_j, domain.power->fold->EnergyOf(window).covered_ns);
  SetPeak(0, out);
}

// Both at once, where both cover nearly all of a window of many periods.
void Summarizer::CrossCheck(const Domain& domain, uint32_t window, EnergyEstimate* out) const {
  if (domain.counter == nullptr || domain.power == nullptr) return;
  EnergyEstimate counter, held;
  EstimateByCounter(domain, window, &counter);
  held.estimator = EnergyEstimator::kHeld;
  EstimateByPower(domain, window, &held);
  out->counter_j = counter.energy_j;
  out->counter_reason = counter.reason;
  out->integral_j = held.energy_j;
  const WindowSummary& summary = summary_.windows[window];
  const int64_t slowest_ns =
      std::max({domain.counter->fold->rhythm().period_ns, domain.counter->fold->rhythm().update_ns,
                domain.power->fold->rhythm().update_ns});
  if (!counter.energy_j || !held.energy_j ||
      (summary.end_ns - summary.begin_ns) / kComparablePeriods < slowest_ns) {
    return;
  }
  if (std::min(counter.coverage, held.coverage) < kNearlyWholeCoverage) return;
  const double larger = std::max(*counter.mean_w, *held.mean_w);
  if (std::abs(*counter.mean_w - *held.mean_w) > kMostApart * larger) out->inconsistent = true;
}

// The counter knows nothing of the window, or less than half of what the readings do, or has
// hardly been updated in it.
bool Summarizer::PrefersPower(const Domain& domain, uint32_t window,
                              const EnergyEstimate& counter) const {
  if (domain.power == nullptr) return false;
  if (!counter.energy_j.has_value()) return true;
  EnergyEstimate held;
  EstimateByPower(domain, window, &held);
  if (!held.energy_j.has_value() || held.coverage < counter.coverage) return false;
  return counter.coverage < held.coverage / 2 || domain.counter->fold->EnergyOf(window).lo_pj <= 0;
}

EnergyEstimate Summarizer::Estimate(const Domain& domain, uint32_t window) const {
  EnergyEstimate out = domain.blank;
  if (options_.estimator == EnergyEstimator::kBest) {
    EstimateByCounter(domain, window, &out);
    if (PrefersPower(domain, window, out)) {
      const EnergyEstimate counter = std::exchange(out, domain.blank);
      out.estimator = EnergyEstimator::kHeld;
      EstimateByPower(domain, window, &out);
      out.resets = counter.resets;
      out.wraps = counter.wraps;
      out.jumps += counter.jumps;
    }
  } else if (options_.estimator == EnergyEstimator::kCounter) {
    EstimateByCounter(domain, window, &out);
  } else {
    EstimateByPower(domain, window, &out);
  }
  if (out.estimator != EnergyEstimator::kCounter) TakeLimitsOfCounter(domain, window, &out);
  CrossCheck(domain, window, &out);
  // A reading says more of a peak than the mean of many updates.
  if (out.estimator == EnergyEstimator::kCounter && out.energy_j && domain.power != nullptr) {
    SetPeak(domain.power->fold->EnergyOf(window).peak_mw, &out);
  }
  return out;
}

GaugeSummary Summarizer::Gauge(size_t channel, uint32_t window) const {
  const ReadingPart readings = channels_[channel].fold->ReadingsOf(window);
  GaugeSummary gauge;
  gauge.channel = channel;
  gauge.n = readings.n;
  gauge.unknown = readings.unknown;
  if (readings.n == 0) {
    gauge.reason = readings.unknown > 0 ? readings.reason : PowerReason::kNoSamples;
    return gauge;
  }
  gauge.avg = readings.sum / static_cast<double>(readings.n);
  gauge.max = static_cast<double>(readings.max);
  gauge.median = readings.median;
  gauge.min = static_cast<double>(readings.min);
  return gauge;
}

namespace {

// Of what is in the total; `first`: it begins.
void AddLimits(const EnergyEstimate& each, bool first, PowerTotal* total) {
  if (first) {
    total->limits = EnergyLimits::kBounds;
    total->lo_j = total->hi_j = 0;
  }
  if (IsUnbounded(total->limits)) return;
  total->limits = std::max(total->limits, each.limits);  // the weakest
  if (IsUnbounded(total->limits)) {
    total->lo_j = total->hi_j = std::nullopt;
    return;
  }
  *total->lo_j += *each.lo_j;
  *total->hi_j += *each.hi_j;
  // Each may fail where no other one does.
  if (each.limits == EnergyLimits::kInterval) total->interval_share -= 1 - kIntervalShare;
  total->interval_share = std::max(total->interval_share, 0.0);
}

PowerTotal TotalOf(const WindowSummary& window, const std::string& denied) {
  PowerTotal total;
  double energy_j = 0, mean_w = 0, least = 1, most = 0;
  bool any = false;
  for (const EnergyEstimate& each : window.energies) {
    if (!each.in_total) continue;
    if (!each.energy_j.has_value()) {
      PowerTotal unknown;
      unknown.reason = each.reason;
      unknown.missing = absl::StrCat(each.source, " ", each.device, " ", each.domain);
      return unknown;
    }
    AddLimits(each, !any, &total);
    any = true;
    energy_j += *each.energy_j;
    mean_w += *each.mean_w;
    (each.modelled ? total.modelled : total.measured) = true;
    least = std::min(least, each.coverage);
    most = std::max(most, each.coverage);
    if (total.reason == PowerReason::kKnown) total.reason = each.reason;
  }
  if (!any) {
    total.reason = PowerReason::kNoSamples;
    return total;
  }
  total.energy_j = energy_j;
  total.mean_w = mean_w;
  total.least_coverage = total.coverage = least;
  if (least < most) total.coverage = CoverageAt(energy_j, mean_w, window);
  total.differing_coverage = most - least > 1 - kNearlyWholeCoverage;
  if (denied.empty()) return total;
  total.missing = denied;
  total.reason = PowerReason::kPermissionDenied;
  return total;
}

// Of the total: only where idle is known of all that is in it.
std::optional<double> ActiveOf(const WindowSummary& window) {
  std::optional<double> active_j;
  for (const EnergyEstimate& each : window.energies) {
    if (!each.in_total) continue;
    if (!each.active_j.has_value()) return std::nullopt;
    active_j = active_j.value_or(0) + *each.active_j;
  }
  return active_j;
}

}  // namespace

// The idle power is that of all windows of that name together.
void Summarizer::AddIdle() {
  if (summary_.windows.empty()) return;
  for (size_t i = 0; i < summary_.windows.front().energies.size(); ++i) {
    double idle_j = 0, idle_s = 0;
    for (const WindowSummary& window : summary_.windows) {
      const EnergyEstimate& energy = window.energies[i];
      if (window.name != options_.idle_window || !energy.energy_j || !energy.mean_w) continue;
      const double seconds = SecondsOf(window);
      idle_s += seconds * energy.coverage;
      idle_j += *energy.mean_w * seconds * energy.coverage;
    }
    if (!(idle_s > 0)) continue;
    for (WindowSummary& window : summary_.windows) {
      EnergyEstimate& energy = window.energies[i];
      if (!energy.energy_j || !energy.mean_w) continue;
      const double seconds = SecondsOf(window);
      energy.idle_j = idle_j / idle_s * seconds *
                      (energy.estimator == EnergyEstimator::kEndpointMean ? 1 : energy.coverage);
      energy.active_j = *energy.energy_j - *energy.idle_j;
      constexpr double kRounding = 1e-12;  // of two equal sums
      if (std::abs(*energy.active_j) < kRounding * *energy.energy_j) energy.active_j = 0;
    }
  }
  for (WindowSummary& window : summary_.windows) window.total.active_j = ActiveOf(window);
}

int64_t Summarizer::SleptIn(const WindowSummary& window) const {
  int64_t slept_ns = 0;
  auto each = std::upper_bound(
      suspensions_.begin(), suspensions_.end(), window.begin_ns,
      [](int64_t begin_ns, const Suspension& sleep) { return begin_ns < sleep.to_ns; });
  for (; each != suspensions_.end() && each->from_ns < window.end_ns; ++each) {
    slept_ns = SaturatingAdd(slept_ns, each->slept_ns);
  }
  return slept_ns;
}

void Summarizer::Build(const LogEnd& end) {
  summary_.complete = end.complete;
  const std::vector<Domain> domains = Domains();
  const std::string denied =
      DeniedPart(summary_.inventory.channels, summary_.inventory.absences, /*domain=*/"");
  for (uint32_t i = 0; i < summary_.windows.size(); ++i) {
    WindowSummary& window = summary_.windows[i];
    window.suspended_ns = SleptIn(window);
    for (const Domain& domain : domains) window.energies.push_back(Estimate(domain, i));
    for (size_t channel = 0; channel < channels_.size(); ++channel) {
      const ChannelState& state = channels_[channel];
      const bool gauge = state.fold->channel().kind != ReadingKind::kCumulative;
      if (gauge && state.in_windows) window.gauges.push_back(Gauge(channel, i));
    }
    window.total = TotalOf(window, denied);
  }
  AddIdle();
  summary_.repeats = RepeatsOf(summary_.windows);
  for (const Domain& domain : domains) {
    const ChannelState* const state = domain.power != nullptr ? domain.power : domain.counter;
    if (state->series == nullptr) continue;
    PowerSeries series = state->series->Take(/*counter=*/domain.power == nullptr);
    series.source = domain.blank.source;
    series.device = domain.blank.device;
    series.domain = domain.blank.domain;
    summary_.series.push_back(std::move(series));
  }
  BuildReaders(end);
  BuildFindings(end);
}

void Summarizer::BuildReaders(const LogEnd& end) {
  for (size_t s = 0; s < periods_ns_.size(); ++s) {
    const Passes& passes = passes_[s];
    ReaderQuality& reader = summary_.readers.emplace_back();
    reader.source = periods_ns_[s].first;
    reader.period_ns = periods_ns_[s].second;
    reader.reads = passes.reads;
    reader.missed = passes.missed;
    reader.longest_gap_ns = passes.longest_gap_ns;
    if (passes.last_ns > passes.first_ns) {
      reader.effective_hz = static_cast<double>(passes.reads - 1) * kNsPerS /
                            static_cast<double>(passes.last_ns - passes.first_ns);
    }
    // Logs of others have one time for a reading; no call takes none.
    if (passes.latencies.Quantile(1).value_or(0) > 0) {
      reader.latency_p50_ns = std::llround(*passes.latencies.Quantile(0.5));
      reader.latency_p99_ns = std::llround(*passes.latencies.Quantile(0.99));
    }
    for (const LogReader& told : end.readers) {
      if (told.source != reader.source) continue;
      reader.missed = told.missed;
      reader.own_cpu_ns = told.own_cpu_ns;
      reader.hung = told.hung;
    }
  }
}

void Summarizer::NoteReaders() {
  std::vector<std::string> late, hung;
  uint64_t missed = 0;
  for (const ReaderQuality& reader : summary_.readers) {
    missed += reader.missed;
    if (reader.missed > 0) late.push_back(absl::StrCat(reader.missed, " of ", reader.source));
    if (reader.hung) hung.push_back(reader.source);
  }
  if (missed > 0) Note("missed_deadlines", absl::StrJoin(late, ", "), missed);
  const auto is_hung = [](const PowerFinding& each) { return each.code == "hung"; };
  const bool told = std::any_of(summary_.findings.begin(), summary_.findings.end(), is_hung);
  if (hung.empty() || told) return;
  Note("hung", absl::StrJoin(hung, ", ") + ": a call did not return", hung.size());
}

// Of a log with an end: of others each window that is open is cut.
void Summarizer::NoteOpenWindows(const LogEnd& end) {
  if (!end.complete) return;
  std::vector<absl::string_view> names;
  for (const WindowSummary& each : summary_.windows) {
    if (each.cut && !each.name.empty()) names.push_back(each.name);
  }
  if (names.empty()) return;
  constexpr size_t kMost = 8;
  const size_t count = names.size();
  names.resize(std::min(count, kMost));
  Note("windows_left_open",
       absl::StrCat(absl::StrJoin(names, ", "), ": never ended; up to the end of the log"), count);
}

void Summarizer::BuildFindings(const LogEnd& end) {
  if (!end.cut.empty()) Note("log_cut", end.cut);
  if (!end.write_error.empty()) {
    Note("write_failed",
         absl::StrCat("the recorder could not write (", end.write_error,
                      "): what it lost is not in here; give --log a place with room"),
         std::max<uint64_t>(end.dropped, 1));
  } else if (!end.complete) {
    Note("log_without_end",
         "the recorder still writes, or could not write an end: killed, a crash, a full disk");
  }
  NoteOpenWindows(end);
  const uint64_t dropped = end.write_error.empty() ? end.dropped : 0;
  const auto note = [this](std::string_view code, uint64_t count, std::string_view message) {
    if (count > 0) Note(code, message, count);
  };
  note("damaged_lines", end.damaged_lines, end.first_damage);
  note("dropped", dropped, "lines that the recorder could not write");
  note("times_backwards", backwards_, "not later than the one before of their channel; left out");
  note("slow_calls", slow_calls_,
       "took over three periods, so nobody knows when they read; left out");
  note("late_marks", late_marks_, "written over 2 s after their time; moved there");
  note("windows_dropped", dropped_windows_, "more than are kept, or open at the same time");
  note("channels_dropped", dropped_channels_, "they came when there were too many windows");
  NoteReaders();
  uint64_t apart = 0;
  for (const WindowSummary& window : summary_.windows) {
    for (const EnergyEstimate& energy : window.energies) apart += energy.inconsistent ? 1 : 0;
  }
  note("inconsistent", apart, "counter and readings are over 5 % apart");
}

namespace {

using Windows = std::vector<const WindowSummary*>;

// With n - 1; needs two.
double StdOf(const std::vector<double>& values) { return std::sqrt(stats::Variance(values)); }

double CoverageOf(const EnergyEstimate& energy) { return energy.coverage; }
double CoverageOf(const PowerTotal& total) { return total.least_coverage; }

// `energy_of`: a window's EnergyEstimate or PowerTotal.
template <typename EnergyOf>
RepeatedEnergy RowOf(const Windows& windows, EnergyOf energy_of) {
  RepeatedEnergy row;
  row.window = windows[0]->name;
  row.windows = windows.size();
  std::vector<double> energies, active, seconds;
  for (const WindowSummary* window : windows) {
    seconds.push_back(SecondsOf(*window));
    const auto& energy = energy_of(*window);
    if (CoverageOf(energy) < kNearlyWholeCoverage) continue;  // of another time than the window's
    if (energy.energy_j.has_value()) energies.push_back(*energy.energy_j);
    if (energy.active_j.has_value()) active.push_back(*energy.active_j);
  }
  row.mean_s = stats::Mean(seconds);
  row.std_s = StdOf(seconds);
  row.known = energies.size();
  if (energies.empty()) return row;
  row.mean_j = stats::Mean(energies);
  if (energies.size() > 1) row.std_j = StdOf(energies);
  const auto [least, most] = std::minmax_element(energies.begin(), energies.end());
  row.min_j = *least;
  row.max_j = *most;
  if (active.size() < energies.size()) return row;
  row.mean_active_j = stats::Mean(active);
  if (active.size() > 1) row.std_active_j = StdOf(active);
  return row;
}

void AddRows(const Windows& windows, std::vector<RepeatedEnergy>* rows) {
  const std::vector<EnergyEstimate>& sensors = windows[0]->energies;
  for (size_t i = 0; i < sensors.size(); ++i) {
    RepeatedEnergy& row = rows->emplace_back(RowOf(
        windows, [i](const WindowSummary& window) -> const auto& { return window.energies[i]; }));
    row.source = sensors[i].source;
    row.device = sensors[i].device;
    row.domain = sensors[i].domain;
  }
  const auto in_total = [](const EnergyEstimate& each) { return each.in_total; };
  if (std::count_if(sensors.begin(), sensors.end(), in_total) < 2) return;
  rows->push_back(RowOf(
      windows, [](const WindowSummary& window) -> const auto& { return window.total; }));
  rows->back().source = "total";
}

}  // namespace

std::vector<RepeatedEnergy> RepeatsOf(const std::vector<WindowSummary>& windows) {
  std::map<std::string, size_t> places;
  std::vector<Windows> by_name;
  for (const WindowSummary& window : windows) {
    if (window.name.empty()) continue;
    const auto [place, is_new] = places.emplace(window.name, by_name.size());
    if (is_new) by_name.emplace_back();
    by_name[place->second].push_back(&window);
  }
  std::vector<RepeatedEnergy> rows;
  for (const Windows& same : by_name) {
    if (same.size() > 1) AddRows(same, &rows);
  }
  return rows;
}

void Series::Column::Merge(const Column& other) {
  if (other.covered_ns == 0) return;
  min_mw = covered_ns == 0 ? other.min_mw : std::min(min_mw, other.min_mw);
  max_mw = covered_ns == 0 ? other.max_mw : std::max(max_mw, other.max_mw);
  energy_pj += other.energy_pj;
  covered_ns += other.covered_ns;
}

void Series::Widen() {
  for (size_t i = 0; 2 * i < columns_.size(); ++i) {
    Column both = columns_[2 * i];
    if (2 * i + 1 < columns_.size()) both.Merge(columns_[2 * i + 1]);
    columns_[i] = both;
  }
  columns_.resize((columns_.size() + 1) / 2);
  column_ns_ *= 2;
}

void Series::Piece(const EnergyPiece& piece) {
  // Where in a long gap a counter's energy was used is not known.
  if (piece.whole) return;
  if (columns_.empty()) begin_ns_ = piece.begin_ns;
  const int64_t duration_ns = piece.end_ns - piece.begin_ns;
  const double power_mw = static_cast<double>(piece.energy_pj) / static_cast<double>(duration_ns);
  const auto last_of = [&] {
    return static_cast<size_t>((piece.end_ns - 1 - begin_ns_) / column_ns_);
  };
  while (last_of() >= most_) Widen();
  if (last_of() >= columns_.size()) columns_.resize(last_of() + 1);
  int64_t at_ns = piece.begin_ns;
  while (at_ns < piece.end_ns) {
    const int64_t column = (at_ns - begin_ns_) / column_ns_;
    const int64_t to_ns = std::min(piece.end_ns, begin_ns_ + (column + 1) * column_ns_);
    columns_[static_cast<size_t>(column)].Merge(
        {power_mw * static_cast<double>(to_ns - at_ns), power_mw, power_mw, to_ns - at_ns});
    at_ns = to_ns;
  }
}

PowerSeries Series::Take(bool counter) const {
  PowerSeries series;
  series.begin_ns = begin_ns_;
  series.column_ns = column_ns_;
  for (const Column& column : columns_) {
    PowerColumn& out = series.columns.emplace_back();
    if (column.covered_ns == 0) continue;
    constexpr double kWPerMw = 1e-3;
    out.covered = static_cast<double>(column.covered_ns) / static_cast<double>(column_ns_);
    out.mean_w = column.energy_pj / static_cast<double>(column.covered_ns) * kWPerMw;
    // Between two updates a counter says nothing of peaks.
    out.min_w = counter ? *out.mean_w : column.min_mw * kWPerMw;
    out.max_w = counter ? *out.mean_w : column.max_mw * kWPerMw;
  }
  return series;
}

}  // namespace xplane_time::power
