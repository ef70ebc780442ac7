// Finds hosts and devices that are slower than the others of their model.
//
//   host 7     --x--                 x: mean of the logs of its captures' centres
//   others   x xx xxx x              typical: units that no test for outliers rejects
//
//   time     of a function its active time, of steps their span; with collectives the time outside
//            of exposed ones, because a host that waits for a slower one spends that time there
//   unit     a host, by the mean of its devices; or a device among those of its host (PartByHost)
//   typical  generalized ESD (Rosner 1983) at alpha: at most n / 4 of n units are outliers
//   spread   of units: that of the typical ones; of captures within a unit: pooled over all
//   row      d = x - mean of the typical others, t with their degrees of freedom
//   verdict  slow or fast if Holm over all rows of the fleet rejects d = 0, and d exceeds
//            min_effect; the interval is simultaneous (Bonferroni over all rows). Fast requires
//            less busy time, too: the host that the others wait for may idle least
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <type_traits>
#include <utility>

#include "stats/distributions.h"
#include "stats/location.h"
#include "stats/order_statistics.h"
#include "xplane_time/fleet.h"

namespace xplane_time {
namespace {

constexpr std::string_view kVerdicts[] = {"slow", "fast", "typical", "cannot_tell"};
constexpr std::string_view kMeasures[] = {"active", "span", "without_collectives", "unknown"};
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
  double busy_mean;  // of the logs of busy centres; with other measures the mean
};
// Units that are compared with each other.
struct Group {
  NameId model = 0, function = 0;
  FleetMeasure measure = FleetMeasure::kActive;
  std::vector<Unit> units = {};
  std::vector<Unit> unknown = {};    // units without a time of this measure
  double within = 0, within_df = 0;  // variance between captures of a unit
};

std::vector<double> LogsOf(const CaptureCentres& centres_ps) {
  std::vector<double> logs;
  for (const int64_t ps : centres_ps) {
    if (ps > 0) logs.push_back(std::log(static_cast<double>(ps)));
  }
  return logs;
}

// A unit without busy time has nothing to compare.
void AddUnit(NameId host, NameId device, const CaptureCentres& centres_ps,
             const CaptureCentres& busy_ps, Group* group) {
  const std::vector<double> logs = LogsOf(centres_ps), busy = LogsOf(busy_ps);
  if (logs.empty() || busy.empty()) return;
  const auto n = static_cast<double>(logs.size());
  const double mean = stats::Mean(logs);
  for (const double each : logs) group->within += (each - mean) * (each - mean);
  group->within_df += n - 1;
  group->units.push_back({host, device, mean, n, stats::Mean(busy)});
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
    Unit mean = {.host = host, .device = 0, .mean = 0, .captures = 0, .busy_mean = 0};
    std::vector<double> busy_means;
    for (const Unit& device : devices) {
      means.push_back(device.mean);
      busy_means.push_back(device.busy_mean);
      mean.mean += device.mean / static_cast<double>(devices.size());
      mean.busy_mean += device.busy_mean / static_cast<double>(devices.size());
      mean.captures = std::max(mean.captures, device.captures);
    }
    of_hosts.units.push_back(mean);
    if (devices.size() < 3) continue;
    const double median = stats::Median(means), busy_median = stats::Median(busy_means);
    for (Unit device : devices) {
      device.mean -= median;
      device.busy_mean -= busy_median;
      of_devices.units.push_back(device);
    }
  }
  groups->push_back(std::move(of_hosts));
  if (!of_devices.units.empty()) groups->push_back(std::move(of_devices));
}

// The functions in which collectives ran, as far as the kernels show it. A range has the kernels of
// other functions, so any collective may be in it.
class CollectiveUse {
 public:
  explicit CollectiveUse(const FleetSummary& summary) {
    for (const FleetKernel& row : summary.kernels) {
      if (row.category == Category::kCollective) functions_.insert(row.function);
    }
  }
  bool IsPossible(const FleetFunction& row) const {
    return row.is_range ? !functions_.empty() : functions_.contains(row.function);
  }
  static bool IsPossible(const FleetSteps& row) { return row.collective_exposed_ps > 0; }

 private:
  std::set<NameId> functions_;
};

template <typename Row>
Group GroupOf(const std::vector<const Row*>& rows, NameId function, const CollectiveUse& use) {
  constexpr bool kIsSteps = std::is_same_v<Row, FleetSteps>;
  Group group = {.model = rows[0]->model,
                 .function = function,
                 .measure = kIsSteps ? FleetMeasure::kSpan : FleetMeasure::kActive};
  const auto lacks_own = [](const Row* row) {
    return row->own.own_ps.empty() || row->own.busy_ps.empty();
  };
  const bool has_collectives = std::ranges::any_of(rows, [&](const Row* row) {
    return row->own.captures_with_collectives > 0 || (lacks_own(row) && use.IsPossible(*row));
  });
  if (has_collectives) group.measure = FleetMeasure::kWithoutCollectives;
  for (const Row* row : rows) {
    if (row->centres_ps.empty()) continue;
    if (!has_collectives) {
      AddUnit(row->host, row->device, row->centres_ps, row->centres_ps, &group);
    } else if (lacks_own(row)) {
      const auto captures = static_cast<double>(row->centres_ps.size());
      group.unknown.push_back({row->host, row->device, 0, captures, 0});
    } else {
      AddUnit(row->host, row->device, row->own.own_ps, row->own.busy_ps, &group);
    }
  }
  if (group.within_df > 0) group.within /= group.within_df;
  return group;
}

