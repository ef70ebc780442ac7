// A stored tuning session (xplane-time.tune.v1): a variant is a function, the session a capture.
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "compare/json_inputs.h"
#include "compare/option_facts.h"

namespace xplane_time::compare {
namespace {

std::string TextAt(const Json& object, const char* name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  return object.is_object() && found != object.end() && found->is_string()
             ? found->get<std::string>()
             : "";
}

// What the harness said of its clock, kept with the states of the variants.
std::string ClockOf(const Json& rounds) {
  for (const Json& round : rounds) {
    const auto notes = round.is_object() ? round.find("notes") : round.end();
    if (!round.is_object() || notes == round.end() || !notes->is_object()) continue;
    const auto harness = notes->find("harness");
    if (harness != notes->end()) return TextAt(*harness, "clock");
  }
  return "";
}

absl::Status Bad(const std::string& path) {
  return absl::DataLossError(
      absl::StrCat(path, ": damaged rounds; write it again with tune export --format json"));
}

}  // namespace

absl::StatusOr<Measurements> FromTuning(const std::string& path, const Json& document,
                                        const MeasureOptions& options) {
  const auto filters = Filters::Compile(options.report);
  if (!filters.ok()) return filters.status();
  const auto rounds = document.find("rounds");
  const auto session = document.find("session");
  if (rounds == document.end() || !rounds->is_array() || session == document.end()) {
    return Bad(path);
  }
  // Ids of variants are those of the session.
  auto facts =
      OptionFacts(path, "a tuning session", options.report, {"function", "exclude", "prefix"});
  if (!facts.ok()) return facts.status();
  Measurements out;
  out.source = path;
  out.options = *std::move(facts);
  for (const auto& [name, fact] :
       {std::pair("device_class", "device model"), std::pair("workload", "workload"),
        std::pair("protocol_hash", "protocol")}) {
    if (std::string value = TextAt(*session, name); !value.empty()) {
      out.facts.push_back({fact, std::move(value)});
    }
  }
  const std::string clock = ClockOf(*rounds);
  std::map<std::string, size_t> series_of;
  for (const Json& round : *rounds) {
    const auto samples = round.is_object() ? round.find("samples") : round.end();
    if (!round.is_object() || samples == round.end() || !samples->is_array()) return Bad(path);
    const auto discarded = round.find("discarded");
    if (discarded != round.end() && discarded->is_boolean() && discarded->get<bool>()) continue;
    for (const Json& sample : *samples) {
      const std::string id = TextAt(sample, "id");
      const auto time = sample.is_object() ? sample.find("t_ps") : sample.end();
      if (id.empty() || time == sample.end()) return Bad(path);
      if (TextAt(sample, "status") != "ok" || !time->is_number_integer()) continue;
      if (!filters->WantsFunction(id) || time->get<double>() <= 0) continue;
      const auto [at, is_new] = series_of.try_emplace(id, out.series.size());
      if (is_new) {
        Series& series = out.series.emplace_back();
        series.function = id;
        series.variant_id = id;
        series.metric = "tuned";
        series.clock = clock;
      }
      out.series[at->second].samples.push_back({time->get<double>(), 0});
    }
  }
  if (rounds->empty() || (out.series.empty() && options.report.function.empty())) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": a tuning session in which nothing was timed"));
  }
  return out;
}

}  // namespace xplane_time::compare
