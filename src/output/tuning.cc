#include "output/tuning.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "json/json.h"
#include "output/view.h"

namespace xplane_time::output {
namespace {

using json::Dump, json::Json, json::OrNull;

Column TextColumn(std::string header, std::vector<std::string> cells) {
  Column column;
  column.header = std::move(header);
  column.cells = std::move(cells);
  return column;
}

Column NameColumn(std::string header, std::vector<std::string> cells, size_t flex_width) {
  Column column = TextColumn(std::move(header), std::move(cells));
  column.name = true;
  column.flex_width = flex_width;
  return column;
}

Column NumberColumn(std::string header, std::vector<std::string> cells, int drop = 0) {
  Column column = TextColumn(std::move(header), std::move(cells));
  column.right = true;
  column.drop = drop;
  return column;
}

constexpr size_t kParamsWidth = 16, kWorkloadWidth = 8;

// The words of an objective.
struct Words {
  std::string_view name;    // as options have it
  std::string_view column;  // what a ratio is of
  std::string_view winner, no_better, best, worse, not_better;
};
constexpr Words kWords[] = {
    {"time", "time", "proved slower", "faster", "the fastest", "slower", "not faster"},
    {"energy", "energy", "proved to take more energy", "below its energy",
     "the one of least energy", "more energy", "not less energy"},
    {"edp", "EDP", "proved to have a higher EDP (energy times time)",
     "below its EDP (energy times time)", "the one of least EDP", "higher EDP", "not lower EDP"},
    {"ed2p", "ED2P", "proved to have a higher ED2P (energy times time squared)",
     "below its ED2P (energy times time squared)", "the one of least ED2P", "higher ED2P",
     "not lower ED2P"},
    {"pareto", "time", "", "", "", "slower", "not faster"},
};

const Words& WordsOf(std::string_view objective) {
  for (const Words& words : kWords) {
    if (words.name == objective) return words;
  }
  return kWords[0];
}

std::string Count(double count, std::string_view what) {
  return absl::StrCat(count, " ", absl::string_view(what.data(), what.size()),
                      count == 1 ? "" : "s");
}

absl::string_view Absl(std::string_view text) { return {text.data(), text.size()}; }

// What is there of a JSON object.
std::string Text(const Json& object, const char* name) {
  const auto at = object.find(name);
  return at != object.end() && at->is_string() ? Printable(at->get<std::string>()) : "";
}

std::optional<double> Number(const Json& object, const char* name) {
  const auto at = object.find(name);
  if (at == object.end() || !at->is_number()) return std::nullopt;
  return at->get<double>();
}

Json Member(const Json& object, const char* name) {
  const auto at = object.find(name);
  return at == object.end() ? Json() : *at;
}

std::optional<std::pair<double, double>> Interval(const Json& object, const char* name) {
  const Json at = Member(object, name);
  if (!at.is_array() || at.size() != 2 || !at[0].is_number() || !at[1].is_number()) {
    return std::nullopt;
  }
  return std::pair(at[0].get<double>(), at[1].get<double>());
}

std::string ValueText(const Json& value) {
  return value.is_string() ? value.get<std::string>() : Dump(value);
}

std::string ParamsText(const Json& params) {
  if (!params.is_object()) return "";
  std::vector<std::string> parts;
  for (const auto& [name, value] : params.items()) {
    parts.push_back(absl::StrCat(name, "=", ValueText(value)));
  }
  return Printable(absl::StrJoin(parts, " "));
}

const Json* VariantOf(const Json& result, const std::string& id) {
  const auto variants = result.find("variants");
  if (variants == result.end()) return nullptr;
  const auto found = std::find_if(variants->begin(), variants->end(),
                                  [&](const Json& each) { return Text(each, "id") == id; });
  return found == variants->end() ? nullptr : &*found;
}

std::string Named(const Json& result, const std::string& id) {
  const Json* variant = VariantOf(result, id);
  const std::string params = variant == nullptr ? "" : ParamsText(Member(*variant, "params"));
  return params.empty() ? id : absl::StrCat(id, " (", params, ")");
}

std::string WhatWasDecided(const Json& result) {
  const std::string claim = Text(result, "claim"), pick = Text(result, "pick");
  if (pick.empty()) {
    if (claim == "all_failed") return "every variant failed: nothing to pick";
    return Member(result, "search").is_object()
               ? "stopped in the search, before the race; --resume goes on"
               : "stopped before anything was measured";
  }
  const std::string named = Named(result, pick);
  if (claim == "winner") return absl::StrCat("winner: ", named);
  if (claim == "tie") return absl::StrCat("tie, and the first of it: ", named);
  if (claim == "pick") return absl::StrCat("pick: ", named);
  return absl::StrCat("undecided; leads so far: ", named);
}

// What the search left out is not certified.
std::optional<std::string> SearchText(const Json& result) {
  const Json search = Member(result, "search");
  if (!search.is_object()) return std::nullopt;
  const double raced = Number(search, "raced").value_or(0);
  std::string text = absl::StrCat("Searched by ", Text(search, "strategy"), ": ",
                                  Number(search, "searched").value_or(0), " configurations in ",
                                  Number(search, "runs").value_or(0), " runs");
  if (raced > 0) {
    absl::StrAppend(&text, "; ", raced,
                    " entered the race, and what is said of the pick holds among ", "these ", raced,
                    " only");
  }
  return text + ".";
}

// What the typical time, which decided, does not show.
std::string TailText(const Json& flag) {
  const double pick = Number(flag, "pick").value_or(0), other = Number(flag, "other").value_or(0);
  const std::string than = absl::StrCat("than that of ", Text(flag, "rival"));
  if (Text(flag, "what") == "spikes") {
    return absl::StrCat("Its tail is worse ", than, ": ", FormatPercent(pick),
                        " % of its runs are spikes, against ", FormatPercent(other), " %.");
  }
  return absl::StrCat("Its tail is worse ", than, ": its p95 is ", FormatFixed(pick, 3),
                      " times its typical time, against ", FormatFixed(other, 3), ".");
}

// Nobody is left that the pick was compared with: the others failed, or are its aliases.
bool IsAlone(const Json& result) {
  const Json variants = Member(result, "variants");
  if (!variants.is_array() || Text(result, "pick").empty()) return false;
  return std::none_of(variants.begin(), variants.end(), [&](const Json& each) {
    return Text(each, "id") != Text(result, "pick") && Number(each, "ratio").has_value();
  });
}

// What was certified of the pick, in the objective's words.
std::string ClaimText(const Json& result, const Words& words) {
  const std::string claim = Text(result, "claim");
  const std::string delta = PercentText(Number(result, "delta").value_or(0));
  if (IsAlone(result)) return "There was no other variant to compare it with.";
  if (claim == "winner") return absl::StrCat("Every other variant is ", Absl(words.winner), ".");
  if (claim == "tie") return absl::StrCat("All of the tie are within ", delta, " of each other.");
  if (claim == "pick" && words.name == "pareto") {
    return "Every variant that is not on the front is beaten in time or energy by one that is, and "
           "better in neither; the pick is the incumbent where it is on the front.";
  }
  if (claim == "pick") {
    return absl::StrCat("No variant is more than ", delta, " ", Absl(words.no_better),
                        "; whether one is by less was not asked (--stop claim does).");
  }
  return "";
}

// Why it did not come to a decision, and what does.
std::string StopText(const Json& result) {
  const std::string why = Text(result, "stop_reason");
  const Json budget = Member(result, "budget");
  constexpr double kPsPerSecond = 1e12;
  if (why == "budget_runs") {
    const auto runs = Number(budget, "runs");
    return absl::StrCat("The budget",
                        runs.has_value() ? absl::StrCat(" of ", Count(*runs, "run")) : "",
                        " is spent; a larger --budget-runs goes on, with --resume.");
  }
  if (why == "budget_time") {
    const auto time_ps = Number(budget, "time_ps");
    return absl::StrCat(
        "The budget",
        time_ps.has_value() ? absl::StrCat(" of ", *time_ps / kPsPerSecond, " s") : "",
        " is spent; a larger --budget-time goes on, with --resume.");
  }
  if (why == "recorded_rounds") return "The recorded rounds do not suffice for this rule.";
  return absl::StrCat("It stopped (", why, ") before the data decided; --resume goes on.");
}

std::string FrontText(const Json& result) {
  std::vector<std::string> front;
  const Json tied = Member(result, "tied");
  for (const Json& id : tied.is_array() ? tied : Json::array()) {
    if (id.is_string()) front.push_back(Named(result, id.get<std::string>()));
  }
  return absl::StrCat("On the front of time and energy: ", absl::StrJoin(front, ", "), ".");
}

std::string RegretText(const Json& result, const Words& words) {
  constexpr double kNothing = 5e-5, kAbsurd = 10, kAlways = 0.9995;
  const auto regret = Number(Member(result, "regret"), "hi");
  const auto p_best = Number(result, "p_best");
  if (!regret.has_value() || !p_best.has_value()) return "";
  const std::string loss = *regret < kNothing  ? "below 0.01 %"
                           : *regret > kAbsurd ? "unknown, with so few rounds"
                                               : absl::StrCat("below ", PercentText(*regret));
  // A share of what was resampled proves nothing, however large it is, and adds nothing to a proof.
  if (IsAlone(result) || Text(result, "claim") == "winner") return "";
  const std::string share = *p_best > kAlways       ? "all"
                            : *p_best < 1 - kAlways ? "none"
                                                    : absl::StrCat(FormatPercent(*p_best), " %");
  return absl::StrCat("Estimated by resampling its rounds: it is ", Absl(words.best), " in ", share,
                      " of the samples, and what it may lose is ", loss,
                      *regret > kAbsurd ? "." : " (95 %).");
}

// Of the metric that was decided by.
std::string ConfirmationText(const Json& result) {
  const Json of = Member(result, "confirmation");
  const auto ratio = Number(of, "speedup");
  if (!ratio.has_value()) return "";
  const std::string metric = Text(of, "metric"), baseline = Text(of, "baseline");
  std::string interval;
  if (const auto ci = Interval(of, "speedup_ci95"); ci.has_value()) {
    interval =
        absl::StrCat(" (", FormatFixed(ci->first, 4), " to ", FormatFixed(ci->second, 4), ")");
  }
  const std::string times = FormatFixed(*ratio, 4);
  const std::string rounds =
      absl::StrCat(" in ", Count(Number(of, "rounds").value_or(0), "round"), " of their own.");
  if (metric.empty() || metric == "time") {
    return absl::StrCat(times, " times as fast as ", baseline, interval, rounds);
  }
  return absl::StrCat("The ", Absl(WordsOf(metric).column), " of ", baseline, " is ", times,
                      " times its own", interval, rounds);
}

std::vector<std::string> Reasons(const Json& result) {
  const Words& words = WordsOf(Text(result, "objective"));
  std::vector<std::string> reasons;
  const auto add = [&](std::string text) {
    if (!text.empty()) reasons.push_back(std::move(text));
  };
  add(SearchText(result).value_or(""));
  const std::string claim = Text(result, "claim");
  add(ClaimText(result, words));
  if (words.name == "pareto" && !Text(result, "pick").empty()) add(FrontText(result));
  if (claim == "undecided") add(StopText(result));
  add(RegretText(result, words));
  add(ConfirmationText(result));
  const Json flags = Member(result, "tail_flags");
  for (const Json& flag : flags.is_array() ? flags : Json::array()) add(TailText(flag));
  add(absl::StrCat(Count(Number(result, "runs").value_or(0), "run"), " in ",
                   Count(Number(result, "rounds").value_or(0), "round"), ", session ",
                   Number(result, "session").value_or(0), "."));
  const Json canary = Member(result, "canary");
  if (canary.is_object() && canary.value("biased", false)) {
    add("The canary is biased: one program against itself differs, so what is no difference was "
        "widened.");
  }
  return reasons;
}

std::string Fate(const Json& result, const Json& variant) {
  if (std::string status = Text(variant, "status"); status != "ok") return status;
  if (const std::string alias = Text(variant, "alias_of"); !alias.empty()) {
    return absl::StrCat("alias of ", alias);
  }
  if (Member(result, "search").is_object() && !variant.value("raced", true)) {
    if (std::string why = Text(variant, "search_failure"); !why.empty()) return why;
    return Number(result["search"], "raced").value_or(0) > 0 ? "left by the search" : "";
  }
  const Json out = Member(variant, "eliminated");
  const bool leads = Text(variant, "id") == Text(result, "pick");
  if (!out.is_object())
    return !leads ? "" : Text(result, "claim") == "undecided" ? "leads" : "picked";
  const Words& words = WordsOf(Text(result, "objective"));
  const std::string reason = Text(out, "reason");
  const auto shown = reason == "slower"       ? Absl(words.worse)
                     : reason == "not_faster" ? Absl(words.not_better)
                                              : absl::string_view(reason);
  return absl::StrCat(shown, ", round ", Number(out, "round").value_or(0));
}

// Parameters that tell rows apart, and those that all rows share.
struct Parameters {
  std::vector<std::string> names;  // that differ somewhere
  std::vector<std::string> shared;
};

Parameters ParametersOf(const std::vector<const Json*>& rows) {
  Parameters out;
  if (rows.empty()) return out;
  Json all = Json::object();
  for (const Json* row : rows) all.update(Member(*row, "params"));
  for (const auto& [name, value] : all.items()) {
    const auto has_it = [&name = name, &value = value](const Json* row) {
      const Json params = Member(*row, "params");
      return params.contains(name) && params[name] == value;
    };
    const bool is_shared = std::all_of(rows.begin(), rows.end(), has_it);
    if (is_shared && rows.size() > 1) {
      out.shared.push_back(Printable(absl::StrCat(name, "=", ValueText(value))));
    } else {
      out.names.push_back(name);
    }
  }
  return out;
}

// Names are left out before a value is.
std::string CellOf(const Json& row, const Parameters& parameters, bool with_names) {
  const Json params = Member(row, "params");
  std::vector<std::string> parts;
  for (const std::string& name : parameters.names) {
    const bool is_there = params.is_object() && params.contains(name);
    if (!is_there && with_names) continue;
    const std::string value = is_there ? ValueText(params[name]) : "-";
    parts.push_back(with_names ? absl::StrCat(name, "=", value) : value);
  }
  return Printable(absl::StrJoin(parts, " "));
}

size_t Widest(const std::vector<std::string>& cells) {
  size_t widest = 0;
  for (const std::string& cell : cells) widest = std::max(widest, DisplayWidth(cell));
  return widest;
}

// Why variants failed: a line of each.
std::vector<std::string> FailureNotes(const std::vector<const Json*>& rows) {
  constexpr size_t kMost = 8, kWidth = 160;
  std::vector<std::string> notes;
  size_t more = 0;
  for (const Json* row : rows) {
    const std::string message = Member(*row, "message").is_string() ? (*row)["message"] : "";
    const std::string line = BriefLine(message);
    if (line.empty()) continue;
    if (notes.size() == kMost) {
      ++more;
      continue;
    }
    notes.push_back(absl::StrCat(Text(*row, "id"), ": ", ShortenMiddle(line, kWidth, "...")));
  }
  if (more > 0) notes.push_back(absl::StrCat("and ", more, " more: --format json has all"));
  return notes;
}

// Those that tell how a variant did; the parameters come between the first and the second.
std::vector<Column> ResultColumns(const Json& result, const std::vector<const Json*>& rows,
                                  const OutputOptions& options) {
  const Words& words = WordsOf(Text(result, "objective"));
  std::vector<std::optional<double>> times_ps;
  std::vector<std::string> ids, runs, energies, ratios, intervals, fates;
  for (const Json* row : rows) {
    ids.push_back(Text(*row, "id"));
    times_ps.push_back(Number(*row, "typical_ps"));
    const auto samples = Number(*row, "samples");
    runs.push_back(samples.value_or(0) > 0 ? absl::StrCat(*samples) : "-");
    const auto energy_uj = Number(*row, "typical_uj");
    energies.push_back(energy_uj.has_value() ? FormatFixed(*energy_uj, 0) : "-");
    const auto ratio = Number(*row, "ratio");
    ratios.push_back(ratio.has_value() ? ChangeText(*ratio) : "-");
    const auto ci = Interval(*row, "ratio_ci");
    intervals.push_back(
        ci.has_value() ? absl::StrCat(ChangeText(ci->first), " .. ", ChangeText(ci->second)) : "-");
    fates.push_back(Fate(result, *row));
  }
  std::vector<Column> columns = {TextColumn("variant", std::move(ids))};
  if (std::any_of(times_ps.begin(), times_ps.end(), [](const auto& t) { return t.has_value(); })) {
    TimeColumn times = FormatTimes(times_ps, options.unit);
    columns.push_back(NumberColumn("typical " + std::string(times.unit), std::move(times.cells)));
    if (words.name != "time") columns.push_back(NumberColumn("energy uJ", std::move(energies)));
    columns.push_back(NumberColumn("runs", std::move(runs), /*drop=*/1));
  }
  columns.push_back(NumberColumn(absl::StrCat(Absl(words.column), " %"), std::move(ratios)));
  columns.push_back(NumberColumn("interval %", std::move(intervals), /*drop=*/2));
  columns.push_back(TextColumn("outcome", std::move(fates)));
  return columns;
}

// The interval goes before a parameter is cut, and names before values.
void AddParameters(const std::vector<const Json*>& rows, size_t width, Section* section) {
  const Parameters parameters = ParametersOf(rows);
  if (!parameters.shared.empty()) {
    section->title = absl::StrCat("all variants: ", absl::StrJoin(parameters.shared, " "));
  }
  if (parameters.names.empty()) return;
  size_t others = 0;
  for (const Column& column : section->grid.columns) {
    if (column.drop == 0) others += 2 + std::max(DisplayWidth(column.header), Widest(column.cells));
  }
  const size_t room = width > others + kParamsWidth ? width - others : kParamsWidth;
  std::vector<std::string> cells;
  for (const Json* row : rows) cells.push_back(CellOf(*row, parameters, /*with_names=*/true));
  if (Widest(cells) > room) {
    for (size_t i = 0; i < rows.size(); ++i) {
      cells[i] = CellOf(*rows[i], parameters, /*with_names=*/false);
    }
    section->notes.push_back(
        Printable(absl::StrCat("parameters: ", absl::StrJoin(parameters.names, " "))));
  }
  const size_t least = std::max(kParamsWidth, std::min(Widest(cells), room));
  section->grid.columns.insert(section->grid.columns.begin() + 1,
                               NameColumn("parameters", std::move(cells), least));
  section->grid.columns[1].words = true;
}

Section VariantSection(const Json& result, const OutputOptions& options) {
  std::vector<const Json*> rows;
  const auto variants = result.find("variants");
  if (variants != result.end() && variants->is_array()) {
    for (const Json& each : *variants) rows.push_back(&each);
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Json* a, const Json* b) {
    return Number(*a, "ratio").value_or(1e300) < Number(*b, "ratio").value_or(1e300);
  });
  const Words& words = WordsOf(Text(result, "objective"));
  Section section;
  section.grid.columns = ResultColumns(result, rows, options);
  AddParameters(rows, static_cast<size_t>(std::max(options.width, 20)), &section);
  section.notes.push_back(
      absl::StrCat(Absl(words.column), " %: how much ", words.column == "time" ? "slower" : "more",
                   " than the pick, by rounds of both; typical: the median of its runs"));
  for (std::string& note : FailureNotes(rows)) section.notes.push_back(std::move(note));
  return section;
}

}  // namespace

