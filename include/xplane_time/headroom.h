// Headroom: how much of each op's time could be saved according to a roofline model.
//
// Input: a trace. Output: one row per op with its FLOPs and bytes, the least time that its device
// needs for them, and the further time that the op took.
//
// Example:
//
//   Diagnostics diagnostics;
//   const std::vector<std::string> paths = {"trace.xplane.pb"};
//   auto trace = OpenTrace(*FindInputs(paths, {}), {}, &diagnostics);
//   if (!trace.ok()) return trace.status();
//   auto report = BuildHeadroom(*trace, {.select = {.device = "gpu"}}, diagnostics);
//   if (!report.ok()) return report.status();
//   // FailedPrecondition: the selected devices executed nothing. InvalidArgument: a peak of 0.
//   for (const HeadroomRow& row : report->ops) {
//     std::cout << row.op << '\n';                                            // "custom-call.1"
//     if (row.flops) std::cout << *row.flops / 1e9 << " GFLOP\n";             // of one execution
//     if (row.recoverable_ps) std::cout << *row.recoverable_ps / 1e9 << " ms\n";  // upper bound
//   }
//
//   roof_ps        = executions x max(flops / peak FLOP/s, bytes / peak bandwidth)
//   recoverable_ps = total_ps - roof_ps
//
// A number of FLOPs or bytes is declared (by the user), counted (by the driver: bytes of a copy),
// modelled (from shapes, like XLA's own cost model) or unknown. An unknown number is empty, never
// 0, and `reason` explains why there is no roof. FLOPs include matrix products only, except on a
// TPU, whose trace has the FLOPs of all ops. A CPU has no roofs, because thunks return before their
// work is done. Collectives and copies have rates but no roofs, because the model does not include
// links.
//
// A report owns its strings. Thread-safe on const traces. Time: that of BuildReport, and linear in
// the Hlo Protos of the programs that ran.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "xplane_time/diagnostics.h"
#include "xplane_time/report.h"
#include "xplane_time/trace.h"

