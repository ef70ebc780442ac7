// What compare found.
#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "output/decision_views.h"
#include "output/interchange.h"
#include "output/results.h"

namespace xplane_time::output {
namespace {

using result::FieldSink, result::KnownText, result::TableOf;

const ComparedRow* Worst(const Comparison& comparison, FunctionVerdict verdict) {
  for (const ComparedRow& row : comparison.rows) {
    if (row.verdict == verdict && row.ratio.has_value()) return &row;
  }
  return nullptr;
}

// Captures a side that every open row would be content with; empty: over 1000.
std::optional<uint64_t> CapturesNeeded(const Comparison& comparison) {
  uint64_t most = 0;
  for (const ComparedRow& row : comparison.rows) {
    if (row.verdict != FunctionVerdict::kTooLittleData || !row.ratio.has_value()) continue;
    if (!row.needed.has_value()) return std::nullopt;
    most = std::max(most, *row.needed);
  }
  return most;
}

bool OneCaptureEach(const Comparison& comparison) {
  return comparison.base_sources.size() < 2 && comparison.head_sources.size() < 2;
}

void ExplainSlower(const Comparison& comparison, Explanation* out) {
  const ComparedRow& worst = *Worst(comparison, FunctionVerdict::kSlower);
  out->verdict =
      absl::StrCat("slower: ", comparison.Count(FunctionVerdict::kSlower), " of ",
                   Counted(comparison.compared, "function"), ", the worst by ",
                   ChangeText(*worst.ratio), " % (at least ", ChangeText(*worst.lo), " %)");
  out->tone = Tone::kBad;
}

void ExplainTooLittle(const Comparison& comparison, Explanation* out) {
  const uint64_t base = comparison.base_sources.size(), head = comparison.head_sources.size();
  const uint64_t fewest = std::min(base, head);
  const std::optional<uint64_t> needed = CapturesNeeded(comparison);
  out->verdict = absl::StrCat(
      "no verdict: ",
      base == head ? Counted(base, "capture") + " a side"
                   : absl::StrCat(Counted(base, "capture"), " of base and ", head, " of head"),
      !needed.has_value() ? "; more than 1000 a side would decide"
      : *needed > fewest
          ? absl::StrCat("; about ", *needed, base == head ? "" : " a side", " decide")
          : "");
  out->reasons.push_back(absl::StrCat("In ", comparison.Count(FunctionVerdict::kTooLittleData),
                                      " of ", Counted(comparison.compared, "function"),
                                      " a slowdown of ", PercentText(comparison.options.max_mde),
                                      " could pass unseen (--max-mde)."));
  const uint64_t more = needed.value_or(0) > fewest ? *needed - fewest : 0;
  if (OneCaptureEach(comparison) && !comparison.options.offset_std.has_value()) {
    out->reasons.push_back(absl::StrCat(
        "One capture a side does not show how much processes differ, however many samples it "
        "has. Take ",
        more > 0 ? absl::StrCat(more, " more") : std::string("several"),
        " a side, or give the difference itself: --offset-std."));
  } else if (more > 0) {
    out->reasons.push_back(
        absl::StrCat("Take ", more, " more a side, or allow a larger --max-mde."));
  } else if (!needed.has_value()) {
    out->reasons.push_back(
        "Measure with less noise, leave noisy functions out (--exclude), or allow a larger "
        "--max-mde.");
  }
  const bool excludes_zero =
      std::any_of(comparison.rows.begin(), comparison.rows.end(), [](const ComparedRow& row) {
        return row.verdict == FunctionVerdict::kTooLittleData &&
               (row.lo.value_or(1) > 1 || row.hi.value_or(1) < 1);
      });
  if (!excludes_zero) return;
  out->reasons.push_back(absl::StrCat(
      "An interval that excludes 0 is no proof yet: it holds with ",
      PercentText(0.5 + comparison.options.confidence / 2), ", and a claim may be wrong in ",
      PercentText(comparison.options.alpha), " of comparisons only (--alpha)."));
}

void ExplainCannotTell(const Comparison& comparison, Explanation* out) {
  uint64_t perhaps = 0, failing = comparison.Count(FunctionVerdict::kFailed);
  for (const ComparedRow& row : comparison.rows) {
    if (row.verdict != FunctionVerdict::kCannotTell) continue;
    (row.fails_more ? failing : perhaps) += row.fails_more || *row.ratio > 1 ? 1 : 0;
  }
  if (failing > 0) {
    out->verdict = absl::StrCat("cannot tell: ", Counted(failing, "function"),
                                " failed, see the reasons; what the change did to ",
                                failing == 1 ? "it" : "them", " is unknown");
  }
  if (perhaps == 0) return;
  const ComparedRow& worst = *Worst(comparison, FunctionVerdict::kCannotTell);
  const std::string slower = absl::StrCat(perhaps, " of ", Counted(comparison.compared, "function"),
                                          " may be slower, at worst by ", ChangeText(*worst.ratio),
                                          " %, but chance explains it");
  if (failing == 0) {
    out->verdict = absl::StrCat("cannot tell: ", slower);
  } else {
    out->reasons.push_back(slower + ".");
  }
  out->reasons.push_back(absl::StrCat("More captures a side make it firmer; changes up to ",
                                      PercentText(comparison.options.min_effect),
                                      " do not count (--min-effect)."));
}

void ExplainNone(const Comparison& comparison, Explanation* out) {
  out->verdict =
      absl::StrCat("no regression: of ", Counted(comparison.compared, "function"),
                   " none is slower by more than ", PercentText(comparison.options.min_effect));
  out->tone = Tone::kGood;
  if (comparison.largest_mde.has_value()) {
    out->reasons.push_back(
        absl::StrCat("A slowdown of ", PercentText(*comparison.largest_mde),
                     " would have been detected in any of them (4 times in 5)."));
  }
}

void CountOthers(const Comparison& comparison, Explanation* out) {
  const std::pair<FunctionVerdict, std::string_view> kOthers[] = {
      {FunctionVerdict::kFaster, " faster"},
      {FunctionVerdict::kOnlyBase, " only in base"},
      {FunctionVerdict::kOnlyHead, " only in head"},
      {FunctionVerdict::kNotComparable, " not comparable"},
      {FunctionVerdict::kFailed, " failed"}};
  std::string text;
  for (const auto& [verdict, what] : kOthers) {
    const uint64_t count = comparison.Count(verdict);
    if (count > 0) absl::StrAppend(&text, text.empty() ? "Also: " : ", ", count, std::string(what));
  }
  if (!text.empty()) out->reasons.push_back(text + ".");
}

std::string VerdictText(const ComparedRow& row) {
  std::string text(VerdictName(row.verdict));
  std::replace(text.begin(), text.end(), '_', ' ');
  return row.uncertain ? text + " ?" : text;
}

void AddReasons(std::span<const ComparedRow> rows, Section* section) {
  std::set<std::string> seen;
  for (const ComparedRow& row : rows) {
    if (row.reason.empty()) continue;
    if (seen.insert(row.reason).second) {
      section->notes.push_back(absl::StrCat(Printable(row.function), ": ", Printable(row.reason)));
    }
  }
}

Explanation Explain(const Comparison& comparison) {
  Explanation out;
  switch (comparison.outcome) {
    case Outcome::kSlower:
      ExplainSlower(comparison, &out);
      break;
    case Outcome::kTooLittleData:
      ExplainTooLittle(comparison, &out);
      break;
    case Outcome::kCannotTell:
      ExplainCannotTell(comparison, &out);
      break;
    case Outcome::kNoRegression:
      ExplainNone(comparison, &out);
      break;
    case Outcome::kAllFailed:
      out.verdict = "failed: no function has samples on both sides";
      out.tone = Tone::kBad;
      break;
  }
  CountOthers(comparison, &out);
  return out;
}

Section RowSection(const Comparison& comparison, const OutputOptions& options) {
  Section section;
  const auto rows = TopRows(comparison.rows, options.top.value_or(comparison.rows.size()),
                            "functions", "without --top", &section.notes);
  section.title = absl::StrCat("base: ", Counted(comparison.base_sources.size(), "capture"),
                               ", head: ", Counted(comparison.head_sources.size(), "capture"));
  const auto base = [](const ComparedRow& row) { return row.base.centre_ps; };
  const auto head = [](const ComparedRow& row) { return row.head.centre_ps; };
  RowGrid grid(rows);
  const Unit unit = CommonUnit(grid.Values(base, head), options.unit);
  grid.Name("function", 20, [](const ComparedRow& row) {
    return row.program > 0 ? absl::StrCat(row.function, " #", row.program + 1) : row.function;
  });
  Column& devices =
      grid.Text("device", [](const ComparedRow& row) { return Printable(row.device); });
  devices.hidden = !Varies(devices.cells);
  grid.Text("verdict", VerdictText);
  grid.Times("base", unit, base).drop = 2;
  grid.Times("head", unit, head).drop = 1;
  grid.Number("change %", [](const ComparedRow& row) { return ChangeOrDash(row.ratio); });
  Column& intervals = grid.Number(
      "interval %", [](const ComparedRow& row) { return IntervalText(row.lo, row.hi); });
  const bool has_intervals = AnyKnown(intervals.cells);
  intervals.hidden = !has_intervals;
  Column& detectable = grid.Number("detects %", [](const ComparedRow& row) {
    return row.mde.has_value() ? ChangeText(1 + *row.mde) : "-";
  });
  detectable.drop = 3;
  detectable.hidden = !AnyKnown(detectable.cells);
  section.grid = std::move(grid).Take();
  if (has_intervals) {
    section.notes.push_back(
        absl::StrCat("interval: the lower ends of all rows together hold with ",
                     PercentText(0.5 + comparison.options.confidence / 2),
                     "; detects: the slowdown that would be proved 4 times in 5"));
  }
  NoteUncertain(rows, &section.notes);
  AddReasons(rows, &section);
  return section;
}

// Where there is too little data.
Section KernelSection(const Comparison& comparison, const OutputOptions& options) {
  constexpr size_t kMost = 10;
  Section section = {.title =
                         "kernels, time in a run, without a verdict; the largest changes first"};
  const auto rows = TopRows(comparison.kernels, options.top.value_or(kMost), "kernels",
                            "--top, or --format json", &section.notes);
  const auto base = [](const KernelChange& row) { return row.base_ps; };
  const auto head = [](const KernelChange& row) { return row.head_ps; };
  RowGrid grid(rows);
  const Unit unit = CommonUnit(grid.Values(base, head), options.unit);
  grid.Name("kernel", 20, [](const KernelChange& row) { return row.kernel; });
  grid.Name("function", 14, [](const KernelChange& row) { return row.function; });
  grid.Times("base", unit, base);
  grid.Times("head", unit, head);
  grid.Number("change %", [](const KernelChange& row) -> std::string {
    const bool both = row.base_ps.value_or(0) > 0 && row.head_ps.has_value();
    if (both) return ChangeText(*row.head_ps / *row.base_ps);
    return row.head_ps.has_value() ? "new" : "gone";
  });
  section.grid = std::move(grid).Take();
  return section;
}

void VisitSide(std::string_view name, const SideEstimate& side, FieldSink* sink) {
  sink->BeginGroup(name, true);
  sink->Field("captures", side.captures);
  sink->Field("samples", side.samples);
  sink->Field("centre_ps", side.centre_ps);
  sink->Interval("ci_ps", side.lo_ps, side.hi_ps);
  sink->EndGroup();
}

void VisitCompared(const ComparedRow& row, FieldSink* sink) {
  sink->Field("device", KnownText(row.device));
  sink->Field("function", std::string_view(row.function));
  sink->Field("variant_id", row.variant_id);
  sink->Field("program", static_cast<uint64_t>(row.program));
  sink->Field("metric", KnownText(row.metric));
  sink->Field("clock", KnownText(row.clock));
  sink->Field("verdict", VerdictName(row.verdict));
  sink->Field("ratio", row.ratio);
  sink->Interval("ratio_ci", row.lo, row.hi);
  sink->Field("p_value", row.p_value);
  sink->Field("mde", row.mde);
  sink->Field("spread", row.spread);
  sink->Field("needed_captures", row.needed);
  VisitSide("base", row.base, sink);
  VisitSide("head", row.head, sink);
  sink->Field("uncertain", row.uncertain);
  sink->Field("reason", KnownText(row.reason));
}

void VisitKernel(const KernelChange& row, FieldSink* sink) {
  sink->Field("function", std::string_view(row.function));
  sink->Field("kernel", std::string_view(row.kernel));
  sink->Field("base_ps", row.base_ps);
  sink->Field("head_ps", row.head_ps);
}

void VisitDecision(const Comparison& comparison, FieldSink* sink) {
  const CompareOptions& options = comparison.options;
  sink->Field("outcome", OutcomeName(comparison.outcome));
  sink->Field("exit_code", static_cast<int64_t>(comparison.outcome));
  sink->Field("explanation", std::string_view(Explain(comparison).verdict));
  sink->Texts("base", comparison.base_sources);
  sink->Texts("head", comparison.head_sources);
  sink->BeginGroup("options", true);
  sink->Field("min_effect", options.min_effect);
  sink->Field("max_mde", options.max_mde);
  sink->Field("alpha", options.alpha);
  sink->Field("confidence", options.confidence);
  sink->Field("offset_std", options.offset_std);
  sink->Field("paired", options.paired);
  sink->Field("allow_mismatch", options.allow_mismatch);
  sink->EndGroup();
  sink->Field("compared", comparison.compared);
  sink->Field("largest_mde", comparison.largest_mde);
  sink->BeginGroup("counts", true);
  for (size_t i = 0; i < std::size(kVerdictNames); ++i) {
    sink->Field(kVerdictNames[i], comparison.Count(static_cast<FunctionVerdict>(i)));
  }
  sink->EndGroup();
}

bool SeveralDevices(const Comparison& comparison) {
  std::set<std::string> devices;
  for (const ComparedRow& row : comparison.rows) devices.insert(row.device);
  return devices.size() > 1;
}

std::string RowName(const ComparedRow& row, bool with_device) {
  std::string name = row.function;
  if (row.program > 0) absl::StrAppend(&name, "#", row.program + 1);
  if (with_device) absl::StrAppend(&name, "@", row.device);
  return name;
}

std::string Sentence(const ComparedRow& row) {
  std::string text(VerdictName(row.verdict));
  if (row.ratio.has_value()) absl::StrAppend(&text, ": ", ChangeText(*row.ratio), " %");
  if (row.lo.has_value() && row.hi.has_value()) {
    absl::StrAppend(&text, ", interval ", ChangeText(*row.lo), " % to ", ChangeText(*row.hi), " %");
  }
  if (row.mde.has_value()) absl::StrAppend(&text, "; would detect ", PercentText(*row.mde));
  if (!row.reason.empty()) absl::StrAppend(&text, ": ", row.reason);
  return text;
}

std::vector<InterchangeRow> InterchangeRows(const Comparison& comparison) {
  const bool with_device = SeveralDevices(comparison);
  std::vector<InterchangeRow> out;
  for (const ComparedRow& row : comparison.rows) {
    const std::string verdict(VerdictName(row.verdict));
    InterchangeRow& at = out.emplace_back();
    at.name = RowName(row, with_device);
    at.group = row.device.empty() ? "xplane-time" : row.device;
    at.time_ps = row.head.centre_ps;
    at.lo_ps = row.head.lo_ps;
    at.hi_ps = row.head.hi_ps;
    at.ratio = row.ratio;
    at.ratio_lo = row.lo;
    at.ratio_hi = row.hi;
    at.samples = row.head.samples;
    at.text = Sentence(row);
    if (row.verdict == FunctionVerdict::kSlower || row.verdict == FunctionVerdict::kFailed) {
      at.failure_type = verdict;
    } else if (row.verdict != FunctionVerdict::kSame && row.verdict != FunctionVerdict::kFaster) {
      at.skipped_type = verdict;
    }
  }
  return out;
}

}  // namespace

Output CompareOutput(const Comparison& comparison) {
  Output out{.result = result::Result("xplane-time.compare.v1")};
  out.result.Say([&](FieldSink* sink) { VisitDecision(comparison, sink); });
  out.result.Add(TableOf("rows", std::span(comparison.rows), VisitCompared));
  if (!comparison.kernels.empty()) {
    out.result.Add(TableOf("kernels", std::span(comparison.kernels), VisitKernel));
  }
  out.result.Say([&](FieldSink* sink) { sink->Texts("notes", comparison.notes); });
  out.result.csv = TableOf("", std::span(comparison.rows), VisitCompared);
  out.view = [&](const OutputOptions& how) {
    std::vector<Section> sections = {RowSection(comparison, how)};
    if (!comparison.kernels.empty()) sections.push_back(KernelSection(comparison, how));
    return DecisionView(Explain(comparison), std::move(sections), comparison.notes, how);
  };
  AddInterchange(
      "xplane-time compare", [&] { return InterchangeRows(comparison); }, &out);
  return out;
}

}  // namespace xplane_time::output
