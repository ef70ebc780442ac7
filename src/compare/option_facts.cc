#include "compare/option_facts.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "timing/given_options.h"

namespace xplane_time::compare {
namespace {

using Json = nlohmann::json;
using Values = std::map<std::string, std::string>;

// These change no time of a run: a series has a metric of its own.
constexpr std::string_view kOfNoRun[] = {"metric", "tolerance_ps", "seed", "sort",
                                         "line",   "name",         "depth"};

std::string TextOf(const std::variant<std::string, int64_t>& value) {
  const auto* text = std::get_if<std::string>(&value);
  return text != nullptr ? *text : absl::StrCat(std::get<int64_t>(value));
}

Values ValuesOf(const ReportOptions& options) {
  Values values;
  for (const GivenOption& option : GivenOptions(options))
    values[option.name] = TextOf(option.value);
  return values;
}

// Trimming looks at the metric.
void TellMetricOfTrim(Values* values) {
  const auto trim = values->find("trim"), metric = values->find("metric");
  if (trim != values->end() && metric != values->end()) {
    absl::StrAppend(&trim->second, " by ", metric->second);
  }
}

std::vector<Fact> FactsOf(const Values& values) {
  std::vector<Fact> facts;
  for (const auto& [name, value] : values) {
    if (std::find(std::begin(kOfNoRun), std::end(kOfNoRun), name) != std::end(kOfNoRun)) continue;
    facts.push_back({name, value});
  }
  return facts;
}

// "min_duration_ps": "--min-duration".
std::string OptionName(std::string name) {
  if (name.ends_with("_ps")) name.resize(name.size() - 3);
  std::replace(name.begin(), name.end(), '_', '-');
  return "--" + name;
}

absl::StatusOr<Values> ReadRecorded(const std::string& path, const Json& document) {
  Values values;
  const auto options = document.find("options");
  if (options == document.end() || options->is_null()) return values;
  if (!options->is_object()) {
    return absl::DataLossError(
        absl::StrCat(path, ": options is no object; write the file again with --samples"));
  }
  for (const auto& [name, value] : options->items()) {
    values[name] = value.is_string() ? value.get<std::string>()
                                     : value.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  // The rows of a report are cut, but not its samples.
  const auto schema = document.find("schema");
  if (schema != document.end() && *schema == "xplane-time.report.v1") values.erase("top");
  TellMetricOfTrim(&values);
  return values;
}

// Both filters hold, in the order in which they were applied.
void Combine(const Values& recorded, const char* name, Values* asked) {
  const auto earlier = recorded.find(name);
  if (earlier == recorded.end()) return;
  const auto [own, is_new] = asked->insert(*earlier);
  if (!is_new && own->second != earlier->second) {
    own->second = absl::StrCat(earlier->second, ", then ", own->second);
  }
}

}  // namespace

std::vector<Fact> OptionFacts(const ReportOptions& options) {
  Values values = ValuesOf(options);
  TellMetricOfTrim(&values);
  return FactsOf(values);
}

absl::StatusOr<std::vector<Fact>> OptionFacts(const std::string& path, std::string_view kind,
                                              const ReportOptions& options,
                                              std::initializer_list<std::string_view> followed) {
  Values values = ValuesOf(options);
  values.erase("tolerance_ps");
  values.erase("seed");
  for (const auto& [name, value] : values) {
    if (std::find(followed.begin(), followed.end(), name) != followed.end()) continue;
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", OptionName(name),
                                                   " needs a trace, and this is ",
                                                   std::string(kind), "; leave it out"));
  }
  return FactsOf(values);
}

