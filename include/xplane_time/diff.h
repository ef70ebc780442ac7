// Diff: what changed between two sides, as a sum that comes out.
//
//   auto diff = FindDiff(std::vector<std::string>{"base.xplane.pb"}, {"head.xplane.pb"}, {});
//   diff->total.delta_ps              // 266e6: a step takes 0.266 ms more, of which
//   diff->rows[0].head->op            // "dot.4"
//   diff->rows[0].delta_ps            // 214e6
//   // FailedPrecondition: nothing that both sides hold can be set against each other
//
//   total = kernels matched + new + gone + waiting
//
// exactly, in picoseconds, on each side and so of the difference. A kernel counts with its own time
// while nothing of a higher class ran (where.h), so that hidden transfers count nothing; that two
// of one class ran at once is a row that is taken off. Values are means of what is compared: a
// step, a run of each function, or the capture (DiffPer), of one device.
//
// Kernels are matched within a function: first by what the compiler says of their op (op_name,
// source line, opcode, shapes, attributes, what is fused), then by similarity. Fusions that split
// or merged are one row. Without an Hlo Proto only names and scopes tell.
//
// Intervals and verdicts: as compare.h has them (captures are the unit; `alpha` over all rows
// together), of times and not of their logarithms. A row has them where its function ran in two
// captures of each side (two runs or steps with offset_std); else it has a reason.
//
// A report owns its strings. Thread-safe for different calls. Time: of FindWhere for each capture,
// and O(kernels log kernels).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "xplane_time/compare.h"
#include "xplane_time/read.h"
#include "xplane_time/report.h"

namespace xplane_time {

enum class DiffPer : uint8_t {
  kStep,     // from the start of a marked step to the start of the next one, and all that ran then
  kRun,      // a run of each function, first start to last end; not suspect ones
  kCapture,  // first start to last end
};
std::string_view DiffPerName(DiffPer per);
// "step", "run", "capture". Errors: InvalidArgument.
absl::StatusOr<DiffPer> ParseDiffPer(std::string_view text);

struct DiffOptions {
  // device, function, exclude, prefix, skip_runs (of steps, too), threads, events_done; filters on
  // functions need kRun.
  ReportOptions select = {};
  FindOptions find = {};
  ReadOptions read = {};
  std::optional<DiffPer> per = {};  // empty: the first that all captures have
  // alpha, min_effect (of a row's time in base), confidence, offset_std, paired.
  CompareOptions decision = {};
  // Asked before each capture is read, and before they are matched; true: Cancelled.
  std::function<bool()> stopped = {};
};

enum class DiffMatch : uint8_t {
  kExact,    // the same op, recompiled
  kSimilar,  // what is most alike; `similarity` says how much
  kGroup,    // several on a side: a fusion split, or some merged
  kNew,
  kGone,
  kOverlap,      // waiting and the like, from here on: two of one class ran at once
  kForeign,      // of runs: only other functions ran
  kIdleHost,     // nothing was launched yet
  kIdleLaunch,   // launched, but not started
  kIdleUnknown,  // no launch is known
  kIdle,         // all of these together, where a side has no launches
};
std::string_view DiffMatchName(DiffMatch match);
constexpr bool IsWaiting(DiffMatch match) { return match >= DiffMatch::kOverlap; }

enum class DiffVerdict : uint8_t {
  kNoVerdict,  // not measured often enough: DiffRow::reason
  kUnproven,   // chance explains it
  kMore,       // more time, proved, by more than min_effect
  kLess,
  kSmall,  // below a thousandth of the total: not judged
};
std::string_view DiffVerdictName(DiffVerdict verdict);

// A kernel, or what others there are in the row together.
struct DiffPart {
  std::vector<std::string> ops;  // names; several of a group
  std::optional<std::string> function;
  std::vector<std::string> program_ids;
  // Of the one that took longest; empty: unknown.
  std::string kernel, op_name, source, opcode, shape;
  std::vector<std::string> lines;  // source lines of all that is fused
  std::optional<Category> category;
  double mean_ps = 0;
  int64_t total_ps = 0;             // over all captures and units
  std::optional<double> hidden_ps;  // mean, behind higher classes; of collectives and copies
  std::optional<double> count;      // executions, mean
};

struct DiffRow {
  DiffMatch match = DiffMatch::kExact;
  std::optional<double> similarity;    // 0 to 1
  std::optional<DiffPart> base, head;  // empty: it is not on this side
  double delta_ps = 0;
  std::optional<double> share;  // of the total's delta; empty: that is 0
  // Simultaneous, of delta_ps; the p-value after Holm. Empty: no verdict, or small.
  std::optional<double> lo_ps, hi_ps, p_value;
  DiffVerdict verdict = DiffVerdict::kNoVerdict;
  std::string reason;   // why there is no verdict: "its function did not run there"
  double noise_ps = 0;  // how much of delta_ps may well be chance: rows are ordered by the rest
};

// Rows of one kind together.
struct DiffSum {
  DiffMatch match = DiffMatch::kExact;
  uint64_t rows = 0;
  std::optional<double> base_ps, head_ps;
  double delta_ps = 0;
};

// A function on both sides.
struct DiffFunction {
  std::optional<std::string> base, head;  // names
  uint64_t base_runs = 0, head_runs = 0, base_suspect_runs = 0, head_suspect_runs = 0;
  std::optional<double> base_ps, head_ps;  // a run's span, mean
};

struct DiffSide {
  std::vector<std::string> sources;
  std::vector<InputRow> inputs;
  std::vector<std::string> devices;
  uint64_t units = 0;  // over captures and devices
  int64_t total_ps = 0;
};

struct DiffReport {
  DiffSide base, head;
  DiffPer per = DiffPer::kStep;
  bool by_hlo = false;  // the compiler's words were there for some op of both sides
  DiffRow total;
  std::vector<DiffSum> sums;            // in the order of DiffMatch; those that have rows
  std::vector<DiffRow> rows;            // the largest change beyond noise first
  std::vector<DiffFunction> functions;  // the largest change first
  std::optional<double> matched_share;  // of both sides' time in kernels; empty: none ran
  bool same_capture = false;            // a side holds a capture of the other
  CompareOptions decision;
  std::vector<std::string> notes;
  std::vector<DiagnosticRow> diagnostics;  // of all captures
};

// Paths as of ReadMeasurements; each is a trace. Errors: as OpenTrace and BuildReport;
// FailedPrecondition: JSON, or nothing to set against each other; InvalidArgument: options.
absl::StatusOr<DiffReport> FindDiff(std::span<const std::string> base,
                                    std::span<const std::string> head, const DiffOptions& options);

}  // namespace xplane_time
