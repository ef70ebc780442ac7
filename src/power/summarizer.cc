// Turns the lines of a log into a PowerSummary. docs/power.md has the definitions.
//
// Lines of several sources are not in order of time, and a mark may be written after readings that
// are later than the mark. Therefore readings wait for kLagNs before they are folded. A mark that
// comes even later takes effect from the folded time on, and a finding reports it.
//
//   lines -> queue of each channel -> (older than kLagNs) -> ChannelFold -> estimates
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "power/channel_fold.h"
#include "power/log.h"
#include "power/sources.h"
#include "saturate.h"
#include "stats/location.h"
#include "status.h"

namespace xplane_time::power {
namespace {

constexpr int64_t kLagNs = 2'000'000'000, kMillisecondNs = 1'000'000;
constexpr size_t kMostWaiting = size_t{1} << 16, kMostOpenWindows = 1024;
// Windows times channels; each pair takes about 300 to 700 bytes.
constexpr size_t kMostPairs = size_t{1} << 20;
constexpr size_t kMostFindings = 1000;
// of all series; of one series
constexpr size_t kMostColumns = size_t{1} << 18, kLeastColumns = 16;
constexpr double kJPerPj = 1e-12, kNsPerS = 1e9;

// The channels of one domain that measure its power or energy.
struct Domain {
  EnergyEstimate blank;  // its names, and the values that hold in every window
  const ChannelFold *counter = nullptr, *power = nullptr;
};

double SecondsOf(const WindowSummary& window) {
  return static_cast<double>(window.end_ns - window.begin_ns) / kNsPerS;
}

double CoverageOf(int64_t covered_ns, const WindowSummary& window) {
  const int64_t duration_ns = window.end_ns - window.begin_ns;
  return duration_ns <= 0 ? 0 : static_cast<double>(covered_ns) / static_cast<double>(duration_ns);
}

bool Covers(double coverage) {
  constexpr double kAllButRounding = 1 - 1e-9;
  return coverage >= kAllButRounding;
}

double MeanW(double energy_j, int64_t covered_ns) {
  return energy_j / static_cast<double>(covered_ns) * kNsPerS;
}

// The power reached its mean at some time, whatever the readings show.
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

// Why a part is missing; the strongest reason first.
PowerReason FindReason(const EnergyPart& part, const ReadingPart& readings, int64_t period_ns) {
  if (part.suspended) return PowerReason::kSuspended;
  if (part.resets > 0) return PowerReason::kReset;
  if (part.jumps > 0) return PowerReason::kImplausible;
  if (readings.unknown > 0) return readings.reason;
  if (readings.n == 0) return PowerReason::kNoSamples;
  if (readings.longest_gap_ns > kGapPeriods * period_ns) return PowerReason::kGap;
  return PowerReason::kNoSamples;  // missing at an edge
}

// Estimates the energy of a domain in one window from its folds.
class Estimation {
 public:
  Estimation(const Domain& domain, uint32_t window, const WindowSummary& summary)
      : domain_(domain),
        summary_(summary),
        counter_(domain.counter, window, summary),
        power_(domain.power, window, summary) {}

  EnergyEstimate By(EnergyEstimator asked) const {
    EnergyEstimate out = asked == EnergyEstimator::kBest      ? Best()
                         : asked == EnergyEstimator::kCounter ? ByCounter()
                                                              : ByPower(asked);
    const bool by_counter = out.estimator == EnergyEstimator::kCounter;
    if (!by_counter) TakeLimitsOfCounter(asked, &out);
    CrossCheck(&out);
    // A power reading shows a peak better than the mean over many updates of the counter.
    if (by_counter && out.energy_j) SetPeak(power_.part.peak_mw, &out);
    return out;
  }

 private:
  // The fold of a channel; null if there is no such channel.
  struct Side {
    Side(const ChannelFold* of, uint32_t window, const WindowSummary& summary) : fold(of) {
      if (fold == nullptr) return;
      part = fold->EnergyOf(window);
      readings = fold->ReadingsOf(window);
      if (readings.n == 0) readings.longest_gap_ns = summary.end_ns - summary.begin_ns;
    }
    const ChannelFold* fold;
    EnergyPart part;
    ReadingPart readings;
  };

  // Uses the counter, unless it has no energy for the window, covers less than half of the time
  // that the power readings cover, or was hardly updated.
  EnergyEstimate Best() const {
    EnergyEstimate counter = ByCounter();
    if (power_.fold == nullptr) return counter;
    EnergyEstimate held = ByPower(EnergyEstimator::kHeld);
    if (counter.energy_j.has_value()) {
      const bool knows_less = !held.energy_j.has_value() || held.coverage < counter.coverage;
      const bool says_enough = counter.coverage >= held.coverage / 2 && counter_.part.lo_pj > 0;
      if (knows_less || says_enough) return counter;
    }
    held.resets = counter.resets;
    held.wraps = counter.wraps;
    held.jumps += counter.jumps;
    return held;
  }