std::string TuningText(std::string_view result_json, const OutputOptions& options) {
  const Json result = Json::parse(result_json, nullptr, /*allow_exceptions=*/false);
  View view;
  if (!result.is_object()) {
    view.lines.push_back({"a result that cannot be read", Tone::kBad});
    return TableText(view, options);
  }
  const std::string claim = Text(result, "claim");
  const bool good = claim == "winner" || claim == "pick" || claim == "tie";
  view.lines.push_back({WhatWasDecided(result), good                    ? Tone::kGood
                                                : claim == "all_failed" ? Tone::kBad
                                                                        : Tone::kWarning});
  for (std::string& reason : Reasons(result)) view.lines.push_back({std::move(reason)});
  view.sections.push_back(VariantSection(result, options));
  return TableText(view, options);
}

std::string SessionsText(std::span<const SessionInfo> sessions, const OutputOptions& options) {
  View view;
  if (sessions.empty()) {
    view.lines.push_back({"no session yet"});
    return TableText(view, options);
  }
  std::vector<std::string> ids, begun, workloads, devices, rounds, picks;
  for (const SessionInfo& each : sessions) {
    constexpr uint64_t kNsPerSecond = 1'000'000'000;
    ids.push_back(absl::StrCat(each.id));
    constexpr size_t kToTheMinute = 16;
    begun.push_back(FormatUtc(static_cast<uint64_t>(each.started_unix_s) * kNsPerSecond)
                        .substr(0, kToTheMinute));
    workloads.push_back(Printable(each.key.workload));
    devices.push_back(Printable(each.key.device_class));
    rounds.push_back(absl::StrCat(each.rounds));
    const Json result = Json::parse(each.verdict_json.value_or("{}"), nullptr, false);
    picks.push_back(
        result.is_object() ? absl::StrCat(Text(result, "claim"), " ", Text(result, "pick")) : "");
  }
  Section section;
  section.title = "sessions";
  section.grid.columns = {NumberColumn("session", std::move(ids)),
                          TextColumn("begun (UTC)", std::move(begun)),
                          NameColumn("workload", std::move(workloads), kWorkloadWidth),
                          NumberColumn("rounds", std::move(rounds)),
                          TextColumn("decided", std::move(picks)),
                          NameColumn("device", std::move(devices), kParamsWidth)};
  section.grid.columns.back().drop = 2;
  view.sections.push_back(section);
  return TableText(view, options);
}

