// The changes between two sides; the rows add up to the total change.
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "output/results.h"
#include "output/trace_views.h"
#include "result/rows.h"

namespace xplane_time::output {
namespace {

using result::FieldSink, result::KnownText, result::TableOf;

void VisitPart(std::string_view name, const std::optional<DiffPart>& part, FieldSink* sink) {
  const DiffPart none;
  const DiffPart& of = part.value_or(none);
  const auto text = [](const std::string& value) { return KnownText(value); };
  sink->BeginGroup(name, part.has_value());
  sink->Field("ps", of.mean_ps);
  sink->Field("total_ps", of.total_ps);
  XPLANE_TIME_FIELDS(sink, of.hidden_ps, of.count, of.function);
  sink->Texts("program_ids", of.program_ids);
  sink->Field("op", text(of.ops.empty() ? "" : of.ops[0]));
  sink->Texts("ops", of.ops);
  XPLANE_TIME_FIELDS(sink, text(of.kernel));
  sink->Field("category", KnownText(of.category ? CategoryName(*of.category) : ""));
  XPLANE_TIME_FIELDS(sink, text(of.opcode), text(of.shape), text(of.op_name), text(of.source));
  sink->Texts("lines", of.lines);
  sink->EndGroup();
}

void VisitChange(const DiffRow& row, FieldSink* sink) {
  XPLANE_TIME_FIELDS(sink, row.delta_ps);
  sink->Interval("delta_ci_ps", row.lo_ps, row.hi_ps);
  XPLANE_TIME_FIELDS(sink, row.p_value);
  sink->Field("verdict", DiffVerdictName(row.verdict));
  sink->Field("reason", KnownText(row.reason));
}

void VisitDiffRow(const DiffRow& row, FieldSink* sink) {
  sink->Field("match", DiffMatchName(row.match));
  XPLANE_TIME_FIELDS(sink, row.similarity, row.share);
  VisitChange(row, sink);
  XPLANE_TIME_FIELDS(sink, row.noise_ps);
  VisitPart("base", row.base, sink);
  VisitPart("head", row.head, sink);
}

void VisitSum(const DiffSum& sum, FieldSink* sink) {
  sink->Field("match", DiffMatchName(sum.match));
  XPLANE_TIME_FIELDS(sink, sum.rows, sum.base_ps, sum.head_ps, sum.delta_ps);
}

void VisitFunction(const DiffFunction& of, FieldSink* sink) {
  XPLANE_TIME_FIELDS(sink, of.base, of.head, of.base_runs, of.head_runs, of.base_suspect_runs,
                     of.head_suspect_runs, of.base_ps, of.head_ps);
}

void VisitSide(std::string_view name, const DiffSide& side, FieldSink* sink) {
  sink->BeginGroup(name, true);
  sink->Texts("sources", side.sources);
  sink->Rows(TableOf("inputs", std::span(side.inputs)));
  sink->Texts("devices", side.devices);
  XPLANE_TIME_FIELDS(sink, side.units, side.total_ps);
  sink->EndGroup();
}

// "a step", "a run of each function", "the capture".
std::string UnitText(const DiffReport& report) {
  if (report.per == DiffPer::kStep) return "a step";
  if (report.per == DiffPer::kCapture) return "the capture";
  return report.functions.size() == 1 ? "a run" : "a run of each function";
}

// "mean span of a run": the definition of the times, which `compare` measures otherwise.
std::string TimeText(const DiffReport& report) {
  return absl::StrCat(report.per == DiffPer::kRun ? "mean span of " : "mean time of ",
                      UnitText(report));
}

std::string SignedTime(double ps, Unit unit) {
  if (ps == 0) return "no change";
  return absl::StrCat(ps > 0 ? "+" : "-", FormatTime(std::abs(ps), unit));
}

std::string IntervalEnd(double ps, Unit unit) { return ps == 0 ? "0" : SignedTime(ps, unit); }

bool NothingChanged(const DiffReport& report) {
  return std::ranges::all_of(report.rows, [](const DiffRow& row) {
    return row.delta_ps == 0 && (IsWaiting(row.match) || row.match == DiffMatch::kExact);
  });
}

// "both sides are the same file"; "the same capture" if the files differ but the captures are
// equal.
std::string SameText(const DiffReport& report) {
  const bool files = report.base.sources == report.head.sources;
  const bool one = std::max(report.base.inputs.size(), report.head.inputs.size()) == 1;
  return absl::StrCat("both sides are the same ", files ? "file" : "capture", one ? "" : "s");
}

// "; 5 rows proved"; empty: no row is proved.
std::string ProvedRows(const DiffReport& report) {
  const auto proved = static_cast<uint64_t>(std::ranges::count_if(report.rows, [](const auto& row) {
    return row.verdict == DiffVerdict::kMore || row.verdict == DiffVerdict::kLess;
  }));
  return proved > 0 ? absl::StrCat("; ", Counted(proved, "row"), " proved") : "";
}

// "a step takes 1.23 ms, in base 1.00 ms: +0.23 ms (+23 %); total not proved (-0.1 ms to +0.6 ms);
// 5 rows proved".
std::string Headline(const DiffReport& report, Unit unit) {
  if (NothingChanged(report)) {
    if (report.same_capture) return absl::StrCat("no difference: ", SameText(report));
    return "no difference: every kernel is the same and took the same time";
  }
  const DiffRow& total = report.total;
  const double base_ps = total.base->mean_ps, head_ps = total.head->mean_ps;
  std::string text =
      absl::StrCat(UnitText(report), " takes ", FormatTime(head_ps, unit), ", in base ",
                   FormatTime(base_ps, unit), ": ", SignedTime(total.delta_ps, unit));
  if (base_ps > 0) absl::StrAppend(&text, " (", ChangeText(head_ps / base_ps), " %)");
  switch (total.verdict) {
    case DiffVerdict::kMore:
    case DiffVerdict::kLess:
      return text + ", proved";
    case DiffVerdict::kUnproven:
      return absl::StrCat(
          text, "; total not proved",
          total.reason.empty()
              ? ""
              : absl::StrCat(" to change by more than --min-effect, ",
                             FormatPercent(report.decision.min_effect), " % of base"),
          " (", IntervalEnd(*total.lo_ps, unit), " to ", IntervalEnd(*total.hi_ps, unit), ")",
          ProvedRows(report));
    case DiffVerdict::kNoVerdict:
    case DiffVerdict::kSmall:
      break;
  }
  const std::string proved = ProvedRows(report);
  return absl::StrCat(text, "; no verdict", proved.empty() ? "" : " on the total", proved);
}

// One line of a table.
struct DiffLine {
  std::string op, what;
  std::optional<double> base_ps = {}, head_ps = {};
  double delta_ps = 0;
  std::optional<double> lo_ps = {}, hi_ps = {};
  std::string verdict = {}, reason = {};
  std::optional<std::string> function = {}, source = {};
};

std::string_view WaitingText(DiffMatch match) {
  switch (match) {
    case DiffMatch::kOverlap:
      return "(overlap, counted twice)";
    case DiffMatch::kForeign:
      return "(other functions ran)";
    case DiffMatch::kIdleHost:
      return "(idle: host was late)";
    case DiffMatch::kIdleLaunch:
      return "(idle: launched)";
    case DiffMatch::kIdleUnknown:
      return "(idle: unknown)";
    default:
      return "(idle)";
  }
}

std::string_view SumText(DiffMatch match) {
  switch (match) {
    case DiffMatch::kExact:
      return "the same ops";
    case DiffMatch::kSimilar:
      return "changed ops";
    case DiffMatch::kGroup:
      return "split or merged";
    case DiffMatch::kNew:
      return "new";
    case DiffMatch::kGone:
      return "gone";
    default:
      return WaitingText(match);
  }
}

std::string NamesOf(const DiffPart& part) {
  constexpr size_t kMost = 3;
  const size_t count = std::min(part.ops.size(), kMost);
  std::string text =
      absl::StrJoin(part.ops.begin(), part.ops.begin() + static_cast<ptrdiff_t>(count), " + ");
  if (part.ops.size() > kMost) absl::StrAppend(&text, " + ", part.ops.size() - kMost, " more");
  return text;
}

std::string OpText(const DiffRow& row, bool unicode) {
  if (IsWaiting(row.match)) return std::string(WaitingText(row.match));
  if (!row.base.has_value()) return NamesOf(*row.head);
  if (!row.head.has_value()) return NamesOf(*row.base);
  const std::string base = NamesOf(*row.base), head = NamesOf(*row.head);
  return base == head ? head : absl::StrCat(base, unicode ? " → " : " -> ", head);
}

std::string WhatText(const DiffRow& row) {
  if (row.match == DiffMatch::kSimilar) {
    return absl::StrCat("like ", FormatFixed(*row.similarity * 100, 0), " %");
  }
  if (row.match == DiffMatch::kGroup) {
    return absl::StrCat(row.base->ops.size(), " to ", row.head->ops.size());
  }
  if (row.match == DiffMatch::kNew) return "new";
  return row.match == DiffMatch::kGone ? "gone" : "";
}

std::string VerdictText(const DiffRow& row) {
  if (row.verdict == DiffVerdict::kNoVerdict) return "no verdict";
  return std::string(DiffVerdictName(row.verdict));
}

std::optional<double> MeanOf(const std::optional<DiffPart>& part) {
  return part.has_value() ? std::optional(part->mean_ps) : std::nullopt;
}

DiffLine ShownOf(const DiffRow& row, const OutputOptions& options) {
  DiffLine shown = {.op = OpText(row, options.unicode || options.format == Format::kMarkdown),
                    .what = WhatText(row),
                    .base_ps = MeanOf(row.base),
                    .head_ps = MeanOf(row.head),
                    .delta_ps = row.delta_ps,
                    .lo_ps = row.lo_ps,
                    .hi_ps = row.hi_ps,
                    .verdict = VerdictText(row),
                    .reason = row.verdict == DiffVerdict::kNoVerdict ? row.reason : ""};
  const std::optional<DiffPart>& part = row.head.has_value() ? row.head : row.base;
  if (IsWaiting(row.match) || !part.has_value()) return shown;
  shown.function = part->function;
  if (!part->source.empty()) shown.source = WithoutFolder(part->source);
  return shown;
}

// The table adds up: what is left out is one line, the total the last.
std::vector<DiffLine> ShownRows(const DiffReport& report, const OutputOptions& options) {
  const size_t top = std::min(options.top.value_or(kDefaultRows), report.rows.size());
  std::vector<DiffLine> shown;
  for (size_t i = 0; i < top; ++i) shown.push_back(ShownOf(report.rows[i], options));
  if (top < report.rows.size()) {
    DiffLine rest = {.op = absl::StrCat("(", report.rows.size() - top, " more)"), .what = ""};
    for (size_t i = top; i < report.rows.size(); ++i) {
      const DiffRow& row = report.rows[i];
      rest.base_ps = rest.base_ps.value_or(0) + MeanOf(row.base).value_or(0);
      rest.head_ps = rest.head_ps.value_or(0) + MeanOf(row.head).value_or(0);
      rest.delta_ps += row.delta_ps;
    }
    shown.push_back(std::move(rest));
  }
  DiffLine total = ShownOf(report.total, options);
  total.op = "total";
  shown.push_back(std::move(total));
  return shown;
}

// In one unit, with their signs.
template <typename Rows>
Column& Changes(Unit unit, const Rows& rows, RowGrid<Rows>* grid) {
  Column& column = grid->Times("change", unit, [](const auto& row) { return row.delta_ps; });
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].delta_ps > 0) column.cells[i].insert(0, "+");
  }
  return column;
}

