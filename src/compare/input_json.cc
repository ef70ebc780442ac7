// JSON inputs: Google Benchmark, our own results with samples, energies, and tuning sessions. The
// content is not trusted: every value is checked, and errors name the file and the place.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <limits>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compare/inputs.h"
#include "io/whole_file.h"
#include "json/described.h"
#include "kineto/transcode.h"
#include "re2/re2.h"
#include "status.h"

namespace xplane_time {

// The required fields of a sample besides its plane and clock.
XPLANE_TIME_JSON_FIELDS(SampleRow, function, run, start_ps, span_ps)

namespace compare {
namespace {

using json::Find, json::FlagOf, json::Json, json::TextOf, json::WholeOf;

// Parses a file. Errors: DataLoss.
absl::StatusOr<Json> ParseFile(const std::string& path, std::string_view content) {
  Json document = json::Parse(content);
  if (!document.is_discarded()) return document;
  if (json::NestsDeeper(content)) {
    return DataLoss(path, ": JSON nested more than ", json::kMostLevels, " levels deep");
  }
  return DataLoss(path, ": truncated or damaged JSON (the file ends at byte ", content.size(),
                  "); write the file again, and wait until its writer has finished");
}

// Null if the member is absent or not a list.
const Json* ListIn(const Json& object, const char* name) {
  const Json* at = Find(object, name);
  return at != nullptr && at->is_array() ? at : nullptr;
}

std::string TextIn(const Json& object, const char* name) {
  return TextOf(object, name).value_or("");
}

// The series of a capture by name, in order of their first occurrence.
class SeriesByName {
 public:
  explicit SeriesByName(Measurements* capture) : series_(&capture->series) {}
  // `made`: initial value of a new series.
  Series& At(const std::string& name, Series made) {
    const auto [at, is_new] = places_.try_emplace(name, series_->size());
    if (is_new) series_->push_back(std::move(made));
    return (*series_)[at->second];
  }
  bool empty() const { return places_.empty(); }

 private:
  std::vector<Series>* series_;
  std::map<std::string, size_t> places_;
};

// The longest time that a trace can hold.
constexpr double kMaxTimePs = static_cast<double>(std::numeric_limits<int64_t>::max());

// Counts times that cannot be compared, by reason.
class LeftOutTimes {
 public:
  // Returns whether a time counts.
  bool Admit(double time_ps) {
    ++all_;
    const char* const why = std::isnan(time_ps)    ? "not a number"
                            : time_ps < 0          ? "negative"
                            : time_ps == 0         ? "zero"
                            : time_ps > kMaxTimePs ? "over 106 days"
                                                   : nullptr;
    if (why != nullptr) ++reasons_[why];
    return why == nullptr;
  }

  // Adds a note such as "b.json: 3 of 20 times left out (negative: 2, zero: 1)".
  void AddNote(const std::string& path, std::vector<std::string>* notes) const {
    uint64_t sum = 0;
    for (const auto& [why, count] : reasons_) sum += count;
    if (sum == 0) return;
    notes->push_back(absl::StrCat(path, ": ", sum, " of ", all_, " times left out (",
                                  absl::StrJoin(reasons_, ", ", absl::PairFormatter(": ")), ")"));
  }

