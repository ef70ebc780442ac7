// Computes the tables of a grid from its samples, and writes them as CSV and JSON.
//
// RowOf summarizes the samples that count of one setting: quantiles and the interval of the median
// latency, means of metrics, the largest peak memory. Reductions are those that the harness
// reports, otherwise 1 - own / baseline. MarkFront marks the Pareto front of latency and energy, by
// comparing all pairs of rows. Quantiles use a fixed seed, so verify gets the same bytes.
#include "evidence/grid.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/str_replace.h"
#include "output/evidence.h"
#include "status.h"
#include "tune/space_json.h"
#include "xplane_time/aggregate.h"
#include "xplane_time/trackers.h"

namespace xplane_time::evidence {
namespace {

using result::FieldSink;

constexpr double kPsPerUs = 1e6;

// Metrics with their own columns, in a sample's CSV files and in results.csv.
constexpr std::array<std::string_view, 5> kMemory = {
    "peak_rss_bytes", "kv_cache_bytes", "activation_bytes", "temp_buffer_bytes", "timestamp_us"};
constexpr std::array<std::string_view, 8> kOthers = {
    "wall_time_us",    "kernel_time_us",     "seq_len",          "accuracy",
    "coherence_delta", "kv_cache_reduction", "energy_reduction", "peak_mem_reduction"};

std::optional<double> Metric(const GridSample& sample, std::string_view name) {
  return json::NumberOf(sample.metrics, std::string(name).c_str());
}

std::optional<int64_t> WholeMetric(const GridSample& sample, std::string_view name) {
  constexpr double kMost = 9e15;
  const auto value = Metric(sample, name);
  if (!value.has_value() || !(std::abs(*value) < kMost)) return std::nullopt;
  return std::llround(*value);
}

// Mean over the samples that have a value, in their order.
template <typename Value>
std::optional<double> Mean(const std::vector<GridSample>& samples, Value value_of) {
  double sum = 0;
  uint64_t n = 0;
  for (const GridSample& each : samples) {
    const std::optional<double> value = each.counts() ? value_of(each) : std::nullopt;
    if (!value.has_value()) continue;
    sum += *value;
    ++n;
  }
  return n == 0 ? std::nullopt : std::optional(sum / static_cast<double>(n));
}

std::optional<double> MeanOf(const std::vector<GridSample>& samples, std::string_view metric) {
  return Mean(samples, [&](const GridSample& each) { return Metric(each, metric); });
}

std::optional<double> LargestOf(const std::vector<GridSample>& samples, std::string_view metric) {
  std::optional<double> largest;
  for (const GridSample& each : samples) {
    if (each.counts()) largest = std::max(largest, Metric(each, metric));
  }
  return largest;
}

std::optional<double> EnergyOf(const std::vector<GridSample>& samples) {
  return Mean(samples, [](const GridSample& each) {
    const bool known = each.energy_uj.value_or(0) > 0;  // 0: below the resolution of the meter
    return known ? std::optional(static_cast<double>(*each.energy_uj)) : std::nullopt;
  });
}

// The reduction that the harness reports, otherwise the reduction relative to the baseline.
std::optional<double> Reduction(const std::optional<double>& said, const std::optional<double>& own,
                                const std::optional<double>& baseline) {
  if (said.has_value()) return said;
  if (!own.has_value() || !baseline.has_value() || !(*baseline > 0)) return std::nullopt;
  return 1 - *own / *baseline;
}

std::optional<double> Difference(const std::optional<double>& own,
                                 const std::optional<double>& baseline) {
  if (!own.has_value() || !baseline.has_value()) return std::nullopt;
  return *own - *baseline;
}

void AddLatencies(const std::vector<GridSample>& samples, GridRow* row) {
  std::vector<int64_t> times_ps;
  for (const GridSample& each : samples) {
    if (each.counts()) times_ps.push_back(*each.t_ps);
  }
  row->n = times_ps.size();
  row->failed = samples.size() - times_ps.size();
  if (times_ps.empty()) return;
  const Summary all = Summarize(times_ps, /*seed=*/0);
  const auto us = [](const std::optional<double>& ps) {
    return ps.has_value() ? std::optional(*ps / kPsPerUs) : std::nullopt;
  };
  row->p95_latency_us = us(all.p95);
  row->p99_latency_us = us(all.p99);
  row->median_latency_us = us(all.median);
  row->median_lo_us = us(all.median_ci95_lo);
  row->median_hi_us = us(all.median_ci95_hi);
}

GridRow RowOf(const std::string& setting, const std::vector<GridSample>& own,
              const std::vector<GridSample>& baseline) {
  GridRow row = {.setting = setting};
  AddLatencies(own, &row);
  row.accuracy = MeanOf(own, "accuracy");
  row.energy_uj = EnergyOf(own);
  row.coherence_delta = MeanOf(own, "coherence_delta");
  if (!row.coherence_delta.has_value()) {
    row.coherence_delta = Difference(MeanOf(own, "coherence"), MeanOf(baseline, "coherence"));
  }
  row.kv_cache_reduction =
      Reduction(MeanOf(own, "kv_cache_reduction"), MeanOf(own, "kv_cache_bytes"),
                MeanOf(baseline, "kv_cache_bytes"));
  row.peak_mem_reduction =
      Reduction(MeanOf(own, "peak_mem_reduction"), LargestOf(own, "peak_rss_bytes"),
                LargestOf(baseline, "peak_rss_bytes"));
  row.energy_reduction =
      Reduction(MeanOf(own, "energy_reduction"), row.energy_uj, EnergyOf(baseline));
  return row;
}

// Marks the rows that no other row beats: none is better in one value and at least as good in the
// other.
void MarkFront(std::vector<GridRow>* rows) {
  const auto beats = [](const GridRow& a, const GridRow& b) {
    return *a.median_latency_us <= *b.median_latency_us && *a.energy_uj <= *b.energy_uj &&
           (*a.median_latency_us < *b.median_latency_us || *a.energy_uj < *b.energy_uj);
  };
  const auto has_both = [](const GridRow& row) {
    return row.median_latency_us.has_value() && row.energy_uj.has_value();
  };
  for (GridRow& row : *rows) {
    if (!has_both(row)) continue;
    row.on_front = std::ranges::none_of(
        *rows, [&](const GridRow& other) { return has_both(other) && beats(other, row); });
  }
}

std::set<std::string> OtherMetrics(const GridSamples& samples) {
  std::set<std::string> names;
  for (const auto& of_setting : samples) {
    for (const GridSample& each : of_setting) {
      for (const auto& [name, unused] : each.metrics.items()) names.insert(name);
    }
  }
  for (const std::string_view each : kMemory) names.erase(std::string(each));
  for (const std::string_view each : kOthers) names.erase(std::string(each));
  return names;
}

// ---- Files

// The measured time is the kernel time if it comes from the device's clock; otherwise the wall
// time.
std::string LatencyCsv(const std::vector<GridSample>& samples, bool is_wall) {
  std::vector<GridSample> rows;
  std::ranges::copy_if(samples, std::back_inserter(rows), &GridSample::counts);
  return output::CsvText(
      result::TableOf("", std::move(rows), [is_wall](const GridSample& each, FieldSink* sink) {
        const double measured_us = static_cast<double>(each.t_ps.value_or(0)) / kPsPerUs;
        const std::optional<double> none;
        const auto wall_us = Metric(each, "wall_time_us");
        const auto kernel_us = Metric(each, "kernel_time_us");
        sink->Field("sample_id", each.sample_id);
        sink->Field("wall_time_us", is_wall ? std::optional(measured_us) : wall_us);
        sink->Field("kernel_time_us", is_wall ? kernel_us : std::optional(measured_us));
        sink->Field("seq_len", WholeMetric(each, "seq_len"));
      }));
}

// Empty if no sample has memory metrics.
std::optional<std::string> MemoryCsv(const std::vector<GridSample>& samples) {
  std::vector<GridSample> rows;
  for (const GridSample& each : samples) {
    const auto has = [&](std::string_view name) {
      return name != "timestamp_us" && Metric(each, name).has_value();
    };
    if (each.counts() && std::ranges::any_of(kMemory, has)) rows.push_back(each);
  }
  if (rows.empty()) return std::nullopt;
  return output::CsvText(
      result::TableOf("", std::move(rows), [](const GridSample& each, FieldSink* sink) {
        const auto said = WholeMetric(each, "timestamp_us");
        sink->Field("timestamp_us", said.has_value() ? said : each.unix_us);
        for (size_t i = 0; i + 1 < kMemory.size(); ++i) {
          sink->Field(kMemory[i], WholeMetric(each, kMemory[i]));
        }
      }));
}

// Returns "l0.3_t2"; empty if a value cannot be part of a name.
std::string NameOfParams(std::string_view params_json) {
  const tune::Json params = tune::Stored(params_json);
  std::string name;
  if (!params.is_object()) return name;
  for (const auto& [key, value] : params.items()) {
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    Append(&name, name.empty() ? "" : "_", key, text);
  }
  return name;
}

bool IsFileName(std::string_view name) {
  constexpr size_t kMost = 100;
  return IsSafeName(name) && name.find('/') == std::string_view::npos && name.size() <= kMost;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> SettingNames(std::string_view space,
                                                      std::span<const Configuration> configurations,
                                                      std::string_view baseline) {
  const std::string prefix = IsFileName(space) ? Cat(space, "_") : "";
  std::vector<std::string> names;
  std::set<std::string> taken = {"results"};  // csv/results.csv
  for (const Configuration& each : configurations) {
    const bool is_listed = each.id != VariantId(each.params_json);
    std::string name = is_listed ? each.id : prefix + NameOfParams(each.params_json);
    if (!is_listed && (!IsFileName(name) || taken.contains(name))) name = each.id;
    const bool is_taken = name == "baseline" && each.id != baseline;  // csv/baseline.csv
    if (!IsFileName(name) || name.ends_with(".memory") || is_taken || !taken.insert(name).second) {
      return InvalidArgument("the setting \"", each.id,
                             "\" cannot be used as a file name; use an id of letters, digits and "
                             "._+=,@-, other than results and baseline");
    }
    names.push_back(std::move(name));
  }
  return names;
}

std::vector<std::pair<std::string, GridSample>> SamplesOf(const RoundRecord& round) {
  const json::Json notes = json::Parse(round.notes_json);
  const json::Json* const metrics = json::Find(notes, "metrics");
  std::vector<std::pair<std::string, GridSample>> samples;
  for (size_t i = 0; i < round.samples.size(); ++i) {
    const SampleRecord& of = round.samples[i];
    GridSample sample = {.batch = round.batch,
                         .round = round.round,
                         .slot = of.slot,
                         .discarded = round.discarded,
                         .status = of.status,
                         .t_ps = of.t_ps,
                         .energy_uj = of.energy_uj,
                         .unix_us = json::WholeOf(notes, "unix_us")};
    const bool has = metrics != nullptr && metrics->is_array() && i < metrics->size();
    if (has && (*metrics)[i].is_object()) sample.metrics = (*metrics)[i];
    samples.emplace_back(of.variant, std::move(sample));
  }
  return samples;
}

GridResult MakeGridResult(GridRun run, GridSamples samples) {
  GridResult result = {.run = std::move(run), .samples = std::move(samples)};
  const auto names = OtherMetrics(result.samples);
  result.metric_names.assign(names.begin(), names.end());
  const auto& settings = result.run.settings;
  const auto baseline = std::ranges::find(settings, result.run.baseline, &GridSetting::name);
  const size_t at = static_cast<size_t>(baseline - settings.begin());
  for (size_t i = 0; i < settings.size(); ++i) {
    const auto& own = result.samples[i];
    GridRow& row = result.rows.emplace_back(
        RowOf(settings[i].name, own, at < settings.size() ? result.samples[at] : own));
    for (const std::string& name : result.metric_names) row.metrics.push_back(MeanOf(own, name));
  }
  MarkFront(&result.rows);
  return result;
}

std::string LatencyFile(const GridRun& run, const GridSetting& setting) {
  return Cat("csv/", setting.name == run.baseline ? "baseline" : setting.name, ".csv");
}

std::string MemoryFile(const GridSetting& setting) {
  return Cat("csv/", setting.name, ".memory.csv");
}

std::string WitnessFile(const GridSetting& setting) {
  return Cat("witness/", setting.name, ".jsonl");
}

std::vector<ZipFile> GridFiles(const GridResult& result) {
  const output::Output all = output::GridOutput(result);
  std::vector<ZipFile> files = {{"csv/results.csv", output::CsvText(all.result.csv)},
                                {"results.json", output::JsonText(all.result)}};
  for (size_t i = 0; i < result.run.settings.size(); ++i) {
    const GridSetting& setting = result.run.settings[i];
    if (result.rows[i].n == 0) continue;
    files.push_back({LatencyFile(result.run, setting),
                     LatencyCsv(result.samples[i], result.run.harness.clock == "wall")});
    if (auto memory = MemoryCsv(result.samples[i]); memory.has_value()) {
      files.push_back({MemoryFile(setting), *std::move(memory)});
    }
  }
  return files;
}

}  // namespace xplane_time::evidence
