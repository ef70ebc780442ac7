// Series of a capture: groups samples (one row per run) into series by function (or variant) and
// device.
#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compare/inputs.h"
#include "stats/order_statistics.h"

namespace xplane_time::compare {
namespace {

using Key =
    std::tuple<std::string, std::string, std::string>;  // device, function, program or variant

std::string_view MetricName(Metric metric) {
  return metric == Metric::kActive ? "active" : metric == Metric::kSpan ? "span" : "sum";
}

// "GPU:0", "CPU:0"; "host 1 TPU:2" if several hosts are known.
class DeviceLabels {
 public:
  explicit DeviceLabels(std::span<const SampleRow> samples) {
    for (const SampleRow& row : samples) hosts_.insert(row.device.host);
  }

  std::string Label(const DeviceRef& device) const {
    const std::string name = DeviceName(device);
    if (hosts_.size() < 2) return name;
    // Hosts have different names in another session, so their order identifies them.
    const auto host = std::distance(hosts_.begin(), hosts_.lower_bound(device.host));
    return absl::StrCat("host ", host, " ", name);
  }

 private:
  std::set<std::string> hosts_;
};

using Rows = std::vector<const SampleRow*>;  // rows of one series, by start

std::map<Key, Rows> GroupRows(std::span<const SampleRow> samples, const DeviceLabels& labels,
                              const Filters& filters, bool by_variant) {
  std::map<Key, Rows> groups;
  for (const SampleRow& row : samples) {
    if (!filters.WantsFunction(row.function)) continue;
    if (by_variant && !row.variant_id.has_value()) continue;
    const Key key = by_variant
                        ? Key{labels.Label(row.device), "", *row.variant_id}
                        : Key{labels.Label(row.device), row.function, row.program_id.value_or("")};
    groups[key].push_back(&row);
  }
  for (auto& [key, rows] : groups) std::ranges::stable_sort(rows, {}, &SampleRow::start_ps);
  return groups;
}

// Empty: runs without ops have a span only.
std::optional<int64_t> TimeOf(const SampleRow& row, Metric metric) {
  if (metric == Metric::kSpan) return row.span_ps;
  if (!row.active_ps.has_value() || !row.sum_ps.has_value()) return std::nullopt;
  return metric == Metric::kActive ? row.active_ps : row.sum_ps;
}

// The metric that the rows have. Rows without ops have the span only.
Metric KnownMetric(const Rows& rows, Metric wanted) {
  const bool any_active = std::ranges::any_of(rows, [](const SampleRow* row) {
    return TimeOf(*row, Metric::kActive).has_value() && !row->suspect;
  });
  return any_active ? wanted : Metric::kSpan;
}

// Numbers of runs that are left out, by reason.
using LeftOut = std::map<std::string, uint64_t>;

std::string LeftOutNote(const LeftOut& left_out, uint64_t all) {
  uint64_t sum = 0;
  for (const auto& [why, count] : left_out) sum += count;
  return absl::StrCat(sum, " of ", all, " runs left out (",
                      absl::StrJoin(left_out, ", ", absl::PairFormatter(": ")), ")");
}

void FillSamples(const Rows& rows, Metric metric, const ReportOptions& options, Series* series,
                 LeftOut* left_out) {
  std::vector<Sampled> samples;
  std::vector<int64_t> times;
  const auto leave_out = [&](int64_t start_ps, const char* why) {
    series->left_out.push_back(start_ps);
    ++(*left_out)[why];
  };
  for (const SampleRow* row : rows) {
    const int64_t time_ps = TimeOf(*row, metric).value_or(0);
    if (row->suspect) {
      leave_out(row->start_ps, "suspect");
    } else if (row->run < options.skip_runs) {
      leave_out(row->start_ps, "warm-up");
    } else if (time_ps < 0) {
      leave_out(row->start_ps, "negative");
    } else if (time_ps == 0) {  // a time of 0 has no ratio
      leave_out(row->start_ps, TimeOf(*row, metric).has_value() ? "zero" : "without ops");
    } else {
      samples.push_back({static_cast<double>(time_ps), row->start_ps});
      times.push_back(time_ps);
    }
  }
  const std::vector<bool> kept = KeptByTrim(times, options.trim);
  for (size_t i = 0; i < samples.size(); ++i) {
    if (kept[i]) {
      series->samples.push_back(samples[i]);
    } else {
      leave_out(samples[i].start_ps, "trimmed");
    }
  }
}

std::string ClockOf(const Rows& rows) {
  for (const SampleRow* row : rows) {
    if (row->clock != rows[0]->clock) return "mixed";
  }
  return std::string(ClockName(rows[0]->clock));
}

// Notes variants that consist of several functions, because the group of the pattern is too short.
void NoteMerged(const std::map<Key, Rows>& groups, std::vector<std::string>* notes) {
  std::set<std::string> told;
  for (const auto& [key, rows] : groups) {
    std::set<std::string> functions;
    for (const SampleRow* row : rows) functions.insert(row->function);
    const std::string id = rows[0]->variant_id.value_or("");
    if (functions.size() < 2 || !told.insert(id).second) continue;
    notes->push_back(absl::StrCat("variant ", id, " consists of ", functions.size(), " functions (",
                                  *functions.begin(), ", ", *std::next(functions.begin()),
                                  functions.size() > 2 ? ", ..." : "",
                                  "); if these are variants, --id-pattern must distinguish them"));
  }
}

// Marks a function whose launches have no executions in the trace, in all of its runs or in runs
// that are unknown.
void MarkLost(Series* series) {
  if (series->samples.empty()) {
    series->obstacle = "each of its runs lacks executions of its launches (the profiler lost them)";
  } else {
    series->doubt = "launches without an execution may belong to its runs";
  }
}

std::vector<Series> SeriesOf(const Report& report, const Filters& filters,
                             const MeasureOptions& options, std::vector<std::string>* notes) {
  const DeviceLabels labels(report.samples);
  std::set<std::pair<std::string, std::string>> uncertain, lost;  // device and function
  for (const FunctionRow& row : report.functions) {
    if (!row.device.has_value() || row.device->plane.empty()) continue;
    auto* const rows = row.status == RowStatus::kRunsUncertain    ? &uncertain
                       : row.status == RowStatus::kLostExecutions ? &lost
                                                                  : nullptr;
    if (rows != nullptr) rows->insert({labels.Label(*row.device), row.function});
  }
  const std::map<Key, Rows> groups = GroupRows(report.samples, labels, filters, options.by_variant);
  // Programs of one function and device are numbered by their first run.
  std::map<std::pair<std::string, std::string>, std::multiset<int64_t>> starts;
  for (const auto& [key, rows] : groups) {
    starts[{std::get<0>(key), std::get<1>(key)}].insert(rows[0]->start_ps);
  }
  if (options.by_variant) NoteMerged(groups, notes);
  std::vector<Series> out;
  LeftOut left_out;
  uint64_t all = 0;
  for (const auto& [key, rows] : groups) {
    const Metric metric = KnownMetric(rows, options.report.metric);
    Series& series = out.emplace_back();
    series.device = std::get<0>(key);
    series.function = rows[0]->function;
    series.variant_id = rows[0]->variant_id;
    if (!options.by_variant) {
      const auto& firsts = starts[{series.device, series.function}];
      const auto at = firsts.lower_bound(rows[0]->start_ps);
      series.program = static_cast<uint32_t>(std::distance(firsts.begin(), at));
    }
    series.metric = MetricName(metric);
    series.clock = ClockOf(rows);
    series.uncertain = uncertain.contains({series.device, series.function});
    FillSamples(rows, metric, options.report, &series, &left_out);
    if (lost.contains({series.device, series.function})) MarkLost(&series);
    all += rows.size();
  }
  if (!left_out.empty()) notes->push_back(LeftOutNote(left_out, all));
  return out;
}

// Kernel times per run over all devices and programs, for functions that have runs.
std::vector<KernelTime> KernelsOf(const Report& report, const Filters& filters) {
  std::map<std::string, uint64_t> runs;
  for (const FunctionRow& row : report.functions) runs[row.function] += row.runs;
  std::map<std::pair<std::string, std::string>, double> times_ps;  // without nested kernels
  for (const KernelRow& row : report.kernels) {
    if (!row.function.has_value() || !filters.WantsFunction(*row.function)) continue;
    times_ps[{*row.function, row.kernel}] +=
        static_cast<double>(row.self_ps.value_or(row.total_ps));
  }
  std::vector<KernelTime> kernels;
  for (const auto& [key, time_ps] : times_ps) {
    const auto of = runs.find(key.first);
    if (of == runs.end() || of->second == 0) continue;
    kernels.push_back({key.first, key.second, time_ps / static_cast<double>(of->second)});
  }
  return kernels;
}

// A run of a series, whether it counts or not.
struct Run {
  int64_t start_ps;
  const Sampled* sample;  // null: left out
};

std::vector<Run> FindRuns(const Series& series) {
  std::vector<Run> runs;
  for (const Sampled& sample : series.samples) runs.push_back({sample.start_ps, &sample});
  for (const int64_t start_ps : series.left_out) runs.push_back({start_ps, nullptr});
  std::ranges::stable_sort(runs, {}, &Run::start_ps);
  return runs;
}

using DeviceRuns = std::vector<std::vector<Run>>;  // runs by device

bool Counts(const DeviceRuns& devices, size_t run) {
  return std::ranges::all_of(devices, [run](const auto& runs) { return runs[run].sample; });
}

bool Overlap(const DeviceRuns& devices, size_t run) {
  double latest_start = -1e300, first_end = 1e300;
  for (const std::vector<Run>& runs : devices) {
    const double start = static_cast<double>(runs[run].start_ps);
    latest_start = std::max(latest_start, start);
    first_end = std::min(first_end, start + runs[run].sample->value);
  }
  return latest_start <= first_end;
}

std::string ListDevices(const std::vector<std::string>& devices) {
  constexpr size_t kMaxShown = 3;
  const size_t shown = std::min(devices.size(), kMaxShown);
  const std::string text =
      absl::StrJoin(devices.begin(), devices.begin() + static_cast<ptrdiff_t>(shown), ", ");
  const size_t more = devices.size() - shown;
  return more == 0 ? text : absl::StrCat(text, " and ", more, " more");
}

// The reason why the runs of a function on several devices do not match; empty: they match.
std::string FindMismatch(const std::vector<const Series*>& devices, const DeviceRuns& runs) {
  for (size_t i = 1; i < devices.size(); ++i) {
    const Series &first = *devices[0], &other = *devices[i];
    if (runs[i].size() != runs[0].size()) {
      return absl::StrCat(runs[0].size(), " on ", first.device, ", ", runs[i].size(), " on ",
                          other.device);
    }
    if (other.metric != first.metric || other.clock != first.clock) {
      return absl::StrCat("the metric and clock are ", first.metric, " and ", first.clock, " on ",
                          first.device, ", ", other.metric, " and ", other.clock, " on ",
                          other.device);
    }
  }
  for (size_t run = 0; run < runs[0].size(); ++run) {
    if (Counts(runs, run) && !Overlap(runs, run)) {
      return absl::StrCat("run ", run + 1, " of ", runs[0].size(),
                          " is not at the same time on all devices");
    }
  }
  return "";
}

Series Combine(const std::vector<const Series*>& devices) {
  Series out = *devices[0];
  out.device = absl::StrCat("slowest of ", devices.size());
  out.samples.clear();
  out.left_out.clear();
  DeviceRuns runs;
  for (const Series* device : devices) {
    out.uncertain |= device->uncertain;
    if (out.doubt.empty()) out.doubt = device->doubt;
    if (out.obstacle.empty()) out.obstacle = device->obstacle;
    runs.push_back(FindRuns(*device));
  }
  if (const std::string mismatch = FindMismatch(devices, runs); !mismatch.empty()) {
    out.obstacle =
        absl::StrCat("its runs on ", devices.size(), " devices do not match: ", mismatch);
    return out;
  }
  const auto value = [](const Sampled* sample) { return sample->value; };
  for (size_t run = 0; run < runs[0].size(); ++run) {
    if (!Counts(runs, run)) {
      out.left_out.push_back(runs[0][run].start_ps);
      continue;
    }
    std::vector<const Sampled*> samples;
    for (const std::vector<Run>& device : runs) samples.push_back(device[run].sample);
    out.samples.push_back(**std::ranges::max_element(samples, {}, value));
  }
  if (!out.samples.empty()) out.obstacle.clear();
  return out;
}

std::vector<std::string> DeviceNames(const std::vector<const Series*>& devices) {
  std::vector<std::string> names;
  for (const Series* series : devices) names.push_back(series->device);
  std::ranges::sort(names);
  return names;
}

std::vector<DeviceTime> TimesByDevice(const std::vector<const Series*>& devices) {
  std::vector<DeviceTime> times;
  for (const Series* series : devices) {
    if (series->samples.empty()) continue;
    std::vector<double> values;
    for (const Sampled& sample : series->samples) values.push_back(sample.value);
    times.push_back({series->device, stats::Median(values)});
  }
  std::ranges::sort(times, {}, &DeviceTime::device);
  return times;
}

}  // namespace

std::vector<Series> SlowestDevice(std::span<const Series> series) {
  // By function, variant and program.
  std::map<std::tuple<std::string, std::string, uint32_t>, std::vector<const Series*>> functions;
  for (const Series& one : series) {
    const std::string variant = one.variant_id.value_or("");
    functions[{variant.empty() ? one.function : "", variant, one.program}].push_back(&one);
  }
  // The set of devices that most functions ran on; if several sets tie, the larger one.
  std::map<std::vector<std::string>, size_t> uses;
  for (const auto& [key, devices] : functions) ++uses[DeviceNames(devices)];
  const auto usual = std::ranges::max_element(
      uses, {}, [](const auto& each) { return std::pair(each.second, each.first.size()); });
  if (uses.size() == 1 && usual->first.size() == 1) return {series.begin(), series.end()};
  std::vector<Series> out;
  for (const auto& [key, devices] : functions) {
    Series& one = out.emplace_back(devices.size() == 1 ? *devices[0] : Combine(devices));
    one.by_device = TimesByDevice(devices);
    const std::vector<std::string> names = DeviceNames(devices);
    if (names == usual->first) continue;
    one.obstacle =
        absl::StrCat("it ran on ", ListDevices(names),
                     uses.size() == 2 ? ", and the others ran on " : ", and most others ran on ",
                     ListDevices(usual->first));
    one.samples.clear();
  }
  return out;
}

namespace {

// The devices of a capture's series; without series, the devices that executed something.
std::set<std::string> DevicesOf(const Report& report, std::span<const Series> series) {
  std::set<std::string> devices;
  for (const Series& one : series) devices.insert(one.device);
  if (!devices.empty()) return devices;
  for (const DeviceRow& row : report.devices) {
    if (row.executions > 0) devices.insert(DeviceName(row.device));
  }
  return devices;
}

// Adds functions that the host launched, but which have no executions in the trace. They cannot be
// judged. With by_variant these are all variants that the host executed; otherwise the functions
// with launches that lost their executions, on each device of the capture.
void AddLostFunctions(const Report& report, const Filters& filters, bool by_variant,
                      std::vector<Series>* series) {
  const std::set<std::string> devices = DevicesOf(report, *series);
  std::set<std::string> seen;
  for (const Series& one : *series) {
    seen.insert(by_variant ? one.variant_id.value_or("") : one.function);
  }
  for (const FunctionRow& row : report.functions) {
    const bool has_device = row.device.has_value() && !row.device->plane.empty();
    const bool is_lost = row.status == RowStatus::kLostExecutions;
    if (has_device || !(is_lost || by_variant) || !filters.WantsFunction(row.function)) continue;
    const auto variant_id = filters.id.Capture(row.function);
    if (by_variant && !variant_id.has_value()) continue;
    if (!seen.insert(by_variant ? *variant_id : row.function).second) continue;
    Series lost;
    lost.function = row.function;
    lost.variant_id = variant_id;
    lost.obstacle = "the host ran it, but the trace has no execution of it";
    if (by_variant) series->push_back(lost);
    for (const std::string& device : devices) {
      if (by_variant) break;
      series->push_back(lost);
      series->back().device = device;
    }
  }
}

}  // namespace

void AddRows(const Report& report, const Filters& filters, const MeasureOptions& options,
             Measurements* out) {
  std::vector<std::string> notes;
  out->series = SeriesOf(report, filters, options, &notes);
  out->kernels = KernelsOf(report, filters);
  if (options.slowest_device) out->series = SlowestDevice(out->series);
  AddLostFunctions(report, filters, options.by_variant, &out->series);
  for (const std::string& note : notes) {
    out->notes.push_back(absl::StrCat(out->source, ": ", note));
  }
}

}  // namespace xplane_time::compare
