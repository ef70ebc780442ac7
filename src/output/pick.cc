// The output of pick.
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
              "; the next, ", Printable(second.id), ", by ", ChangeText(*second.ratio),
              " % (at least ", ChangeText(second.lo.value_or(1)), " %).")}};
}

Explanation ExplainTie(const PickResult& choice) {
  std::vector<std::string> ids;
  for (const std::string& id : choice.tied) ids.push_back(Printable(id));
  return {.verdict = absl::StrCat("tie: variants ", absl::StrJoin(ids, ", "), " are within ",
                                  PercentText(choice.options.delta), " of each other"),
          .reasons = {absl::StrCat("Variant ", Printable(choice.pick),
                                   " is picked as the first of them; all others ",
                                   OfEnergy(choice) ? "take more energy." : "are slower.")}};
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
  out.verdict = rows.empty()       ? "undecided: devices disagree"
                : rows.size() == 1 ? absl::StrCat("undecided: variant ", Printable(rows[0]->id),
                                                  " ran, but cannot be judged")
                                   : absl::StrCat("undecided: ", rows.size(), " of ",
                                                  Counted(choice.variants.size(), "variant"),
                                                  " ran, but cannot be judged");
  for (const std::string& doubt : choice.doubts) out.reasons.push_back(Printable(doubt) + ".");
  if (!rows.empty() && !choice.leader.empty()) {
    out.reasons.push_back(absl::StrCat("Among the others variant ", Printable(choice.leader),
                                       " leads; ratios are relative to it."));
  }
  AddDevices(choice, &out);
  return out;
}

// "820 rounds in all would settle it with a probability of 80 %."
std::string NeededText(const PickResult& choice) {
  return absl::StrCat(
      Counted(*choice.needed, choice.needs_captures ? "capture" : "round"),
      choice.needs_captures && choice.in_rounds ? " (each with as many rounds as now)" : "",
      " in all would settle it with a probability of 80 %.");
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
    out.reasons.push_back(
        choice.in_rounds
            ? "At least four rounds are needed; every variant runs once in each."
            : "A single run shows no scatter: run each variant at least four times, in rounds "
              "(each once, then again).");
  } else if (choice.needed.has_value()) {
    out.reasons.push_back(NeededText(choice));
  } else if (OfEnergy(choice)) {
    out.reasons.push_back("Give the energies of several captures.");
  } else if (!choice.in_rounds) {
    out.reasons.push_back(
        "Run the variants in rounds (each once, then again), or give several captures.");
  } else {
    out.reasons.push_back("No number of rounds is known to settle it; see --delta.");
  }
  const bool acceptable = !too_little && choice.doubts.empty() && choice.regret.has_value() &&
                          *choice.regret <= kAbsurd;
  if (acceptable) {
    out.reasons.push_back(absl::StrCat("--delta ", OptionText(*choice.regret), " accepts variant ",
                                       Printable(choice.pick), "."));
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

Grid VariantGrid(std::span<const VariantRow> rows, bool of_energy, const OutputOptions& options) {
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
  const auto interval = [](const VariantRow& row) {
    const bool is_pick = row.status == "picked" || row.status == "leads";
    return is_pick ? "-" : IntervalText(row.lo, row.hi);
  };
  grid.Number("interval %", interval).Drop(1);
  const auto three_decimals = [](const std::optional<double>& p) {
    return p ? FormatFixed(*p, 3) : "-";
  };
  grid.Number("P(best)", &VariantRow::p_best, three_decimals).Drop(2).HideIfUnknown();
  return std::move(grid).Take();
}

Section VariantSection(const PickResult& choice, const OutputOptions& options) {
  Section section;
  const auto rows = TopRows(choice.variants, options.top, "variants", kByTop, &section.notes);
  section.title = absl::StrCat(
      "variants", choice.metric.empty() ? "" : ", ", choice.metric,
      choice.metric.empty() ? ""
      : OfEnergy(choice)    ? " of a run"
                            : " time",
      choice.clock.empty() ? "" : ", ", choice.clock, choice.clock.empty() ? "" : " clock", ", ",
      Counted(choice.captures, "capture"), choice.in_rounds ? " in rounds" : "");
  section.grid = VariantGrid(rows, OfEnergy(choice), options);
  section.notes.push_back(absl::StrCat("interval: relative to the pick; the probability that any ",
                                       "is wrong is at most ", PercentText(choice.options.alpha)));
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
  sink->Field("needed_units", choice.needed);
  sink->Field("needed_unit", KnownText(!choice.needed.has_value() ? ""
                                       : choice.needs_captures    ? "capture"
                                                                  : "round"));
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
    sink->Texts("notes", choice.notes);
  });
  out.result.csv = TableOf("", rows, [of_energy](const VariantRow& row, FieldSink* sink) {
    VisitFlat(row, of_energy, sink);
  });
  out.view = [&](const OutputOptions& how) {
    return DecisionView(Explain(choice), ExitCode(choice.claim), {VariantSection(choice, how)},
                        choice.notes, how);
  };
  AddInterchange("xplane-time pick", choice.options.objective, InterchangeRows(choice), &out);
  return out;
}

}  // namespace xplane_time::output
