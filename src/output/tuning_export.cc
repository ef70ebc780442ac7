// Stored sessions for other tools.
#include <map>
#include <numeric>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "output/tuning.h"
#include "status.h"
#include "tune/space_json.h"

namespace xplane_time::output {
namespace {

using tune::Json, tune::Stored;

std::string Text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json Number(const std::optional<int64_t>& value) {
  return value.has_value() ? Json(*value) : Json();
}

// How preparing ended for those that it ended for, in the order of ids; known by rounds that
// measured nothing.
std::map<std::string, VariantState> FailedBefore(const RoundRecord& round) {
  std::map<std::string, VariantState> failed;
  if (!round.samples.empty()) return failed;
  auto states = PreparationFromJson(round.notes_json);
  if (!states.ok()) return failed;
  for (auto& [id, state] : *states) {
    if (state.status != "ok") failed.emplace(id, std::move(state));
  }
  return failed;
}

// --- CSV.

void AppendNumber(const std::optional<int64_t>& value, std::string* out) {
  out->push_back(',');
  if (value.has_value()) absl::StrAppend(out, *value);
}

void AppendText(const std::string& text, std::string* out) {
  out->push_back(',');
  AppendCsvCell(ValidUtf8(text), out);
}

struct CsvVariants {
  std::set<std::string> names;  // of parameters
  std::vector<std::string> workloads;
  absl::flat_hash_map<std::string, std::string> cells;  // by id: a cell for each name
};

// Numbers and words bare, texts without quotes, arrays and objects as JSON.
CsvVariants CellsOf(const std::vector<Configuration>& variants) {
  CsvVariants out;
  for (const Configuration& variant : variants) {
    const Json params = Stored(variant.params_json);
    for (const auto& [name, unused] : params.items()) out.names.insert(name);
  }
  for (const Configuration& variant : variants) {
    const Json params = Stored(variant.params_json);
    std::string& cells = out.cells[variant.id];
    for (const std::string& name : out.names) {
      const Json value = params.is_object() ? params.value(name, Json()) : Json();
      AppendText(value.is_null()     ? ""
                 : value.is_string() ? value.get<std::string>()
                                     : Text(value),
                 &cells);
    }
  }
  return out;
}

// Those of the first sample: all samples of a session have the same.
absl::StatusOr<std::vector<std::string>> WorkloadsOf(const TuneStore& store, int64_t session) {
  std::vector<std::string> out;
  RETURN_IF_ERROR(store.VisitRounds(session, [&](const RoundRecord& round) {
    if (round.samples.empty()) return true;
    for (const WorkloadSample& own : round.samples.front().workloads) out.push_back(own.workload);
    return false;
  }));
  return out;
}

std::string CsvHeader(const CsvVariants& variants) {
  std::string out = "session,batch,round,discarded,slot,variant,status,t_ps,energy_uj";
  for (const std::string& workload : variants.workloads) {
    for (const char* column : {"status_", "t_ps_", "energy_uj_"})
      AppendText(column + workload, &out);
  }
  for (const std::string& name : variants.names) AppendText("param_" + name, &out);
  return out + "\n";
}

// Of a sample, or of one of its workloads.
void AppendMeasured(const auto& of, std::string* out) {
  AppendText(of.status, out);
  AppendNumber(of.t_ps, out);
  AppendNumber(of.energy_uj, out);
}

// What a line says of a sample, or of a variant that was never run.
std::string CsvCells(const SampleRecord& sample, const CsvVariants& variants) {
  std::string out;
  AppendText(sample.variant, &out);
  AppendMeasured(sample, &out);
  for (size_t i = 0; i < variants.workloads.size(); ++i) {
    const bool is_there = i < sample.workloads.size();
    AppendMeasured(is_there ? sample.workloads[i] : WorkloadSample{.status = ""}, &out);
  }
  const auto cells = variants.cells.find(sample.variant);
  if (cells != variants.cells.end()) out.append(cells->second);
  out.push_back('\n');
  return out;
}

std::string CsvLines(int64_t session, const RoundRecord& round, const CsvVariants& variants) {
  const std::string head = absl::StrCat(session, ",", round.batch, ",", round.round, ",",
                                        round.discarded ? "true" : "false", ",");
  std::string out;
  for (const SampleRecord& sample : round.samples) {
    absl::StrAppend(&out, head, sample.slot, CsvCells(sample, variants));
  }
  for (const auto& [id, state] : FailedBefore(round)) {
    absl::StrAppend(&out, head, CsvCells({.variant = id, .status = state.status}, variants));
  }
  return out;
}

// --- JSON.

Json SessionJson(const SessionInfo& info) {
  Json json = {{"id", absl::StrCat(info.id)},
               {"space_hash", info.space_hash},
               {"config", Stored(info.config_json)},
               {"seed", info.seed},
               {"device", info.device},
               {"started_unix_s", info.started_unix_s}};
  for (const auto& [name, member] : kKeyParts) json[name] = info.key.*member;
  return json;
}

// Of a sample, or of one of its workloads.
Json MeasuredJson(const std::string& id, const auto& of) {
  return {{"id", id},
          {"status", of.status},
          {"t_ps", Number(of.t_ps)},
          {"energy_uj", Number(of.energy_uj)}};
}

Json RoundJson(const RoundRecord& round) {
  Json samples = Json::array();
  for (const SampleRecord& sample : round.samples) {
    Json json = MeasuredJson(sample.variant, sample);
    json["slot"] = sample.slot;
    for (const WorkloadSample& own : sample.workloads) {
      json["workloads"].push_back(MeasuredJson(own.workload, own));
    }
    samples.push_back(std::move(json));
  }
  return {{"batch", round.batch},
          {"round", round.round},
          {"discarded", round.discarded},
          {"notes", Stored(round.notes_json)},
          {"samples", std::move(samples)}};
}

Json VariantJson(const Configuration& variant) {
  return {{"id", variant.id},
          {"params", Stored(variant.params_json)},
          {"mem_bytes", Number(variant.mem_bytes)}};
}

// Visits rounds, each with the text that `line` makes of it.
absl::Status SinkRounds(const TuneStore& store, int64_t session, TextSink sink,
                        absl::FunctionRef<std::string(const RoundRecord&)> line) {
  absl::Status sunk;
  const absl::Status read = store.VisitRounds(session, [&](const RoundRecord& round) {
    sunk = sink(line(round));
    return sunk.ok();
  });
  return read.ok() ? sunk : read;
}

// --- T4.

struct Measured {
  std::vector<double> times_ms, energies_uj;
  std::string failure;  // the last status that was not ok
};

void Measure(const SampleRecord& sample, Measured* out) {
  if (sample.status != "ok" || !sample.t_ps.has_value()) {
    out->failure = sample.status == "ok" ? "no_events" : sample.status;
    return;
  }
  out->times_ms.push_back(static_cast<double>(*sample.t_ps) / 1e9);
  if (sample.energy_uj) out->energies_uj.push_back(static_cast<double>(*sample.energy_uj));
}

// Our statuses in T4's words, which has fewer.
const char* Invalidity(const Measured& measured) {
  if (!measured.times_ms.empty()) return "correct";
  if (measured.failure == "timeout") return "timeout";
  if (measured.failure == "compile_error") return "compile";
  if (measured.failure == "wrong_result") return "correctness";
  return "runtime";
}

Json T4Result(const Configuration& variant, const Measured& measured,
              const std::string& objective) {
  Json measurements = Json::array();
  const auto add = [&](const char* name, const std::vector<double>& values, const char* unit) {
    if (values.empty()) return;
    const double sum = std::accumulate(values.begin(), values.end(), 0.0);
    const double mean = sum / static_cast<double>(values.size());
    measurements.push_back({{"name", name}, {"value", mean}, {"unit", unit}});
  };
  add("time", measured.times_ms, "ms");
  add("energy", measured.energies_uj, "uJ");
  const bool correct = !measured.times_ms.empty();
  return {
      {"configuration", Stored(variant.params_json)}, {"times", {{"runtimes", measured.times_ms}}},
      {"invalidity", Invalidity(measured)},           {"correctness", correct ? 1 : 0},
      {"measurements", std::move(measurements)},      {"objectives", {objective}}};
}

}  // namespace

absl::Status ExportCsv(const TuneStore& store, int64_t session, TextSink sink) {
  RETURN_IF_ERROR(store.Session(session).status());
  ASSIGN_OR_RETURN(const auto stored, store.ReadVariants(session));
  CsvVariants variants = CellsOf(stored);
  ASSIGN_OR_RETURN(auto workloads, WorkloadsOf(store, session));
  variants.workloads = std::move(workloads);
  RETURN_IF_ERROR(sink(CsvHeader(variants)));
  return SinkRounds(store, session, sink,
                    [&](const RoundRecord& round) { return CsvLines(session, round, variants); });
}

absl::Status ExportJson(const TuneStore& store, int64_t session, TextSink sink) {
  ASSIGN_OR_RETURN(const auto info, store.Session(session));
  ASSIGN_OR_RETURN(const auto variants, store.ReadVariants(session));
  std::string head =
      absl::StrCat("{\"schema\":\"xplane-time.tune.v1\",\n\"session\":", Text(SessionJson(info)),
                   ",\n\"variants\":[");
  for (size_t i = 0; i < variants.size(); ++i) {
    absl::StrAppend(&head, i == 0 ? "\n" : ",\n", Text(VariantJson(variants[i])));
  }
  RETURN_IF_ERROR(sink(head + "],\n\"rounds\":["));
  bool first = true;
  RETURN_IF_ERROR(SinkRounds(store, session, sink, [&](const RoundRecord& round) {
    return (std::exchange(first, false) ? "\n" : ",\n") + Text(RoundJson(round));
  }));
  const Json verdict = info.verdict_json.has_value() ? Stored(*info.verdict_json) : Json();
  return sink(absl::StrCat("],\n\"verdict\":", Text(verdict), "}\n"));
}

absl::Status ExportT4(const TuneStore& store, int64_t session, TextSink sink) {
  ASSIGN_OR_RETURN(const auto info, store.Session(session));
  // T4's objectives are names of measurements; products and fronts are none.
  const std::string objective = info.key.objective == "energy" ? "energy" : "time";
  ASSIGN_OR_RETURN(const auto variants, store.ReadVariants(session));
  absl::flat_hash_map<std::string, Measured> measured;
  RETURN_IF_ERROR(store.VisitRounds(session, [&](const RoundRecord& round) {
    for (const SampleRecord& sample : round.samples) {
      if (!round.discarded) Measure(sample, &measured[sample.variant]);
    }
    for (const auto& [id, state] : FailedBefore(round)) measured[id].failure = state.status;
    return true;
  }));
  RETURN_IF_ERROR(
      sink("{\"schema_version\":\"1.0.0\",\n\"metadata\":{\"timeunit\":\"milliseconds\"},"
           "\n\"results\":["));
  bool first = true;
  for (const Configuration& variant : variants) {
    const auto found = measured.find(variant.id);
    if (found == measured.end()) continue;
    const std::string line = Text(T4Result(variant, found->second, objective));
    RETURN_IF_ERROR(sink(absl::StrCat(first ? "\n" : ",\n", line)));
    first = false;
  }
  return sink("]}\n");
}

}  // namespace xplane_time::output
