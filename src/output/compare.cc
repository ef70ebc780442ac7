// The output of compare.
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "output/decisions.h"
#include "output/joules.h"
#include "output/results.h"

namespace xplane_time::output {
namespace {

using result::FieldSink, result::KnownText, result::TableOf;

bool OfEnergy(const Comparison& comparison) {
  return comparison.options.objective == Objective::kEnergy;
}

// After "a": " slowdown"; of energy "n increase".
const char* RiseAfterA(const Comparison& comparison) {
  return OfEnergy(comparison) ? "n increase" : " slowdown";
}

const ComparedRow* Worst(const Comparison& comparison, FunctionVerdict verdict) {
  for (const ComparedRow& row : comparison.rows) {
    if (row.verdict == verdict && row.ratio.has_value()) return &row;
  }
  return nullptr;
}

std::string ChanceText(double p) {
  constexpr double kLeast = 1e-4;
  if (p < kLeast) return "<0.0001";
  const int decimals = 1 - static_cast<int>(std::floor(std::log10(p)));
  return FormatFixed(p, decimals);
}

// "p = 0.0027", "p < 0.0001".
std::string ChanceSentence(double p) {
  const std::string text = ChanceText(p);
  return text.front() == '<' ? absl::StrCat("p < ", text.substr(1)) : absl::StrCat("p = ", text);
}

std::string NameOf(const ComparedRow& row) {
  return row.program > 0 ? absl::StrCat(row.function, " #", row.program + 1) : row.function;
}

bool HasNoise(const CapturesNeeded& needed) { return needed.unknown != "noise_unknown"; }

// Whether 1000 captures a side are too few to show that an unchanged row is the same.
bool NeedsOverLimit(const CapturesNeeded& needed) {
  return needed.question == CapturesNeeded::Question::kNoChange && !needed.least.has_value() &&
         needed.unknown == "over_limit";
}

// Whether no number of captures is worth stating: the change looks large but may be chance, and the
// captures that would show "no change" are beyond the limit.
bool IsBeyondNumbers(const Comparison& comparison, const ComparedRow& row) {
  const CapturesNeeded& needed = *row.needed;
  const double effect = 1 + comparison.options.max_mde;
  return NeedsOverLimit(needed) && (*row.ratio > effect || *row.ratio < 1 / effect);
}

// "6 to 37", "37", "at least 6", "more than 1000"; empty: captures do not decide the row, or it is
// not known how many do.
std::string CapturesText(const CapturesNeeded& needed) {
  if (needed.unknown != "" && needed.unknown != "over_limit") return "";
  if (!needed.least.has_value()) return "more than 1000";
  if (!needed.enough.has_value()) return absl::StrCat("at least ", *needed.least);
  if (*needed.least >= *needed.enough) return absl::StrCat(*needed.enough);
  return absl::StrCat(*needed.least, " to ", *needed.enough);
}

// The same as a cell: "6-37", "37", "6+", ">1000", "-".
std::string CapturesCell(const Comparison& comparison, const ComparedRow& row) {
  if (!row.needed.has_value() || IsBeyondNumbers(comparison, row)) return "-";
  const std::string text = CapturesText(*row.needed);
  if (text.empty()) return "-";
  if (text.starts_with("at least")) return absl::StrCat(*row.needed->least, "+");
  return absl::StrReplaceAll(text, {{" to ", "-"}, {"more than ", ">"}});
}

// The open row that needs the most captures; null: no open row has a need.
const ComparedRow* FindNeediest(const Comparison& comparison) {
  const auto rank = [](const ComparedRow& row) {
    const CapturesNeeded& needed = *row.needed;
    const int kind = needed.enough.has_value()        ? 0
                     : needed.least.has_value()       ? 1
                     : needed.unknown == "over_limit" ? 2
                                                      : 3;
    return std::pair(kind, needed.enough.value_or(needed.least.value_or(0)));
  };
  const ComparedRow* neediest = nullptr;
  for (const ComparedRow& row : comparison.rows) {
    if (!row.needed.has_value() || !HasNoise(*row.needed)) continue;
    if (IsBeyondNumbers(comparison, row)) continue;
    if (neediest == nullptr || rank(row) > rank(*neediest)) neediest = &row;
  }
  return neediest;
}

// Why more captures cannot decide the row, and the alternative.
std::string ObstacleText(const Comparison& comparison, const CapturesNeeded& needed) {
  if (needed.unknown == "no_min_effect") {
    return "with --min-effect 0, no function counts as unchanged: use a larger value";
  }
  return OfEnergy(comparison)
             ? "more captures do not help, because all have the same stated error: record longer "
               "captures"
             : "more captures do not help, because the clock is too coarse: time longer runs";
}

// " (37 with a probability of 80 %)".
std::string PromiseText(const CapturesNeeded& needed) {
  if (needed.enough.has_value()) {
    return absl::StrCat(" (", *needed.enough, " with a probability of 80 %)");
  }
  if (!needed.least.has_value()) return "";
  return needed.question == CapturesNeeded::Question::kChange
             ? " (more if the change is smaller than it looks)"
             : " (more if the noise is larger than it looks)";
}

// "a slowdown of 12 %", "a slowdown of 3.1x", "only a slowdown of more than 10x".
std::string DetectableText(const Comparison& comparison, std::optional<double> mde) {
  constexpr double kMaxRatio = 10;
  const std::string rise = absl::StrCat("a", RiseAfterA(comparison), " of ");
  const double ratio = 1 + mde.value_or(kMaxRatio);
  if (ratio > kMaxRatio) return absl::StrCat("only ", rise, "more than 10x");
  return ratio < 2 ? rise + PercentText(*mde)
                   : absl::StrCat("only ", rise, FormatFixed(ratio, 1), "x");
}

std::string AdviceOnChange(const Comparison& comparison, const ComparedRow& row) {
  const CapturesNeeded& needed = *row.needed;
  const std::string seen =
      absl::StrCat(ChangeText(*row.ratio), " % is not proved (", ChanceSentence(*row.p_value), ")");
  if (needed.unknown == "over_limit" && !needed.least.has_value()) {
    return absl::StrCat(seen, ", and it is too close to --min-effect ",
                        comparison.options.min_effect * 100, "%",
                        " for a proof with at most 1000 captures a side");
  }
  const std::string captures = CapturesText(needed);
  if (captures.empty()) return absl::StrCat(seen, "; ", ObstacleText(comparison, needed));
  return absl::StrCat(seen, "; ", captures, " captures a side would prove it", PromiseText(needed));
}

std::string AdviceOnNoChange(const Comparison& comparison, const ComparedRow& row) {
  const CapturesNeeded& needed = *row.needed;
  const std::string text =
      absl::StrCat(ChangeText(*row.ratio), " % may be due to chance; these captures detect ",
                   DetectableText(comparison, row.mde));
  if (IsBeyondNumbers(comparison, row)) return text;
  const std::string captures = CapturesText(needed);
  if (captures.empty()) return absl::StrCat(text, "; ", ObstacleText(comparison, needed));
  return absl::StrCat(text, "; if the program is unchanged, ", captures,
                      " captures a side would show it", PromiseText(needed));
}

// docs/ci.md measures how often fewer captures detect a slowdown.
constexpr char kUsualCaptures[] = "about ten captures a side, each from a separate process";
constexpr uint64_t kManyCaptures = 10;  // a side; more of the same kind hardly help

bool HasManyCaptures(const ComparedRow& row) {
  return std::min(row.base.captures, row.head.captures) >= kManyCaptures && row.spread.has_value();
}

// Advice for a row that 1000 captures a side do not decide.
std::string AdviceOnNoise(const Comparison& comparison, const ComparedRow& row) {
  if (!HasManyCaptures(row)) return absl::StrCat("Record ", kUsualCaptures, ".");
  // The variance of a pair's difference is twice that of a capture (PairedDifference).
  const bool paired = comparison.options.paired;
  const double deviation = paired ? *row.spread * std::sqrt(2.0) : *row.spread;
  return absl::StrCat(
      "The standard deviation between ", paired ? "the differences of pairs" : "captures of a side",
      " is ", PercentText(deviation),
      OfEnergy(comparison) ? " for the energies of " : " for the times of ", Printable(NameOf(row)),
      ", so more captures of this kind will hardly help. Use an idle machine or more steps per "
      "capture",
      paired ? "." : ", or --paired if base and head were recorded alternately.");
}

// Advice for the open rows, each from its own effect and noise.
void AddAdvice(const Comparison& comparison, Explanation* out) {
  constexpr size_t kMaxShown = 3;
  size_t shown = 0, others = 0;
  constexpr uint64_t kMany = 50;
  bool many = false;                      // captures are needed by a row that may be unchanged
  const ComparedRow* noisiest = nullptr;  // of the rows that 1000 captures a side do not decide
  for (const ComparedRow& row : comparison.rows) {
    if (!row.needed.has_value() || !HasNoise(*row.needed)) continue;
    const bool change = row.needed->question == CapturesNeeded::Question::kChange;
    const bool beyond = IsBeyondNumbers(comparison, row);
    const bool hopeless = beyond || (NeedsOverLimit(*row.needed) && HasManyCaptures(row));
    if (hopeless &&
        (noisiest == nullptr || row.spread.value_or(0) > noisiest->spread.value_or(0))) {
      noisiest = &row;
    }
    many |= !change && !hopeless && !CapturesText(*row.needed).empty() &&
            row.needed->enough.value_or(row.needed->least.value_or(kMany + 1)) > kMany;
    if (shown == kMaxShown) {
      ++others;
      continue;
    }
    ++shown;
    out->reasons.push_back(absl::StrCat(
        Printable(NameOf(row)), ": ",
        change ? AdviceOnChange(comparison, row) : AdviceOnNoChange(comparison, row), "."));
  }
  if (others > 0) {
    out->reasons.push_back(
        absl::StrCat("The column \"needs\" lists the required captures a side for ", others,
                     " more ", others == 1 ? "function." : "functions."));
  }
  if (noisiest != nullptr) out->reasons.push_back(AdviceOnNoise(comparison, *noisiest));
  if (many) {
    out->reasons.push_back(
        "If captures vary less (an idle machine, fixed clocks, more runs in each), fewer are "
        "enough.");
  }
}

// Without a known noise, captures are advised, but no number that decides.
void AddAdviceOnNoise(const Comparison& comparison, Explanation* out) {
  const bool unknown = std::ranges::any_of(comparison.rows, [](const ComparedRow& row) {
    return row.needed.has_value() && !HasNoise(*row.needed);
  });
  if (!unknown) return;
  out->reasons.push_back(absl::StrCat(
      OfEnergy(comparison) ? "Fewer than 3 captures a side do" : "One capture a side does",
      " not show how much captures differ, even with many samples. So the required number of "
      "captures is unknown. Record ",
      kUsualCaptures, ", or state the difference if earlier captures showed it: --offset-std."));
}

// "both sides are the same file".
std::string SharedText(const Comparison& comparison) {
  const uint64_t shared = comparison.shared_captures;
  const bool all = shared == comparison.base_sources.size();
  if (!all) {
    return absl::StrCat(shared, " of ", Counted(comparison.base_sources.size(), "capture"),
                        " of base ", shared == 1 ? "is" : "are", " also in head");
  }
  const bool files = std::ranges::includes(
      std::set<std::string>(comparison.head_sources.begin(), comparison.head_sources.end()),
      std::set<std::string>(comparison.base_sources.begin(), comparison.base_sources.end()));
  return absl::StrCat("both sides are the same ", files ? (shared == 1 ? "file" : "files")
                                                        : (shared == 1 ? "capture" : "captures"));
}

Explanation ExplainSlower(const Comparison& comparison) {
  const ComparedRow& worst = *Worst(comparison, FunctionVerdict::kSlower);
  return {.verdict = absl::StrCat(OfEnergy(comparison) ? "more energy: " : "slower: ",
                                  comparison.Count(FunctionVerdict::kSlower), " of ",
                                  Counted(comparison.compared, "function"), ", the worst by ",
                                  ChangeText(*worst.ratio), " % (at least ", ChangeText(*worst.lo),
                                  " %)")};
}

Explanation ExplainTooLittle(const Comparison& comparison) {
  Explanation out;
  if (comparison.shared_captures > 0) {
    out.verdict = absl::StrCat("no verdict: ", SharedText(comparison));
    out.reasons.push_back(
        "A capture that is compared with itself shows no change: give other captures of base or "
        "head.");
    return out;
  }
  const uint64_t base = comparison.base_sources.size(), head = comparison.head_sources.size();
  out.verdict = absl::StrCat(
      "no verdict: ",
      base == head ? Counted(base, "capture") + " a side"
                   : absl::StrCat(Counted(base, "capture"), " of base and ", head, " of head"));
  if (const ComparedRow* const neediest = FindNeediest(comparison); neediest != nullptr) {
    const std::string captures = CapturesText(*neediest->needed);
    absl::StrAppend(&out.verdict, "; ", captures.empty() ? "more captures cannot decide " : "",
                    Printable(NameOf(*neediest)),
                    captures.empty() ? "" : absl::StrCat(" needs ", captures, " a side"));
  }
  out.reasons.push_back(
      absl::StrCat("In ", comparison.Count(FunctionVerdict::kTooLittleData), " of ",
                   Counted(comparison.compared, "function"), " a", RiseAfterA(comparison), " of ",
                   PercentText(comparison.options.max_mde), " could go undetected (--max-mde)."));
  AddAdviceOnNoise(comparison, &out);
  AddAdvice(comparison, &out);
  const bool excludes_zero =
      std::any_of(comparison.rows.begin(), comparison.rows.end(), [](const ComparedRow& row) {
        return row.verdict == FunctionVerdict::kTooLittleData &&
               (row.lo.value_or(1) > 1 || row.hi.value_or(1) < 1);
      });
  if (!excludes_zero) return out;
  out.reasons.push_back(absl::StrCat(
      "An interval that excludes 0 is not yet a proof: it holds with ",
      PercentText(0.5 + comparison.options.confidence / 2), ", but a claim may be wrong in only ",
      comparison.options.alpha * 100, " % of comparisons (--alpha)."));
  return out;
}

Explanation ExplainCannotTell(const Comparison& comparison) {
  Explanation out;
  uint64_t perhaps = 0, failing = comparison.Count(FunctionVerdict::kFailed), in_doubt = 0;
  uint64_t uncertain = 0;
  const uint64_t unknown = comparison.Count(FunctionVerdict::kUnknown);
  const uint64_t not_comparable = comparison.Count(FunctionVerdict::kNotComparable);
  for (const ComparedRow& row : comparison.rows) {
    if (row.verdict != FunctionVerdict::kCannotTell) continue;
    if (row.in_doubt) {
      ++in_doubt;
    } else if (row.uncertain) {
      ++uncertain;
    } else {
      (row.fails_more ? failing : perhaps) += row.fails_more || *row.ratio > 1 ? 1 : 0;
    }
  }
  const auto add = [&out](uint64_t count, const std::string& text) {
    if (count == 0) return;
    if (out.verdict.empty()) {
      out.verdict = absl::StrCat("cannot tell: ", text);
    } else {
      out.reasons.push_back(text + ".");
    }
  };
  add(in_doubt + unknown, absl::StrCat("the energy of ", Counted(in_doubt + unknown, "function"),
                                       " is unknown or in doubt, see the reasons"));
  add(failing, absl::StrCat(Counted(failing, "function"),
                            " failed, see the reasons; the effect of the change on ",
                            failing == 1 ? "it" : "them", " is unknown"));
  add(not_comparable, absl::StrCat(Counted(not_comparable, "function"),
                                   " ran on both sides, but cannot be compared, see the reasons"));
  add(uncertain, absl::StrCat("the split into runs is uncertain for ",
                              Counted(uncertain, "function"), " (marked ?)"));
  if (perhaps == 0) return out;
  const ComparedRow& worst = *std::ranges::max_element(comparison.rows, {}, [](const auto& row) {
    const bool counts = row.verdict == FunctionVerdict::kCannotTell && !row.in_doubt &&
                        !row.uncertain && !row.fails_more;
    return counts ? row.ratio.value_or(0) : 0;
  });
  add(perhaps,
      absl::StrCat(perhaps, " of ", Counted(comparison.compared, "function"),
                   OfEnergy(comparison) ? " may take more energy" : " may be slower",
                   ", at worst by ", ChangeText(*worst.ratio), " %, but chance can explain it"));
  AddAdvice(comparison, &out);
  out.reasons.push_back(absl::StrCat("Changes up to ", PercentText(comparison.options.min_effect),
                                     " do not count (--min-effect)."));
  return out;
}

// If the only function is proved faster, the text begins with this.
std::string NoRegressionText(const Comparison& comparison) {
  const ComparedRow* const faster = Worst(comparison, FunctionVerdict::kFaster);
  if (comparison.compared == 1 && faster != nullptr) {
    return absl::StrCat(
        OfEnergy(comparison) ? "less energy: " : "faster: ", Printable(NameOf(*faster)), " by ",
        PercentText(1 - *faster->ratio), " (at least ", PercentText(1 - *faster->hi),
        "); no function is proved ", OfEnergy(comparison) ? "to take more" : "slower");
  }
  return absl::StrCat(
      "no regression: none of ", Counted(comparison.compared, "function"),
      OfEnergy(comparison) ? " takes more energy by more than " : " is slower by more than ",
      PercentText(comparison.options.min_effect));
}

Explanation ExplainNone(const Comparison& comparison) {
  Explanation out = {.verdict = NoRegressionText(comparison)};
  // A function that is proved faster is not slower, whatever its smallest detectable slowdown is.
  std::optional<double> largest_mde;
  uint64_t same = 0, unknown = 0, faster = 0;
  for (const ComparedRow& row : comparison.rows) {
    if (!row.ratio.has_value()) continue;
    if (row.verdict == FunctionVerdict::kFaster) {
      ++faster;
      continue;
    }
    ++same;
    unknown += row.mde.has_value() ? 0 : 1;
    largest_mde = std::max(largest_mde.value_or(0), row.mde.value_or(0));
  }
  if (same > 0 && unknown == 0) {
    out.reasons = {absl::StrCat("A", RiseAfterA(comparison), " of ", PercentText(*largest_mde),
                                " would have been detected in any of ",
                                faster > 0 ? "those that are not faster" : "them",
                                " (4 times in 5).")};
  }
  return out;
}

void CountOthers(const Comparison& comparison, Explanation* out) {
  const std::pair<FunctionVerdict, std::string_view> kOthers[] = {
      {FunctionVerdict::kFaster, OfEnergy(comparison) ? " with less energy" : " faster"},
      {FunctionVerdict::kOnlyBase, " only in base"},
      {FunctionVerdict::kOnlyHead, " only in head"},
      {FunctionVerdict::kNotComparable, " not comparable"},
      {FunctionVerdict::kFailed, " failed"},
      {FunctionVerdict::kUnknown, " unknown"}};
  std::string text;
  for (const auto& [verdict, what] : kOthers) {
    const uint64_t count = comparison.Count(verdict);
    if (count > 0) absl::StrAppend(&text, text.empty() ? "Also: " : ", ", count, std::string(what));
  }
  if (!text.empty()) out->reasons.push_back(text + ".");
}

std::string VerdictText(const Comparison& comparison, const ComparedRow& row) {
  const std::string name(VerdictName(row.verdict, comparison.options.objective));
  return absl::StrReplaceAll(name, {{"_", " "}}) + (row.uncertain ? " ?" : "");
}

void AddReasons(std::span<const ComparedRow> rows, Section* section) {
  std::map<std::string, size_t> of_reason;  // how many rows
  for (const ComparedRow& row : rows) ++of_reason[row.reason];
  for (const ComparedRow& row : rows) {
    const size_t count = std::exchange(of_reason[row.reason], 0);
    if (row.reason.empty() || count == 0) continue;
    const std::string others = count > 1 ? absl::StrCat(" and ", count - 1, " more") : "";
    section->notes.push_back(
        absl::StrCat(Printable(row.function), others, ": ", Printable(row.reason)));
  }
}

Explanation ExplainOutcome(const Comparison& comparison) {
  switch (comparison.outcome) {
    case Outcome::kSlower:
      return ExplainSlower(comparison);
    case Outcome::kTooLittleData:
      return ExplainTooLittle(comparison);
    case Outcome::kCannotTell:
      return ExplainCannotTell(comparison);
    case Outcome::kNoRegression:
      return ExplainNone(comparison);
    case Outcome::kAllFailed:
      break;
  }
  return {.verdict = "failed: no function has samples on both sides"};
}

Explanation Explain(const Comparison& comparison) {
  Explanation out = ExplainOutcome(comparison);
  CountOthers(comparison, &out);
  return out;
}

// "active time": the metric of all rows; empty: rows have different ones.
std::string MetricText(const Comparison& comparison) {
  std::string metric;
  for (const ComparedRow& row : comparison.rows) {
    if (row.metric.empty()) continue;
    if (!metric.empty() && metric != row.metric) return "";
    metric = row.metric;
  }
  if (metric.empty()) return "";
  const bool is_time = metric.ends_with("_time");
  return absl::StrCat(absl::StrReplaceAll(Printable(metric), {{"_", " "}}),
                      OfEnergy(comparison) || is_time ? "" : " time");
}

Section RowSection(const Comparison& comparison, const OutputOptions& options) {
  Section section = {.table = "rows"};
  const auto rows = TopRows(comparison.rows, options.top, "functions", kByTop, &section.notes);
  const std::string metric = MetricText(comparison);
  section.title = absl::StrCat(metric, metric.empty() ? "" : ", ",
                               "base: ", Counted(comparison.base_sources.size(), "capture"),
                               ", head: ", Counted(comparison.head_sources.size(), "capture"));
  const auto base = [](const ComparedRow& row) { return row.base.centre; };
  const auto head = [](const ComparedRow& row) { return row.head.centre; };
  RowGrid grid(rows);
  const auto values = grid.Values(base, head);
  const auto side = [&](const std::string& header, auto get) -> Column& {
    if (!OfEnergy(comparison)) return grid.Times(header, CommonUnit(values, options.unit), get);
    const JouleUnit unit = JouleUnitOf(values);
    return grid.Number(absl::StrCat(header, " ", unit.name), get,
                       [unit](const std::optional<double>& joules) { return unit.Cell(joules); });
  };
  grid.Name("function", 20, NameOf);
  grid.Name("device", 0, &ComparedRow::device).HideIfSame();
  grid.Text("verdict", [&](const ComparedRow& row) { return VerdictText(comparison, row); });
  side("base", base).Drop(3);
  side("head", head).Drop(2);
  grid.Number("change %", &ComparedRow::ratio, ChangeOrDash);
  const auto interval = [](const ComparedRow& row) { return IntervalText(row.lo, row.hi); };
  const bool has_intervals = !grid.Number("interval %", interval).HideIfUnknown().hidden;
  // Without a regression, the smallest detectable slowdown matters more than the p-value.
  grid.Number("p",
              [](const ComparedRow& row) { return row.p_value ? ChanceText(*row.p_value) : "-"; })
      .Drop(comparison.outcome == Outcome::kNoRegression ? 5 : 0)
      .HideIfUnknown();
  const auto needs = [&](const ComparedRow& row) { return CapturesCell(comparison, row); };
  const bool has_needs = !grid.Number("needs", needs).Drop(1).HideIfUnknown().hidden;
  grid.Number("detects %",
              [](const ComparedRow& row) { return row.mde ? ChangeText(1 + *row.mde) : "-"; })
      .Drop(4)
      .HideIfUnknown();
  section.grid = std::move(grid).Take();
  if (!metric.empty()) {
    // Markdown shows no title of this table.
    section.notes.push_back(absl::StrCat("change %: change of the typical ", metric, " of a run",
                                         OfEnergy(comparison) ? "" : " (--metric)",
                                         ", on which the verdict rests"));
  }
  if (has_intervals) {
    section.notes.push_back(
        absl::StrCat("interval: with ", PercentText(0.5 + comparison.options.confidence / 2),
                     " confidence the change of every row is at least its lower end, which proves ",
                     OfEnergy(comparison) ? "increases" : "slowdowns",
                     "; with the same confidence it is at most its upper end, which proves ",
                     OfEnergy(comparison) ? "decreases" : "speed-ups",
                     "; p: p-value of no change, for all rows together; detects: a",
                     RiseAfterA(comparison), " of this size would be proved 4 times in 5"));
  }
  if (has_needs) {
    section.notes.emplace_back(
        "needs: captures a side to decide the function; first number: if its change and noise are "
        "as measured; last number: with a probability of 80 %");
  }
  NoteUncertain(rows, &section.notes);
  AddReasons(rows, &section);
  return section;
}

// Shown if there is too little data.
Section KernelSection(const Comparison& comparison, const OutputOptions& options) {
  constexpr size_t kMost = 10;
  Section section = {
      .title = "kernels, mean time in a run; these changes may be noise; the largest first"};
  const auto rows = TopRows(comparison.kernels, options.top.value_or(kMost), "kernels",
                            "--top, or --format json", &section.notes);
  RowGrid grid(rows);
  const Unit unit =
      CommonUnit(grid.Values(&KernelChange::base_ps, &KernelChange::head_ps), options.unit);
  grid.Name("kernel", 20, &KernelChange::kernel);
  grid.Name("function", 14, &KernelChange::function);
  grid.Times("base", unit, &KernelChange::base_ps);
  grid.Times("head", unit, &KernelChange::head_ps);
  grid.Number("change %", [](const KernelChange& row) -> std::string {
    const bool both = row.base_ps.value_or(0) > 0 && row.head_ps.has_value();
    if (both) return ChangeText(*row.head_ps / *row.base_ps);
    return row.head_ps.has_value() ? "new" : "gone";
  });
  section.grid = std::move(grid).Take();
  section.notes.emplace_back("kernels are matched by name only; --why matches what they compute");
  return section;
}

void VisitSide(std::string_view name, bool of_energy, const SideEstimate& side, FieldSink* sink) {
  sink->BeginGroup(name, true);
  XPLANE_TIME_FIELDS(sink, side.captures, side.samples);
  sink->Field(of_energy ? "energy_j" : "centre_ps", side.centre);
  sink->Interval(of_energy ? "ci_j" : "ci_ps", side.lo, side.hi);
  sink->EndGroup();
}

void VisitCompared(const ComparedRow& row, Objective objective, FieldSink* sink) {
  const bool of_energy = objective == Objective::kEnergy;
  XPLANE_TIME_FIELDS(sink, KnownText(row.device), row.function, row.variant_id, row.program,
                     KnownText(row.metric), KnownText(row.clock));
  sink->Field("verdict", VerdictName(row.verdict, objective));
  XPLANE_TIME_FIELDS(sink, row.ratio);
  sink->Interval("ratio_ci", row.lo, row.hi);
  XPLANE_TIME_FIELDS(sink, row.p_value, row.mde, row.spread);
  const CapturesNeeded needed = row.needed.value_or(CapturesNeeded{});
  const bool known = needed.least.has_value() || needed.enough.has_value();
  sink->Field("needed_for", known ? KnownText(QuestionName(needed.question)) : KnownText(""));
  sink->Field("needed_captures_least", needed.least);
  sink->Field("needed_captures", needed.enough);
  sink->Field("needed_unknown", KnownText(needed.unknown));
  VisitSide("base", of_energy, row.base, sink);
  VisitSide("head", of_energy, row.head, sink);
  XPLANE_TIME_FIELDS(sink, row.uncertain, KnownText(row.reason));
}

void VisitKernel(const KernelChange& row, FieldSink* sink) {
  XPLANE_TIME_FIELDS(sink, row.function, row.kernel, row.base_ps, row.head_ps);
}

void VisitDecision(const Comparison& comparison, FieldSink* sink) {
  const CompareOptions& options = comparison.options;
  sink->Field("outcome", OutcomeName(comparison.outcome, options.objective));
  sink->Field("exit_code", static_cast<int64_t>(comparison.outcome));
  const Explanation explanation = Explain(comparison);
  sink->Field("explanation", explanation.verdict);
  sink->Texts("reasons", explanation.reasons);
  sink->Texts("base", comparison.base_sources);
  sink->Texts("head", comparison.head_sources);
  sink->BeginGroup("options", true);
  if (OfEnergy(comparison)) sink->Field("objective", ObjectiveName(options.objective));
  XPLANE_TIME_FIELDS(sink, options.min_effect, options.max_mde, options.alpha, options.confidence,
                     options.offset_std, options.paired, options.allow_mismatch);
  sink->EndGroup();
  XPLANE_TIME_FIELDS(sink, comparison.compared, comparison.largest_mde, comparison.shared_captures);
  sink->BeginGroup("counts", true);
  for (size_t i = 0; i < std::size(kVerdictNames); ++i) {
    const auto verdict = static_cast<FunctionVerdict>(i);
    if (verdict == FunctionVerdict::kUnknown && !OfEnergy(comparison)) continue;
    sink->Field(VerdictName(verdict, options.objective), comparison.Count(verdict));
  }
  sink->EndGroup();
}

std::string Sentence(const Comparison& comparison, const ComparedRow& row) {
  std::string text(VerdictName(row.verdict, comparison.options.objective));
  if (row.uncertain) absl::StrAppend(&text, " ?");
  if (row.ratio) absl::StrAppend(&text, ": ", ChangeText(*row.ratio), " %");
  if (row.lo && row.hi) {
    absl::StrAppend(&text, ", interval ", ChangeText(*row.lo), " % to ", ChangeText(*row.hi), " %");
  }
  if (row.p_value) absl::StrAppend(&text, ", ", ChanceSentence(*row.p_value));
  if (row.mde) absl::StrAppend(&text, "; would detect ", PercentText(*row.mde));
  if (row.uncertain) absl::StrAppend(&text, "; the split into runs is uncertain");
  if (!row.reason.empty()) absl::StrAppend(&text, ": ", row.reason);
  return text;
}

std::vector<std::string> Notes(const Comparison& comparison) {
  std::vector<std::string> sources = comparison.base_sources;
  sources.insert(sources.end(), comparison.head_sources.begin(), comparison.head_sources.end());
  return JoinNotes(comparison.notes, sources);
}

std::vector<InterchangeRow> InterchangeRows(const Comparison& comparison) {
  const std::vector<ComparedRow>& rows = comparison.rows;
  const bool several_devices = std::any_of(
      rows.begin(), rows.end(), [&](const auto& row) { return row.device != rows[0].device; });
  std::vector<InterchangeRow> out;
  for (const ComparedRow& row : rows) {
    const FunctionVerdict verdict = row.verdict;
    const bool fails = verdict == FunctionVerdict::kSlower || verdict == FunctionVerdict::kFailed;
    const bool passes = verdict == FunctionVerdict::kSame || verdict == FunctionVerdict::kFaster;
    const std::string type(passes ? "" : VerdictName(verdict, comparison.options.objective));
    out.push_back({.name = absl::StrCat(row.function,
                                        row.program > 0 ? absl::StrCat("#", row.program + 1) : "",
                                        several_devices ? "@" + row.device : ""),
                   .group = row.device.empty() ? "xplane-time" : row.device,
                   .value = row.head,
                   .ratio = row.ratio,
                   .ratio_lo = row.lo,
                   .ratio_hi = row.hi,
                   .text = Sentence(comparison, row),
                   .failure_type = fails ? type : "",
                   .skipped_type = fails ? "" : type});
  }
  return out;
}

}  // namespace

Output CompareOutput(const Comparison& comparison, const DiffReport* why) {
  Output out{.result = result::Result("xplane-time.compare.v1")};
  out.result.Say([&](FieldSink* sink) { VisitDecision(comparison, sink); });
  const auto visit = [objective = comparison.options.objective](const ComparedRow& row,
                                                                FieldSink* sink) {
    VisitCompared(row, objective, sink);
  };
  out.result.Add(TableOf("rows", std::span(comparison.rows), visit));
  if (!comparison.kernels.empty()) {
    out.result.Add(TableOf("kernels", std::span(comparison.kernels), VisitKernel));
  }
  out.result.Say([&](FieldSink* sink) { sink->Texts("notes", Notes(comparison)); });
  if (why != nullptr) {
    out.result.Say(
        [why](FieldSink* sink) { sink->Raw("why", JsonText(DiffOutput(*why, {}).result)); });
  }
  out.result.csv = TableOf("", std::span(comparison.rows), visit);
  out.view = [&, why](const OutputOptions& how) {
    std::vector<Section> sections = {RowSection(comparison, how)};
    if (why != nullptr) {
      std::vector<Section> parts = DiffSections(*why, how);
      parts[0].title = absl::StrCat("why: ", DiffHeadline(*why, how.unit));
      const std::string metric = MetricText(comparison);
      parts[0].notes.emplace_back(absl::StrCat(
          "why: mean span of a run, from its first start to its last end, with idle "
          "time; the verdict compares the typical ",
          metric.empty() ? "time" : metric, ", and its percentage is the one to quote"));
      for (Section& part : parts) sections.push_back(std::move(part));
    }
    const bool kernels = !comparison.kernels.empty() && why == nullptr;
    if (kernels) sections.push_back(KernelSection(comparison, how));
    return DecisionView(Explain(comparison), static_cast<int>(comparison.outcome),
                        std::move(sections), Notes(comparison), how);
  };
  AddInterchange("xplane-time compare", comparison.options.objective, InterchangeRows(comparison),
                 &out);
  return out;
}

}  // namespace xplane_time::output
