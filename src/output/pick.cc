// What pick chose.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "output/decision_views.h"
#include "output/interchange.h"
#include "output/results.h"

namespace xplane_time::output {
namespace {

using result::FieldSink, result::KnownText, result::TableOf;

const VariantRow* RunnerUp(const PickResult& choice) {
  for (const VariantRow& row : choice.variants) {
    if (row.id != choice.pick && row.ratio.has_value()) return &row;
  }
  return nullptr;
}

std::string Units(const PickResult& choice, uint64_t count) {
  return Counted(count, choice.in_rounds ? "round" : "capture");
}

void ExplainWinner(const PickResult& choice, Explanation* out) {
  const VariantRow& second = *RunnerUp(choice);
  out->tone = Tone::kGood;
  out->verdict = absl::StrCat("winner: variant ", Printable(choice.pick));
  out->reasons.push_back(absl::StrCat("Every other variant is proved slower; the next, ",
                                      Printable(second.id), ", by ", ChangeText(*second.ratio),
                                      " % (at least ", ChangeText(second.lo.value_or(1)), " %)."));
}

void ExplainTie(const PickResult& choice, Explanation* out) {
  std::vector<std::string> ids;
  for (const std::string& id : choice.tied) ids.push_back(Printable(id));
  out->verdict = absl::StrCat("tie: variants ", absl::StrJoin(ids, ", "), " are within ",
                              PercentText(choice.options.delta), " of each other");
  out->reasons.push_back(absl::StrCat("Variant ", Printable(choice.pick),
                                      " is named, as the first of them; all others are slower."));
  out->tone = Tone::kGood;
}

void ExplainPick(const PickResult& choice, Explanation* out) {
  out->tone = Tone::kGood;
  if (RunnerUp(choice) == nullptr) {
    out->verdict =
        absl::StrCat("pick: variant ", Printable(choice.pick), ", the only one that ran");
    return;
  }
  out->verdict = absl::StrCat("pick: variant ", Printable(choice.pick),
                              ", none is faster by more than ", PercentText(choice.options.delta));
  out->reasons.push_back(
      "It is not proved that it is the fastest, only that nothing is lost with it.");
}

void ExplainOpen(const PickResult& choice, Explanation* out) {
  const bool too_little = choice.claim == Claim::kTooLittleData;
  out->verdict = absl::StrCat(too_little ? "too little data" : "undecided", ": variant ",
                              Printable(choice.pick), " leads, but it is not proved the fastest");
  constexpr double kAbsurd = 10;
  out->reasons.push_back(
      choice.regret.value_or(2 * kAbsurd) > kAbsurd
          ? "What taking it may lose is unknown."
          : absl::StrCat("Taking it may lose up to ", PercentText(*choice.regret), "."));
  if (too_little) {
    out->reasons.push_back(
        choice.in_rounds
            ? "At least four rounds are needed, in each of which every variant runs once."
            : "A single run shows no scatter: run each variant at least four times, in rounds "
              "(each once, then again).");
  } else if (choice.needed.has_value()) {
    out->reasons.push_back(
        absl::StrCat("About ", Units(choice, *choice.needed), " in all would settle it."));
  } else if (!choice.in_rounds) {
    out->reasons.push_back(
        "Run the variants in rounds (each once, then again), or give several captures.");
  }
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

Explanation Explain(const PickResult& choice) {
  Explanation out;
  switch (choice.claim) {
    case Claim::kWinner:
      ExplainWinner(choice, &out);
      break;
    case Claim::kTie:
      ExplainTie(choice, &out);
      break;
    case Claim::kPick:
      ExplainPick(choice, &out);
      break;
    case Claim::kUndecided:
    case Claim::kTooLittleData:
      ExplainOpen(choice, &out);
      break;
    case Claim::kAllFailed:
      out.verdict = "failed: no variant has a run that counts";
      out.tone = Tone::kBad;
      break;
  }
  return out;
}

Grid VariantGrid(std::span<const VariantRow> rows, const OutputOptions& options) {
  const auto typical = [](const VariantRow& row) { return row.centre_ps; };
  const auto p95 = [](const VariantRow& row) { return row.p95_ps; };
  RowGrid grid(rows);
  const Unit unit = CommonUnit(grid.Values(typical, p95), options.unit);
  grid.Name("variant", 8, [](const VariantRow& row) { return row.id; });
  Column& params = grid.Name("parameters", 24, ParamsText);
  params.words = true;
  params.hidden = !Varies(params.cells);
  grid.Text("status", [](const VariantRow& row) {
    return (row.status == "no_samples" ? "no samples" : row.status) + (row.uncertain ? " ?" : "");
  });
  grid.Number("runs", [](const VariantRow& row) { return std::to_string(row.samples); }).drop = 3;
  grid.Times("typical", unit, typical);
  grid.Times("p95", unit, p95).drop = 4;
  grid.Number("slower %", [](const VariantRow& row) { return ChangeOrDash(row.ratio); });
  grid.Number("interval %",
              [](const VariantRow& row) {
                const bool is_pick = row.status == "picked" || row.status == "leads";
                return is_pick ? "-" : IntervalText(row.lo, row.hi);
              })
      .drop = 1;
  grid.Number("P(best)",
              [](const VariantRow& row) {
                return row.p_best.has_value() ? FormatFixed(*row.p_best, 3) : "-";
              })
      .drop = 2;
  return std::move(grid).Take();
}

Section VariantSection(const PickResult& choice, const OutputOptions& options) {
  Section section;
  const auto rows = TopRows(choice.variants, options.top.value_or(choice.variants.size()),
                            "variants", "without --top", &section.notes);
  section.title = absl::StrCat(
      "variants", choice.metric.empty() ? "" : ", ", choice.metric,
      choice.metric.empty() ? "" : " time", choice.clock.empty() ? "" : ", ", choice.clock,
      choice.clock.empty() ? "" : " clock", ", ", choice.captures,
      choice.captures == 1 ? " capture" : " captures", choice.in_rounds ? " in rounds" : "");
  section.grid = VariantGrid(rows, options);
  section.notes.push_back(absl::StrCat("interval: against the pick, all together wrong at most ",
                                       PercentText(choice.options.alpha), " of the time"));
  NoteUncertain(rows, &section.notes);
  return section;
}

void VisitVariant(const VariantRow& row, FieldSink* sink) {
  sink->Field("variant_id", std::string_view(row.id));
  sink->Field("function", KnownText(row.function));
  sink->Field("status", std::string_view(row.status));
  sink->Field("samples", row.samples);
  sink->Field("units", row.units);
  sink->Field("left_out", row.left_out);
  sink->Field("centre_ps", row.centre_ps);
  sink->Interval("ci_ps", row.lo_ps, row.hi_ps);
  sink->Field("p95_ps", row.p95_ps);
  sink->Field("ratio", row.ratio);
  sink->Interval("ratio_ci", row.lo, row.hi);
  sink->Field("p_best", row.p_best);
  sink->Field("uncertain", row.uncertain);
}

// Parameters as an object, and as one cell.
void VisitWithParams(const VariantRow& row, FieldSink* sink) {
  VisitVariant(row, sink);
  sink->BeginGroup("params", !row.params.empty());
  for (const Fact& param : row.params) sink->Raw(param.name, param.value);
  sink->EndGroup();
}
void VisitFlat(const VariantRow& row, FieldSink* sink) {
  VisitVariant(row, sink);
  std::string params;
  for (const Fact& param : row.params) {
    absl::StrAppend(&params, params.empty() ? "" : " ", param.name, "=", param.value);
  }
  sink->Field("params", KnownText(params));
}

void VisitDecision(const PickResult& choice, FieldSink* sink) {
  sink->Field("claim", ClaimName(choice.claim));
  sink->Field("exit_code", static_cast<int64_t>(ExitCode(choice.claim)));
  sink->Field("explanation", std::string_view(Explain(choice).verdict));
  sink->Field("pick", KnownText(choice.pick));
  sink->Texts("tied", choice.tied);
  sink->Texts("inputs", choice.sources);
  sink->BeginGroup("options", true);
  sink->Field("delta", choice.options.delta);
  sink->Field("alpha", choice.options.alpha);
  sink->Field("drift_std", choice.options.drift_std);
  sink->Field("seed", choice.options.seed);
  sink->EndGroup();
  sink->Field("metric", KnownText(choice.metric));
  sink->Field("clock", KnownText(choice.clock));
  sink->Field("captures", choice.captures);
  sink->Field("in_rounds", choice.in_rounds);
  sink->Field("regret", choice.regret);
  sink->Field("mde", choice.mde);
  sink->Field("needed_units", choice.needed);
}

std::vector<InterchangeRow> InterchangeRows(const PickResult& choice) {
  std::vector<InterchangeRow> out;
  InterchangeRow& decision = out.emplace_back();
  decision.name = "decision";
  decision.group = "pick";
  decision.text = Explain(choice).verdict;
  if (choice.claim == Claim::kAllFailed) decision.failure_type = "all_failed";
  if (ExitCode(choice.claim) == 11 || ExitCode(choice.claim) == 12) {
    decision.skipped_type = ClaimName(choice.claim);
  }
  for (const VariantRow& row : choice.variants) {
    InterchangeRow& at = out.emplace_back();
    at.name = row.function.empty() ? row.id : row.function;
    at.group = "variants";
    at.time_ps = row.centre_ps;
    at.lo_ps = row.lo_ps;
    at.hi_ps = row.hi_ps;
    at.ratio = row.ratio;
    at.ratio_lo = row.lo;
    at.ratio_hi = row.hi;
    at.samples = row.samples;
    at.text = row.status;
    if (row.samples == 0) at.skipped_type = row.status;
  }
  return out;
}

}  // namespace

Output PickOutput(const PickResult& choice) {
  Output out{.result = result::Result("xplane-time.pick.v1")};
  out.result.Say([&](FieldSink* sink) { VisitDecision(choice, sink); });
  out.result.Add(TableOf("variants", std::span(choice.variants), VisitWithParams));
  out.result.Say([&](FieldSink* sink) { sink->Texts("notes", choice.notes); });
  out.result.csv = TableOf("", std::span(choice.variants), VisitFlat);
  out.view = [&](const OutputOptions& how) {
    return DecisionView(Explain(choice), {VariantSection(choice, how)}, choice.notes, how);
  };
  AddInterchange(
      "xplane-time pick", [&] { return InterchangeRows(choice); }, &out);
  return out;
}

}  // namespace xplane_time::output