 private:
  uint64_t all_ = 0;
  std::map<std::string, uint64_t> reasons_;
};

// Google Benchmark: one file is one process, and its repetitions are the samples.

absl::StatusOr<double> UnitPs(const std::string& path, const std::string& unit) {
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"", 1e3}, {"ns", 1e3}, {"us", 1e6}, {"ms", 1e9}, {"s", 1e12}};
  for (const auto& [name, unit_ps] : kUnits) {
    if (name == unit) return unit_ps;
  }
  return DataLoss(path, ": time_unit \"", unit, "\" is not one of ns, us, ms, s");
}

void AddContext(const Json& context, std::initializer_list<const char*> names,
                std::vector<Fact>* facts) {
  for (const char* name : names) {
    const Json* value = Find(context, name);
    if (value == nullptr) continue;
    // Members in alphabetical order, because facts are compared as text.
    facts->push_back({name, value->is_string() ? value->get<std::string>()
                                               : json::Dump(Json(nlohmann::json(*value)))});
  }
}

struct BenchmarkRow {
  std::string name;
  std::optional<double> time_ps;  // empty: an aggregate
  std::string failure;
};

absl::StatusOr<BenchmarkRow> ReadBenchmark(const std::string& path, size_t at, const Json& json,
                                           const char* time_name) {
  BenchmarkRow row;
  if (!json.is_object()) return DataLoss(path, ": benchmarks[", at, "] is not an object");
  row.name = TextIn(json, "run_name");
  if (row.name.empty()) row.name = TextIn(json, "name");
  if (FlagOf(json, "error_occurred")) {
    row.failure = TextIn(json, "error_message");
    if (row.failure.empty()) row.failure = "the benchmark failed";
    return row;
  }
  if (TextIn(json, "run_type") == "aggregate" || json.contains("aggregate_name")) return row;
  ASSIGN_OR_RETURN(const double unit_ps, UnitPs(path, TextIn(json, "time_unit")));
  if (!row.name.empty() && json.contains(time_name) && Find(json, time_name) == nullptr) {
    row.failure = absl::StrCat(time_name, " is not a number");
    return row;
  }
  const auto time = json::NumberOf(json, time_name);
  if (row.name.empty() || !time.has_value()) {
    return DataLoss(path, ": benchmarks[", at, "] lacks a name or ", time_name);
  }
  row.time_ps = *time * unit_ps;
  return row;
}

absl::StatusOr<Measurements> FromBenchmark(const std::string& path, const Json& document,
                                           const MeasureOptions& options) {
  ASSIGN_OR_RETURN(const Filters filters, Filters::Compile(options.report));
  const char* time_name = options.benchmark_time == BenchmarkTime::kReal ? "real_time" : "cpu_time";
  Measurements out = {.source = path};
  ASSIGN_OR_RETURN(out.options, OptionFacts(path, "Google Benchmark's JSON", options.report,
                                            {"function", "exclude", "prefix", "id_pattern"}));
  // Facts must be equal to compare two runs of a benchmark; labels are only reported.
  if (const Json* context = Find(document, "context"); context != nullptr) {
    AddContext(*context, {"num_cpus", "library_build_type", "caches"}, &out.facts);
    AddContext(*context, {"host_name", "mhz_per_cpu", "cpu_scaling_enabled"}, &out.labels);
  }
  SeriesByName series_of(&out);
  LeftOutTimes left_out;
  uint64_t aggregates = 0;
  const Json& benchmarks = document.at("benchmarks");
  for (size_t i = 0; i < benchmarks.size(); ++i) {
    ASSIGN_OR_RETURN(const BenchmarkRow row, ReadBenchmark(path, i, benchmarks[i], time_name));
    if (!row.time_ps.has_value() && row.failure.empty()) ++aggregates;
    const bool timed = row.time_ps.has_value();
    if ((!timed && row.failure.empty()) || !filters.WantsFunction(row.name)) continue;
    const auto variant_id = filters.id.Capture(row.name);
    if (options.by_variant && !variant_id.has_value()) continue;
    Series& series =
        series_of.At(options.by_variant ? *variant_id : row.name,
                     {.function = row.name, .variant_id = variant_id, .metric = time_name});
    if (!row.failure.empty()) series.failure = row.failure;
    if (timed && left_out.Admit(*row.time_ps)) series.samples.push_back({*row.time_ps, 0});
  }
  left_out.AddNote(path, &out.notes);
  if (benchmarks.empty()) {
    return FailedPrecondition(
        path,
        ": contains no benchmarks; check --benchmark_filter, and whether the program finished");
  }
  if (aggregates > 0 && series_of.empty()) {
    return FailedPrecondition(
        path,
        ": contains only aggregates; run the benchmark without --benchmark_report_aggregates_only");
  }
  return out;
}

// Our own results: report.v1 or functions.v1 with samples.

DeviceRef DeviceOf(const Json& row) {
  DeviceRef device;
  device.plane = TextIn(row, "plane");
  device.ordinal = WholeOf(row, "ordinal");
  device.host = TextIn(row, "host");
  device.input = static_cast<uint32_t>(WholeOf(row, "input").value_or(0));
  return device;
}

absl::StatusOr<SampleRow> ReadSample(const std::string& path, size_t at, const Json& json) {
  const auto bad = [&](const char* what) {
    return DataLoss(path, ": samples[", at, "]: ", what, "; write the file again with --samples");
  };
  if (!json.is_object()) return bad("is not an object");
  const auto clock = TextOf(json, "clock");
  SampleRow row;
  if (!json::FromJson(json, &row) || !TextOf(json, "plane") || !clock) {
    return bad("lacks function, plane, clock, run, start_ps or span_ps");
  }
  row.device = DeviceOf(json);
  row.program_id = TextOf(json, "program_id");
  row.variant_id = TextOf(json, "variant_id");
  row.active_ps = WholeOf(json, "active_ps");
  row.sum_ps = WholeOf(json, "sum_ps");
  row.clock = *clock == "device" ? Clock::kDevice : Clock::kProfile;
  row.suspect = FlagOf(json, "suspect");
  return row;
}

// The capture of an input. An input that the document does not describe is its own capture.
uint32_t CaptureOf(const Json& document, uint32_t input) {
  const Json* inputs = ListIn(document, "inputs");
  if (inputs == nullptr || input >= inputs->size()) return input;
  return static_cast<uint32_t>(WholeOf((*inputs)[input], "capture").value_or(input));
}

void AddDeviceKinds(const Json& document, Measurements* out) {
  const Json* devices = ListIn(document, "devices");
  if (devices == nullptr) return;
  std::set<std::string> kinds;
  for (const Json& device : *devices) {
    if (WholeOf(device, "executions").value_or(0) == 0) continue;
    if (const auto kind = TextOf(device, "kind")) kinds.insert(*kind);
  }
  const std::string all = absl::StrJoin(kinds, " and ");
  if (!all.empty()) out->facts.push_back({"device kind", all});
}

// Reads the functions and kernels of one capture, as far as its series need them.
void ReadRows(const Json& document, uint32_t capture, Report* report) {
  const auto rows = [&](const char* section, auto read) {
    const Json* list = ListIn(document, section);
    if (list == nullptr) return;
    for (const Json& row : *list) {
      const DeviceRef device = DeviceOf(row);
      if (CaptureOf(document, device.input) == capture) read(row, device);
    }
  };
  rows("functions", [&](const Json& row, const DeviceRef& device) {
    FunctionRow& function = report->functions.emplace_back();
    function.device = device;
    function.function = TextIn(row, "function");
    function.runs = static_cast<uint64_t>(std::max<int64_t>(0, WholeOf(row, "runs").value_or(0)));
    function.is_range = !TextOf(row, "plane").has_value() && !WholeOf(row, "ordinal").has_value();
    const auto status = TextOf(row, "status");
    if (status == "runs_uncertain") function.status = RowStatus::kRunsUncertain;
    if (status == "lost_executions") function.status = RowStatus::kLostExecutions;
  });
  const Json* options = Find(document, "options");
  if (options != nullptr && options->contains("top")) return;  // kernels were cut by --top
  rows("kernels", [&](const Json& row, const DeviceRef&) {
    const auto kernel = TextOf(row, "kernel");
    const auto self_ps = WholeOf(row, "self_ps");
    const auto time_ps = self_ps.has_value() ? self_ps : WholeOf(row, "total_ps");
    if (!kernel.has_value() || !time_ps.has_value()) return;
    KernelRow& one = report->kernels.emplace_back();
    one.kernel = *kernel;
    one.function = TextOf(row, "function");
    one.self_ps = time_ps;
  });
}

// The options with which a result was written.
absl::StatusOr<OptionValues> RecordedOptions(const std::string& path, const Json& document) {
  OptionValues values;
  const Json* options = Find(document, "options");
  if (options == nullptr) return values;
  if (!options->is_object()) {
    return DataLoss(path, ": options is not an object; write the file again with --samples");
  }
  for (const auto& [name, value] : options->items()) {
    values[name] = value.is_string() ? value.get<std::string>() : json::Dump(value);
  }
  // --top cuts the rows of a report, but not its samples.
  if (TextOf(document, "schema") == "xplane-time.report.v1") values.erase("top");
  return values;
}

absl::StatusOr<std::vector<Measurements>> FromResult(const std::string& path, const Json& document,
                                                     const MeasureOptions& asked) {
  MeasureOptions options = asked;
  ASSIGN_OR_RETURN(OptionValues recorded, RecordedOptions(path, document));
  const bool lacks_runs = recorded.contains("trim");
  ASSIGN_OR_RETURN(const std::vector<Fact> facts,
                   OptionFacts(path, std::move(recorded), &options.report));
  ASSIGN_OR_RETURN(const Filters filters, Filters::Compile(options.report));
  const Json* samples = ListIn(document, "samples");
  if (samples == nullptr || samples->empty()) {
    return FailedPrecondition(path, ": contains no samples; write it again with --samples");
  }
  std::map<uint32_t, Report> captures;
  for (size_t i = 0; i < samples->size(); ++i) {
    ASSIGN_OR_RETURN(SampleRow row, ReadSample(path, i, (*samples)[i]));
    // The pattern of this command takes precedence over the one that wrote the file.
    row.variant_id = filters.id.Capture(row.function);
    captures[CaptureOf(document, row.device.input)].samples.push_back(std::move(row));
  }
  std::vector<Measurements> out;
  for (auto& [capture, report] : captures) {
    Measurements& one = out.emplace_back();
    one.source = captures.size() == 1 ? path : absl::StrCat(path, " #", capture + 1);
    one.options = facts;
    one.lacks_runs = lacks_runs;
    AddDeviceKinds(document, &one);
    ReadRows(document, capture, &report);
    AddRows(report, filters, options, &one);
  }
  return out;
}

// Energies (xplane-time.energy.v1): a function has one value per capture, in joules per run.

constexpr char kEnergySchema[] = "xplane-time.energy.v1";
constexpr double kWholeCoverage = 0.95;  // a lower coverage is reported in a note
constexpr double kNormalCi95 = 1.96;     // half of a 95 % interval in standard errors

std::string DoubtOf(const Json& device) {
  if (const auto reason = TextOf(device, "reason")) {
    return "the energies of its device are unknown: " + *reason;
  }
  const Json* const poor_fit = Find(device, "poor_fit");
  if (poor_fit == nullptr || !poor_fit->is_boolean()) {
    return "the file lacks poor_fit, which states whether the executions explain the power";
  }
  if (*poor_fit) return "the executions do not explain the power (poor_fit)";
  if (TextIn(device, "clock") == "ambiguous") return "its execution times are uncertain (clock)";
  return FlagOf(device, "shared") ? "other processes also use the device (shared)" : "";
}

// Whether the energies of all runs and of all executions differ, which should be equal.
bool RunsDisagree(const Json& row, double per_run_j) {
  const auto runs = json::NumberOf(row, "runs"), count = json::NumberOf(row, "count"),
             per_execution_j = json::NumberOf(row, "per_execution_j");
  if (!runs || !count || !per_execution_j) return false;
  const double whole_j = *per_execution_j * *count;
  return !(std::abs(per_run_j * *runs - whole_j) <= 1e-6 * whole_j);
}

// A value with its 95 % interval.
struct Stated {
  double value, lo, hi;

