#include "output/tuning.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "json/json.h"
#include "output/decisions.h"
#include "output/joules.h"
#include "output/json_text.h"
#include "status.h"

namespace xplane_time::output {
namespace {

using json::Dump, json::Json;
using Row = TuneResult::Row;

constexpr std::string_view kNothingProposed = "nothing_proposed";
constexpr std::string_view kNothingRaced = "nothing_raced";  // of a grid
constexpr std::string_view kDeviceClasses = "device_classes";
constexpr std::string_view kDevicesUnchecked = "devices_unchecked";
constexpr size_t kParamsWidth = 16, kWorkloadWidth = 8;

// The words of an objective, in the order of Objective.
struct Words {
  const char* column;  // the quantity of a ratio
  const char *winner, *no_better, *best, *worse, *not_better;
};
constexpr Words kWords[] = {
    {"time", "proved slower", "faster", "the fastest", "slower", "not faster"},
    {"energy", "proved to take more energy", "below its energy", "the one with the least energy",
     "more energy", "not less energy"},
    {"EDP", "proved to have a higher EDP (energy times time)", "below its EDP (energy times time)",
     "the one with the least EDP", "higher EDP", "not lower EDP"},
    {"ED2P", "proved to have a higher ED2P (energy times time squared)",
     "below its ED2P (energy times time squared)", "the one with the least ED2P", "higher ED2P",
     "not lower ED2P"},
    {"time", "", "", "", "slower", "not faster"},
};

const Words& WordsOf(Objective objective) { return kWords[static_cast<size_t>(objective)]; }

std::string ValueText(const Json& value) {
  return value.is_string() ? value.get<std::string>() : Dump(value);
}

// Parameters that differ between rows, and those that all rows share.
struct Parameters {
  std::vector<std::string> names;  // that differ somewhere
  std::vector<std::string> shared;
};

Parameters ParametersOf(const std::vector<Json>& rows) {
  Parameters out;
  Json all = Json::object();
  for (const Json& params : rows) {
    if (params.is_object()) all.update(params);
  }
  for (const auto& [name, value] : all.items()) {
    const auto has_it = [&name = name, &value = value](const Json& params) {
      return params.contains(name) && params[name] == value;
    };
    if (rows.size() > 1 && std::all_of(rows.begin(), rows.end(), has_it)) {
      out.shared.push_back(Printable(absl::StrCat(name, "=", ValueText(value))));
    } else {
      out.names.push_back(name);
    }
  }
  return out;
}

// Names are left out before a value is.
std::string CellOf(const Json& params, const Parameters& parameters, bool with_names) {
  std::vector<std::string> parts;
  for (const std::string& name : parameters.names) {
    const bool is_there = params.contains(name);
    if (!is_there && with_names) continue;
    const std::string value = is_there ? ValueText(params[name]) : "-";
    parts.push_back(with_names ? absl::StrCat(name, "=", value) : value);
  }
  return Printable(absl::StrJoin(parts, " "));
}

std::string Named(const TuneResult& result, const std::string& id) {
  const auto row = std::find_if(result.variants.begin(), result.variants.end(),
                                [&](const Row& each) { return each.id == id; });
  const std::string params =
      row == result.variants.end()
          ? ""
          : CellOf(row->params, ParametersOf({row->params}), /*with_names=*/true);
  return params.empty() ? Printable(id) : absl::StrCat(Printable(id), " (", params, ")");
}

std::string WhatWasDecided(const TuneResult& result) {
  if (result.claim == Claim::kAllFailed && !result.pick) {
    return "every variant failed; no pick";
  }
  if (result.stop_reason == kNothingProposed) return "no variant was proposed; no pick";
  if (result.stop_reason == kNothingRaced) return "measured; this session has no race to decide";
  if (!result.pick) {
    return result.search ? "stopped in the search, before the race; continue with --resume"
                         : "stopped before the first measurement";
  }
  const std::string named = Named(result, *result.pick);
  if (result.stop_reason == kDeviceClasses) {
    return absl::StrCat("no common answer: ", result.devices ? result.devices->classes.size() : 0,
                        " classes of devices; over all devices, the leader is ", named);
  }
  switch (result.claim) {
    case Claim::kWinner:
      return absl::StrCat("winner: ", named);
    case Claim::kTie:
      return absl::StrCat("tie; its first variant: ", named);
    case Claim::kPick:
      return absl::StrCat("pick: ", named);
    default:
      return absl::StrCat("undecided; current leader: ", named);
  }
}

// The claim does not cover variants that the search excluded.
std::string SearchText(const SearchReport& search) {
  std::string text = absl::StrCat("Searched by ", Printable(search.strategy), ": ", search.searched,
                                  " configurations in ", search.runs, " runs");
  if (search.raced > 0) {
    absl::StrAppend(&text, "; ", search.raced,
                    " entered the race; the claim about the pick holds only among these ",
                    search.raced);
  }
  return text + ".";
}

// Tail behaviour, which the typical time does not show.
std::string TailText(const TailFlag& flag) {
  const std::string than = absl::StrCat("than that of ", Printable(flag.rival));
  if (flag.what == "spikes") {
    return absl::StrCat("The tail of the pick is worse ", than, ": ", FormatPercent(flag.pick),
                        " % of its runs are spikes, compared with ", FormatPercent(flag.other),
                        " %.");
  }
  return absl::StrCat("The tail of the pick is worse ", than, ": its p95 is ",
                      FormatFixed(flag.pick, 3), " times its typical time, compared with ",
                      FormatFixed(flag.other, 3), ".");
}

// No compared variant is left: the others failed, or are aliases of the pick.
bool IsAlone(const TuneResult& result) {
  return result.pick &&
         std::none_of(result.variants.begin(), result.variants.end(), [&](const Row& each) {
           return each.id != *result.pick && each.ratio.has_value();
         });
}

// The claim about the pick, in the words of the objective.
std::string ClaimText(const TuneResult& result) {
  const Words& words = WordsOf(result.objective);
  const std::string delta = PercentText(result.delta.value_or(0));
  if (IsAlone(result)) return "There was no other variant to compare it with.";
  switch (result.claim) {
    case Claim::kWinner:
      return absl::StrCat("Every other variant is ", words.winner, ".");
    case Claim::kTie:
      return absl::StrCat("All variants of the tie are within ", delta, " of each other.");
    case Claim::kPick:
      if (result.objective == Objective::kPareto) {
        return "Every variant off the front is worse than a variant on it in time or energy, and "
               "better in neither. The pick is the incumbent if it is on the front.";
      }
      return absl::StrCat("No variant is more than ", delta, " ", words.no_better,
                          "; smaller differences were not examined (use --stop claim).");
    default:
      return "";
  }
}

// Why there is no decision, and how to get one.
std::string StopText(const TuneResult& result) {
  const auto spent = [](const std::string& size, const char* option) {
    return absl::StrCat("The budget", size, " is spent; a larger --", option,
                        " continues with --resume.");
  };
  if (result.stop_reason == "budget_runs") {
    const auto& runs = result.budget.runs;
    return spent(runs ? absl::StrCat(" of ", Counted(static_cast<uint64_t>(*runs), "run")) : "",
                 "budget-runs");
  }
  if (result.stop_reason == "budget_time") {
    const auto time_ps = AsDouble(result.budget.time_ps);
    return spent(time_ps ? absl::StrCat(" of ", *time_ps / kPsPerS, " s") : "", "budget-time");
  }
  if (result.stop_reason == kNothingRaced)
    return "The session belongs to a grid; show it with xplane-time grid.";
  if (result.stop_reason == kNothingProposed) {
    const uint64_t refused = result.search ? result.search->refused : 0;
    return refused == 0 ? "The proposer proposed no configuration."
                        : absl::StrCat("The proposer proposed ", Counted(refused, "configuration"),
                                       ", all outside the space.");
  }
  if (result.stop_reason == kDeviceClasses) {
    return "Tune each class separately, with its devices in --devices.";
  }
  if (result.stop_reason == kDevicesUnchecked) {
    return "It stopped before the devices were compared; continue with --resume.";
  }
  if (result.stop_reason == "recorded_rounds") {
    return "The recorded rounds are too few for this decision rule.";
  }
  return absl::StrCat("It stopped (", Printable(result.stop_reason),
                      ") before a decision; continue with --resume.");
}

std::string FrontText(const TuneResult& result) {
  std::vector<std::string> front;
  for (const std::string& id : result.tied) front.push_back(Named(result, id));
  return absl::StrCat("On the front of time and energy: ", absl::StrJoin(front, ", "), ".");
}

std::string RegretText(const TuneResult& result) {
  constexpr double kNothing = 5e-5, kAbsurd = 10, kAlways = 0.9995;
  const auto regret = result.regret.hi, p_best = result.p_best;
  if (!regret.has_value() || !p_best.has_value()) return "";
  const std::string loss = *regret < kNothing  ? "below 0.01 %"
                           : *regret > kAbsurd ? "unknown (too few rounds)"
                                               : absl::StrCat("below ", PercentText(*regret));
  // A share of resampled rounds proves nothing, and it adds nothing to a proof.
  if (IsAlone(result) || result.claim == Claim::kWinner) return "";
  const std::string share = *p_best > kAlways       ? "all"
                            : *p_best < 1 - kAlways ? "none"
                                                    : absl::StrCat(FormatPercent(*p_best), " %");
  return absl::StrCat("Estimated by resampling the rounds: the pick is ",
                      WordsOf(result.objective).best, " in ", share,
                      " of the samples, and its possible loss is ", loss,
                      *regret > kAbsurd ? "." : " (95 %).");
}

// For the metric of the decision.
std::string ConfirmationText(const Confirmation& of) {
  if (!of.speedup.has_value()) return "";
  std::string interval;
  if (const auto& ci = of.speedup_ci95; ci && (*ci)[0] && (*ci)[1]) {
    interval =
        absl::StrCat(" (", FormatFixed(*(*ci)[0], 4), " to ", FormatFixed(*(*ci)[1], 4), ")");
  }
  const std::string times = FormatFixed(*of.speedup, 4), baseline = Printable(of.baseline);
  const std::string rounds =
      absl::StrCat(" in ", Counted(of.rounds, "round"), ", measured separately.");
  if (of.metric == Objective::kTime) {
    return absl::StrCat(times, " times as fast as ", baseline, interval, rounds);
  }
  return absl::StrCat("The ", WordsOf(of.metric).column, " of ", baseline, " is ", times,
                      " times that of the pick", interval, rounds);
}

// "gpu 0, gpu 1 and 6 more"
std::string NamesText(const std::vector<std::string>& names) {
  constexpr size_t kMost = 4;
  const size_t shown = names.size() <= kMost + 1 ? names.size() : kMost;
  std::string text =
      Printable(absl::StrJoin(names.begin(), names.begin() + static_cast<ptrdiff_t>(shown), ", "));
  if (shown < names.size()) absl::StrAppend(&text, " and ", names.size() - shown, " more");
  return text;
}

// Whether several devices agree.
std::vector<std::string> DeviceReasons(const TuneResult& result) {
  std::vector<std::string> reasons;
  if (!result.devices) return reasons;
  const DeviceCheck& of = *result.devices;
  for (const DeviceCheck::Lost& each : of.lost) {
    reasons.push_back(
        absl::StrCat("The device ", Printable(each.device),
                     " was lost, so its agreement is unknown: ", BriefLine(each.message)));
  }
  if (of.classes.size() > 1) {
    std::vector<std::string> classes;
    for (const auto& each : of.classes) classes.push_back(absl::StrCat("[", NamesText(each), "]"));
    reasons.push_back(absl::StrCat("Devices that agree: ", absl::StrJoin(classes, ", "), "."));
  } else if (of.mde && of.classes.size() == 1) {
    uint64_t rounds = 0;
    for (const DeviceCheck::Device& each : of.devices) rounds += each.rounds;
    constexpr double kTells = 0.1;
    const std::string devices = absl::StrCat("the ", of.classes[0].size(), " devices agree");
    const std::string after = absl::StrCat("in ", rounds, " separate rounds ");
    const std::string mde = absl::StrCat("a difference of ", PercentText(*of.mde));
    reasons.push_back(
        *of.mde <= kTells
            ? absl::StrCat("T", devices.substr(1), ": ", after, mde, " would have been detected.")
            : absl::StrCat("It is unknown whether ", devices, ": ", after, "only ", mde,
                           " would have been detected."));
  }
  for (const DeviceCheck::Split& each : of.splits) {
    reasons.push_back(
        absl::StrCat("Relative to the other variants, ", Printable(each.variant), " takes ",
                     ChangeOrDash(each.ratio), " % on ", NamesText(each.devices), " and ",
                     ChangeOrDash(each.others_ratio), " % on ", NamesText(each.others), "."));
  }
  for (const DeviceCheck::Device& each : of.devices) {
    if (each.verdict != "slow" && (each.verdict != "fast" || of.devices.size() == 2)) continue;
    reasons.push_back(absl::StrCat(
        Printable(each.name), " is ", each.verdict, ": ", ChangeOrDash(each.ratio), " % (",
        IntervalText(each.lo, each.hi), ") in time relative to the ",
        of.devices.size() > 2 ? "median" : "other", " device, for the same variants."));
  }
  return reasons;
}

std::vector<std::string> Reasons(const TuneResult& result) {
  std::vector<std::string> reasons;
  if (result.search) reasons.push_back(SearchText(*result.search));
  reasons.push_back(ClaimText(result));
  if (result.objective == Objective::kPareto && result.pick) reasons.push_back(FrontText(result));
  if (result.claim == Claim::kUndecided) reasons.push_back(StopText(result));
  reasons.push_back(RegretText(result));
  if (result.confirmation) reasons.push_back(ConfirmationText(*result.confirmation));
  for (const TailFlag& flag : result.tail_flags) reasons.push_back(TailText(flag));
  for (std::string& each : DeviceReasons(result)) reasons.push_back(std::move(each));
  reasons.push_back(absl::StrCat(Counted(static_cast<uint64_t>(result.runs), "run"), " in ",
                                 Counted(result.rounds, "round"), ", session ", result.session,
                                 "."));
  if (result.canary && result.canary->biased) {
    reasons.push_back(
        "The canary is biased: two runs of the same program differ, so the tie margin was "
        "widened.");
  }
  std::erase(reasons, "");
  return reasons;
}

std::string Fate(const TuneResult& result, const Row& row) {
  if (row.status != "ok") return Printable(row.status);
  if (row.alias_of) return absl::StrCat("alias of ", Printable(*row.alias_of));
  if (result.search && !row.raced) {
    if (row.search_failure) return Printable(*row.search_failure);
    return result.search->raced > 0 ? "excluded by the search" : "";
  }
  if (!row.eliminated) {
    if (row.id != result.pick) return "";
    return result.claim == Claim::kUndecided ? "leads" : "picked";
  }
  const std::string& reason = row.eliminated->reason;
  const std::string shown = reason == "slower"       ? WordsOf(result.objective).worse
                            : reason == "not_faster" ? WordsOf(result.objective).not_better
                                                     : Printable(reason);
  return absl::StrCat(shown, ", round ", row.eliminated->round);
}

// Why variants failed: a line of each.
std::vector<std::string> FailureNotes(const std::vector<Row>& rows) {
  constexpr size_t kMost = 8, kWidth = 160;
  std::vector<std::string> notes;
  for (const Row& row : rows) {
    const std::string line = BriefLine(row.message);
    if (line.empty()) continue;
    notes.push_back(absl::StrCat(Printable(row.id), ": ", ShortenMiddle(line, kWidth, "...")));
  }
  if (notes.size() > kMost) {
    notes[kMost] = absl::StrCat("and ", notes.size() - kMost, " more; --format json contains all");
    notes.resize(kMost + 1);
  }
  return notes;
}

// The columns with results of a variant; the parameters come between the first and the second.
Grid ResultGrid(const TuneResult& result, const std::vector<Row>& rows,
                const OutputOptions& options) {
  RowGrid grid(rows);
  grid.Name("variant", 0, &Row::id);
  if (std::any_of(rows.begin(), rows.end(), [](const Row& row) { return row.typical_ps; })) {
    grid.Times("typical", options.unit, &Row::typical_ps);
    if (result.objective != Objective::kTime) {
      constexpr double kJoule = 1e-6;
      const auto joules = [](const Row& row) {
        return row.typical_uj ? std::optional(*row.typical_uj * kJoule) : std::nullopt;
      };
      const JouleUnit unit = JouleUnitOf(grid.Values(joules));
      grid.Number(absl::StrCat("energy ", unit.name), joules,
                  [unit](const std::optional<double>& of_row) { return unit.Cell(of_row); });
    }
    const auto runs = [](const Row& row) {
      return row.samples > 0 ? std::to_string(row.samples) : "-";
    };
    grid.Number("runs", runs).Drop(1);
  }
  grid.Number(absl::StrCat(WordsOf(result.objective).column, " %"), &Row::ratio, ChangeOrDash);
  const auto interval = [](const Row& row) {
    return row.ratio_ci ? IntervalText((*row.ratio_ci)[0], (*row.ratio_ci)[1]) : "-";
  };
  grid.Number("interval %", interval).Drop(2);
  grid.Text("outcome", [&](const Row& row) { return Fate(result, row); });
  return std::move(grid).Take();
}

// The interval goes before a parameter is cut, and names before values.
void AddParameters(const std::vector<Json>& rows, const OutputOptions& options, Section* section) {
  const Parameters parameters = ParametersOf(rows);
  if (!parameters.shared.empty()) {
    section->title = absl::StrCat("all variants: ", absl::StrJoin(parameters.shared, " "));
  }
  if (parameters.names.empty()) return;
  const auto width = static_cast<size_t>(std::max(options.width, 20));
  size_t others = 0;
  for (const Column& column : section->grid.columns) {
    if (column.drop == 0)
      others += 2 + std::max(DisplayWidth(column.header), WidestOf(column.cells));
  }
  const size_t room = width > others + kParamsWidth ? width - others : kParamsWidth;
  std::vector<std::string> cells;
  for (const Json& row : rows) cells.push_back(CellOf(row, parameters, /*with_names=*/true));
  if (WidestOf(cells) > room) {
    for (size_t i = 0; i < rows.size(); ++i) {
      cells[i] = CellOf(rows[i], parameters, /*with_names=*/false);
    }
    section->notes.push_back(
        Printable(absl::StrCat("parameters: ", absl::StrJoin(parameters.names, " "))));
  }
  const size_t least = std::max(kParamsWidth, std::min(WidestOf(cells), room));
  section->grid.columns.insert(section->grid.columns.begin() + 1, {.header = "parameters",
                                                                   .name = true,
                                                                   .flex_width = least,
                                                                   .words = true,
                                                                   .cells = std::move(cells)});
}

Section VariantSection(const TuneResult& result, const OutputOptions& options) {
  std::vector<Row> rows = result.variants;
  std::ranges::stable_sort(rows, {}, [](const Row& row) { return row.ratio.value_or(1e300); });
  std::vector<Json> params;
  for (const Row& row : rows) params.push_back(row.params);
  const std::string column = WordsOf(result.objective).column;
  Section section = {.grid = ResultGrid(result, rows, options), .table = "variants"};
  AddParameters(params, options, &section);
  section.notes.push_back(absl::StrCat(
      column, " %: how much ", column == "time" ? "slower" : "more",
      " than the pick, in the rounds that both ran; typical: median of the variant's runs"));
  if (const std::string kind = result.energy_kind.value_or(""); kind.ends_with("modelled")) {
    section.notes.push_back(absl::StrCat("energy: ", kind, ", from a stated power"));
  }
  for (std::string& note : FailureNotes(rows)) section.notes.push_back(std::move(note));
  return section;
}

// "energy, modelled"
std::string ObjectiveText(const SessionInfo& session) {
  const auto result = ReadTuneResult(session.verdict_json.value_or(""));
  const std::string kind = result ? result->energy_kind.value_or("") : "";
  return Printable(absl::StrCat(session.key.objective, kind.empty() ? "" : ", ", kind));
}

View SessionsView(std::span<const SessionInfo> sessions) {
  if (sessions.empty()) return {.lines = {{"no sessions yet"}}};
  RowGrid grid(sessions);
  grid.Number("session", &SessionInfo::id);
  grid.Text("begun (UTC)", [](const SessionInfo& each) {
    constexpr uint64_t kNsPerSecond = 1'000'000'000;
    constexpr size_t kToTheMinute = 16;
    return FormatUtc(static_cast<uint64_t>(each.started_unix_s) * kNsPerSecond)
        .substr(0, kToTheMinute);
  });
  grid.Name("workload", kWorkloadWidth, [](const auto& each) { return each.key.workload; });
  grid.Text("objective", ObjectiveText).HideIf(std::ranges::all_of(sessions, [](const auto& each) {
    return each.key.objective == "time";
  }));
  grid.Number("rounds", &SessionInfo::rounds);
  grid.Text("decided", [](const SessionInfo& each) {
    if (!each.verdict_json.has_value()) return std::string();
    return Printable(each.claim.value_or("") + " " + each.pick.value_or(""));
  });
  grid.Name("device", kParamsWidth, [](const auto& each) { return each.key.device_class; }).Drop(2);
  return {.sections = {{.title = "sessions", .grid = std::move(grid).Take()}}};
}

View PlanView(const TunePlan& plan, const OutputOptions& options) {
  std::vector<Json> variants;
  for (const Configuration& each : plan.configurations) {
    variants.push_back(json::Parse(each.params_json));
  }
  View view;
  view.lines.push_back({absl::StrCat(Printable(plan.workload), ": ",
                                     Counted(variants.size(), "variant"), ", ", plan.strategy)});
  if (plan.search_runs > 0) {
    view.lines.push_back({absl::StrCat("The search takes about ", Counted(plan.search_runs, "run"),
                                       " and passes at most ", plan.raced, " to the race.")});
  }
  const std::string limit =
      plan.budget_runs.has_value()
          ? absl::StrCat("the race ends after at most ", Counted(*plan.budget_runs, "run"))
          : "--budget-runs limits it";
  view.lines.push_back({absl::StrCat(
      "The race takes ", Counted(plan.raced, "run"),
      " per round while no variant is eliminated. The number of rounds depends on the noise of the "
      "runs: ",
      limit, ". A run is ", Counted(plan.calls, "timed call"),
      plan.workloads > 1 ? absl::StrCat(" of each of ", plan.workloads, " workloads") : "", ".")});
  view.lines.push_back(
      {"This is only a plan. Variants that compile to the same program are measured once, and "
       "variants that fail are excluded."});
  if (!variants.empty()) {
    RowGrid grid(plan.configurations);
    grid.Name("variant", 0, &Configuration::id);
    Section section = {.grid = std::move(grid).Take()};
    AddParameters(variants, options, &section);
    view.sections.push_back(section);
  }
  return view;
}

// The state of the race after some runs.
void VisitStage(const TuneResult& stage, result::FieldSink* sink) {
  XPLANE_TIME_FIELDS(sink, stage.runs, stage.rounds, stage.pick);
  sink->Rows(result::TableOf(
      "variants", std::span(stage.variants), [](const Row& row, result::FieldSink* of) {
        const auto ci = row.ratio_ci.value_or(std::array<std::optional<double>, 2>());
        XPLANE_TIME_FIELDS(of, row.id, row.ratio);
        of->Interval("ratio_ci", ci[0], ci[1]);
      }));
}

}  // namespace

Output TuningOutput(std::string_view json, std::span<const TuneResult> race) {
  Output out{.result = result::Result("xplane-time.tune-result.v1")};
  out.others[Format::kJson] = [json] { return EscapeInvisibleInJson(json) + "\n"; };
  out.view = [result = ReadTuneResult(json)](const OutputOptions& how) -> View {
    if (!result.has_value()) return {.lines = {{"the result cannot be read", Tone::kBad}}};
    return DecisionView({WhatWasDecided(*result), Reasons(*result)}, ExitCode(result->claim),
                        {VariantSection(*result, how)}, /*notes=*/{}, how);
  };
  out.drawn.push_back(result::TableOf("race", race, VisitStage));
  return out;
}

Output SessionsOutput(std::span<const SessionInfo> sessions) {
  using result::FieldSink, result::TableOf;
  Output out{.result = result::Result("xplane-time.tune-sessions.v1")};
  out.result.Add(TableOf("sessions", sessions, [](const SessionInfo& each, FieldSink* sink) {
    sink->Field("session", each.id);
    XPLANE_TIME_FIELDS(sink, each.started_unix_s, each.key.workload, each.key.objective,
                       each.key.device_class, each.device, each.rounds, each.samples, each.claim,
                       each.pick, each.verified);
  }));
  out.view = [sessions](const OutputOptions&) { return SessionsView(sessions); };
  return out;
}

Output PlanOutput(const TunePlan& plan) {
  Output out{.result = result::Result("xplane-time.tune-plan.v1")};
  out.view = [&plan](const OutputOptions& how) { return PlanView(plan, how); };
  out.others[Format::kJson] = [&plan, schema = out.result.schema] {
    Json json = {{"schema", schema}};
    json.update(json::ToJson(plan));
    json["workload"] = ValidUtf8(plan.workload);
    json["variants"] = Json::array();
    for (const Configuration& each : plan.configurations) {
      json["variants"].push_back({{"id", each.id}, {"params", json::Parse(each.params_json)}});
    }
    return EscapeInvisibleInJson(Dump(json)) + "\n";
  };
  return out;
}

}  // namespace xplane_time::output