  // An estimate without an energy: the statistics of the readings and their coverage.
  EnergyEstimate Begin(EnergyEstimator estimator, const Side& by, int64_t covered_ns) const {
    EnergyEstimate out = domain_.blank;
    out.estimator = estimator;
    out.readings = by.readings.n;
    out.longest_gap_ns = by.readings.longest_gap_ns;
    out.resets = by.part.resets;
    out.wraps = by.part.wraps;
    out.jumps = by.part.jumps;
    out.coverage = CoverageOf(covered_ns, summary_);
    if (by.fold == nullptr) {
      out.reason = PowerReason::kUnsupported;
    } else if (!Covers(out.coverage)) {
      out.reason = FindReason(by.part, by.readings, by.fold->rhythm.period_ns);
    }
    return out;
  }

  EnergyEstimate ByCounter() const {
    const EnergyPart& part = counter_.part;
    EnergyEstimate out = Begin(EnergyEstimator::kCounter, counter_, part.covered_ns);
    if (part.covered_ns <= 0) {
      if (out.reason == PowerReason::kKnown) out.reason = PowerReason::kNoSamples;
      return out;
    }
    out.energy_j = part.energy_pj * kJPerPj;
    SetLimits(part.lo_pj * kJPerPj, part.hi_pj * kJPerPj, part.limits, &out);
    out.mean_w = MeanW(*out.energy_j, part.covered_ns);
    SetPeak(part.peak_mw, &out);
    return out;
  }

  EnergyEstimate ByPower(EnergyEstimator estimator) const {
    const EnergyPart& part = power_.part;
    const ReadingPart& readings = power_.readings;
    const bool holds = estimator == EnergyEstimator::kHeld;
    const int64_t covered_ns = holds ? part.covered_ns : readings.last.t_ns - readings.first.t_ns;
    const bool known = holds ? covered_ns > 0 : readings.n >= 2;
    double energy_pj = part.energy_pj, mean_ns = static_cast<double>(covered_ns);
    if (estimator == EnergyEstimator::kTrapezoid)
      energy_pj = static_cast<double>(readings.twice_trapezoid) / 2;
    if (estimator == EnergyEstimator::kEndpointMean) {
      mean_ns = static_cast<double>(summary_.end_ns - summary_.begin_ns);
      energy_pj =
          (static_cast<double>(readings.first.value) + static_cast<double>(readings.last.value)) /
          2 * mean_ns;
    }
    EnergyEstimate out = Begin(estimator, power_, covered_ns);
    if (!known) {
      const bool one = readings.n == 1 && out.reason == PowerReason::kGap;
      if (one || out.reason == PowerReason::kKnown) out.reason = PowerReason::kNoSamples;
      return out;
    }
    out.energy_j = energy_pj * kJPerPj;
    out.mean_w = energy_pj * kJPerPj / mean_ns * kNsPerS;
    // The peak of the readings that the mean is based on; these may differ from the held ones.
    SetPeak(holds ? part.peak_mw : static_cast<double>(readings.max), &out);
    // A stated power also holds between the readings.
    if (out.modelled) SetLimits(*out.energy_j, *out.energy_j, EnergyLimits::kBounds, &out);
    return out;
  }

  // The counter's bounds hold for any estimator. The best estimate is moved into them; an estimate
  // by a requested estimator is marked as inconsistent instead.
  void TakeLimitsOfCounter(EnergyEstimator asked, EnergyEstimate* out) const {
    if (counter_.fold == nullptr || !out->energy_j.has_value()) return;
    const EnergyPart& part = counter_.part;
    const double counter_coverage = CoverageOf(part.covered_ns, summary_);
    const double lo_j = part.lo_pj * kJPerPj, hi_j = part.hi_pj * kJPerPj;
    out->limits = part.covered_ns > 0 ? part.limits : EnergyLimits::kCounterCoversPart;
    if (IsUnbounded(out->limits)) return;
    if (out->limits == EnergyLimits::kBounds && part.spanned && Covers(out->coverage)) {
      SetLimits(lo_j, hi_j, EnergyLimits::kBounds, out);
    } else if (std::min(counter_coverage, out->coverage) >= kNearlyWholeCoverage) {
      // Time that only the power readings cover is assumed to be like the rest.
      const double more = std::max(0.0, out->coverage / counter_coverage - 1);
      SetLimits(lo_j, hi_j + more * part.energy_pj * kJPerPj, EnergyLimits::kInterval, out);
    } else {
      out->limits = EnergyLimits::kCounterCoversPart;
      return;
    }
    const double inside_j = std::clamp(*out->energy_j, *out->lo_j, *out->hi_j);
    if (inside_j == *out->energy_j) return;
    if (asked != EnergyEstimator::kBest) {
      out->inconsistent = true;
      return;
    }
    out->energy_j = inside_j;
    out->mean_w = MeanW(inside_j, power_.part.covered_ns);
    SetPeak(0, out);
  }