bool AnyVerdict(const DiffReport& report) {
  const auto judged = [](const DiffRow& row) { return row.verdict != DiffVerdict::kNoVerdict; };
  return judged(report.total) || std::ranges::any_of(report.rows, judged);
}

// "no verdict on jit_f, jit_g: its function did not run there"; what has no function by its name.
std::vector<std::string> WhyNone(const std::vector<DiffLine>& rows) {
  constexpr size_t kMost = 5;
  std::vector<std::pair<std::string, std::vector<std::string>>> by_reason;
  for (const DiffLine& row : rows) {
    if (row.reason.empty()) continue;
    auto of = std::ranges::find(by_reason, row.reason, [](const auto& each) { return each.first; });
    if (of == by_reason.end()) of = by_reason.insert(of, {row.reason, {}});
    std::string name = row.function.value_or(row.op);
    if (std::ranges::find(of->second, name) == of->second.end()) {
      of->second.push_back(std::move(name));
    }
  }
  std::vector<std::string> notes;
  for (auto& [reason, names] : by_reason) {
    const size_t more = names.size() - std::min(names.size(), kMost);
    names.resize(names.size() - more);
    notes.push_back(absl::StrCat("no verdict on ", Printable(absl::StrJoin(names, ", ")),
                                 more > 0 ? absl::StrCat(" and ", more, " more") : "", ": ",
                                 reason));
  }
  return notes;
}

