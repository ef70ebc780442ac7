// Google Benchmark's JSON: one file is one process, its repetitions are the samples.
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "compare/json_inputs.h"
#include "compare/option_facts.h"

namespace xplane_time::compare {
namespace {

std::string TextOf(const Json& row, const char* name) {
  const auto found = row.find(name);
  return found != row.end() && found->is_string() ? found->get<std::string>() : std::string();
}

absl::StatusOr<double> UnitPs(const std::string& path, const std::string& unit) {
  if (unit == "ns" || unit.empty()) return 1e3;
  if (unit == "us") return 1e6;
  if (unit == "ms") return 1e9;
  if (unit == "s") return 1e12;
  return absl::DataLossError(
      absl::StrCat(path, ": time_unit \"", unit, "\" is not one of ns, us, ms, s"));
}

// What makes two runs of one benchmark different measurements, and what is only told.
void AddFacts(const Json& document, Measurements* out) {
  const auto context = document.find("context");
  if (context == document.end() || !context->is_object()) return;
  for (const char* name : {"num_cpus", "library_build_type", "caches"}) {
    const auto found = context->find(name);
    if (found == context->end() || found->is_null()) continue;
    const auto text = found->dump(-1, ' ', false, Json::error_handler_t::replace);
    out->facts.push_back({name, found->is_string() ? found->get<std::string>() : text});
  }
  for (const char* name : {"host_name", "mhz_per_cpu", "cpu_scaling_enabled"}) {
    const auto found = context->find(name);
    if (found == context->end() || found->is_null()) continue;
    const auto text = found->dump(-1, ' ', false, Json::error_handler_t::replace);
    out->labels.push_back({name, found->is_string() ? found->get<std::string>() : text});
  }
}

struct Row {
  std::string name;
  std::optional<double> time_ps;  // empty: an aggregate
  std::string failure;
};

absl::StatusOr<Row> ReadRow(const std::string& path, size_t at, const Json& json,
                            const char* time_name) {
  Row row;
  if (!json.is_object()) {
    return absl::DataLossError(absl::StrCat(path, ": benchmarks[", at, "] is not an object"));
  }
  row.name = TextOf(json, "run_name");
  if (row.name.empty()) row.name = TextOf(json, "name");
  const auto error = json.find("error_occurred");
  if (error != json.end() && error->is_boolean() && error->get<bool>()) {
    row.failure = TextOf(json, "error_message");
    if (row.failure.empty()) row.failure = "the benchmark failed";
    return row;
  }
  if (TextOf(json, "run_type") == "aggregate" || json.contains("aggregate_name")) return row;
  const auto unit_ps = UnitPs(path, TextOf(json, "time_unit"));
  if (!unit_ps.ok()) return unit_ps.status();
  const auto time = json.find(time_name);
  if (!row.name.empty() && time != json.end() && time->is_null()) {
    row.failure = absl::StrCat(time_name, " is not a number");
    return row;
  }
  if (row.name.empty() || time == json.end() || !time->is_number()) {
    return absl::DataLossError(
        absl::StrCat(path, ": benchmarks[", at, "] lacks a name or ", time_name));
  }
  row.time_ps = time->get<double>() * *unit_ps;
  return row;
}

}  // namespace

absl::StatusOr<Measurements> FromBenchmark(const std::string& path, const Json& document,
                                           const MeasureOptions& options) {
  const auto filters = Filters::Compile(options.report);
  if (!filters.ok()) return filters.status();
  const char* time_name = options.benchmark_time == BenchmarkTime::kReal ? "real_time" : "cpu_time";
  auto facts = OptionFacts(path, "Google Benchmark's JSON", options.report,
                           {"function", "exclude", "prefix", "id_pattern"});
  if (!facts.ok()) return facts.status();
  Measurements out;
  out.source = path;
  out.options = *std::move(facts);
  AddFacts(document, &out);
  std::map<std::string, size_t> series_of;
  uint64_t aggregates = 0;
  const Json& benchmarks = document.at("benchmarks");
  for (size_t i = 0; i < benchmarks.size(); ++i) {
    const auto row = ReadRow(path, i, benchmarks[i], time_name);
    if (!row.ok()) return row.status();
    if (!row->time_ps.has_value() && row->failure.empty()) ++aggregates;
    const bool counts = row->time_ps.has_value() && std::isfinite(*row->time_ps);
    if ((!counts && row->failure.empty()) || !filters->WantsFunction(row->name)) continue;
    const auto variant_id = filters->id.Capture(row->name);
    if (options.by_variant && !variant_id.has_value()) continue;
    const std::string& key = options.by_variant ? *variant_id : row->name;
    const auto [at, is_new] = series_of.try_emplace(key, out.series.size());
    if (is_new) {
      Series& series = out.series.emplace_back();
      series.function = row->name;
      series.variant_id = variant_id;
      series.metric = time_name;
    }
    Series& series = out.series[at->second];
    if (!row->failure.empty()) series.failure = row->failure;
    if (counts && *row->time_ps > 0) series.samples.push_back({*row->time_ps, 0});
  }
  if (benchmarks.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, ": holds no benchmark; did --benchmark_filter leave any, and did the program end?"));
  }
  if (aggregates > 0 && series_of.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, ": holds aggregates only; run without --benchmark_report_aggregates_only"));
  }
  return out;
}

}  // namespace xplane_time::compare
