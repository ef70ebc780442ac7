// Diff: what changed between two sides, as rows that add up to the total change.
//
// Example:
//
//   const std::vector<std::string> base = {"base1.xplane.pb"}, head = {"head1.xplane.pb"};
//   auto diff = FindDiff(base, head, {});
//   if (!diff.ok()) return diff.status();
//   // FailedPrecondition: the two sides have nothing in common that can be compared
//   std::cout << diff->total.delta_ps / 1e9 << " ms more\n";  // "0.266 ms more" in a step
//   for (const DiffRow& row : diff->rows) {
//     const std::optional<DiffPart>& part = row.head ? row.head : row.base;
//     const bool is_op = part && !part->ops.empty();  // otherwise waiting time or overlap
//     if (is_op) std::cout << part->ops[0] << ' ' << row.delta_ps / 1e9 << '\n';  // "dot.4 0.214"
//   }
//
//   total = kernels matched + new + gone + waiting
//
// This equation is exact, in picoseconds, on each side and for the difference. A kernel counts with
// its own time while no kernel of a higher class runs (where.h), so hidden transfers do not count.
// If two kernels of one class run at once, a separate row subtracts the overlap. Values are means
// per unit of comparison (DiffPer) on one device: a step, a run of each function, or the capture.
//
// Kernels are matched within a function. The first pass compares the compiler's data on their ops
// (op_name, source line, opcode, shapes, attributes, fused ops). The second pass matches the
// remaining kernels by similarity. Fusions that were split or merged are one row. If a trace has no
// Hlo Proto, only names and scopes are available.
//
// Intervals and verdicts follow compare.h (captures are the unit; `alpha` covers all rows
// together), but on times and not on their logarithms. A row has an interval and a verdict if its
// function ran in two captures of each side (with offset_std: two runs or steps). Otherwise
// `reason` explains why not.
//
// A report owns its strings. Different calls may run concurrently. Time: FindWhere for each
// capture, and O(kernels log kernels).
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
  // from the start of a marked step to the start of the next one, with all executions in it
  kStep,
  kRun,      // a run of each function, first start to last end; without suspect runs
  kCapture,  // first start to last end
};
std::string_view DiffPerName(DiffPer per);
// Parses "step", "run" or "capture". Errors: InvalidArgument.
absl::StatusOr<DiffPer> ParseDiffPer(std::string_view text);

struct DiffOptions {
  // Used: device, function, exclude, prefix, skip_runs (also for steps), threads, events_done.
  // Filters on functions need kRun.
  ReportOptions select = {};
  FindOptions find = {};
  ReadOptions read = {};
  std::optional<DiffPer> per = {};  // empty: the first unit that all captures have
  // Used: alpha, min_effect (relative to a row's time in base), confidence, offset_std, paired.
  CompareOptions decision = {};
  // Called before each capture is read, and before matching. If it returns true, the result is
  // Cancelled.
  std::function<bool()> stopped = {};
};

enum class DiffMatch : uint8_t {
  kExact,    // the same op, recompiled
  kSimilar,  // the most similar op; `similarity` has the degree
  kGroup,    // several ops on a side: a fusion was split, or ops were merged
  kNew,
  kGone,
  // from here on waiting and corrections; kOverlap: two kernels of one class ran at once
  kOverlap,
  kForeign,      // for runs: only other functions ran
  kIdleHost,     // no launch was pending
  kIdleLaunch,   // launched, but not started
  kIdleUnknown,  // no launch is known
  kIdle,         // the sum of the idle rows, if a side has no launches
};
std::string_view DiffMatchName(DiffMatch match);
constexpr bool IsWaiting(DiffMatch match) { return match >= DiffMatch::kOverlap; }

enum class DiffVerdict : uint8_t {
  kNoVerdict,  // not measured often enough; see DiffRow::reason
  kUnproven,   // chance can explain the change, or that it exceeds min_effect; see DiffRow::reason
  kMore,       // more time, proved, by more than min_effect
  kLess,
  kSmall,  // below a thousandth of the total: not judged
};
std::string_view DiffVerdictName(DiffVerdict verdict);

// One side of a row: a kernel, or the group of kernels of the row.
struct DiffPart {
  std::vector<std::string> ops;  // names; several for a group
  std::optional<std::string> function;
  std::vector<std::string> program_ids;
  // Of the kernel that took longest. Empty: unknown.
  std::string kernel, op_name, source, opcode, shape;
  std::vector<std::string> lines;  // source lines of all fused ops
  std::optional<Category> category;
  double mean_ps = 0;
  int64_t total_ps = 0;             // over all captures and units
  std::optional<double> hidden_ps;  // of collectives and copies: mean time while higher classes ran
  std::optional<double> count;      // mean number of executions
};

struct DiffRow {
  DiffMatch match = DiffMatch::kExact;
  std::optional<double> similarity;    // 0 to 1
  std::optional<DiffPart> base, head;  // empty: the kernel is not on this side
  double delta_ps = 0;
  std::optional<double> share;  // share of the total's delta; empty: the total's delta is 0
  // Simultaneous interval of delta_ps; p-value after Holm. Empty: no verdict, or small.
  std::optional<double> lo_ps, hi_ps, p_value;
  DiffVerdict verdict = DiffVerdict::kNoVerdict;
  // Why there is no verdict: "its function ran on one side only". For kUnproven: that the change is
  // proved, but not that it exceeds min_effect; empty: chance can explain the change.
  std::string reason;
  double noise_ps = 0;  // the part of delta_ps that chance may explain; rows are sorted by the rest
};

// The sum of the rows of one kind.
struct DiffSum {
  DiffMatch match = DiffMatch::kExact;
  uint64_t rows = 0;
  std::optional<double> base_ps, head_ps;
  double delta_ps = 0;
};

// A function and its runs on both sides.
struct DiffFunction {
  std::optional<std::string> base, head;  // names
  uint64_t base_runs = 0, head_runs = 0, base_suspect_runs = 0, head_suspect_runs = 0;
  std::optional<double> base_ps, head_ps;  // mean span of a run
};

struct DiffSide {
  std::vector<std::string> sources;
  std::vector<InputRow> inputs;
  std::vector<std::string> devices;
  uint64_t units = 0;  // number of units over captures and devices
  int64_t total_ps = 0;
};

struct DiffReport {
  DiffSide base, head;
  DiffPer per = DiffPer::kStep;
  bool by_hlo = false;  // the compiler's data was available for some op of both sides
  DiffRow total;
  std::vector<DiffSum> sums;            // in the order of DiffMatch; kinds without rows are omitted
  std::vector<DiffRow> rows;            // sorted by the change beyond noise, largest first
  std::vector<DiffFunction> functions;  // the largest change first
  // matched share of both sides' time in kernels; empty: no kernel ran
  std::optional<double> matched_share;
  bool same_capture = false;  // a capture is on both sides
  CompareOptions decision;
  std::vector<std::string> notes;
  std::vector<DiagnosticRow> diagnostics;  // of all captures
};

// Compares two sides. Paths as for ReadMeasurements; each is a trace. Errors: as OpenTrace and
// BuildReport; FailedPrecondition (JSON, or nothing in common), InvalidArgument (options),
// Cancelled.
absl::StatusOr<DiffReport> FindDiff(std::span<const std::string> base,
                                    std::span<const std::string> head, const DiffOptions& options);

}  // namespace xplane_time
