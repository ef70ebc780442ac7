// A comparison for people.
#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "output/decisions.h"
#include "output/text.h"
#include "output/units.h"

namespace xplane_time::output {
namespace {

std::string Plural(uint64_t count, std::string_view what) {
  return absl::StrCat(count, " ", std::string(what), count == 1 ? "" : "s");
}

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
                   Plural(comparison.compared, "function"), ", the worst by ",
                   ChangeText(*worst.ratio), " % (at least ", ChangeText(*worst.lo), " %)");
  out->bad = true;
}

void ExplainTooLittle(const Comparison& comparison, Explanation* out) {
  const uint64_t base = comparison.base_sources.size(), head = comparison.head_sources.size();
  const uint64_t fewest = std::min(base, head);
  const std::optional<uint64_t> needed = CapturesNeeded(comparison);
  out->verdict = absl::StrCat(
      "no verdict: ",
      base == head ? Plural(base, "capture") + " a side"
                   : absl::StrCat(Plural(base, "capture"), " of base and ", head, " of head"),
      !needed.has_value() ? "; more than 1000 a side would decide"
      : *needed > fewest
          ? absl::StrCat("; about ", *needed, base == head ? "" : " a side", " decide")
          : "");
  out->reasons.push_back(absl::StrCat("In ", comparison.Count(FunctionVerdict::kTooLittleData),
                                      " of ", Plural(comparison.compared, "function"),
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
    out->verdict = absl::StrCat("cannot tell: ", Plural(failing, "function"),
                                " failed, see the reasons; what the change did to ",
                                failing == 1 ? "it" : "them", " is unknown");
  }
  if (perhaps == 0) return;
  const ComparedRow& worst = *Worst(comparison, FunctionVerdict::kCannotTell);
  const std::string slower = absl::StrCat(perhaps, " of ", Plural(comparison.compared, "function"),
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
      absl::StrCat("no regression: of ", Plural(comparison.compared, "function"),
                   " none is slower by more than ", PercentText(comparison.options.min_effect));
  out->good = true;
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

std::string IntervalText(const ComparedRow& row) {
  if (!row.lo.has_value() || !row.hi.has_value()) return "-";
  return absl::StrCat(ChangeText(*row.lo), " .. ", ChangeText(*row.hi));
}

bool AnyKnown(const std::vector<std::string>& cells) {
  return std::any_of(cells.begin(), cells.end(),
                     [](const std::string& cell) { return cell != "-"; });
}

template <typename Get>
std::vector<std::string> Cells(std::span<const ComparedRow> rows, Get get) {
  std::vector<std::string> cells;
  for (const ComparedRow& row : rows) cells.push_back(get(row));
  return cells;
}

std::vector<std::optional<double>> Centres(std::span<const ComparedRow> rows,
                                           SideEstimate ComparedRow::*side) {
  std::vector<std::optional<double>> values;
  for (const ComparedRow& row : rows) values.push_back((row.*side).centre_ps);
  return values;
}

void AddNames(std::span<const ComparedRow> rows, Grid* grid) {
  const auto functions = Cells(rows, [](const ComparedRow& row) {
    std::string name = Printable(row.function);
    if (row.program > 0) absl::StrAppend(&name, " #", row.program + 1);
    return name;
  });
  grid->columns.push_back(NameColumn("function", functions, 20));
  const auto devices = Cells(rows, [](const ComparedRow& row) { return Printable(row.device); });
  grid->columns.push_back(TextColumn("device", devices));
  grid->columns.back().hidden = !Varies(devices);
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

}  // namespace

Explanation ExplainComparison(const Comparison& comparison) {
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
      out.bad = true;
      break;
  }
  CountOthers(comparison, &out);
  return out;
}

Section ComparisonSection(const Comparison& comparison, const OutputOptions& options) {
  const size_t shown =
      std::min(comparison.rows.size(), options.top.value_or(comparison.rows.size()));
  const auto rows = std::span(comparison.rows).first(shown);
  Section section;
  section.title = absl::StrCat("base: ", Plural(comparison.base_sources.size(), "capture"),
                               ", head: ", Plural(comparison.head_sources.size(), "capture"));
  AddNames(rows, &section.grid);
  auto& columns = section.grid.columns;
  columns.push_back(TextColumn("verdict", Cells(rows, VerdictText)));
  const auto base = Centres(rows, &ComparedRow::base), head = Centres(rows, &ComparedRow::head);
  std::vector<std::optional<double>> both = base;
  both.insert(both.end(), head.begin(), head.end());
  const Unit unit = CommonUnit(both, options.unit);
  columns.push_back(TimesColumn("base", base, unit, 2));
  columns.push_back(TimesColumn("head", head, unit, 1));
  columns.push_back(NumberColumn("change %", Cells(rows, [](const ComparedRow& row) {
                                   return row.ratio.has_value() ? ChangeText(*row.ratio) : "-";
                                 })));
  const auto intervals = Cells(rows, IntervalText);
  columns.push_back(NumberColumn("interval %", intervals));
  columns.back().hidden = !AnyKnown(intervals);
  const auto detectable = Cells(rows, [](const ComparedRow& row) {
    return row.mde.has_value() ? ChangeText(1 + *row.mde) : "-";
  });
  columns.push_back(NumberColumn("detects %", detectable, 3));
  columns.back().hidden = !AnyKnown(detectable);
  if (comparison.rows.size() > shown) {
    section.notes.push_back(MoreNote(comparison.rows.size() - shown, "functions", "without --top"));
  }
  if (AnyKnown(intervals)) {
    section.notes.push_back(
        absl::StrCat("interval: the lower ends of all rows together hold with ",
                     PercentText(0.5 + comparison.options.confidence / 2),
                     "; detects: the slowdown that would be proved 4 times in 5"));
  }
  const bool any_uncertain =
      std::any_of(rows.begin(), rows.end(), [](const ComparedRow& row) { return row.uncertain; });
  if (any_uncertain) section.notes.push_back("?: the split into runs is uncertain");
  AddReasons(rows, &section);
  return section;
}

Section KernelChangeSection(const Comparison& comparison, const OutputOptions& options) {
  constexpr size_t kMost = 10;
  const size_t shown = std::min(comparison.kernels.size(), options.top.value_or(kMost));
  const auto rows = std::span(comparison.kernels).first(shown);
  std::vector<std::string> kernels, functions, percent;
  std::vector<std::optional<double>> base, head, all;
  for (const KernelChange& row : rows) {
    kernels.push_back(Printable(row.kernel));
    functions.push_back(Printable(row.function));
    base.push_back(row.base_ps);
    head.push_back(row.head_ps);
    const bool both = row.base_ps.value_or(0) > 0 && row.head_ps.has_value();
    percent.push_back(both                      ? ChangeText(*row.head_ps / *row.base_ps)
                      : row.head_ps.has_value() ? "new"
                                                : "gone");
  }
  all = base;
  all.insert(all.end(), head.begin(), head.end());
  const Unit unit = CommonUnit(all, options.unit);
  Section section;
  section.title = "kernels, time in a run, without a verdict; the largest changes first";
  auto& columns = section.grid.columns;
  columns.push_back(NameColumn("kernel", kernels, 20));
  columns.push_back(NameColumn("function", functions, 14));
  columns.push_back(TimesColumn("base", base, unit));
  columns.push_back(TimesColumn("head", head, unit));
  columns.push_back(NumberColumn("change %", percent));
  if (comparison.kernels.size() > shown) {
    section.notes.push_back(
        MoreNote(comparison.kernels.size() - shown, "kernels", "--top, or --format json"));
  }
  return section;
}

}  // namespace xplane_time::output