  bool is_sound() const { return value > 0 && lo <= value && value <= hi && std::isfinite(hi); }
};

// Empty: a number is missing.
std::optional<Stated> StatedOf(const Json& row, const std::string& name) {
  const auto value = json::NumberOf(row, name.c_str());
  const Json* const interval = ListIn(row, (name + "_ci95").c_str());
  const bool has_interval = interval != nullptr && interval->size() == 2 &&
                            (*interval)[0].is_number() && (*interval)[1].is_number();
  if (!value.has_value() || !has_interval) return std::nullopt;
  return Stated{*value, (*interval)[0].get<double>(), (*interval)[1].get<double>()};
}

// Reads the value of a row and its error, or the reason why it is unknown. Returns the description
// of an invalid row.
//
// The error is that of per_run_j. If windows cover only a part of the executions, it differs from
// the error of energy_j. Older files state the error of energy_j only.
std::string ReadEnergy(const Json& row, Series* series) {
  if (TextIn(row, "status") != "ok") {
    series->failure = TextOf(row, "reason").value_or("no reason given");
    return "";
  }
  if (TextIn(row, "kind") == "modelled") {
    series->failure = "its power was stated, not measured";
    return "";
  }
  if (!row.contains("per_run_j")) return "lacks per_run_j";
  const auto per_run_j = json::NumberOf(row, "per_run_j");
  if (!row["per_run_j"].is_null() && !per_run_j) return "has a per_run_j that is not a number";
  const std::optional<Stated> energy = StatedOf(row, "energy_j");
  if (!energy.has_value()) return "has the status ok, but lacks energy_j or its interval";
  if (!energy->is_sound()) return "has an energy that is not above 0, or not within its interval";
  if (!per_run_j.has_value()) {
    series->failure = "the split of its executions into runs is uncertain";
    return "";
  }
  const bool states_run = row.contains("per_run_j_ci95");
  const std::optional<Stated> run = states_run ? StatedOf(row, "per_run_j") : energy;
  if (!run.has_value()) return "has a per_run_j without a valid interval";
  if (!run->is_sound() || !(*per_run_j > 0) || !std::isfinite(*per_run_j)) {
    return "has a per_run_j that is not above 0, or not within its interval";
  }
  if (RunsDisagree(row, *per_run_j)) {
    return "has a per_run_j that disagrees with its runs, count and per_execution_j";
  }
  if (run->lo <= 0) {
    series->failure = "too_uncertain";
  } else {
    series->samples = {{*per_run_j, 0}};
    series->log_error =
        std::max(std::log(run->value / run->lo), std::log(run->hi / run->value)) / kNormalCi95;
  }
  return "";
}

// Adds a series by function (or variant) and device. If a name occurs twice, because several
// programs share it, they cannot be matched with another capture, and the energy is unknown.
absl::Status AddEnergy(const std::string& path, size_t at, Series series, std::string program,
                       bool by_variant, std::map<std::string, std::set<std::string>>* seen,
                       SeriesByName* series_of) {
  const std::string name = by_variant ? *series.variant_id : series.function;
  std::set<std::string>& programs = (*seen)[absl::StrCat(series.device, "\n", name)];
  if (!programs.insert(absl::StrCat(series.function, "\n", program)).second) {
    return DataLoss(path, ": functions[", at, "] occurs twice; write the file again");
  }
  Series& one = series_of->At(absl::StrCat(series.device, "\n", name), series);
  if (programs.size() == 1) return absl::OkStatus();
  one.samples.clear();
  one.log_error.reset();
  one.failure = absl::StrCat(programs.size(), " programs have this name");
  return absl::OkStatus();
}

// For each device the reason why its functions are in doubt; empty: no doubt.
absl::StatusOr<std::map<std::string, std::string>> ReadEnergyDevices(const std::string& path,
                                                                     const Json& devices,
                                                                     Measurements* out) {
  std::map<std::string, std::string> doubts;
  std::set<std::string> sensors;
  for (const Json& row : devices) {
    if (!doubts.emplace(DeviceName(DeviceOf(row)), DoubtOf(row)).second) {
      return FailedPrecondition(path,
                                ": contains several hosts or captures; write one file for each");
    }
    if (const auto sensor = TextOf(row, "sensor")) sensors.insert(*sensor);
    if (json::NumberOf(row, "coverage").value_or(1) < kWholeCoverage) {
      out->notes.push_back(
          absl::StrCat(path, ": ", DeviceName(DeviceOf(row)), ": the power log covers ",
                       std::llround(*json::NumberOf(row, "coverage") * 100),
                       " % of the capture, so the energy of a run is the mean over the covered "
                       "part; if later runs differ from earlier ones, record the whole capture"));
    }
  }
  if (!sensors.empty()) out->facts.push_back({"sensor", absl::StrJoin(sensors, " and ")});
  return doubts;
}

absl::StatusOr<Measurements> FromEnergies(const std::string& path, const Json& document,
                                          const MeasureOptions& asked) {
  MeasureOptions options = asked;
  RETURN_IF_ERROR(OptionFacts(path, "a result of energies", options.report,
                              {"function", "exclude", "prefix", "id_pattern"})
                      .status());
  ASSIGN_OR_RETURN(OptionValues recorded, RecordedOptions(path, document));
  if (recorded.contains("top")) {
    return FailedPrecondition(
        path, ": was written with --top, which omits functions; write it again without --top");
  }
  recorded.erase("map");  // the fact `sensor` is recorded instead
  Measurements out = {.source = path};
  ASSIGN_OR_RETURN(out.options, OptionFacts(path, std::move(recorded), &options.report));
  ASSIGN_OR_RETURN(const Filters filters, Filters::Compile(options.report));
  const Json *devices = ListIn(document, "devices"), *functions = ListIn(document, "functions");
  if (devices == nullptr || functions == nullptr) {
    return DataLoss(path, ": lacks devices or functions; write the file again");
  }
  ASSIGN_OR_RETURN(const auto doubts, ReadEnergyDevices(path, *devices, &out));
  SeriesByName series_of(&out);
  std::map<std::string, std::set<std::string>> seen;
  for (size_t i = 0; i < functions->size(); ++i) {
    const Json& row = (*functions)[i];
    Series series = {.function = TextIn(row, "function"), .metric = kEnergyMetric};
    std::string wrong = series.function.empty() ? "lacks a function" : ReadEnergy(row, &series);
    if (!wrong.empty()) {
      return DataLoss(path, ": functions[", i, "] ", wrong,
                      "; write the file again with xplane-time energy --format json");
    }
    if (!filters.WantsFunction(series.function)) continue;
    series.variant_id = filters.id.Capture(series.function);
    if (options.by_variant && !series.variant_id.has_value()) continue;
    series.device = DeviceName(DeviceOf(row));
    const auto doubt = doubts.find(series.device);
    series.doubt = doubt != doubts.end() ? doubt->second : "its device is not among the devices";
    RETURN_IF_ERROR(AddEnergy(path, i, std::move(series), TextIn(row, "program_id"),
                              options.by_variant, &seen, &series_of));
  }
  return out;
}

// A stored tuning session (xplane-time.tune.v1): variants become functions, the session a capture.

// The clock that the harness reported; it is stored with the states of the variants.
std::string ClockOf(const Json& rounds) {
  for (const Json& round : rounds) {
    const Json* notes = Find(round, "notes");
    if (notes != nullptr && notes->contains("harness"))
      return TextIn(notes->at("harness"), "clock");
  }
  return "";
}

absl::StatusOr<Measurements> FromTuning(const std::string& path, const Json& document,
                                        const MeasureOptions& options) {
  ASSIGN_OR_RETURN(const Filters filters, Filters::Compile(options.report));
  const absl::Status bad =
      DataLoss(path, ": damaged rounds; write it again with tune export --format json");
  const Json* rounds = ListIn(document, "rounds");
  if (rounds == nullptr || !document.contains("session")) return bad;
  Measurements out = {.source = path};
  // Ids of variants are those of the session.
  ASSIGN_OR_RETURN(out.options, OptionFacts(path, "a tuning session", options.report,
                                            {"function", "exclude", "prefix"}));
  for (const auto& [name, fact] :
       {std::pair("device_class", "device model"), std::pair("workload", "workload"),
        std::pair("protocol_hash", "protocol")}) {
    std::string value = TextIn(document.at("session"), name);
    if (!value.empty()) out.facts.push_back({fact, std::move(value)});
  }
  const std::string clock = ClockOf(*rounds);
  const auto of_variant = [&clock](const std::string& id) {
    return Series{.function = id, .variant_id = id, .metric = "tuned", .clock = clock};
  };
  SeriesByName series_of(&out);
  LeftOutTimes left_out;
  std::map<std::string, std::string> failures;  // the first one of each variant
  for (const Json& round : *rounds) {
    const Json* samples = ListIn(round, "samples");
    if (samples == nullptr) return bad;
    if (FlagOf(round, "discarded")) continue;
    for (const Json& sample : *samples) {
      const std::string id = TextIn(sample, "id");
      if (id.empty() || !sample.contains("t_ps")) return bad;
      const Json& time_ps = sample.at("t_ps");
      const std::string status = TextIn(sample, "status");
      if (!filters.WantsFunction(id)) continue;
      if (status != "ok") {
        failures.try_emplace(id, status);
        continue;
      }
      if (!time_ps.is_number_integer()) return bad;
      Series& series = series_of.At(id, of_variant(id));
      const auto time = time_ps.get<double>();
      if (left_out.Admit(time)) series.samples.push_back({time, 0});
    }
  }
  left_out.AddNote(path, &out.notes);
  // Failures of a variant that has times were transient.
  for (const auto& [id, status] : failures) {
    Series& series = series_of.At(id, of_variant(id));
    if (series.samples.empty()) series.failure = status;
  }
  if (rounds->empty() || (out.series.empty() && options.report.function.empty())) {
    return FailedPrecondition(path, ": a tuning session without timings");
  }
  return out;
}

// Replaces NaN and Infinity, which Google Benchmark writes for counters without a value, by null.
std::string UnknownAsNull(std::string_view content) {
  if (content.find("NaN") == content.npos && content.find("Infinity") == content.npos) {
    return std::string(content);
  }
  static const re2::RE2 kTextOrUnknown(R"re((?s)"(?:[^"\\]|\\.)*"?|(-?(?:NaN|Infinity)))re",
                                       re2::RE2::Latin1);
  std::string out;
  re2::StringPiece rest(content.data(), content.size()), unknown;
  const char* copied = content.data();
  while (re2::RE2::FindAndConsume(&rest, kTextOrUnknown, &unknown)) {
    if (unknown.empty()) continue;
    out.append(copied, unknown.data()).append("null");
    copied = unknown.data() + unknown.size();
  }
  return out.append(copied, content.data() + content.size());
}

}  // namespace

bool LooksLikeJson(std::string_view content) {
  constexpr std::string_view kSpace = " \t\r\n", kMark = "\xef\xbb\xbf";
  if (content.starts_with(kMark)) content.remove_prefix(kMark.size());
  const size_t first = content.find_first_not_of(kSpace);
  if (first == std::string_view::npos || content[first] != '{') return false;
  // A trace may begin with the bytes "\n{": the tag and the length of its first plane.
  const size_t next = content.find_first_not_of(kSpace, first + 1);
  return next != std::string_view::npos && (content[next] == '"' || content[next] == '}');
}

bool IsJsonOfMeasurements(const std::string& path) {
  constexpr size_t kHeadBytes = size_t{1} << 16;
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  const std::string head = io::ReadFile(path, kHeadBytes).value_or("");
  return LooksLikeJson(head) && !kineto::LooksLikeTrace(head);
}

absl::StatusOr<std::vector<Measurements>> FromJson(const std::string& path,
                                                   std::string_view content,
                                                   const MeasureOptions& options) {
  ASSIGN_OR_RETURN(const Json document, ParseFile(path, UnknownAsNull(content)));
  const std::string schema = TextIn(document, "schema");
  const bool is_benchmark = ListIn(document, "benchmarks") != nullptr;
  const bool is_energies = schema == kEnergySchema;
  if (schema.starts_with("xplane-time.energy.") && !is_energies) {
    return FailedPrecondition(path, ": the schema is ", schema, ", but this version reads ",
                              kEnergySchema,
                              "; write it again with this version's xplane-time energy");
  }
  if (schema.starts_with("xplane-time.") || is_benchmark) {
    RETURN_IF_ERROR(CheckObjective(path, is_energies, options.objective));
  }
  if (is_benchmark || is_energies || schema == "xplane-time.tune.v1") {
    ASSIGN_OR_RETURN(Measurements one, is_benchmark  ? FromBenchmark(path, document, options)
                                       : is_energies ? FromEnergies(path, document, options)
                                                     : FromTuning(path, document, options));
    return std::vector{std::move(one)};
  }
  if (schema.starts_with("xplane-time.tune")) {
    return FailedPrecondition(path,
                              ": contains the decision of a tuning session without its samples; "
                              "give the output of tune export --format json");
  }
  if (schema.starts_with("xplane-time.")) return FromResult(path, document, options);
  return FailedPrecondition(path,
                            ": the JSON is neither from Google Benchmark (no \"benchmarks\") nor "
                            "from xplane-time (no \"schema\"); give traces, a file of "
                            "--benchmark_out, or JSON of xplane-time written with --samples");
}

}  // namespace compare
}  // namespace xplane_time