absl::StatusOr<std::vector<Fact>> OptionFacts(const std::string& path, const Json& document,
                                              ReportOptions* options) {
  auto recorded = ReadRecorded(path, document);
  if (!recorded.ok()) return recorded.status();
  Values asked = ValuesOf(*options);
  TellMetricOfTrim(&asked);
  for (const char* name : {"device", "kernel", "scope", "min_duration_ps", "max_events", "clock"}) {
    const auto own = asked.find(name), earlier = recorded->find(name);
    if (own == asked.end() || (earlier != recorded->end() && *own == *earlier)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": ", OptionName(name), " needs a trace, and this is a result that was written with ",
        earlier == recorded->end() ? "the default" : earlier->second,
        "; give the trace, or write it again with ", OptionName(name)));
  }
  const ReportOptions usual;
  if (options->id_pattern == usual.id_pattern && recorded->contains("id_pattern")) {
    options->id_pattern = recorded->at("id_pattern");
  }
  // Runs that were left out twice are left out once.
  const auto trimmed = recorded->find("trim");
  if (trimmed != recorded->end() && asked.contains("trim") && asked["trim"] == trimmed->second) {
    options->trim = {};
  }
  uint64_t skipped = options->skip_runs;
  if (const auto earlier = recorded->find("skip_runs"); earlier != recorded->end()) {
    skipped = std::max<uint64_t>(skipped, std::strtoull(earlier->second.c_str(), nullptr, 10));
    asked["skip_runs"] = absl::StrCat(skipped);
  }
  for (const char* name : {"function", "exclude", "prefix", "trim"}) {
    Combine(*recorded, name, &asked);
  }
  asked.insert(recorded->begin(), recorded->end());
  return FactsOf(asked);
}

namespace {

constexpr char kUnknown[] = "(not told)";

// Values of each fact, with the first capture that has it.
using SourcesByValue = std::map<std::string, std::map<std::string, std::string>>;

void Collect(std::span<const Measurements> captures, std::vector<Fact> Measurements::*facts,
             SourcesByValue* values) {
  for (const Measurements& capture : captures) {
    for (const Fact& fact : capture.*facts) {
      (*values)[fact.name].try_emplace(fact.value, capture.source);
    }
  }
}

void CollectMissing(std::span<const Measurements> captures, SourcesByValue* values) {
  for (const Measurements& capture : captures) {
    for (auto& [name, sources] : *values) {
      bool told = false;
      for (const Fact& fact : capture.facts) told |= fact.name == name;
      if (!told) sources.try_emplace(kUnknown, capture.source);
    }
  }
}

// An option that a capture does not have is the default.
SourcesByValue CollectOptions(std::span<const Measurements> base,
                              std::span<const Measurements> head) {
  constexpr char kDefault[] = "(default)";
  SourcesByValue values;
  for (const auto side : {base, head}) Collect(side, &Measurements::options, &values);
  for (const auto side : {base, head}) {
    for (const Measurements& capture : side) {
      for (auto& [name, sources] : values) {
        const bool given = std::any_of(capture.options.begin(), capture.options.end(),
                                       [&](const Fact& option) { return option.name == name; });
        if (!given) sources.try_emplace(kDefault, capture.source);
      }
    }
  }
  return values;
}

std::string Differing(const std::string& name, const std::map<std::string, std::string>& sources) {
  std::vector<std::string> parts;
  for (const auto& [value, source] : sources) {
    parts.push_back(absl::StrCat(value, " in ", source));
    if (parts.size() == 3) break;
  }
  return absl::StrCat(name, " is ", absl::StrJoin(parts, ", "));
}

}  // namespace

absl::Status CheckMeasuredAlike(std::span<const Measurements> base,
                                std::span<const Measurements> head, bool allowed,
                                std::vector<std::string>* notes) {
  SourcesByValue facts, labels;
  for (const auto side : {base, head}) {
    Collect(side, &Measurements::facts, &facts);
    Collect(side, &Measurements::labels, &labels);
  }
  for (const auto side : {base, head}) CollectMissing(side, &facts);
  std::vector<std::string> differing;
  for (const auto& [name, sources] : facts) {
    if (sources.size() < 2) continue;
    const bool only_unknown = sources.size() == 2 && sources.contains(kUnknown);
    const std::string text = Differing(name, sources);
    if (only_unknown || allowed) {
      notes->push_back(text);
    } else {
      differing.push_back(text);
    }
  }
  for (const auto& [name, sources] : CollectOptions(base, head)) {
    if (sources.size() < 2) continue;
    (allowed ? *notes : differing).push_back("the option " + Differing(name, sources));
  }
  for (const auto& [name, sources] : labels) {
    if (sources.size() > 1) notes->push_back(Differing(name, sources));
  }
  if (differing.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the captures were not measured in the same way: ", absl::StrJoin(differing, "; "),
      head.empty() ? "; measure all alike" : "; measure all alike, or see --allow-mismatch"));
}

}  // namespace xplane_time::compare
