#include "insight/diff.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <utility>

#include "absl/strings/str_join.h"
#include "compare/inputs.h"
#include "insight/diff_match.h"
#include "insight/diff_sums.h"
#include "status.h"

namespace xplane_time {
namespace insight {
namespace {

using Captures = std::vector<DiffCapture>;

// Pairs of programs: of one name that compute the same, of one name, that compute the same; at
// last the only ones. In the order of their first runs.
std::vector<std::pair<uint32_t, uint32_t>> MatchPrograms(const std::vector<SideProgram>& a,
                                                         const std::vector<SideProgram>& b) {
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  std::vector<bool> taken_a(a.size(), false), taken_b(b.size(), false);
  const auto take = [&](uint32_t i, uint32_t j) {
    taken_a[i] = taken_b[j] = true;
    pairs.emplace_back(i, j);
  };
  const auto by_key = [&](auto key_of) {
    std::map<decltype(key_of(a[0])), std::vector<uint32_t>> of_b;
    for (uint32_t j = 0; j < b.size(); ++j) {
      if (!taken_b[j]) of_b[key_of(b[j])].push_back(j);
    }
    for (uint32_t i = 0; i < a.size(); ++i) {
      if (taken_a[i]) continue;
      const auto found = of_b.find(key_of(a[i]));
      if (found == of_b.end() || found->second.empty()) continue;
      take(i, found->second.front());
      found->second.erase(found->second.begin());
    }
  };
  if (a.empty() || b.empty()) return pairs;
  by_key([](const SideProgram& each) { return std::pair(each.function, each.signature); });
  by_key([](const SideProgram& each) { return each.function; });
  by_key([](const SideProgram& each) { return each.signature; });
  if (pairs.empty() && a.size() == 1 && b.size() == 1) take(0, 0);
  return pairs;
}

std::vector<MatchItem> ItemsOf(const Side& side) {
  std::vector<MatchItem> items;
  for (const SideOp& op : side.ops) {
    items.push_back({&op.traits, side.programs[op.program].block});
  }
  return items;
}

// Programs that match have the same block; each other program has a separate one.
void NumberBlocks(Side* a, Side* b) {
  uint32_t next = 0;
  for (SideProgram& program : a->programs) program.block = next++;
  for (SideProgram& program : b->programs) program.block = next++;
  for (const auto& [i, j] : MatchPrograms(a->programs, b->programs)) {
    b->programs[j].block = a->programs[i].block;
  }
}

Side SideOf(const DiffCapture& capture, DiffPer per) {
  const auto at = static_cast<size_t>(per);
  Side side = {
      .sources = {capture.source}, .programs = {}, .ops = {}, .times = {capture.times[at]}};
  side.any_launch = capture.any_launch;
  side.clock_step_ps = capture.clock_step_ps;
  std::vector<uint32_t> number(capture.programs.size());
  for (size_t i = 0; i < capture.programs.size(); ++i) {
    const DiffProgram& program = capture.programs[i];
    number[i] = static_cast<uint32_t>(side.programs.size());
    if (per == DiffPer::kRun && program.runs.units == 0) continue;
    side.programs.push_back({.function = program.function,
                             .program_ids = program.program_ids,
                             .signature = program.signature,
                             .suspect_runs = program.suspect_runs,
                             .block = 0,
                             .times = {program.runs}});
  }
  for (const DiffOp& op : capture.ops) {
    const OwnTimes& times = op.times[at];
    if (times.count == 0 && times.own_ps == 0) continue;
    side.ops.push_back({number[op.program], op.traits, {times}});
  }
  return side;
}

// A program that a capture lacks took no time in it.
template <typename Row>
void Widen(size_t captures, std::vector<Row>* rows) {
  for (Row& row : *rows) row.times.resize(captures);
}

// Adds one more capture.
void Merge(Side more, Side* side) {
  NumberBlocks(side, &more);
  const size_t captures = side->sources.size();
  std::vector<uint32_t> number(more.programs.size());
  for (size_t j = 0; j < more.programs.size(); ++j) {
    SideProgram& program = more.programs[j];
    const auto known = std::ranges::find(side->programs, program.block, &SideProgram::block);
    number[j] = static_cast<uint32_t>(known - side->programs.begin());
    if (known == side->programs.end()) {
      side->programs.push_back(program);
      side->programs.back().times.assign(captures, UnitTimes());
    }
    SideProgram& into = side->programs[number[j]];
    into.times.push_back(program.times[0]);
    if (number[j] < side->programs.size() && known != side->programs.end()) {
      into.suspect_runs += program.suspect_runs;
    }
    for (const std::string& id : program.program_ids) {
      if (std::ranges::find(into.program_ids, id) == into.program_ids.end()) {
        into.program_ids.push_back(id);
      }
    }
  }
  for (const OpMatch& match : MatchOps(ItemsOf(*side), ItemsOf(more), /*loosely=*/false)) {
    if (match.head.empty()) continue;
    SideOp& op = more.ops[match.head[0]];
    if (!match.base.empty()) {
      side->ops[match.base[0]].times.push_back(op.times[0]);
      continue;
    }
    op.program = number[op.program];
    op.times.insert(op.times.begin(), captures, OwnTimes());
    side->ops.push_back(std::move(op));
  }
  side->sources.push_back(more.sources[0]);
  side->times.push_back(more.times[0]);
  side->any_launch &= more.any_launch;
  side->clock_step_ps = std::max(side->clock_step_ps, more.clock_step_ps);
  Widen(captures + 1, &side->programs);
  Widen(captures + 1, &side->ops);
}

// Reorders values from the order of `from` to that of the captures.
template <typename T>
void PutBack(const std::vector<size_t>& from, std::vector<T>* values) {
  std::vector<T> in_place(values->size());
  for (size_t i = 0; i < from.size(); ++i) in_place[from[i]] = std::move((*values)[i]);
  *values = std::move(in_place);
}

// Captures are matched one after the other: in an order that is not that of the command line.
Side SideOf(const Captures& captures, DiffPer per) {
  std::vector<size_t> order(captures.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return captures[i].source; });
  Side side = SideOf(captures[order[0]], per);
  for (size_t i = 1; i < order.size(); ++i) Merge(SideOf(captures[order[i]], per), &side);
  PutBack(order, &side.sources);
  PutBack(order, &side.times);
  for (SideProgram& program : side.programs) PutBack(order, &program.times);
  for (SideOp& op : side.ops) PutBack(order, &op.times);
  return side;
}

bool SameCapture(const DiffCapture& a, const DiffCapture& b) {
  if (a.source == b.source && !a.source.empty()) return true;
  const auto same_op = [](const DiffOp& x, const DiffOp& y) {
    constexpr auto kAll = static_cast<size_t>(DiffPer::kCapture);
    return x.traits.kernel == y.traits.kernel && x.times[kAll].own_ps == y.times[kAll].own_ps &&
           x.times[kAll].squares == y.times[kAll].squares;
  };
  const auto same_span = [](const UnitTimes& x, const UnitTimes& y) {
    return x.units == y.units && x.span_ps == y.span_ps;
  };
  return std::ranges::equal(a.times, b.times, same_span) &&
         std::ranges::equal(a.ops, b.ops, same_op);
}

void DropRepeated(Captures* side, std::vector<std::string>* notes) {
  Captures kept;
  for (DiffCapture& capture : *side) {
    const auto twin = std::ranges::find_if(
        kept, [&](const DiffCapture& other) { return SameCapture(other, capture); });
    if (twin == kept.end()) {
      kept.push_back(std::move(capture));
      continue;
    }
    const bool twice = twin->source == capture.source;
    std::string note =
        Cat(capture.source, twice ? " is given twice" : Cat(" repeats ", twin->source),
            " and counts once: it is not a second process");
    // The other side may have the same two captures.
    if (std::ranges::find(*notes, note) == notes->end()) notes->push_back(std::move(note));
  }
  *side = std::move(kept);
}

void NoteSame(const Captures& base, const Captures& head, DiffReport* report) {
  std::string first;
  size_t count = 0;
  for (const DiffCapture& of_head : head) {
    const auto twin = std::ranges::find_if(
        base, [&](const DiffCapture& of_base) { return SameCapture(of_base, of_head); });
    if (twin == base.end() || count++ > 0) continue;
    first = twin->source == of_head.source
                ? of_head.source
                : Cat(of_head.source, ", which repeats ", twin->source, ",");
  }
  if (count == 0) return;
  report->same_capture = true;
  report->notes.push_back(
      Cat(first, count > 1 ? Cat(" and ", count - 1, " more are") : " is",
          " on both sides; a capture that is compared with itself shows no change"));
}

bool AllHave(const Captures& side, bool DiffCapture::*has) {
  return std::ranges::all_of(side, [has](const DiffCapture& each) { return each.*has; });
}

absl::StatusOr<DiffPer> ChoosePer(const Captures& base, const Captures& head,
                                  const DiffOptions& options) {
  const bool steps = AllHave(base, &DiffCapture::any_step) && AllHave(head, &DiffCapture::any_step);
  const bool runs = AllHave(base, &DiffCapture::any_run) && AllHave(head, &DiffCapture::any_run);
  const ReportOptions& select = options.select;
  const bool filtered =
      !select.function.empty() || !select.exclude.empty() || !select.prefix.empty();
  const DiffPer per = options.per.value_or(steps && !filtered ? DiffPer::kStep
                                           : runs || filtered ? DiffPer::kRun
                                                              : DiffPer::kCapture);
  if (filtered && per != DiffPer::kRun) {
    return InvalidArgument("filters on functions require --per run; add it, or omit the filters");
  }
  if (select.skip_runs > 0 && per == DiffPer::kCapture) {
    return FailedPrecondition(base[0].source, " and ", head[0].source, ": --skip-runs ",
                              select.skip_runs,
                              " leaves no runs or steps in some of them; give a smaller number");
  }
  if (per == DiffPer::kStep && !steps) {
    return FailedPrecondition(
        base[0].source, " and ", head[0].source,
        ": some of them lack marked steps (two or more on each device); mark steps with "
        "jax.profiler.StepTraceAnnotation, or give --per run");
  }
  if (per == DiffPer::kRun && !runs) {
    return FailedPrecondition(
        base[0].source, " and ", head[0].source, ": some of them have no runs of a function",
        filtered ? " that passes the filters" : "",
        "; xplane-time functions lists the functions of each. Ranges of the "
        "host (annotations, modules) are not runs here: compare steps, or use "
        "xplane-time compare --function");
  }
  return per;
}

// Facts that are not alike, in words.
void NoteUnlike(const Captures& base, const Captures& head, std::vector<std::string>* notes) {
  struct Fact {
    const char* name;
    std::vector<std::string> DiffCapture::*values;
  };
  for (const Fact& fact :
       {Fact{"device kind", &DiffCapture::kinds}, Fact{"device model", &DiffCapture::models},
        Fact{"clock", &DiffCapture::clocks}}) {
    const std::vector<std::string>&of_base = base[0].*fact.values, &of_head = head[0].*fact.values;
    if (of_base == of_head || of_base.empty() || of_head.empty()) continue;
    notes->push_back(Cat(fact.name, " is ", absl::StrJoin(of_base, " and "), " in base, ",
                         absl::StrJoin(of_head, " and "), " in head"));
  }
  const size_t in_base = base[0].devices.size(), in_head = head[0].devices.size();
  if (in_base != in_head) {
    notes->push_back(Cat("base ran on ", in_base, in_base == 1 ? " device" : " devices",
                         ", head on ", in_head,
                         ": values are means per device; --device selects devices"));
  }
}

uint64_t OpsWithHlo(const Captures& side) {
  uint64_t ops = 0;
  for (const DiffCapture& capture : side) ops += capture.ops_with_hlo;
  return ops;
}

void NoteHlo(const Captures& base, const Captures& head, DiffReport* report) {
  const bool in_base = OpsWithHlo(base) > 0, in_head = OpsWithHlo(head) > 0;
  report->by_hlo = in_base && in_head;
  if (report->by_hlo) return;
  report->notes.push_back(Cat("no matching Hlo Proto in ",
                              in_base   ? "head"
                              : in_head ? "base"
                                        : "either",
                              ": kernels are matched by name and scope, which is less precise"));
}

void NotePer(const Captures& base, const Captures& head, const DiffOptions& options,
             DiffReport* report) {
  if (report->per == DiffPer::kCapture) {
    report->notes.push_back(
        Cat(options.per.has_value() ? "" : "not all captures have steps, and not all have runs: ",
            "whole captures are compared, and their amounts of work may differ"));
  }
  if (report->per == DiffPer::kRun) {
    report->notes.emplace_back(
        "runs are compared, without the idle time between them; --per capture includes it");
  }
  const bool one_has_steps =
      AllHave(base, &DiffCapture::any_step) != AllHave(head, &DiffCapture::any_step);
  if (report->per == DiffPer::kRun && one_has_steps) {
    report->notes.emplace_back("only one side has marked steps, so steps are not compared");
  }
}

void NoteMatches(const Side& base, const Side& head, DiffReport* report) {
  for (const SideProgram& of_base : base.programs) {
    const auto of_head = std::ranges::find(head.programs, of_base.block, &SideProgram::block);
    if (of_head == head.programs.end() || of_head->function == of_base.function) continue;
    report->notes.push_back(
        Cat(of_base.function, " of base is compared with ", of_head->function, " of head"));
  }
  constexpr double kFewMatched = 0.2;
  if (report->matched_share.value_or(1) >= kFewMatched) return;
  report->notes.emplace_back(
      "less than a fifth of the kernel time is matched: these look like different programs");
}

void FillSide(const Captures& captures, DiffSide* side) {
  for (const DiffCapture& capture : captures) {
    side->sources.push_back(capture.source);
    side->inputs.insert(side->inputs.end(), capture.inputs.begin(), capture.inputs.end());
  }
  side->devices = captures[0].devices;
}

}  // namespace

absl::StatusOr<DiffReport> DiffOf(Captures base, Captures head, const DiffOptions& options) {
  DiffReport report;
  DropRepeated(&base, &report.notes);
  DropRepeated(&head, &report.notes);
  ASSIGN_OR_RETURN(report.per, ChoosePer(base, head, options));
  report.decision = options.decision;
  if (report.decision.paired && base.size() != head.size()) {
    return InvalidArgument("paired captures must be equally many: ", base.size(), " in base, ",
                           head.size(), " in head");
  }
  NoteSame(base, head, &report);
  NoteUnlike(base, head, &report.notes);
  NotePer(base, head, options, &report);
  NoteHlo(base, head, &report);
  Side of_base = SideOf(base, report.per), of_head = SideOf(head, report.per);
  NumberBlocks(&of_base, &of_head);
  const bool any_common = std::ranges::any_of(of_base.programs, [&](const SideProgram& program) {
    return std::ranges::find(of_head.programs, program.block, &SideProgram::block) !=
           of_head.programs.end();
  });
  if (!any_common) {
    return FailedPrecondition(base[0].source, " and ", head[0].source,
                              ": they have no function in common, so no kernel can be matched; "
                              "xplane-time functions lists the functions of each");
  }
  FillSide(base, &report.base);
  FillSide(head, &report.head);
  FillSums(of_base, of_head, MatchOps(ItemsOf(of_base), ItemsOf(of_head), /*loosely=*/true),
           &report);
  NoteMatches(of_base, of_head, &report);
  for (const Captures* side : {&base, &head}) {
    for (const DiffCapture& capture : *side) {
      for (const DiagnosticRow& row : capture.diagnostics) {
        // Both sides may name the same log directory.
        const bool is_known =
            row.code == DiagnosticName(DiagnosticCode::kOtherRuns) &&
            std::ranges::find(report.diagnostics, row.message, &DiagnosticRow::message) !=
                report.diagnostics.end();
        if (!is_known) report.diagnostics.push_back(row);
      }
    }
  }
  return report;
}

namespace {

absl::StatusOr<DiffCapture> ReadCapture(const std::string& path, const DiffOptions& options) {
  if (compare::IsJsonOfMeasurements(path)) {
    return FailedPrecondition(path, ": is JSON, which has no times of kernels; give ", "the trace");
  }
  ASSIGN_OR_RETURN(const auto inputs, FindInputs(std::span(&path, 1), options.find));
  Diagnostics diagnostics;
  ASSIGN_OR_RETURN(const Trace trace, OpenTrace(inputs, options.read, &diagnostics));
  ASSIGN_OR_RETURN(DiffCapture capture, MeasureForDiff(trace, options, diagnostics));
  capture.source = path;
  return capture;
}

absl::Status CheckStopped(const DiffOptions& options) {
  if (options.stopped && options.stopped()) return absl::CancelledError("diff was interrupted");
  return absl::OkStatus();
}

absl::StatusOr<Captures> ReadSide(std::span<const std::string> paths, const DiffOptions& options) {
  Captures captures;
  for (const std::string& path : paths) {
    RETURN_IF_ERROR(CheckStopped(options));
    ASSIGN_OR_RETURN(captures.emplace_back(), ReadCapture(path, options));
  }
  return captures;
}

}  // namespace
}  // namespace insight

