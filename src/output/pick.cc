// The output of pick.
#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "output/decisions.h"
#include "output/joules.h"
#include "output/results.h"

namespace xplane_time::output {
namespace {

using result::FieldSink, result::KnownText, result::TableOf;

bool OfEnergy(const PickResult& choice) { return choice.options.objective == Objective::kEnergy; }

const VariantRow* RunnerUp(const PickResult& choice) {
  for (const VariantRow& row : choice.variants) {
    if (row.id != choice.leader && row.ratio.has_value()) return &row;
  }
  return nullptr;
}

Explanation ExplainWinner(const PickResult& choice) {
  const VariantRow& second = *RunnerUp(choice);
  return {.verdict = absl::StrCat("winner: variant ", Printable(choice.pick)),
          .reasons = {absl::StrCat(
              "Every other variant is proved ", OfEnergy(choice) ? "to take more energy" : "slower",
              ". The second best is ", Printable(second.id), ": ", ChangeText(*second.ratio),
              " % (at least ", ChangeText(second.lo.value_or(1)), " %).")}};
}

Explanation ExplainTie(const PickResult& choice) {
  std::vector<std::string> ids;
  for (const std::string& id : choice.tied) ids.push_back(Printable(id));
  return {.verdict = absl::StrCat("tie: variants ", absl::StrJoin(ids, ", "), " are within ",
                                  PercentText(choice.options.delta), " of each other"),
          .reasons = {absl::StrCat(
              "Variant ", Printable(choice.pick), " is picked as the first of them",
              choice.pick == choice.tied.front() ? "" : " that no other is proved to beat",
              choice.tied.size() == choice.variants.size() ? ""
              : OfEnergy(choice)                           ? "; all others take more energy"
                                                           : "; all others are slower",
              ".")}};
}

Explanation ExplainPick(const PickResult& choice) {
  const std::string pick = absl::StrCat("pick: variant ", Printable(choice.pick));
  if (RunnerUp(choice) == nullptr) {
    return {.verdict = pick + ", the only one that ran"};
  }
  return {.verdict = absl::StrCat(
              pick, OfEnergy(choice) ? "; no other takes less energy" : "; no other is faster",
              " by more than ", PercentText(choice.options.delta)),
          .reasons = {absl::StrCat("It is not proved that it ",
                                   OfEnergy(choice) ? "takes the least" : "is the fastest",
                                   ", only that it loses at most this much.")}};
}

std::vector<const VariantRow*> NotJudged(const PickResult& choice) {
  std::vector<const VariantRow*> rows;
  for (const VariantRow& row : choice.variants) {
    if (row.status == "not_judged" || row.status == "unknown") rows.push_back(&row);
  }
  return rows;
}

// The leader on each device alone, and the command that judges one device: "GPU:0" is --device
// gpu:0.
void AddDevices(const PickResult& choice, Explanation* out) {
  if (choice.fastest_by_device.empty()) return;
  constexpr size_t kMaxShown = 4;
  std::vector<std::string> parts;
  std::set<std::string> ids;
  for (const DeviceLeader& leader : choice.fastest_by_device) {
    ids.insert(leader.variant_id);
    if (parts.size() == kMaxShown) continue;
    parts.push_back(
        absl::StrCat("variant ", Printable(leader.variant_id), " on ", Printable(leader.device)));
  }
  const std::string fastest =
      ids.size() == 1 ? absl::StrCat("variant ", Printable(*ids.begin()), " on every device")
                      : absl::StrJoin(parts, ", ");
  out->reasons.push_back(
      absl::StrCat("The smallest typical time on each device alone: ", fastest, "."));
  const std::string& device = choice.fastest_by_device[0].device;
  const size_t colon = device.find(':');
  const bool is_selector = colon != std::string::npos && device.find(' ') == std::string::npos;
  out->reasons.push_back(
      is_selector ? absl::StrCat("Judge one device: --device ", absl::AsciiStrToLower(device), ".")
                  : std::string("Judge one host: give only its trace."));
}

// Variants that ran and were not judged may be the fastest.
Explanation ExplainNotJudged(const PickResult& choice) {
  const std::vector<const VariantRow*> rows = NotJudged(choice);
  Explanation out;
  out.verdict = !choice.cycle.empty() ? "undecided: the order of the variants is contradictory"
                : rows.empty()        ? "undecided: devices disagree"
                : rows.size() == 1    ? absl::StrCat("undecided: variant ", Printable(rows[0]->id),
                                                     " ran, but cannot be judged")
                                      : absl::StrCat("undecided: ", rows.size(), " of ",
                                                     Counted(choice.variants.size(), "variant"),
                                                     " ran, but cannot be judged");
  for (const std::string& doubt : choice.doubts) out.reasons.push_back(Printable(doubt) + ".");
  if (!choice.cycle.empty()) {
    out.reasons.push_back(
        absl::StrCat("Ratios are relative to variant ", Printable(choice.leader), "."));
  } else if (!rows.empty() && !choice.leader.empty()) {
    out.reasons.push_back(absl::StrCat("Among the others variant ", Printable(choice.leader),
                                       " leads; ratios are relative to it."));
  }
  AddDevices(choice, &out);
  return out;
}

const VariantRow* FindVariant(const PickResult& choice, std::string_view id) {
  const auto found = std::ranges::find(choice.variants, id, &VariantRow::id);
  return found == choice.variants.end() ? nullptr : &*found;
}

// "30 to 120 rounds in total would settle it (120 with a probability of 80 %)."
std::string NeededText(const PickResult& choice) {
  const uint64_t least = *choice.needed_least;
  const bool of_rounds = choice.needs_captures && choice.in_rounds;
  const std::string units = absl::StrCat(choice.needs_captures ? " captures" : " rounds",
                                         " in total", of_rounds ? ", each as long as now," : "");
  if (!choice.needed.has_value()) {
    return absl::StrCat("At least ", least, units,
                        " are needed, and more if the difference is smaller than measured.");
  }
  if (*choice.needed <= least) {
    return absl::StrCat(*choice.needed, units, " would settle it with a probability of 80 %.");
  }
  return absl::StrCat(least, " to ", *choice.needed, units, " would settle it (", *choice.needed,
                      " with a probability of 80 %).");
}

// The first variant that could not be compared with the leader for lack of common rounds or
// captures, and the remedy.
std::string TooLittleText(const PickResult& choice) {
  const std::string unit = choice.in_rounds ? "round" : "capture";
  for (const VariantRow& row : choice.variants) {
    if (row.status != "open" || row.units == 0) continue;
    const std::string pair =
        absl::StrCat("ariants ", Printable(choice.leader), " and ", Printable(row.id));
    if (!row.ratio.has_value()) {
      return absl::StrCat("V", pair, " never ran in the same ", unit,
                          ", so they cannot be compared: run all variants in every ", unit, ".");
    }
    constexpr uint64_t kLeastRounds = 4;
    if (choice.in_rounds && !row.lo.has_value() && row.units >= kLeastRounds) {
      return absl::StrCat("V", pair,
                          " ran together in fewer than four rounds: run every variant once in each "
                          "of at least four rounds.");
    }
  }
  return choice.in_rounds
             ? "At least four rounds are needed; every variant runs once in each."
             : "A single run shows no scatter: run each variant at least four times, in rounds "
               "(each once, then again).";
}

std::string ClockText(const PickResult& choice) {
  return absl::StrCat("The difference may be an error of the clock, whose step is ",
                      *choice.clock_step_ps / 1000,
                      " ns. More rounds are unlikely to help: let each run do more work, so that "
                      "it takes longer.");
}

// For a difference whose sign is uncertain. A number of rounds that follows from it would be wrong
// by orders of magnitude.
std::string MayBeEqualText(const PickResult& choice) {
  const VariantRow* const rival = FindVariant(choice, choice.rival);
  const bool known = rival != nullptr && rival->ratio.has_value();
  return absl::StrCat("Variants ", Printable(choice.pick), " and ", Printable(choice.rival),
                      " may be equal: ",
                      known ? absl::StrCat("the difference of ", ChangeText(*rival->ratio), " %")
                            : "the difference",
                      " may be due to chance. If the variants are equal, more ",
                      choice.needs_captures ? "captures" : "rounds",
                      " cannot find a winner, but they can prove a tie within --delta (",
                      PercentText(choice.options.delta), "). Choose --delta before the runs.");
}

Explanation ExplainOpen(const PickResult& choice) {
  if (choice.pick.empty()) return ExplainNotJudged(choice);
  const bool too_little = choice.claim == Claim::kTooLittleData;
  constexpr double kAbsurd = 10;
  Explanation out = {
      .verdict = absl::StrCat(too_little ? "too little data" : "undecided", ": variant ",
                              Printable(choice.pick), " leads, but it is not proved ",
                              OfEnergy(choice) ? "to take the least energy" : "the fastest"),
      .reasons = {
          choice.regret.value_or(2 * kAbsurd) > kAbsurd
              ? "The possible loss of this choice is unknown."
              : absl::StrCat("This choice may lose up to ", PercentText(*choice.regret), ".")}};
  if (!choice.doubts.empty()) {
    for (const std::string& doubt : choice.doubts) out.reasons.push_back(Printable(doubt) + ".");
  } else if (too_little) {
    out.reasons.push_back(TooLittleText(choice));
  } else if (choice.clock_step_ps.has_value()) {
    out.reasons.push_back(ClockText(choice));
  } else if (choice.may_be_equal) {
    out.reasons.push_back(MayBeEqualText(choice));
  } else if (const VariantRow* rival = FindVariant(choice, choice.rival);
             rival != nullptr && rival->ratio.value_or(1) < 1) {
    out.reasons.push_back(absl::StrCat(
        "No variant is ahead of all others in the ", choice.in_rounds ? "rounds" : "captures",
        " that they share: variant ", Printable(choice.rival), " is ahead of variant ",
        Printable(choice.pick), ", which loses the least."));
  } else if (choice.needed_least.has_value()) {
    out.reasons.push_back(NeededText(choice));
  } else if (OfEnergy(choice)) {
    out.reasons.push_back("Give the energies of several captures.");
  } else if (!choice.in_rounds) {
    out.reasons.push_back(
        "Run the variants in rounds (each once, then again), or give several captures.");
  } else {
    out.reasons.push_back(absl::StrCat(
        "More ", choice.needs_captures ? "captures" : "rounds",
        " than are practical (10,000) would be needed to settle it: ",
        choice.needs_captures ? "the captures differ" : "the runs vary", " too much."));
  }
  return out;
}

Explanation Explain(const PickResult& choice) {
  switch (choice.claim) {
    case Claim::kWinner:
      return ExplainWinner(choice);
    case Claim::kTie:
      return ExplainTie(choice);
    case Claim::kPick:
      return ExplainPick(choice);
    case Claim::kUndecided:
    case Claim::kTooLittleData:
      return ExplainOpen(choice);
    case Claim::kAllFailed:
      break;
  }
  if (OfEnergy(choice))
    return {.verdict = "unknown: no variant has an energy", .reasons = choice.doubts};
  return {.verdict = "failed: no variant has a usable run"};
}

// A JSON value for people: strings without their quotes.
std::string Plain(const std::string& json) {
  const bool quoted = json.size() >= 2 && json.front() == '"' && json.back() == '"';
  return Printable(quoted ? json.substr(1, json.size() - 2) : json);
}

std::string ParamsText(const VariantRow& row) {
  std::vector<std::string> parts;
  for (const Fact& param : row.params) {
    parts.push_back(absl::StrCat(Printable(param.name), "=", Plain(param.value)));
  }
  return absl::StrJoin(parts, " ");
}

Grid VariantGrid(std::span<const VariantRow> rows, const std::string& base, bool of_energy,
                 const OutputOptions& options) {
  RowGrid grid(rows);
  grid.Name("variant", 8, &VariantRow::id);
  grid.Name("parameters", 24, ParamsText).HideIfSame().words = true;
  grid.Text("status", [](const VariantRow& row) {
    return absl::StrReplaceAll(row.status, {{"_", " "}}) + (row.uncertain ? " ?" : "");
  });
  if (of_energy) {
    const JouleUnit unit = JouleUnitOf(grid.Values(&VariantRow::centre));
    grid.Number("captures", &VariantRow::samples).Drop(3);
    grid.Number(absl::StrCat("typical ", unit.name), &VariantRow::centre,
                [&](const std::optional<double>& joules) { return unit.Cell(joules); });
  } else {
    const Unit unit = CommonUnit(grid.Values(&VariantRow::centre, &VariantRow::p95), options.unit);
    grid.Number("runs", &VariantRow::samples).Drop(3);
    grid.Times("typical", unit, &VariantRow::centre);
    grid.Times("p95", unit, &VariantRow::p95).Drop(4);
  }
  grid.Number(of_energy ? "more %" : "slower %", &VariantRow::ratio, ChangeOrDash);
  const auto interval = [&](const VariantRow& row) {
    return row.id == base && row.status != "tied" ? "-" : IntervalText(row.lo, row.hi);
  };
  grid.Number("interval %", interval).Drop(1);
  const auto three_decimals = [](const std::optional<double>& p) {
    return p ? FormatFixed(*p, 3) : "-";
  };
  grid.Number("P(best)", &VariantRow::p_best, three_decimals).Drop(2).HideIfUnknown();
  return std::move(grid).Take();
}

// "active time", "energy".
std::string MetricText(const PickResult& choice) {
  if (choice.metric.empty()) return "";
  return choice.metric + (OfEnergy(choice) ? "" : " time");
}

// How much longer a variant typically takes than the leader, over all of its own runs.
std::optional<double> TypicalRatio(const PickResult& choice, const VariantRow& row) {
  const VariantRow* const leader = FindVariant(choice, choice.leader);
  if (leader == nullptr || !leader->centre.has_value() || !row.centre.has_value()) {
    return std::nullopt;
  }
  return *row.centre / *leader->centre;
}

// Notes the variants whose typical times have another ratio than the decision uses, by more than
// delta and a tenth of the difference.
void NoteOtherRatios(const PickResult& choice, std::span<const VariantRow> rows,
                     std::vector<std::string>* notes) {
  constexpr size_t kMaxShown = 3;
  size_t count = 0;
  for (const VariantRow& row : rows) {
    const std::optional<double> typical = TypicalRatio(choice, row);
    if (!typical.has_value() || !row.ratio.has_value()) continue;
    const double of_decision = std::log(*row.ratio);
    const double margin = std::log1p(choice.options.delta) + 0.1 * std::abs(of_decision);
    if (std::abs(std::log(*typical) - of_decision) <= margin || ++count > kMaxShown) continue;
    notes->push_back(absl::StrCat(
        "variant ", Printable(row.id), ": the typical times differ by ", ChangeText(*typical),
        " %, but runs of the same ", choice.in_rounds ? "round" : "capture", " by ",
        ChangeText(*row.ratio), " %; the verdict uses the latter, in which drift cancels"));
  }
  if (count > kMaxShown) {
    notes->push_back(absl::StrCat("... and so for ", Counted(count - kMaxShown, "more variant")));
  }
}

void AddDefinitions(const PickResult& choice, std::span<const VariantRow> rows,
                    std::vector<std::string>* notes) {
  const bool of_energy = OfEnergy(choice);
  const std::string effect = of_energy ? "more %" : "slower %";
  const std::string unit = choice.in_rounds ? "round" : "capture";
  const bool has_p_best =
      std::ranges::any_of(rows, [](const VariantRow& row) { return row.p_best.has_value(); });
  notes->push_back(absl::StrCat("typical: robust mean of the ",
                                choice.metric.empty() ? "time" : MetricText(choice),
                                of_energy ? " of the variant's own runs; "
                                          : " of the variant's own runs (functions prints "
                                            "medians); ",
                                effect, ": robust mean of the ratios to the pick within each ",
                                unit, ", on which the verdict rests"));
  notes->push_back(absl::StrCat("interval: confidence interval of ", effect,
                                "; the probability that any interval of this table is wrong is "
                                "at most ",
                                PercentText(choice.options.alpha)));
  if (has_p_best) {
    notes->push_back(
        "P(best): probability that the variant is the best, from the same estimates and errors");
  }
  NoteOtherRatios(choice, rows, notes);
}

Section VariantSection(const PickResult& choice, const OutputOptions& options) {
  Section section;
  const auto rows = TopRows(choice.variants, options.top, "variants", kByTop, &section.notes);
  section.title = absl::StrCat(
      "variants", choice.metric.empty() ? "" : ", ", MetricText(choice),
      OfEnergy(choice) && !choice.metric.empty() ? " of a run" : "",
      choice.clock.empty() ? "" : ", ", choice.clock, choice.clock.empty() ? "" : " clock", ", ",
      Counted(choice.captures, "capture"), choice.in_rounds ? " in rounds" : "");
  section.grid = VariantGrid(rows, choice.leader, OfEnergy(choice), options);
  AddDefinitions(choice, rows, &section.notes);
  NoteUncertain(rows, &section.notes);
  return section;
}

void VisitVariant(const VariantRow& row, bool of_energy, FieldSink* sink) {
  sink->Field("variant_id", row.id);
  XPLANE_TIME_FIELDS(sink, KnownText(row.function), row.status, row.samples, row.units,
                     row.left_out);
  sink->Field(of_energy ? "energy_j" : "centre_ps", row.centre);
  sink->Interval(of_energy ? "ci_j" : "ci_ps", row.centre_lo, row.centre_hi);
  if (!of_energy) sink->Field("p95_ps", row.p95);
  XPLANE_TIME_FIELDS(sink, row.ratio);
  sink->Interval("ratio_ci", row.lo, row.hi);
  XPLANE_TIME_FIELDS(sink, row.p_best, row.uncertain, KnownText(row.reason));
}

void VisitDeviceLeader(const DeviceLeader& leader, FieldSink* sink) {
  XPLANE_TIME_FIELDS(sink, leader.device, leader.variant_id);
  sink->Field("centre_ps", leader.typical);
}

// Parameters as an object, and as one cell.
void VisitWithParams(const VariantRow& row, bool of_energy, FieldSink* sink) {
  VisitVariant(row, of_energy, sink);
  sink->BeginGroup("params", !row.params.empty());
  for (const Fact& param : row.params) sink->Raw(param.name, param.value);
  sink->EndGroup();
}
void VisitFlat(const VariantRow& row, bool of_energy, FieldSink* sink) {
  VisitVariant(row, of_energy, sink);
  std::string params;
  for (const Fact& param : row.params) {
    absl::StrAppend(&params, params.empty() ? "" : " ", param.name, "=", param.value);
  }
  sink->Field("params", KnownText(params));
}

void VisitDecision(const PickResult& choice, FieldSink* sink) {
  const PickOptions& options = choice.options;
  sink->Field("claim", ClaimName(choice.claim));
  sink->Field("exit_code", ExitCode(choice.claim));
  const Explanation explanation = Explain(choice);
  sink->Field("explanation", explanation.verdict);
  sink->Texts("reasons", explanation.reasons);
  sink->Field("pick", KnownText(choice.pick));
  sink->Texts("tied", choice.tied);
  sink->Texts("inputs", choice.sources);
  sink->BeginGroup("options", true);
  if (OfEnergy(choice)) sink->Field("objective", ObjectiveName(options.objective));
  XPLANE_TIME_FIELDS(sink, options.delta, options.alpha, options.drift_std, options.seed);
  sink->EndGroup();
  XPLANE_TIME_FIELDS(sink, KnownText(choice.metric), KnownText(choice.clock), choice.captures,
                     choice.in_rounds, choice.regret, choice.mde);
  sink->Field("needed_units_least", choice.needed_least);
  sink->Field("needed_units", choice.needed);
  sink->Field("needed_unit", KnownText(!choice.needed_least.has_value() ? ""
                                       : choice.needs_captures          ? "capture"
                                                                        : "round"));
  sink->Field("may_be_equal", choice.may_be_equal);
}

std::vector<InterchangeRow> InterchangeRows(const PickResult& choice) {
  const bool open = choice.claim == Claim::kUndecided || choice.claim == Claim::kTooLittleData;
  std::vector<InterchangeRow> out = {
      {.name = "decision",
       .group = "pick",
       .text = Explain(choice).verdict,
       .failure_type = choice.claim == Claim::kAllFailed ? "all_failed" : "",
       .skipped_type = open ? std::string(ClaimName(choice.claim)) : ""}};
  for (const VariantRow& row : choice.variants) {
    out.push_back({.name = row.function.empty() ? row.id : row.function,
                   .group = "variants",
                   .value = {.samples = row.samples,
                             .centre = row.centre,
                             .lo = row.centre_lo,
                             .hi = row.centre_hi},
                   .ratio = row.ratio,
                   .ratio_lo = row.lo,
                   .ratio_hi = row.hi,
                   .text = absl::StrCat(row.status,
                                        row.uncertain ? " ?: the split into runs is uncertain" : "",
                                        row.reason.empty() ? "" : ": ", row.reason),
                   .skipped_type = row.samples == 0 || row.uncertain ? row.status : ""});
  }
  return out;
}

}  // namespace

Output PickOutput(const PickResult& choice) {
  Output out{.result = result::Result("xplane-time.pick.v1")};
  out.result.Say([&](FieldSink* sink) { VisitDecision(choice, sink); });
  const bool of_energy = OfEnergy(choice);
  const std::span rows(choice.variants);
  out.result.Add(TableOf("variants", rows, [of_energy](const VariantRow& row, FieldSink* sink) {
    VisitWithParams(row, of_energy, sink);
  }));
  if (!choice.fastest_by_device.empty()) {
    out.result.Add(
        TableOf("fastest_by_device", std::span(choice.fastest_by_device), VisitDeviceLeader));
  }
  out.result.Say([&choice](FieldSink* sink) {
    sink->Texts("doubts", choice.doubts);
    sink->Texts("notes", JoinNotes(choice.notes, choice.sources));
  });
  out.result.csv = TableOf("", rows, [of_energy](const VariantRow& row, FieldSink* sink) {
    VisitFlat(row, of_energy, sink);
  });
  out.view = [&](const OutputOptions& how) {
    return DecisionView(Explain(choice), ExitCode(choice.claim), {VariantSection(choice, how)},
                        JoinNotes(choice.notes, choice.sources), how);
  };
  AddInterchange("xplane-time pick", choice.options.objective, InterchangeRows(choice), &out);
  return out;
}

}  // namespace xplane_time::output
