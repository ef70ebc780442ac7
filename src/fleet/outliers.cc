// Finds hosts and devices that are slower than the others of their model.
//
//   host 7     --x--                 x: mean of the logs of its captures' centres
//   others   x xx xxx x              typical: units that no test for outliers rejects
//
//   unit     a host, by the mean of its devices; or a device among those of its host (PartByHost)
//   typical  generalized ESD (Rosner 1983) at alpha: at most n / 4 of n units are outliers
//   spread   of units: that of the typical ones; of captures within a unit: pooled over all
//   row      d = x - mean of the typical others, t with their degrees of freedom
//   verdict  slow or fast if Holm over all rows of the fleet rejects d = 0, and d exceeds
//            min_effect; the interval is simultaneous (Bonferroni over all rows)
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

#include "stats/distributions.h"
#include "stats/order_statistics.h"
#include "xplane_time/fleet.h"

namespace xplane_time {
namespace {

constexpr std::string_view kVerdicts[] = {"slow", "fast", "typical", "cannot_tell"};
constexpr size_t kLeastOthers = 3;
// As in compare.h: processes differ by at least this much.
constexpr double kLeastSpread = 0.001;
// For differences of means: far above the rounding errors of sums and far below relevant
// differences.
constexpr double kRoundingError = 1e-9;

struct Unit {
  NameId host, device;
  double mean;  // of log centres
  double captures;
};
// Units that are compared with each other.
struct Group {
  NameId model = 0, function = 0;
  std::vector<Unit> units = {};
  double within = 0, within_df = 0;  // variance between captures of a unit
};

void AddUnit(NameId host, NameId device, const CaptureCentres& centres_ps, Group* group) {
  std::vector<double> logs;
  for (const int64_t ps : centres_ps) {
    if (ps > 0) logs.push_back(std::log(static_cast<double>(ps)));
  }
  if (logs.empty()) return;
  const auto n = static_cast<double>(logs.size());
  const double mean = std::accumulate(logs.begin(), logs.end(), 0.0) / n;
  for (const double each : logs) group->within += (each - mean) * (each - mean);
  group->within_df += n - 1;
  group->units.push_back({host, device, mean, n});
}

// Devices of a host share the influences of that host, so they are not independent. Therefore hosts
// are compared by the means of their devices. Devices are compared by their distance from the
// median of their host, which needs three devices.
void PartByHost(const Group& all, std::vector<Group>* groups) {
  std::map<NameId, std::vector<Unit>> hosts;
  for (const Unit& unit : all.units) hosts[unit.host].push_back(unit);
  const bool several = std::ranges::any_of(
      hosts, [](const auto& host) { return host.first != 0 && host.second.size() > 1; });
  if (!several) return groups->push_back(all);
  Group of_hosts = all, of_devices = all;
  of_hosts.units.clear();
  of_devices.units.clear();
  for (const auto& [host, devices] : hosts) {
    std::vector<double> means;
    Unit mean = {.host = host, .device = 0, .mean = 0, .captures = 0};
    for (const Unit& device : devices) {
      means.push_back(device.mean);
      mean.mean += device.mean / static_cast<double>(devices.size());
      mean.captures = std::max(mean.captures, device.captures);
    }
    of_hosts.units.push_back(mean);
    if (devices.size() < 3) continue;
    const double median = stats::Median(means);
    for (Unit device : devices) {
      device.mean -= median;
      of_devices.units.push_back(device);
    }
  }
  groups->push_back(std::move(of_hosts));
  if (!of_devices.units.empty()) groups->push_back(std::move(of_devices));
}

std::vector<Group> GroupsOf(const FleetSummary& summary) {
  std::map<std::tuple<NameId, NameId>, Group> groups;
  const auto add = [&](const auto& row, NameId function) {
    Group& group = groups.try_emplace({row.model, function}).first->second;
    group.model = row.model;
    group.function = function;
    AddUnit(row.host, row.device, row.centres_ps, &group);
  };
  for (const FleetSteps& row : summary.steps) add(row, 0);
  for (const FleetFunction& row : summary.functions) add(row, row.function);
  std::vector<Group> all;
  for (auto& [key, group] : groups) {
    if (group.units.empty()) continue;
    if (group.within_df > 0) group.within /= group.within_df;
    PartByHost(group, &all);
  }
  return all;
}

// Mean and sum of squared deviations of units, with removal of single units (Welford 1962,
// backwards). Deviations are relative to the mean, so little precision is lost.
class Spread {
 public:
  void Add(const Unit& unit) {
    n_ += 1;
    const double from_old = unit.mean - mean_;
    mean_ += from_old / n_;
    squares_ += from_old * (unit.mean - mean_);
    per_capture_ += 1 / unit.captures;
  }
  void Remove(const Unit& unit) {
    const double from_old = unit.mean - mean_;
    n_ -= 1;
    mean_ -= from_old / n_;
    squares_ = std::max(squares_ - from_old * (unit.mean - mean_), 0.0);
    per_capture_ -= 1 / unit.captures;
  }

  double n() const { return n_; }
  double mean() const { return mean_; }
  double variance() const { return squares_ / (n_ - 1); }
  double per_capture() const { return per_capture_ / n_; }  // the mean of 1 / captures