std::string SessionsJson(std::span<const SessionInfo> sessions) {
  using result::FieldSink;
  result::Result result("xplane-time.tune-sessions.v1");
  result.Add(result::TableOf("sessions", sessions, [](const SessionInfo& each, FieldSink* sink) {
    const Json verdict = json::Parse(each.verdict_json.value_or("null"));
    sink->Field("session", each.id);
    sink->Field("started_unix_s", each.started_unix_s);
    sink->Field("workload", std::string_view(each.key.workload));
    sink->Field("objective", std::string_view(each.key.objective));
    sink->Field("device_class", std::string_view(each.key.device_class));
    sink->Field("device", std::string_view(each.device));
    sink->Field("rounds", each.rounds);
    sink->Field("samples", each.samples);
    sink->Field("claim", json::TextOf(verdict, "claim"));
    sink->Field("pick", json::TextOf(verdict, "pick"));
  }));
  return JsonText(result);
}

std::string PlanText(const TunePlan& plan, const OutputOptions& options) {
  Json variants = Json::array();
  std::vector<std::string> ids;
  for (const Configuration& each : plan.configurations) {
    ids.push_back(Printable(each.id));
    variants.push_back({{"params", Json::parse(each.params_json, nullptr, false)}});
  }
  std::vector<const Json*> rows;
  for (const Json& each : variants) rows.push_back(&each);
  View view;
  view.lines.push_back(
      {absl::StrCat(Printable(plan.workload), ": ",
                    Count(static_cast<double>(ids.size()), "variant"), ", ", plan.strategy)});
  if (plan.search_runs > 0) {
    view.lines.push_back({absl::StrCat("The search takes about ",
                                       Count(static_cast<double>(plan.search_runs), "run"),
                                       " and leaves at most ", plan.raced, " to the race.")});
  }
  view.lines.push_back({absl::StrCat(
      "The race takes ", Count(static_cast<double>(plan.raced), "run"),
      " a round while all are left, and about ", plan.race_runs, " in all",
      plan.budget_runs.has_value() ? absl::StrCat(" (at most ", *plan.budget_runs, ")") : "",
      ": the noise decides. A run is ", Count(static_cast<double>(plan.calls), "timed call"),
      plan.workloads > 1 ? absl::StrCat(" of each of ", plan.workloads, " workloads") : "", ".")});
  view.lines.push_back(
      {"Nothing was run: what compiles to one program is measured once, and what fails "
       "leaves."});
  if (!ids.empty()) {
    Section section;
    section.grid.columns = {TextColumn("variant", std::move(ids))};
    AddParameters(rows, static_cast<size_t>(std::max(options.width, 20)), &section);
    view.sections.push_back(section);
  }
  return TableText(view, options);
}

std::string PlanJson(const TunePlan& plan) {
  Json json = {{"schema", "xplane-time.tune-plan.v1"},
               {"workload", ValidUtf8(plan.workload)},
               {"strategy", plan.strategy},
               {"workloads", plan.workloads},
               {"calls", plan.calls},
               {"raced", plan.raced},
               {"search_runs", plan.search_runs},
               {"race_runs", plan.race_runs},
               {"budget_runs", OrNull(plan.budget_runs)},
               {"variants", Json::array()}};
  for (const Configuration& each : plan.configurations) {
    json["variants"].push_back(
        {{"id", each.id}, {"params", Json::parse(each.params_json, nullptr, false)}});
  }
  return Dump(json) + "\n";
}

}  // namespace xplane_time::output
