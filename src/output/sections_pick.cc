// A choice for people.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "output/decisions.h"
#include "output/text.h"
#include "output/units.h"

namespace xplane_time::output {
namespace {

const VariantRow* RunnerUp(const PickResult& choice) {
  for (const VariantRow& row : choice.variants) {
    if (row.id != choice.pick && row.ratio.has_value()) return &row;
  }
  return nullptr;
}

std::string Units(const PickResult& choice, uint64_t count) {
  const char* unit = choice.in_rounds ? "round" : "capture";
  return absl::StrCat(count, " ", unit, count == 1 ? "" : "s");
}

void ExplainWinner(const PickResult& choice, Explanation* out) {
  const VariantRow& second = *RunnerUp(choice);
  out->good = true;
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
  out->good = true;
}

void ExplainPick(const PickResult& choice, Explanation* out) {
  out->good = true;
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
  const bool too_little = choice.claim == PickClaim::kTooLittleData;
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

template <typename Get>
std::vector<std::string> Cells(std::span<const VariantRow> rows, Get get) {
  std::vector<std::string> cells;
  for (const VariantRow& row : rows) cells.push_back(get(row));
  return cells;
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

std::string IntervalText(const VariantRow& row) {
  if (!row.lo.has_value() || !row.hi.has_value() || row.status == "picked" ||
      row.status == "leads") {
    return "-";
  }
  return absl::StrCat(ChangeText(*row.lo), " .. ", ChangeText(*row.hi));
}

void AddColumns(std::span<const VariantRow> rows, const OutputOptions& options, Grid* grid) {
  const auto time = [](const VariantRow& row) { return row.centre_ps; };
  std::vector<std::optional<double>> centres, p95;
  for (const VariantRow& row : rows) {
    centres.push_back(time(row));
    p95.push_back(row.p95_ps);
  }
  auto& columns = grid->columns;
  columns.push_back(NameColumn(
      "variant", Cells(rows, [](const VariantRow& row) { return Printable(row.id); }), 8));
  const auto params = Cells(rows, ParamsText);
  columns.push_back(NameColumn("parameters", params, 24));
  columns.back().words = true;
  columns.back().hidden = !Varies(params);
  columns.push_back(TextColumn("status", Cells(rows, [](const VariantRow& row) {
                                 return (row.status == "no_samples" ? "no samples" : row.status) +
                                        (row.uncertain ? " ?" : "");
                               })));
  columns.push_back(NumberColumn(
      "runs", Cells(rows, [](const VariantRow& row) { return std::to_string(row.samples); }), 3));
  std::vector<std::optional<double>> both = centres;
  both.insert(both.end(), p95.begin(), p95.end());
  const Unit unit = CommonUnit(both, options.unit);
  columns.push_back(TimesColumn("typical", centres, unit));
  columns.push_back(TimesColumn("p95", p95, unit, 4));
  columns.push_back(NumberColumn("slower %", Cells(rows, [](const VariantRow& row) {
                                   return row.ratio.has_value() ? ChangeText(*row.ratio) : "-";
                                 })));
  columns.push_back(NumberColumn("interval %", Cells(rows, IntervalText), 1));
  columns.push_back(NumberColumn("P(best)",
                                 Cells(rows,
                                       [](const VariantRow& row) {
                                         return row.p_best.has_value() ? FormatFixed(*row.p_best, 3)
                                                                       : std::string("-");
                                       }),
                                 2));
}

}  // namespace

Explanation ExplainChoice(const PickResult& choice) {
  Explanation out;
  switch (choice.claim) {
    case PickClaim::kWinner:
      ExplainWinner(choice, &out);
      break;
    case PickClaim::kTie:
      ExplainTie(choice, &out);
      break;
    case PickClaim::kPick:
      ExplainPick(choice, &out);
      break;
    case PickClaim::kUndecided:
    case PickClaim::kTooLittleData:
      ExplainOpen(choice, &out);
      break;
    case PickClaim::kAllFailed:
      out.verdict = "failed: no variant has a run that counts";
      out.bad = true;
      break;
  }
  return out;
}

Section ChoiceSection(const PickResult& choice, const OutputOptions& options) {
  const size_t shown =
      std::min(choice.variants.size(), options.top.value_or(choice.variants.size()));
  const auto rows = std::span(choice.variants).first(shown);
  Section section;
  section.title = absl::StrCat(
      "variants", choice.metric.empty() ? "" : ", ", choice.metric,
      choice.metric.empty() ? "" : " time", choice.clock.empty() ? "" : ", ", choice.clock,
      choice.clock.empty() ? "" : " clock", ", ", choice.captures,
      choice.captures == 1 ? " capture" : " captures", choice.in_rounds ? " in rounds" : "");
  AddColumns(rows, options, &section.grid);
  if (choice.variants.size() > shown) {
    section.notes.push_back(MoreNote(choice.variants.size() - shown, "variants", "without --top"));
  }
  section.notes.push_back(absl::StrCat("interval: against the pick, all together wrong at most ",
                                       PercentText(choice.options.alpha), " of the time"));
  if (std::any_of(rows.begin(), rows.end(), [](const VariantRow& row) { return row.uncertain; })) {
    section.notes.push_back("?: the split into runs is uncertain");
  }
  return section;
}

}  // namespace xplane_time::output