Section RowSection(const DiffReport& report, const OutputOptions& options) {
  constexpr size_t kOpWidth = 24, kFunctionWidth = 14, kSourceWidth = 14;
  Section section = {.title = absl::StrCat("changes in the ", TimeText(report),
                                           ", sorted by the part that exceeds noise"),
                     .table = "rows"};
  const std::vector<DiffLine> rows = ShownRows(report, options);
  RowGrid grid(rows);
  const Unit unit = CommonUnit(grid.Values(&DiffLine::base_ps, &DiffLine::head_ps), options.unit);
  grid.Name("op", kOpWidth, &DiffLine::op);
  grid.Text("what", &DiffLine::what).HideIfSame();
  // A reader looks for the change and its source line, so these are dropped last.
  grid.Times("base", unit, &DiffLine::base_ps).Drop(4);
  grid.Times("head", unit, &DiffLine::head_ps).Drop(2);
  Changes(unit, rows, &grid);
  grid.Times(options.unicode || options.format == Format::kMarkdown ? "±" : "+/-", unit,
             [](const DiffLine& row) -> std::optional<double> {
               if (!row.lo_ps.has_value()) return std::nullopt;
               return (*row.hi_ps - *row.lo_ps) / 2;
             })
      .Drop(5)
      .HideIfUnknown();
  const bool judged = AnyVerdict(report) || options.wide;
  grid.Text("verdict", &DiffLine::verdict).HideIf(!judged);
  if (judged) section.notes = WhyNone(rows);
  const bool one_function = report.functions.size() == 1;
  grid.Name("source", kSourceWidth, &DiffLine::source).Drop(1).HideIfUnknown();
  grid.Name("function", kFunctionWidth, &DiffLine::function).Drop(3).HideIf(one_function);
  section.grid = std::move(grid).Take();
  return section;
}