namespace xplane_time {

// The FLOPs and bytes of one execution of an op or kernel, declared by the user. It is for kernels
// with unknown work. Declared numbers replace those of the trace and of models.
struct DeclaredWork {
  std::string name;                    // an op or a kernel, exactly; or
  std::string pattern;                 // RE2, search: every op or kernel that matches
  std::optional<double> flops, bytes;  // at least one
};
// {"work": [{"kernel": "flash_fwd", "flops": 8.6e9, "bytes": 3.3e7}, {"pattern": "^sort_", ...}]}.
// Errors: NotFound, PermissionDenied (cannot read), InvalidArgument (with the path in the JSON),
// ResourceExhausted (over 64 MiB).
absl::StatusOr<std::vector<DeclaredWork>> ReadWork(const std::string& path);
// The same from JSON in memory; `name` is for errors.
absl::StatusOr<std::vector<DeclaredWork>> ParseWork(std::string_view json, const std::string& name);

struct HeadroomOptions {
  ReportOptions select = {};  // devices, filters, clock and threads
  // Peaks of every device; they replace those of the trace and of our table.
  std::optional<double> peak_flops_per_s = {}, peak_bytes_per_s = {};
  // The first entry that matches an op counts. The name of the op is tried before the names of its
  // kernels. An entry that matches nothing on any device is an error (FailedPrecondition), and the
  // message lists similar names.
  std::vector<DeclaredWork> work = {};
};

// The plausible range of peaks: 1 MFLOP/s to 1 EFLOP/s, 1 MB/s to 1 PB/s.
inline constexpr double kLeastPeak = 1e6, kMostPeakFlops = 1e18, kMostPeakBytes = 1e15;

enum class PeakSource : uint8_t { kTrace, kTable, kUser };
std::string_view PeakSourceName(PeakSource source);

struct DevicePeaks {
  // Peaks of dense products, by the type of the left operand. On a TPU, or if the user gives the
  // peak, one peak applies to all types.
  std::optional<double> flops_per_s;     // 16-bit types (f16 if the table has both)
  std::optional<double> f8_flops_per_s;  // 8-bit types
  bool has_bf16 = false;                 // flops_per_s also applies to bf16
  bool of_all_types = false;
  std::optional<double> bytes_per_s;  // main memory of the device
  std::optional<PeakSource> flops_source, bytes_source;
};

struct HeadroomDevice {
  DeviceRef device;
  DeviceKind kind = DeviceKind::kGpu;
  DevicePeaks peaks;
  int64_t self_ps = 0;                   // self time of all its ops
  int64_t roofed_ps = 0;                 // self time of the ops whose roof limits them
  std::optional<double> roofed_share;    // fraction of self time; empty: nothing ran
  std::optional<double> recoverable_ps;  // sum; empty: unknown for all ops
};

enum class FigureSource : uint8_t { kCounted, kModelled, kDeclared };
std::string_view FigureSourceName(FigureSource source);

enum class Roof : uint8_t { kFull, kMemory, kCompute };  // the sides that are known
std::string_view RoofName(Roof roof);

enum class Bound : uint8_t { kMemory, kCompute, kNeither };
std::string_view BoundName(Bound bound);

// Why an op has no roof, or no recoverable time.
enum class NoRoof : uint8_t {
  kHost,          // the device is a CPU
  kNotCompute,    // a collective, a copy, or control flow
  kPair,          // one half of a -start and -done pair
  kNoProgram,     // its program has no usable Hlo Proto
  kNotInProgram,  // the program has no such op
  kNoModel,       // its FLOPs and bytes are unknown
  kNoPeak,        // the peak of the device is unknown, perhaps for this type of product only
  kExecutions,    // its kernels do not show how often it ran
  kNoFlops,       // only its bytes are known, and it may compute products
  kAbovePeak,     // it was faster than its roof, so the model or the peak is wrong
};
std::string_view NoRoofName(NoRoof reason);

// An op of a program on one device; if the op is unknown, a kernel.
struct HeadroomRow {
  DeviceRef device;
  std::optional<std::string> function, program_id;
  std::string op;
  std::string kernel;  // the kernel of the op that took longest
  Category category = Category::kCompute;
  Clock clock = Clock::kProfile;
  uint64_t kernels = 0;  // number of kernel events
  // The smallest count among its kernels. Empty if other counts are not multiples of it.
  std::optional<uint64_t> executions;
  int64_t total_ps = 0;
  // Of one execution; the mean if copies differ.
  std::optional<double> flops, bytes;
  std::optional<FigureSource> flops_source, bytes_source;
  std::optional<double> flops_per_s, bytes_per_s;
  // Fractions of the peaks; 1 is the peak.
  std::optional<double> flops_share, bytes_share;
  std::optional<Roof> roof;
  std::optional<double> roof_ps;
  std::optional<bool> above_peak;
  // Empty if there is no roof, if the op is faster than the roof, or if the op may have FLOPs and
  // their number or peak is unknown.
  std::optional<double> recoverable_ps;
  // The side (memory or compute) at which the op reaches 60 % of the peak or more. kNeither if both
  // sides are known and below 60 %.
  std::optional<Bound> bound;
  std::optional<NoRoof> reason;
  std::optional<std::string> op_name, source;  // "jit(f)/dot_general", "model.py:12"

  // Whether an unknown side of the roof may limit the op.
  bool has_unknown_side() const { return reason == NoRoof::kNoPeak || reason == NoRoof::kNoFlops; }
};

struct HeadroomReport {
  std::vector<InputRow> inputs;
  CaptureInfo capture;
  std::vector<HeadroomDevice> devices;
  std::vector<HeadroomRow> ops;  // by recoverable_ps, then total_ps, descending; unknown last
  std::vector<DiagnosticRow> diagnostics;
};

// Builds the rows. `reading` has the defects that OpenTrace counted. Errors: as BuildReport;
// InvalidArgument (a peak).
absl::StatusOr<HeadroomReport> BuildHeadroom(const Trace& trace, const HeadroomOptions& options,
                                             const Diagnostics& reading);

// Like BuildReport, but its kernels also have source lines and rates: flops_per_s, bytes_per_s and
// roof_share. Time: that of BuildReport, and linear in the Hlo Protos of the programs that ran.
absl::StatusOr<Report> BuildReportWithRates(const Trace& trace, const ReportOptions& options,
                                            const Diagnostics& reading);

}  // namespace xplane_time
