// Series of a capture: samples, one row a run, become one a function (or variant) and device.
#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "compare/inputs.h"

namespace xplane_time::compare {
namespace {

using Key =
    std::tuple<std::string, std::string, std::string>;  // device, function, program or variant

std::string_view MetricName(Metric metric) {
  return metric == Metric::kActive ? "active" : metric == Metric::kSpan ? "span" : "sum";
}

struct Group {
  std::vector<const SampleRow*> rows;
  int64_t first_start_ps = 0;
};

std::map<Key, Group> GroupRows(std::span<const SampleRow> samples, const DeviceLabels& labels,
                               const Filters& filters, bool by_variant) {
  std::map<Key, Group> groups;
  for (const SampleRow& row : samples) {
    if (!filters.WantsFunction(row.function)) continue;
    if (by_variant && !row.variant_id.has_value()) continue;
    const Key key = by_variant
                        ? Key{labels.Label(row.device), "", *row.variant_id}
                        : Key{labels.Label(row.device), row.function, row.program_id.value_or("")};
    Group& group = groups[key];
    if (group.rows.empty() || row.start_ps < group.first_start_ps) {
      group.first_start_ps = row.start_ps;
    }
    group.rows.push_back(&row);
  }
  return groups;
}

double TimeOf(const SampleRow& row, Metric metric) {
  switch (metric) {
    case Metric::kActive:
      return static_cast<double>(*row.active_ps);
    case Metric::kSpan:
      return static_cast<double>(row.span_ps);
    case Metric::kSum:
      break;
  }
  return static_cast<double>(*row.sum_ps);
}

// Without ops only spans are known: the series says so by its metric.
Metric KnownMetric(const std::vector<const SampleRow*>& rows, Metric wanted) {
  const bool any_active = std::any_of(rows.begin(), rows.end(), [](const SampleRow* row) {
    return row->active_ps.has_value() && row->sum_ps.has_value() && !row->suspect;
  });
  return any_active ? wanted : Metric::kSpan;
}

void FillSamples(const std::vector<const SampleRow*>& rows, Metric metric,
                 const ReportOptions& options, Series* series) {
  const bool needs_ops = metric != Metric::kSpan;
  std::vector<int64_t> times;
  for (const SampleRow* row : rows) {
    const bool known = !needs_ops || (row->active_ps.has_value() && row->sum_ps.has_value());
    const bool counts = known && !row->suspect && row->run >= options.skip_runs;
    const double time_ps = counts ? TimeOf(*row, metric) : 0;
    if (!(time_ps > 0)) continue;  // a time of 0 has no ratio
    series->samples.push_back({time_ps, row->start_ps});
    times.push_back(static_cast<int64_t>(time_ps));
  }
  const std::vector<bool> kept = KeptByTrim(times, options.trim);
  size_t count = 0;
  for (size_t i = 0; i < kept.size(); ++i) {
    if (kept[i]) series->samples[count++] = series->samples[i];
  }
  series->samples.resize(count);
  series->left_out = rows.size() - count;
}

std::string ClockOf(const std::vector<const SampleRow*>& rows) {
  for (const SampleRow* row : rows) {
    if (row->clock != rows[0]->clock) return "mixed";
  }
  return std::string(ClockName(rows[0]->clock));
}

void SortByStart(std::vector<const SampleRow*>* rows) {
  std::stable_sort(rows->begin(), rows->end(), [](const SampleRow* a, const SampleRow* b) {
    return a->start_ps < b->start_ps;
  });
}

// Numbers programs of one function and device by their first run.
void NumberPrograms(const std::map<Key, Group>& groups,
                    std::map<std::pair<std::string, std::string>, std::vector<int64_t>>* starts) {
  for (const auto& [key, group] : groups) {
    (*starts)[{std::get<0>(key), std::get<1>(key)}].push_back(group.first_start_ps);
  }
  for (auto& [ignored, firsts] : *starts) std::sort(firsts.begin(), firsts.end());
}

// A pattern whose group is too short makes one variant of several programs.
void NoteMerged(const std::map<Key, Group>& groups, std::vector<std::string>* notes) {
  std::set<std::string> told;
  for (const auto& [key, group] : groups) {
    std::set<std::string> functions;
    for (const SampleRow* row : group.rows) functions.insert(row->function);
    const std::string id = group.rows[0]->variant_id.value_or("");
    if (functions.size() < 2 || !told.insert(id).second) continue;
    notes->push_back(absl::StrCat(
        "variant ", id, " is ", functions.size(), " functions together (", *functions.begin(), ", ",
        *std::next(functions.begin()), functions.size() > 2 ? ", ..." : "",
        "); where these are variants, --id-pattern must tell them apart"));
  }
}

// Over devices.

// By function, variant and program.
using FunctionKey = std::tuple<std::string, std::string, uint32_t>;

bool Overlap(const std::vector<const Series*>& devices, size_t run) {
  double latest_start = -1e300, first_end = 1e300;
  for (const Series* device : devices) {
    const Sampled& sample = device->samples[run];
    const double start = static_cast<double>(sample.start_ps);
    latest_start = std::max(latest_start, start);
    first_end = std::min(first_end, start + sample.time_ps);
  }
  return latest_start <= first_end;
}

bool RunsMatch(const std::vector<const Series*>& devices) {
  const size_t runs = devices[0]->samples.size();
  for (const Series* device : devices) {
    if (device->samples.size() != runs || device->left_out > 0) return false;
    if (device->metric != devices[0]->metric || device->clock != devices[0]->clock) return false;
  }
  for (size_t run = 0; run < runs; ++run) {
    if (!Overlap(devices, run)) return false;
  }
  return true;
}

Series Combined(const std::vector<const Series*>& devices) {
  Series out = *devices[0];
  out.device = absl::StrCat("slowest of ", devices.size());
  for (const Series* device : devices) {
    out.uncertain |= device->uncertain;
    for (size_t run = 0; run < out.samples.size(); ++run) {
      if (device->samples[run].time_ps > out.samples[run].time_ps) {
        out.samples[run] = device->samples[run];
      }
    }
  }
  return out;
}

}  // namespace

DeviceLabels::DeviceLabels(std::span<const SampleRow> samples) {
  std::set<std::string> hosts;
  for (const SampleRow& row : samples) hosts.insert(row.device.host);
  hosts_.assign(hosts.begin(), hosts.end());
}

std::string DeviceLabels::Label(const DeviceRef& device) const {
  constexpr std::string_view kPrefix = "/device:", kHostCpu = "/host:CPU";
  std::string_view plane = device.plane;
  if (plane.starts_with(kPrefix)) plane.remove_prefix(kPrefix.size());
  if (plane == kHostCpu) plane.remove_prefix(kHostCpu.find("CPU"));
  std::string label(plane);
  if (device.ordinal.has_value()) {
    const std::string ordinal = absl::StrCat(":", *device.ordinal);
    if (!label.ends_with(ordinal)) label.append(ordinal);
  }
  if (hosts_.size() < 2) return label;
  // Hosts have other names in another session: they are told apart by their order.
  const auto host = std::lower_bound(hosts_.begin(), hosts_.end(), device.host) - hosts_.begin();
  return absl::StrCat("host ", host, " ", label);
}

std::vector<Series> SeriesFromSamples(std::span<const SampleRow> samples,
                                      const UncertainFunctions& uncertain, const Filters& filters,
                                      const MeasureOptions& options,
                                      std::vector<std::string>* notes) {
  const DeviceLabels labels(samples);
  std::map<Key, Group> groups = GroupRows(samples, labels, filters, options.by_variant);
  std::map<std::pair<std::string, std::string>, std::vector<int64_t>> starts;
  if (!options.by_variant) NumberPrograms(groups, &starts);
  std::vector<Series> out;
  uint64_t left_out = 0;
  if (options.by_variant) NoteMerged(groups, notes);
  for (auto& [key, group] : groups) {
    SortByStart(&group.rows);
    Series& series = out.emplace_back();
    series.device = std::get<0>(key);
    series.function = group.rows[0]->function;
    series.variant_id = group.rows[0]->variant_id;
    if (!options.by_variant) {
      auto& firsts = starts[{series.device, series.function}];
      const auto at = std::lower_bound(firsts.begin(), firsts.end(), group.first_start_ps);
      series.program = static_cast<uint32_t>(at - firsts.begin());
    }
    const Metric metric = KnownMetric(group.rows, options.report.metric);
    series.metric = MetricName(metric);
    series.clock = ClockOf(group.rows);
    series.uncertain = uncertain.contains({series.device, series.function});
    FillSamples(group.rows, metric, options.report, &series);
    left_out += series.left_out;
  }
  if (left_out > 0) {
    notes->push_back(absl::StrCat(left_out, " of ", samples.size(),
                                  " runs left out (suspect, warm-up, trimmed or without ops)"));
  }
  return out;
}

std::vector<Series> SlowestDevice(std::span<const Series> series, std::vector<std::string>* notes) {
  std::map<FunctionKey, std::vector<const Series*>> functions;
  for (const Series& one : series) {
    const std::string variant = one.variant_id.value_or("");
    functions[{variant.empty() ? one.function : "", variant, one.program}].push_back(&one);
  }
  std::vector<Series> out;
  for (const auto& [key, devices] : functions) {
    if (devices.size() == 1) {
      out.push_back(*devices[0]);
    } else if (RunsMatch(devices)) {
      out.push_back(Combined(devices));
    } else {
      Series& none = out.emplace_back(*devices[0]);
      none.device = absl::StrCat("slowest of ", devices.size());
      none.samples.clear();
      notes->push_back(absl::StrCat(none.function, ": the runs on ", devices.size(),
                                    " devices do not match; choose one with --device"));
    }
  }
  return out;
}

std::vector<KernelTime> KernelTimes::Take() const {
  std::vector<KernelTime> kernels;
  for (const auto& [key, time_ps] : times_ps_) {
    const auto runs = runs_.find(key.first);
    if (runs == runs_.end() || runs->second == 0) continue;
    kernels.push_back({key.first, key.second, time_ps / static_cast<double>(runs->second)});
  }
  return kernels;
}

}  // namespace xplane_time::compare