Section SumSection(const DiffReport& report, const OutputOptions& options) {
  Section section = {.title = absl::StrCat("sums of the ", TimeText(report)), .table = "sums"};
  std::vector<DiffLine> rows;
  for (const DiffSum& sum : report.sums) {
    rows.push_back({.op = std::string(SumText(sum.match)),
                    .what = IsWaiting(sum.match) ? "" : std::to_string(sum.rows),
                    .base_ps = sum.base_ps,
                    .head_ps = sum.head_ps,
                    .delta_ps = sum.delta_ps});
  }
  rows.push_back(ShownOf(report.total, options));
  rows.back().op = "total";
  RowGrid grid(rows);
  const Unit unit = CommonUnit(grid.Values(&DiffLine::base_ps, &DiffLine::head_ps), options.unit);
  grid.Text("part", &DiffLine::op);
  grid.Number("rows", &DiffLine::what);
  grid.Times("base", unit, &DiffLine::base_ps);
  grid.Times("head", unit, &DiffLine::head_ps);
  Changes(unit, rows, &grid);
  section.grid = std::move(grid).Take();
  return section;
}

Section FunctionSection(const DiffReport& report, const OutputOptions& options) {
  Section section = {.title = "functions, time of a run"};
  const auto rows = TopRows(report.functions, options.top.value_or(kDefaultRows), "functions",
                            kByTop, &section.notes);
  RowGrid grid(rows);
  const Unit unit =
      CommonUnit(grid.Values(&DiffFunction::base_ps, &DiffFunction::head_ps), options.unit);
  grid.Name("function", 18, [](const DiffFunction& of) { return of.head ? of.head : of.base; });
  grid.Number("runs base", &DiffFunction::base_runs).Drop(2);
  grid.Number("runs head", &DiffFunction::head_runs).Drop(1);
  grid.Times("base", unit, &DiffFunction::base_ps);
  grid.Times("head", unit, &DiffFunction::head_ps);
  grid.Number("change %", [](const DiffFunction& of) -> std::string {
    if (of.base_ps.value_or(0) > 0 && of.head_ps) return ChangeText(*of.head_ps / *of.base_ps);
    return of.head_ps ? "new" : "gone";
  });
  section.grid = std::move(grid).Take();
  return section;
}

