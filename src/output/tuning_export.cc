// Stored sessions for other tools.
#include <map>
#include <numeric>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "output/json_text.h"
#include "output/tuning.h"
#include "status.h"
#include "tune/session_json.h"

namespace xplane_time::output {
namespace {

using result::FieldSink;
using tune::RoundJson, tune::SessionJson, tune::Stored, tune::VariantJson;

std::string Text(const tune::Json& json) {
  return EscapeInvisibleInJson(json.dump(-1, ' ', false, tune::Json::error_handler_t::replace));
}

// The variants that failed during preparation, by id. Rounds without samples record them.
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

// A sample, or a variant that was out before it was run, which has no slot.
struct CsvRow {
  int64_t session = 0, batch = 0, round = 0;
  bool discarded = false;
  std::optional<int64_t> slot = {};
  SampleRecord sample = {};
};

std::vector<CsvRow> CsvRows(int64_t session, const std::vector<RoundRecord>& rounds) {
  std::vector<CsvRow> rows;
  for (const RoundRecord& round : rounds) {
    const CsvRow head = {session, round.batch, round.round, round.discarded};
    for (const SampleRecord& sample : round.samples) {
      rows.push_back(head);
      rows.back().slot = sample.slot;
      rows.back().sample = sample;
    }
    for (const auto& [id, state] : FailedBefore(round)) {
      rows.push_back(head);
      rows.back().sample = {.variant = id, .status = state.status};
    }
  }
  return rows;
}

// Of the first sample; it is the same for all samples of a session.
std::vector<std::string> WorkloadsOf(const std::vector<CsvRow>& rows) {
  std::vector<std::string> names;
  const auto first =
      std::ranges::find_if(rows, [](const CsvRow& row) { return row.slot.has_value(); });
  if (first == rows.end()) return names;
  for (const WorkloadSample& own : first->sample.workloads) names.push_back(own.workload);
  return names;
}

// Numbers and words bare, texts without quotes, arrays and objects as JSON.
std::string ParameterText(const tune::Json& params, const std::string& name) {
  const tune::Json value = params.is_object() ? params.value(name, tune::Json()) : tune::Json();
  if (value.is_null()) return "";
  return value.is_string() ? value.get<std::string>() : Text(value);
}

// For a sample, or for one of its workloads.
void VisitMeasured(const auto& of, const std::string& suffix, FieldSink* sink) {
  sink->Field("status" + suffix, of.status);
  sink->Field("t_ps" + suffix, of.t_ps);
  sink->Field("energy_uj" + suffix, of.energy_uj);
}

// --- JSON.

// An array with an element a line.
std::string Lines(const auto& rows, auto json_of) {
  const auto append = [&](std::string* out, const auto& row) { out->append(Text(json_of(row))); };
  return absl::StrCat(rows.empty() ? "[" : "[\n", absl::StrJoin(rows, ",\n", append), "]");
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

tune::Json T4Result(const Configuration& variant, const Measured& measured,
                    const std::string& objective) {
  tune::Json measurements = tune::Json::array();
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

using Variants = std::vector<Configuration>;
using Rounds = std::vector<RoundRecord>;

std::string CsvOf(const SessionInfo& info, const Variants& variants, const Rounds& rounds) {
  std::set<std::string> names;
  std::map<std::string, tune::Json> params;
  for (const Configuration& variant : variants) {
    const tune::Json& of = params[variant.id] = Stored(variant.params_json);
    for (const auto& [name, unused] : of.items()) names.insert(name);
  }
  std::vector<CsvRow> rows = CsvRows(info.id, rounds);
  const std::vector<std::string> workloads = WorkloadsOf(rows);
  const auto visit = [&](const CsvRow& row, FieldSink* sink) {
    const SampleRecord& sample = row.sample;
    XPLANE_TIME_FIELDS(sink, row.session, row.batch, row.round, row.discarded, row.slot,
                       sample.variant);
    VisitMeasured(sample, "", sink);
    for (size_t i = 0; i < workloads.size(); ++i) {
      const bool is_there = i < sample.workloads.size();
      VisitMeasured(is_there ? sample.workloads[i] : WorkloadSample{.status = ""},
                    "_" + workloads[i], sink);
    }
    const auto own = params.find(sample.variant);
    for (const std::string& name : names) {
      sink->Field("param_" + name, own == params.end() ? "" : ParameterText(own->second, name));
    }
  };
  return CsvText(result::TableOf("", std::move(rows), visit));
}

std::string JsonOf(const SessionInfo& info, const Variants& variants, const Rounds& rounds) {
  const tune::Json verdict =
      info.verdict_json.has_value() ? Stored(*info.verdict_json) : tune::Json();
  return absl::StrCat("{\"schema\":\"xplane-time.tune.v1\",\n\"session\":", Text(SessionJson(info)),
                      ",\n\"variants\":", Lines(variants, VariantJson),
                      ",\n\"rounds\":", Lines(rounds, RoundJson), ",\n\"verdict\":", Text(verdict),
                      "}\n");
}

std::string T4Of(const SessionInfo& info, const Variants& variants, const Rounds& rounds) {
  // T4's objectives are names of measurements, so products and fronts have no name there.
  const std::string objective = info.key.objective == "energy" ? "energy" : "time";
  std::map<std::string, Measured> measured;
  for (const RoundRecord& round : rounds) {
    for (const SampleRecord& sample : round.samples) {
      if (!round.discarded) Measure(sample, &measured[sample.variant]);
    }
    for (const auto& [id, state] : FailedBefore(round)) measured[id].failure = state.status;
  }
  Variants known = variants;
  std::erase_if(known, [&](const Configuration& each) { return !measured.contains(each.id); });
  return absl::StrCat(
      "{\"schema_version\":\"1.0.0\",\n\"metadata\":{\"timeunit\":"
      "\"milliseconds\"},\n\"results\":",
      Lines(known,
            [&](const Configuration& variant) {
              return T4Result(variant, measured[variant.id], objective);
            }),
      "}\n");
}

}  // namespace

absl::StatusOr<std::string> Export(const TuneStore& store, int64_t session,
                                   std::string_view format) {
  ASSIGN_OR_RETURN(const auto of, ReadSession(store, session));
  return (format == "json" ? JsonOf
          : format == "t4" ? T4Of
                           : CsvOf)(of.info, of.variants, of.rounds);
}

}  // namespace xplane_time::output
