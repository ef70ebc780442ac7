// Series of a capture: samples, one row a run, become one a function (or variant) and device.
#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compare/inputs.h"

namespace xplane_time::compare {
namespace {

using Key =
    std::tuple<std::string, std::string, std::string>;  // device, function, program or variant

std::string_view MetricName(Metric metric) {
  return metric == Metric::kActive ? "active" : metric == Metric::kSpan ? "span" : "sum";
}

// "GPU:0", "CPU:0", "host 1 TPU:2" where several hosts are known.
class DeviceLabels {
 public:
  explicit DeviceLabels(std::span<const SampleRow> samples) {
    for (const SampleRow& row : samples) hosts_.insert(row.device.host);
  }

  std::string Label(const DeviceRef& device) const {
    const std::string name = DeviceName(device);
    if (hosts_.size() < 2) return name;
    // Hosts have other names in another session: they are told apart by their order.
    const auto host = std::distance(hosts_.begin(), hosts_.lower_bound(device.host));
    return absl::StrCat("host ", host, " ", name);
  }

 private:
  std::set<std::string> hosts_;
};

using Rows = std::vector<const SampleRow*>;  // of one series, by start

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

// Empty: without ops only spans are known.
std::optional<int64_t> TimeOf(const SampleRow& row, Metric metric) {
  if (metric == Metric::kSpan) return row.span_ps;
  if (!row.active_ps.has_value() || !row.sum_ps.has_value()) return std::nullopt;
  return metric == Metric::kActive ? row.active_ps : row.sum_ps;
}

// The series says by its metric what it has.
Metric KnownMetric(const Rows& rows, Metric wanted) {
  const bool any_active = std::ranges::any_of(rows, [](const SampleRow* row) {
    return TimeOf(*row, Metric::kActive).has_value() && !row->suspect;
  });
  return any_active ? wanted : Metric::kSpan;
}

// How many runs are left out, by reason.
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
    } else if (time_ps <= 0) {  // a time of 0 has no ratio
      leave_out(row->start_ps, "without ops");
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

// A pattern whose group is too short makes one variant of several programs.
void NoteMerged(const std::map<Key, Rows>& groups, std::vector<std::string>* notes) {
  std::set<std::string> told;
  for (const auto& [key, rows] : groups) {
    std::set<std::string> functions;
    for (const SampleRow* row : rows) functions.insert(row->function);
    const std::string id = rows[0]->variant_id.value_or("");
    if (functions.size() < 2 || !told.insert(id).second) continue;
    notes->push_back(absl::StrCat(
        "variant ", id, " is ", functions.size(), " functions together (", *functions.begin(), ", ",
        *std::next(functions.begin()), functions.size() > 2 ? ", ..." : "",
        "); where these are variants, --id-pattern must tell them apart"));
  }
}

std::vector<Series> SeriesOf(const Report& report, const Filters& filters,
                             const MeasureOptions& options, std::vector<std::string>* notes) {
  const DeviceLabels labels(report.samples);
  std::set<std::pair<std::string, std::string>> uncertain;  // device and function
  for (const FunctionRow& row : report.functions) {
    if (row.status != RowStatus::kRunsUncertain) continue;
    uncertain.insert({labels.Label(*row.device), row.function});
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
    all += rows.size();
  }
  if (!left_out.empty()) notes->push_back(LeftOutNote(left_out, all));
  return out;
}

// Over devices and programs; of functions that have runs.
std::vector<KernelTime> KernelsOf(const Report& report, const Filters& filters) {
  std::map<std::string, uint64_t> runs;
  for (const FunctionRow& row : report.functions) runs[row.function] += row.runs;
  std::map<std::pair<std::string, std::string>, double> times_ps;  // without what is nested
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

bool Overlap(const std::vector<const Series*>& devices, size_t run) {
  double latest_start = -1e300, first_end = 1e300;
  for (const Series* device : devices) {
    const Sampled& sample = device->samples[run];
    const double start = static_cast<double>(sample.start_ps);
    latest_start = std::max(latest_start, start);
    first_end = std::min(first_end, start + sample.value);
  }
  return latest_start <= first_end;
}

bool RunsMatch(const std::vector<const Series*>& devices) {
  const size_t runs = devices[0]->samples.size();
  for (const Series* device : devices) {
    if (device->samples.size() != runs || !device->left_out.empty()) return false;
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
      if (device->samples[run].value > out.samples[run].value) {
        out.samples[run] = device->samples[run];
      }
    }
  }
  return out;
}

}  // namespace

std::vector<Series> SlowestDevice(std::span<const Series> series, std::vector<std::string>* notes) {
  // By function, variant and program.
  std::map<std::tuple<std::string, std::string, uint32_t>, std::vector<const Series*>> functions;
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

void AddRows(const Report& report, const Filters& filters, const MeasureOptions& options,
             Measurements* out) {
  std::vector<std::string> notes;
  out->series = SeriesOf(report, filters, options, &notes);
  out->kernels = KernelsOf(report, filters);
  if (options.slowest_device) out->series = SlowestDevice(out->series, &notes);
  for (const std::string& note : notes) {
    out->notes.push_back(absl::StrCat(out->source, ": ", note));
  }
}

}  // namespace xplane_time::compare