std::vector<Group> GroupsOf(const FleetSummary& summary) {
  using Key = std::tuple<NameId, NameId>;  // model, function
  std::map<Key, std::vector<const FleetSteps*>> steps;
  std::map<Key, std::vector<const FleetFunction*>> functions;
  for (const FleetSteps& row : summary.steps) steps[{row.model, 0}].push_back(&row);
  for (const FleetFunction& row : summary.functions) {
    functions[{row.model, row.function}].push_back(&row);
  }
  const CollectiveUse use(summary);
  std::vector<Group> all;
  const auto add = [&](const auto& rows_by_key) {
    for (const auto& [key, rows] : rows_by_key) {
      Group group = GroupOf(rows, std::get<1>(key), use);
      Group unknown = {.model = group.model,
                       .function = group.function,
                       .measure = FleetMeasure::kUnknown,
                       .unknown = std::exchange(group.unknown, {})};
      if (!unknown.unknown.empty()) all.push_back(std::move(unknown));
      if (!group.units.empty()) PartByHost(group, &all);
    }
  };
  add(steps);
  add(functions);
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
  double busy_sum = 0;  // of their busy_mean
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
  for (size_t i = 0; i < units.size(); ++i) out.busy_sum += out.has[i] ? units[i].busy_mean : 0;
  return out;
}

// A unit compared with the typical others, without adjustment for the number of units.
struct Against {
  double d = 0, error = 0, df = 0, p = 1;
  double busy_d = 0;
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
  const double busy_sum = typical.busy_sum - (typical.has[place] ? unit.busy_mean : 0);
  test.busy_d = unit.busy_mean - busy_sum / others.n();
  test.p = std::min(1.0, 2 * stats::StudentTail(std::abs(test.d) / test.error, test.df));
  return test;
}

// `detectable`: the slowdown that would be significant with a probability of 80 %.
FleetVerdict VerdictOf(const FleetOutlier& row, const Against& test, double detectable,
                       const FleetOutlierOptions& options) {
  if (*row.p_value <= options.alpha) {
    if (*row.ratio > 1 + options.min_effect) return FleetVerdict::kSlow;
    if (*row.ratio < 1 - options.min_effect) {
      const bool is_busy_for_less = std::exp(test.busy_d) < 1 - options.min_effect;
      return is_busy_for_less ? FleetVerdict::kFast : FleetVerdict::kTypical;
    }
  }
  return detectable <= kMostFleetMde ? FleetVerdict::kTypical : FleetVerdict::kCannotTell;
}

}  // namespace

std::string_view FleetVerdictName(FleetVerdict verdict) {
  return kVerdicts[static_cast<size_t>(verdict)];
}

std::string_view FleetMeasureName(FleetMeasure measure) {
  return kMeasures[static_cast<size_t>(measure)];
}

std::vector<FleetOutlier> FindFleetOutliers(const FleetSummary& summary,
                                            const FleetOutlierOptions& options) {
  std::vector<FleetOutlier> rows;
  std::vector<Against> tests;  // of rows with a test
  std::vector<size_t> tested;
  const auto name = [&](NameId id) { return summary.names[id]; };
  for (const Group& group : GroupsOf(summary)) {
    const auto row = [&](const Unit& unit) {
      return FleetOutlier{.host = name(unit.host),
                          .device = name(unit.device),
                          .model = name(group.model),
                          .function = name(group.function),
                          .measure = group.measure,
                          .captures = static_cast<uint64_t>(unit.captures),
                          .others = group.units.size() - (group.units.empty() ? 0 : 1)};
    };
    for (const Unit& unit : group.unknown) {
      rows.push_back(row(unit));
      rows.back().doubt = FleetDoubt::kEarlierSummary;
    }
    const TypicalUnits typical = FindTypical(group, options.alpha);
    for (size_t place = 0; place < group.units.size(); ++place) {
      const Unit& unit = group.units[place];
      const auto test = TestOne(group, place, typical);
      FleetOutlier& added = rows.emplace_back(row(unit));
      if (test.has_value()) {
        tests.push_back(*test);
        tested.push_back(rows.size() - 1);
      } else {
        added.doubt =
            added.others < kLeastOthers ? FleetDoubt::kFewOthers : FleetDoubt::kFewTypical;
      }
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
    // A slow unit is significant, and above the least effect. The noise alone decides whether a
    // unit is typical.
    const double margin = stats::StudentQuantile(0.2, test.df) * test.error;
    row.mde = std::exp(std::max(half, std::log1p(options.min_effect)) + margin) - 1;
    row.verdict = VerdictOf(row, test, std::exp(half + margin) - 1, options);
    if (row.verdict == FleetVerdict::kCannotTell) row.doubt = FleetDoubt::kLargeVariation;
  }
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