std::vector<std::string> Reasons(const DiffReport& report) {
  if (report.total.verdict != DiffVerdict::kNoVerdict || NothingChanged(report)) return {};
  if (report.base.sources.size() == 1 && report.head.sources.size() == 1) {
    return {
        "No verdict: one capture a side does not show how much processes differ. Give several: "
        "--base P... --head P..."};
  }
  return {absl::StrCat("No verdict on the total: ", report.total.reason, ".",
                       AnyVerdict(report) ? " Rows have separate verdicts." : "")};
}

View DiffView(const DiffReport& report, const OutputOptions& options) {
  View view;
  view.lines.push_back({Headline(report, options.unit), Tone::kBold, ViewLine::kHeading});
  for (std::string& reason : Reasons(report)) view.lines.push_back({std::move(reason)});
  if (!NothingChanged(report)) view.sections = DiffSections(report, options);
  view.diagnostics = DiagnosticLines(report.diagnostics, /*with_infos=*/false);
  const bool table = options.format == Format::kTable;
  for (const std::string& note : report.notes) {
    view.remarks.push_back(
        {(table ? "note: " : "") + Printable(note), Tone::kDim, ViewLine::kItem});
  }
  return view;
}

void VisitHead(const DiffReport& report, FieldSink* sink) {
  sink->Field("per", DiffPerName(report.per));
  XPLANE_TIME_FIELDS(sink, report.by_hlo, report.same_capture, report.matched_share);
  VisitSide("base", report.base, sink);
  VisitSide("head", report.head, sink);
  sink->BeginGroup("decision", true);
  const CompareOptions& decision = report.decision;
  XPLANE_TIME_FIELDS(sink, decision.min_effect, decision.alpha, decision.confidence,
                     decision.offset_std, decision.paired);
  sink->EndGroup();
  sink->BeginGroup("total", true);
  sink->Field("base_ps", report.total.base->mean_ps);
  sink->Field("head_ps", report.total.head->mean_ps);
  VisitChange(report.total, sink);
  sink->EndGroup();
}

}  // namespace

std::vector<Section> DiffSections(const DiffReport& report, const OutputOptions& options) {
  std::vector<Section> sections = {RowSection(report, options), SumSection(report, options)};
  if (report.functions.size() > 1) sections.push_back(FunctionSection(report, options));
  return sections;
}

std::string DiffHeadline(const DiffReport& report, Unit unit) { return Headline(report, unit); }

Output DiffOutput(const DiffReport& report, const OutputOptions& options) {
  const auto rows = Top(report.rows, options.top);
  Output out{.result = result::Result("xplane-time.diff.v1")};
  AddOptions(options.given, &out.result);
  out.result.Say([&report](FieldSink* sink) { VisitHead(report, sink); });
  out.result.Add(TableOf("sums", std::span(report.sums), VisitSum));
  out.result.Add(TableOf("rows", rows, VisitDiffRow));
  out.result.Add(TableOf("functions", std::span(report.functions), VisitFunction));
  out.result.Say([&report](FieldSink* sink) { sink->Texts("notes", report.notes); });
  out.result.Add(TableOf("diagnostics", std::span(report.diagnostics)));
  out.result.csv = TableOf("", rows, VisitDiffRow);
  out.view = [&report](const OutputOptions& how) { return DiffView(report, how); };
  return out;
}

}  // namespace xplane_time::output
