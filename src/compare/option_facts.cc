#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <tuple>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "compare/inputs.h"
#include "status.h"
#include "xplane_time/report.h"

namespace xplane_time::compare {
namespace {

// Options that do not affect the times of runs. The metric is part of each series.
constexpr std::string_view kOfNoRun[] = {"metric", "tolerance_ps", "seed", "sort",
                                         "line",   "name",         "depth"};

// Adds the metric to the trim option, because trimming uses the metric.
void TellMetricOfTrim(OptionValues* values) {
  const auto trim = values->find("trim"), metric = values->find("metric");
  if (trim != values->end() && metric != values->end()) {
    absl::StrAppend(&trim->second, " by ", metric->second);
  }
}

std::vector<Fact> FactsOf(const OptionValues& values) {
  std::vector<Fact> facts;
  for (const auto& [name, value] : values) {
    if (std::ranges::count(kOfNoRun, name) == 0) facts.push_back({name, value});
  }
  return facts;
}

// "--min-duration" for "min_duration_ps".
std::string OptionName(std::string_view name) {
  return "--" + absl::StrReplaceAll(absl::StripSuffix(Absl(name), "_ps"), {{"_", "-"}});
}

// Combines the recorded and the requested value of a filter, in the order in which they apply.
void Combine(const OptionValues& recorded, const char* name, OptionValues* asked) {
  const auto earlier = recorded.find(name);
  if (earlier == recorded.end()) return;
  const auto [own, is_new] = asked->insert(*earlier);
  if (!is_new && own->second != earlier->second) {
    own->second = absl::StrCat(earlier->second, ", then ", own->second);
  }
}

}  // namespace

OptionValues ValuesOf(const ReportOptions& options) {
  OptionValues values;
  for (const GivenOption& option : GivenOptions(options)) {
    values[option.name] =
        std::visit([](const auto& value) { return absl::StrCat(value); }, option.value);
  }
  return values;
}

std::vector<Fact> OptionFacts(const ReportOptions& options) {
  OptionValues values = ValuesOf(options);
  TellMetricOfTrim(&values);
  return FactsOf(values);
}

absl::StatusOr<std::vector<Fact>> OptionFacts(const std::string& path, std::string_view kind,
                                              const ReportOptions& options,
                                              std::initializer_list<std::string_view> followed) {
  OptionValues values = ValuesOf(options);
  values.erase("tolerance_ps");
  values.erase("seed");
  for (const auto& [name, value] : values) {
    if (std::ranges::count(followed, name) > 0) continue;
    return InvalidArgument(path, ": ", OptionName(name), " requires a trace, but this is ", kind,
                           "; omit it");
  }
  return FactsOf(values);
}

absl::StatusOr<std::vector<Fact>> OptionFacts(const std::string& path, OptionValues recorded,
                                              ReportOptions* options) {
  TellMetricOfTrim(&recorded);
  OptionValues asked = ValuesOf(*options);
  TellMetricOfTrim(&asked);
  for (const char* name :
       {"device", "kernel", "exclude_kernel", "scope", "min_duration_ps", "max_events", "clock"}) {
    const auto own = asked.find(name), earlier = recorded.find(name);
    if (own == asked.end() || (earlier != recorded.end() && *own == *earlier)) continue;
    return InvalidArgument(path, ": ", OptionName(name),
                           " requires a trace, but this is a result that was written with ",
                           earlier == recorded.end() ? "the default" : earlier->second,
                           "; give the trace, or write it again with ", OptionName(name));
  }
  const ReportOptions usual;
  if (options->id_pattern == usual.id_pattern && recorded.contains("id_pattern")) {
    options->id_pattern = recorded.at("id_pattern");
  }
  if (const auto earlier = recorded.find("trim"); earlier != recorded.end()) {
    if (asked.contains("trim") && asked["trim"] != earlier->second) {
      return InvalidArgument(path, ": was written with --trim ", earlier->second, ", and --trim ",
                             asked["trim"], " would trim it again; give the trace, or write ",
                             "it again without --trim");
    }
    options->trim = {};  // its runs are already left out
  }
  uint64_t skipped = options->skip_runs;
  if (const auto earlier = recorded.find("skip_runs"); earlier != recorded.end()) {
    skipped = std::max<uint64_t>(skipped, std::strtoull(earlier->second.c_str(), nullptr, 10));
    asked["skip_runs"] = absl::StrCat(skipped);
  }
  for (const char* name : {"function", "exclude", "prefix"}) {
    Combine(recorded, name, &asked);
  }
  asked.insert(recorded.begin(), recorded.end());
  return FactsOf(asked);
}

std::string PassesFilters(const Measurements& capture) {
  std::vector<std::string> given;
  for (const char* name : {"function", "exclude", "prefix", "kernel", "exclude_kernel", "scope"}) {
    if (std::ranges::count(capture.options, name, &Fact::name) == 0) continue;
    given.push_back(OptionName(name));
  }
  return given.empty() ? "" : absl::StrCat(" and passes ", absl::StrJoin(given, ", "));
}

namespace {

constexpr char kUnknown[] = "(not stated)";

// The values of a fact, each with the first capture that has it.
using SourceOfValue = std::map<std::string, std::string>;

// `missing`: the value of a capture without the fact; null: such captures do not count.
SourceOfValue Collect(std::span<const Measurements* const> captures,
                      std::vector<Fact> Measurements::*facts, const std::string& name,
                      const char* missing) {
  SourceOfValue sources;
  for (const Measurements* capture : captures) {
    const auto own = std::ranges::find(capture->*facts, name, &Fact::name);
    const bool told = own != (capture->*facts).end();
    if (told || missing) sources.try_emplace(told ? own->value : missing, capture->source);
  }
  return sources;
}

std::string Differing(const std::string& name, const SourceOfValue& sources) {
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
  std::vector<const Measurements*> captures;
  for (const auto side : {base, head}) {
    for (const Measurements& capture : side) captures.push_back(&capture);
  }
  const std::tuple<std::vector<Fact> Measurements::*, const char*, const char*> kinds[] = {
      {&Measurements::facts, kUnknown, ""},
      {&Measurements::options, "(default)", "the option "},
      {&Measurements::labels, nullptr, ""}};
  std::vector<std::string> differing;
  for (const auto& [facts, missing, prefix] : kinds) {
    std::set<std::string> names;
    for (const Measurements* capture : captures) {
      for (const Fact& fact : capture->*facts) names.insert(fact.name);
    }
    for (const std::string& name : names) {
      const SourceOfValue sources = Collect(captures, facts, name, missing);
      if (sources.size() < 2) continue;
      const bool only_unknown = sources.size() == 2 && sources.contains(kUnknown);
      const bool is_note = allowed || only_unknown || missing == nullptr;
      (is_note ? *notes : differing).push_back(prefix + Differing(name, sources));
    }
  }
  if (differing.empty()) return absl::OkStatus();
  return FailedPrecondition(
      "the captures were not measured in the same way: ", absl::StrJoin(differing, "; "),
      head.empty() ? "; measure all of them in the same way"
                   : "; measure all of them in the same way, or use --allow-mismatch");
}

}  // namespace xplane_time::compare