namespace {
constexpr std::string_view kPerNames[] = {"step", "run", "capture"};
}  // namespace

std::string_view DiffPerName(DiffPer per) { return kPerNames[static_cast<size_t>(per)]; }

absl::StatusOr<DiffPer> ParseDiffPer(std::string_view text) {
  const auto* const found = std::ranges::find(kPerNames, text);
  if (found == std::end(kPerNames)) {
    return InvalidArgument("per must be step, run or capture, not '", text, "'");
  }
  return static_cast<DiffPer>(found - std::begin(kPerNames));
}

std::string_view DiffMatchName(DiffMatch match) {
  constexpr std::string_view kNames[] = {"exact",       "similar",      "group",   "new",
                                         "gone",        "overlap",      "foreign", "idle_host",
                                         "idle_launch", "idle_unknown", "idle"};
  return kNames[static_cast<size_t>(match)];
}

std::string_view DiffVerdictName(DiffVerdict verdict) {
  constexpr std::string_view kNames[] = {"no_verdict", "unproven", "more", "less", "small"};
  return kNames[static_cast<size_t>(verdict)];
}

absl::StatusOr<DiffReport> FindDiff(std::span<const std::string> base,
                                    std::span<const std::string> head, const DiffOptions& options) {
  if (base.empty() || head.empty()) {
    return InvalidArgument("give at least one capture of base and one of head");
  }
  ASSIGN_OR_RETURN(insight::Captures of_base, insight::ReadSide(base, options));
  ASSIGN_OR_RETURN(insight::Captures of_head, insight::ReadSide(head, options));
  RETURN_IF_ERROR(insight::CheckStopped(options));
  return insight::DiffOf(std::move(of_base), std::move(of_head), options);
}

}  // namespace xplane_time