 private:
  double n_ = 0, mean_ = 0, squares_ = 0, per_capture_ = 0;
};

// The units of a group, without those that a generalized ESD test rejects.
struct TypicalUnits {
  std::vector<bool> has;  // by index in the group
  Spread spread;
};

// The unit farthest from the mean is the smallest or the largest remaining one, so n units take n
// log n steps.
TypicalUnits FindTypical(const Group& group, double alpha) {
  const std::vector<Unit>& units = group.units;
  std::vector<size_t> order(units.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return units[i].mean; });
  Spread left;
  for (const Unit& unit : units) left.Add(unit);
  Spread typical = left;
  std::vector<size_t> removed;
  size_t rejected = 0;
  size_t first = 0, last = units.size();  // range of remaining units in `order`
  const size_t most = units.size() / 4;
  while (removed.size() < most && last - first > kLeastOthers) {
    const double below = left.mean() - units[order[first]].mean;
    const double above = units[order[last - 1]].mean - left.mean();
    const double distance = std::max(below, above);
    const double t = stats::StudentQuantile(alpha / (2 * left.n()), left.n() - 2);
    const double critical = (left.n() - 1) * t / std::sqrt((left.n() - 2 + t * t) * left.n());
    const bool is_rejected =
        distance > std::max(critical * std::sqrt(left.variance()), kRoundingError);
    removed.push_back(below > above ? order[first++] : order[--last]);
    left.Remove(units[removed.back()]);
    if (!is_rejected) continue;
    typical = left;
    rejected = removed.size();
  }
  TypicalUnits out = {.has = std::vector<bool>(units.size(), true), .spread = typical};
  for (size_t i = 0; i < rejected; ++i) out.has[removed[i]] = false;
  return out;
}

// A unit compared with the typical others, without adjustment for the number of units.
struct Against {
  double d = 0, error = 0, df = 0, p = 1;
};
std::optional<Against> TestOne(const Group& group, size_t place, const TypicalUnits& typical) {
  const Unit& unit = group.units[place];
  Spread others = typical.spread;
  if (others.n() - (typical.has[place] ? 1 : 0) < kLeastOthers) return std::nullopt;
  if (typical.has[place]) others.Remove(unit);
  // A unit with fewer captures has a larger expected variance than the others.
  const double of_captures = group.within * others.per_capture();
  const double variance = std::max({others.variance() + group.within / unit.captures - of_captures,
                                    others.variance(), kLeastSpread * kLeastSpread});
  Against test = {
      .d = unit.mean - others.mean(),
      .error = std::sqrt(variance +
                         std::max(others.variance(), kLeastSpread * kLeastSpread) / others.n()),
      .df = others.n() - 1};
  test.p = std::min(1.0, 2 * stats::StudentTail(std::abs(test.d) / test.error, test.df));
  return test;
}

FleetVerdict VerdictOf(const FleetOutlier& row, const FleetOutlierOptions& options) {
  if (!row.ratio.has_value()) return FleetVerdict::kCannotTell;
  if (*row.p_value <= options.alpha) {
    if (*row.ratio > 1 + options.min_effect) return FleetVerdict::kSlow;
    if (*row.ratio < 1 - options.min_effect) return FleetVerdict::kFast;
  }
  return *row.mde <= kMostFleetMde ? FleetVerdict::kTypical : FleetVerdict::kCannotTell;
}

}  // namespace

std::string_view FleetVerdictName(FleetVerdict verdict) {
  return kVerdicts[static_cast<size_t>(verdict)];
}

std::vector<FleetOutlier> FindFleetOutliers(const FleetSummary& summary,
                                            const FleetOutlierOptions& options) {
  std::vector<FleetOutlier> rows;
  std::vector<Against> tests;  // of rows with a test
  std::vector<size_t> tested;
  const auto name = [&](NameId id) { return summary.names[id]; };
  for (const Group& group : GroupsOf(summary)) {
    const TypicalUnits typical = FindTypical(group, options.alpha);
    for (size_t place = 0; place < group.units.size(); ++place) {
      const Unit& unit = group.units[place];
      const auto test = TestOne(group, place, typical);
      if (test.has_value()) {
        tests.push_back(*test);
        tested.push_back(rows.size());
      }
      rows.push_back({.host = name(unit.host),
                      .device = name(unit.device),
                      .model = name(group.model),
                      .function = name(group.function),
                      .captures = static_cast<uint64_t>(unit.captures),
                      .others = group.units.size() - 1});
    }
  }
  std::vector<double> p_values;
  for (const Against& test : tests) p_values.push_back(test.p);
  const std::vector<double> adjusted = stats::HolmAdjusted(p_values);
  for (size_t i = 0; i < tests.size(); ++i) {
    const Against& test = tests[i];
    FleetOutlier& row = rows[tested[i]];
    const double tail = options.alpha / (2 * static_cast<double>(tests.size()));
    const double half = stats::StudentQuantile(tail, test.df) * test.error;
    row.ratio = std::exp(test.d);
    row.lo = std::exp(test.d - half);
    row.hi = std::exp(test.d + half);
    row.p_value = adjusted[i];
    row.mde = std::exp(half + stats::StudentQuantile(0.2, test.df) * test.error) - 1;
  }
  for (FleetOutlier& row : rows) row.verdict = VerdictOf(row, options);
  std::ranges::stable_sort(rows, [](const FleetOutlier& a, const FleetOutlier& b) {
    if (a.verdict != b.verdict) return a.verdict < b.verdict;
    return a.ratio.value_or(0) > b.ratio.value_or(0);
  });
  return rows;
}

FleetReport BuildFleetReport(FleetSummary summary, const FleetOutlierOptions& options) {
  FleetMerger all({.host = false, .device = false});
  all.Add(summary).IgnoreError();  // one summary always agrees with itself
  FleetReport report = {
      .options = options, .summary = {}, .all = all.Take(), .outliers = {}, .waits = {}};
  report.outliers = FindFleetOutliers(summary, options);
  report.waits = FindFleetWaits(summary);
  report.summary = std::move(summary);
  return report;
}

}  // namespace xplane_time