  // Compares counter and power if both cover nearly all of a window of many periods.
  void CrossCheck(EnergyEstimate* out) const {
    constexpr double kMostApart = 0.05;
    constexpr int64_t kComparablePeriods = 20;
    if (counter_.fold == nullptr || power_.fold == nullptr) return;
    const EnergyEstimate counter = ByCounter(), held = ByPower(EnergyEstimator::kHeld);
    out->counter_j = counter.energy_j;
    out->counter_reason = counter.reason;
    out->integral_j = held.energy_j;
    const Rhythm &of_counter = counter_.fold->rhythm, &of_power = power_.fold->rhythm;
    const int64_t slowest_ns =
        std::max({of_counter.period_ns, of_counter.update_ns, of_power.update_ns});
    if (!counter.energy_j || !held.energy_j ||
        (summary_.end_ns - summary_.begin_ns) / kComparablePeriods < slowest_ns ||
        std::min(counter.coverage, held.coverage) < kNearlyWholeCoverage) {
      return;
    }
    const double larger = std::max(*counter.mean_w, *held.mean_w);
    if (std::abs(*counter.mean_w - *held.mean_w) > kMostApart * larger) out->inconsistent = true;
  }

  const Domain& domain_;
  const WindowSummary& summary_;
  const Side counter_, power_;
};

// Uses the nearest reading as if it were in the window; false if none is near.
bool TakeNearest(const ReadingPart& readings, const WindowSummary& window, int64_t within_ns,
                 GaugeSummary* gauge) {
  std::optional<Sample> nearest;
  const auto consider = [&](const std::optional<Sample>& sample, int64_t edge_ns) {
    if (!sample.has_value()) return;
    const int64_t age_ns = edge_ns - sample->t_ns;
    if (std::abs(age_ns) > within_ns) return;
    if (nearest.has_value() && std::abs(*gauge->nearest_age_ns) <= std::abs(age_ns)) return;
    nearest = sample;
    gauge->nearest_age_ns = age_ns;
  };
  consider(readings.before, window.begin_ns);
  consider(readings.after, window.end_ns);
  if (!nearest.has_value()) return false;
  gauge->avg = gauge->max = gauge->median = gauge->min = static_cast<double>(nearest->value);
  return true;
}

GaugeSummary GaugeOf(size_t channel, const ReadingPart& readings, const WindowSummary& window,
                     int64_t nearest_within_ns) {
  GaugeSummary gauge = {.channel = channel, .n = readings.n, .unknown = readings.unknown};
  if (readings.n == 0) {
    if (TakeNearest(readings, window, nearest_within_ns, &gauge)) return gauge;
    gauge.reason = readings.unknown > 0 ? readings.reason : PowerReason::kNoSamples;
    return gauge;
  }
  gauge.avg = static_cast<double>(readings.sum) / static_cast<double>(readings.n);
  gauge.max = static_cast<double>(readings.max);
  gauge.median = readings.median;
  gauge.min = static_cast<double>(readings.min);
  return gauge;
}

// Adds the limits of an estimate that is in the total.
void AddLimits(const EnergyEstimate& each, PowerTotal* total) {
  if (IsUnbounded(total->limits)) return;
  total->limits = std::max(total->limits, each.limits);  // the weakest limits
  if (IsUnbounded(total->limits)) {
    total->lo_j = total->hi_j = std::nullopt;
    return;
  }
  *total->lo_j += *each.lo_j;
  *total->hi_j += *each.hi_j;
  // The failures of several intervals add up.
  if (each.limits == EnergyLimits::kInterval) total->interval_share -= 1 - kIntervalShare;
  total->interval_share = std::max(total->interval_share, 0.0);
}

PowerTotal TotalOf(const WindowSummary& window, const std::string& denied) {
  PowerTotal total = {.energy_j = 0, .mean_w = 0, .lo_j = 0, .hi_j = 0, .active_j = 0};
  total.limits = EnergyLimits::kBounds;
  double least = 1, most = 0;
  bool any = false;
  for (const EnergyEstimate& each : window.energies) {
    if (!each.in_total) continue;
    if (!each.energy_j.has_value()) {
      return {.reason = each.reason,
              .missing = absl::StrCat(each.source, " ", each.device, " ", each.domain)};
    }
    any = true;
    AddLimits(each, &total);
    *total.energy_j += *each.energy_j;
    *total.mean_w += *each.mean_w;
    // Known only if the idle power of all parts is known.
    const bool both = total.active_j.has_value() && each.active_j.has_value();
    total.active_j = both ? std::optional(*total.active_j + *each.active_j) : std::nullopt;
    (each.modelled ? total.modelled : total.measured) = true;
    least = std::min(least, each.coverage);
    most = std::max(most, each.coverage);
    if (total.reason == PowerReason::kKnown) total.reason = each.reason;
  }
  if (!any) return {.reason = PowerReason::kNoSamples};
  total.least_coverage = total.coverage = least;
  if (least < most) {  // the share of the window that the energy lasts for at the mean power
    const double all_j = *total.mean_w * SecondsOf(window);
    total.coverage = all_j > 0 ? *total.energy_j / all_j : 0;
  }
  total.differing_coverage = most - least > 1 - kNearlyWholeCoverage;
  if (denied.empty()) return total;
  total.missing = denied;
  total.reason = PowerReason::kPermissionDenied;
  return total;
}

// The idle power is the mean over all windows of that name.
void AddIdle(const std::string& idle_window, std::vector<WindowSummary>* windows) {
  if (windows->empty()) return;
  for (size_t i = 0; i < windows->front().energies.size(); ++i) {
    double idle_j = 0, idle_s = 0;
    for (const WindowSummary& window : *windows) {
      const EnergyEstimate& energy = window.energies[i];
      if (window.name != idle_window || !energy.energy_j || !energy.mean_w) continue;
      const double seconds = SecondsOf(window);
      idle_s += seconds * energy.coverage;
      idle_j += *energy.mean_w * seconds * energy.coverage;
    }
    if (!(idle_s > 0)) continue;
    for (WindowSummary& window : *windows) {
      EnergyEstimate& energy = window.energies[i];
      if (!energy.energy_j || !energy.mean_w) continue;
      const bool whole = energy.estimator == EnergyEstimator::kEndpointMean;
      energy.idle_j = idle_j / idle_s * SecondsOf(window) * (whole ? 1 : energy.coverage);
      energy.active_j = *energy.energy_j - *energy.idle_j;
      constexpr double kRounding = 1e-12;  // rounding error of two equal sums
      if (std::abs(*energy.active_j) < kRounding * *energy.energy_j) energy.active_j = 0;
    }
  }
}

// Repeats: combines windows with the same name, such as those of `power record -r 5`, into one row.
//
//   run 10 J, run #2 12 J, run #3 unknown   ->   run: 3 windows, 2 known, mean 11 J, std 1.41 J

using Windows = std::vector<const WindowSummary*>;

double StdOf(const std::vector<double>& values) { return std::sqrt(stats::Variance(values)); }

double CoverageOf(const EnergyEstimate& energy) { return energy.coverage; }
double CoverageOf(const PowerTotal& total) { return total.least_coverage; }

// `energy_of` returns a window's EnergyEstimate or PowerTotal.
RepeatedEnergy RepeatOf(const Windows& windows, auto energy_of) {
  RepeatedEnergy row;
  row.window = windows[0]->name;
  row.windows = windows.size();
  std::vector<double> energies, active, seconds;
  for (const WindowSummary* window : windows) {
    seconds.push_back(SecondsOf(*window));
    const auto& energy = energy_of(*window);
    if (CoverageOf(energy) < kNearlyWholeCoverage) continue;  // covers too little of the window
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

// A row for each sensor and each name with at least two windows, then the total if it has several
// sensors. All windows have the same sensors in the same order. O(energies).
std::vector<RepeatedEnergy> RepeatsOf(const std::vector<WindowSummary>& windows) {
  std::map<std::string_view, Windows> by_name;
  for (const WindowSummary& window : windows) by_name[window.name].push_back(&window);
  std::vector<RepeatedEnergy> rows;
  for (const WindowSummary& window : windows) {
    const Windows& same = by_name[window.name];
    if (window.name.empty() || window.number != 1 || same.size() < 2) continue;
    size_t in_total = 0;
    for (size_t i = 0; i < window.energies.size(); ++i) {
      const EnergyEstimate& sensor = window.energies[i];
      RepeatedEnergy& row = rows.emplace_back(RepeatOf(
          same, [i](const WindowSummary& each) -> const auto& { return each.energies[i]; }));
      row.source = sensor.source;
      row.device = sensor.device;
      row.domain = sensor.domain;
      in_total += sensor.in_total ? 1 : 0;
    }
    if (in_total < 2) continue;
    rows.push_back(RepeatOf(
        same, [](const WindowSummary& each) -> const auto& { return each.total; }));
    rows.back().source = "total";
  }
  return rows;
}

class Folding : public LogSink {
 public:
  explicit Folding(const PowerSummaryOptions& options) : options_(options) {}

  void Header(LogHeader header) override {
    summary_.machine_json = std::move(header.machine_json);
    summary_.command = std::move(header.command);
    summary_.host = std::move(header.host);
    summary_.inventory = std::move(header.inventory);
    for (const auto& [source, period_ns] : header.periods_ns) {
      passes_.emplace_back().reader = {.source = source, .period_ns = period_ns};
    }
    passes_.emplace_back();  // the caller's
    if (header.clocks.has_value()) ClocksAt(0, *header.clocks);
    for (const PowerChannel& channel : summary_.inventory.channels) AddChannel(channel);
    if (header.t_ns.has_value()) Begin(*header.t_ns);
  }

  void Channel(PowerChannel channel, PowerDevice device) override {
    auto& devices = summary_.inventory.devices;
    const bool is_new = std::ranges::find(devices, device) == devices.end();
    if (!device.id.empty() && is_new) devices.push_back(std::move(device));
    summary_.inventory.channels.push_back(channel);
    AddChannel(channel);
  }

  void Readings(size_t s, int64_t t_ns, std::span<const Reading> readings) override {
    if (!begun_) Begin(t_ns);
    Passes& passes = passes_[s];
    ReaderQuality& reader = passes.reader;
    const int64_t period_ns = reader.period_ns;
    if (reader.reads++ == 0) {
      passes.first_ns = passes.last_ns = t_ns;
    } else {
      const int64_t gap_ns = t_ns - passes.last_ns;
      reader.longest_gap_ns = std::max(reader.longest_gap_ns, gap_ns);
      if (period_ns > 0 && gap_ns > period_ns + period_ns / 2) {
        reader.missed += static_cast<uint64_t>((gap_ns + period_ns / 2) / period_ns - 1);
      }
      passes.last_ns = std::max(passes.last_ns, t_ns);
    }
    for (const Reading& reading : readings) {
      const int64_t call_ns = reading.after_ns - reading.before_ns;
      passes.latencies.Add(call_ns);
      ChannelState& channel = channels_[reading.channel];
      if (IsOfNoTime(reading, period_ns, &channel)) continue;
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

  void ClocksAt(int64_t, const Clocks& clocks) override {
    const std::optional<Clocks> before = clocks_;
    if (before.has_value() && clocks.monotonic_ns <= before->monotonic_ns) {
      ++backwards_;
      return;
    }
    clocks_ = clocks;
    if (!before.has_value()) {
      summary_.start_unix_ns = clocks.realtime_ns;
      return;
    }
    const int64_t slept_ns =
        (clocks.boottime_ns - clocks.monotonic_ns) - (before->boottime_ns - before->monotonic_ns);
    if (slept_ns > kMillisecondNs) {
      suspensions_.push_back({before->monotonic_ns, clocks.monotonic_ns, slept_ns});
      Note("suspended", absl::StrCat("the machine slept ", slept_ns / kMillisecondNs, " ms"));
    }
    const int64_t stepped_ns =
        (clocks.realtime_ns - clocks.boottime_ns) - (before->realtime_ns - before->boottime_ns);
    if (stepped_ns > kMillisecondNs || stepped_ns < -kMillisecondNs) {
      Note("clock_step", absl::StrCat("the wall clock stepped by ", stepped_ns / kMillisecondNs,
                                      " ms; energies and durations do not depend on it"));
    }
  }

  void Mark(int64_t t_ns, std::string_view window, bool end) override {
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
    } else if (summary_.windows.size() >= options_.max_windows ||
               open_.size() >= kMostOpenWindows ||
               (summary_.windows.size() + 1) * channels_.size() > kMostPairs) {
      ++dropped_windows_;
    } else {
      Open(t_ns, window);
    }
    Advance(t_ns);
  }

  void Finding(int64_t, std::string_view code, std::string_view source,
               std::string_view message) override {
    Note(code, std::string(source).append(source.empty() ? "" : ": ").append(message));
  }
  void End(int64_t t_ns) override { end_ns_ = t_ns; }

  // Call after the last line.
  PowerSummary Finish(const LogEnd& end) {
    const int64_t end_ns = end_ns_.value_or(newest_ns_);
    const auto still_open = open_;
    for (const auto& [name, window] : still_open) {
      Close(window, std::max(end_ns, folded_ns_), /*cut=*/!name.empty() || !end.complete);
    }
    Fold(std::numeric_limits<int64_t>::max());
    for (ChannelState& channel : channels_) channel.fold->Finish();
    Build();
    BuildReaders(end);
    BuildFindings(end);
    return std::move(summary_);
  }

 private:
  struct ChannelState {
    std::unique_ptr<ChannelFold> fold;
    std::vector<Sample> waiting;
    int64_t last_ns = -1;
    bool is_energy = false;  // or power
    int64_t quickest_call_ns = kLatestNs;
    int64_t first_call_ns = 0;  // while this reading alone waits
    bool in_windows = true;     // false: there are too many windows for one more channel
  };
  // The passes of one source.
  struct Passes {
    ReaderQuality reader;
    int64_t first_ns = 0, last_ns = 0;
    stats::QuantileSketch latencies;
  };

  void AddChannel(const PowerChannel& channel) {
    constexpr int64_t kSlowNs = 1'000'000'000;
    int64_t expected_ns = 0;
    for (const Passes& each : passes_) {
      if (each.reader.source == channel.source) expected_ns = each.reader.period_ns;
    }
    if (channel.slow) expected_ns = std::max(expected_ns, kSlowNs);
    ChannelState state;
    state.is_energy = IsPowerOrEnergy(channel);
    const size_t share = kMostColumns / std::max<size_t>(1, summary_.inventory.channels.size());
    const size_t columns = std::max(kLeastColumns, std::min(options_.max_columns, share));
    state.in_windows = summary_.windows.size() * (channels_.size() + 1) <= kMostPairs;
    if (!state.in_windows) ++dropped_channels_;
    state.fold = std::make_unique<ChannelFold>(
        channel, expected_ns, state.in_windows ? &edges_ : &no_edges_, &suspensions_,
        options_.max_columns > 0 ? columns : 0, options_.nearest_within_ns > 0);
    channels_.push_back(std::move(state));
  }

  // Called with the first time.
  void Begin(int64_t t_ns) {
    begun_ = true;
    newest_ns_ = t_ns;
    if (options_.whole) Open(t_ns, "");
    for (const PowerWindow& each : options_.windows) {
      Close(Open(each.begin_ns, each.name), each.end_ns, /*cut=*/false);
    }
  }

  // True for an energy whose call took much longer than usual, because the time of its value is
  // unknown. If the first call was the slow one, the second call reveals it.
  bool IsOfNoTime(const Reading& reading, int64_t period_ns, ChannelState* channel) {
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

  void Advance(int64_t t_ns) {
    newest_ns_ = std::max(newest_ns_, t_ns);
    if (newest_ns_ - folded_ns_ > kLagNs + kLagNs / 2) Fold(newest_ns_ - kLagNs);
  }

  void Fold(int64_t before_ns) {
    folded_ns_ = std::max(folded_ns_, before_ns);
    for (ChannelState& channel : channels_) {
      auto next = channel.waiting.begin();
      for (; next != channel.waiting.end() && next->t_ns < folded_ns_; ++next) {
        channel.fold->Add(*next);
      }
      channel.waiting.erase(channel.waiting.begin(), next);
    }
  }

  uint32_t Open(int64_t t_ns, std::string_view name) {
    const auto window = static_cast<uint32_t>(summary_.windows.size());
    WindowSummary& summary = summary_.windows.emplace_back();
    summary.name = name;
    if (!name.empty()) summary.number = ++numbers_[summary.name];
    summary.begin_ns = t_ns;
    if (clocks_.has_value()) {
      summary.begin_unix_ns = SaturatingAdd(clocks_->realtime_ns - clocks_->monotonic_ns, t_ns);
    }
    Insert({t_ns, window, /*end=*/false}, &edges_);
    open_.emplace(summary.name, window);
    return window;
  }

  void Close(uint32_t window, int64_t t_ns, bool cut) {
    WindowSummary& summary = summary_.windows[window];
    summary.end_ns = std::max(t_ns, summary.begin_ns);
    summary.cut = cut;
    Insert({summary.end_ns, window, /*end=*/true}, &edges_);
    open_.erase(summary.name);
  }

  // Adds a finding. Findings of one kind keep the first message and a count.
  void Note(std::string_view code, std::string_view message, uint64_t count = 1) {
    auto& findings = summary_.findings;
    const auto at = std::ranges::find(findings, code, &PowerFinding::code);
    if (at != findings.end()) {
      at->count += count;
    } else if (count > 0 && findings.size() < kMostFindings) {
      findings.push_back({std::string(code), count, std::string(message)});
    }
  }

  std::vector<Domain> Domains() const {
    std::vector<Domain> domains;
    using Names = std::tuple<std::string_view, std::string_view, std::string_view>;
    absl::flat_hash_map<Names, size_t> places;
    for (const ChannelState& state : channels_) {
      if (!state.fold->has_energy || !state.in_windows) continue;
      const PowerChannel& channel = state.fold->channel;
      const auto [place, is_new] =
          places.try_emplace({channel.source, channel.device, channel.domain}, domains.size());
      if (is_new) {
        domains.push_back({{.source = channel.source,
                            .device = channel.device,
                            .domain = channel.domain,
                            .modelled = FactsOf(channel.source).modelled}});
      }
      Domain* const at = &domains[place->second];
      at->blank.in_total |= channel.in_total;
      if (state.fold->is_counter) {
        if (at->counter == nullptr) at->counter = state.fold.get();
        // An instantaneous value is more precise than an average over a longer time.
      } else if (at->power == nullptr || (channel.kind == ReadingKind::kInstant &&
                                          at->power->channel.kind == ReadingKind::kAverage)) {
        at->power = state.fold.get();
      }
    }
    absl::flat_hash_set<std::string_view> shared;
    for (const PowerDevice& device : summary_.inventory.devices) {
      if (device.shared || device.mig) shared.insert(device.id);
    }
    for (Domain& domain : domains) domain.blank.shared = shared.contains(domain.blank.device);
    // The sensor of an APU includes RAPL's packages.
    const auto is_package = [](const Domain& each) {
      return FactsOf(each.blank.source).measures == Measures::kProcessors &&
             each.blank.domain == "package" && each.blank.in_total;
    };
    if (std::ranges::any_of(domains, is_package)) {
      for (Domain& domain : domains) domain.blank.in_total &= domain.blank.domain != kSocketDomain;
    }
    return domains;
  }

  int64_t SleptIn(const WindowSummary& window) const {
    int64_t slept_ns = 0;
    auto each = std::ranges::upper_bound(suspensions_, window.begin_ns, {}, &Suspension::to_ns);
    for (; each != suspensions_.end() && each->from_ns < window.end_ns; ++each) {
      slept_ns = SaturatingAdd(slept_ns, each->slept_ns);
    }
    return slept_ns;
  }

  // Turns the folds into estimates.
  void Build() {
    const std::vector<Domain> domains = Domains();
    const std::string denied =
        DeniedPart(summary_.inventory.channels, summary_.inventory.absences, /*domain=*/"");
    for (uint32_t i = 0; i < summary_.windows.size(); ++i) {
      WindowSummary& window = summary_.windows[i];
      window.suspended_ns = SleptIn(window);
      window.energies.reserve(domains.size());
      for (const Domain& domain : domains) {
        window.energies.push_back(Estimation(domain, i, window).By(options_.estimator));
      }
      for (size_t channel = 0; channel < channels_.size(); ++channel) {
        const ChannelFold& fold = *channels_[channel].fold;
        if (fold.is_counter || !channels_[channel].in_windows) continue;
        window.gauges.push_back(
            GaugeOf(channel, fold.ReadingsOf(i), window, options_.nearest_within_ns));
      }
    }
    AddIdle(options_.idle_window, &summary_.windows);
    for (WindowSummary& window : summary_.windows) window.total = TotalOf(window, denied);
    summary_.repeats = RepeatsOf(summary_.windows);
    for (const Domain& domain : domains) {
      const ChannelFold& fold = domain.power != nullptr ? *domain.power : *domain.counter;
      if (!fold.series.has_value()) continue;
      PowerSeries series = fold.series->Take(fold.is_counter);
      series.source = domain.blank.source;
      series.device = domain.blank.device;
      series.domain = domain.blank.domain;
      summary_.series.push_back(std::move(series));
    }
  }

  void BuildReaders(const LogEnd& end) {
    for (size_t s = 0; s + 1 < passes_.size(); ++s) {
      const Passes& passes = passes_[s];
      ReaderQuality& reader = summary_.readers.emplace_back(passes.reader);
      if (passes.last_ns > passes.first_ns) {
        reader.effective_hz = static_cast<double>(reader.reads - 1) * kNsPerS /
                              static_cast<double>(passes.last_ns - passes.first_ns);
      }
      // Other tools' logs have one time for a reading; no call takes zero time.
      if (passes.latencies.Quantile(1).value_or(0) > 0) {
        reader.latency_p50_ns = std::llround(*passes.latencies.Quantile(0.5));
        reader.latency_p99_ns = std::llround(*passes.latencies.Quantile(0.99));
      }
      for (const ReaderQuality& told : end.readers) {
        if (told.source != reader.source) continue;
        reader.missed = told.missed;
        reader.own_cpu_ns = told.own_cpu_ns;
        reader.hung = told.hung;
      }
    }
  }

  void NoteReaders() {
    std::vector<std::string> late, hung;
    uint64_t missed = 0;
    for (const ReaderQuality& reader : summary_.readers) {
      missed += reader.missed;
      if (reader.missed > 0) late.push_back(absl::StrCat(reader.missed, " of ", reader.source));
      if (reader.hung) hung.push_back(reader.source);
    }
    Note("missed_deadlines", absl::StrJoin(late, ", "), missed);
    const auto told = std::ranges::find(summary_.findings, "hung", &PowerFinding::code);
    if (told != summary_.findings.end()) return;
    Note("hung", absl::StrJoin(hung, ", ") + ": a call did not return", hung.size());
  }

  // Only for a log with an end; in other logs each open window is cut anyway.
  void NoteOpenWindows(const LogEnd& end) {
    if (!end.complete) return;
    std::vector<absl::string_view> names;
    for (const WindowSummary& each : summary_.windows) {
      if (each.cut && !each.name.empty()) names.push_back(each.name);
    }
    constexpr size_t kMost = 8;
    const size_t count = names.size();
    names.resize(std::min(count, kMost));
    Note("windows_left_open",
         absl::StrCat(absl::StrJoin(names, ", "), ": not ended; they extend to the end of the log"),
         count);
  }

  void BuildFindings(const LogEnd& end) {
    summary_.complete = end.complete;
    if (!end.cut.empty()) Note("log_cut", end.cut);
    if (!end.write_error.empty()) {
      Note("write_failed",
           absl::StrCat("the recorder could not write some readings (", end.write_error,
                        "); they are missing here; write --log to a file system with free space"),
           std::max<uint64_t>(end.dropped, 1));
    } else if (!end.complete) {
      Note("log_without_end",
           "the recorder still runs, or ended without a last line: killed, crash or full disk");
    }
    NoteOpenWindows(end);
    const uint64_t dropped = end.write_error.empty() ? end.dropped : 0;
    Note("damaged_lines", end.first_damage, end.damaged_lines);
    Note("dropped", "lines that the recorder could not write", dropped);
    Note("times_backwards", "not later than the previous reading of their channel; excluded",
         backwards_);
    Note("slow_calls",
         "took more than three periods, so the time of the reading is unknown; excluded",
         slow_calls_);
    Note("late_marks",
         "written over 2 s after their time; moved to the earliest time still accepted",
         late_marks_);
    Note("windows_dropped", "more windows than supported in total or at the same time",
         dropped_windows_);
    Note("channels_dropped", "they appeared after too many windows were open", dropped_channels_);
    NoteReaders();
    uint64_t apart = 0;
    for (const WindowSummary& window : summary_.windows) {
      for (const EnergyEstimate& energy : window.energies) apart += energy.inconsistent ? 1 : 0;
    }
    Note("inconsistent", "counter and readings differ by over 5 %", apart);
  }

  const PowerSummaryOptions options_;
  PowerSummary summary_;
  std::vector<ChannelState> channels_;
  std::vector<Passes> passes_;

  WindowEdges edges_, no_edges_;
  std::vector<Suspension> suspensions_;

  bool begun_ = false;
  int64_t newest_ns_ = 0, folded_ns_ = 0;  // readings before folded_ns_ have been folded
  std::optional<int64_t> end_ns_;
  std::optional<Clocks> clocks_;
  std::map<std::string, uint32_t, std::less<>> open_;
  std::map<std::string, uint64_t, std::less<>> numbers_;
  uint64_t backwards_ = 0, slow_calls_ = 0, late_marks_ = 0, dropped_windows_ = 0,
           dropped_channels_ = 0;
};

}  // namespace
}  // namespace xplane_time::power

namespace xplane_time {

absl::StatusOr<PowerSummary> SummarizePowerLog(const std::string& path,
                                               const PowerSummaryOptions& options) {
  power::Folding folding(options);
  ASSIGN_OR_RETURN(const power::LogEnd end, power::ReadPowerLog(path, &folding));
  return folding.Finish(end);
}

absl::StatusOr<PowerSummary> SummarizePowerLogText(std::string_view text, const std::string& name,
                                                   const PowerSummaryOptions& options) {
  power::Folding folding(options);
  ASSIGN_OR_RETURN(const power::LogEnd end, power::ReadPowerLogText(text, name, &folding));
  return folding.Finish(end);
}

}  // namespace xplane_time
