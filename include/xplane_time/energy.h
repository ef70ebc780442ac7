// Energy: the energy of each kernel and function of a trace, from a power log that was recorded at
// the same time.
//
// Example:
//
//   Diagnostics diagnostics;
//   const std::vector<std::string> paths = {"trace.xplane.pb"};
//   auto trace = OpenTrace(*FindInputs(paths, {}), {}, &diagnostics);
//   if (!trace.ok()) return trace.status();
//   auto report = AttributeEnergy(*trace, {.power_log = "power.jsonl"}, diagnostics);
//   if (!report.ok()) return report.status();
//   for (const EnergyRow& row : report->kernels) {
//     if (row.energy_j) std::cout << row.name << ' ' << row.energy_j->value << " J\n";
//     if (!row.energy_j) std::cout << row.name << " unknown: " << row.reason << '\n';
//   }
//
// A sensor averages over 25 to 1,000 ms, and a kernel takes microseconds. One reading therefore
// cannot show the energy of one kernel. Many readings of different mixtures of kernels can, by
// regression:
//
//   energy of a window = sum over kernels of (power x time that it ran in it) + idle + noise
//
//   energy_j    energy above idle, plus idle power times the running time (kernels that run at
//               the same time share the idle power equally). If more than 5 % of the running
//               time is outside the log's windows, energies cover the part inside only
//   active_j    the energy above idle alone; unknown if the device is never idle
//   intervals   95 %; they include the uncertainty of the sensor's lag, window and period
//
// For a device, measured_j = active_j + idle_j + residual_j over the windows that the log covers;
// idle_j is the idle power times the whole time of these windows. If the data cannot separate some
// kernels (for example a loop that is always the same), their group has an energy and the single
// kernels have none. The time of a kernel excludes nested kernels.
//
// An EnergyReport owns its strings. Thread-safe for different traces. Definition of the method:
// docs/energy-method.md.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "xplane_time/report.h"

namespace xplane_time {

// A run of a layer: between the marks, the device did the work of this layer only.
struct LayerRun {
  std::string layer;
  int64_t start_ns = 0, end_ns = 0;
};

// The clock of the marks.
enum class LayerClock : uint8_t {
  kUnix,       // calendar time
  kMonotonic,  // CLOCK_MONOTONIC of the machine that wrote the power log, since the same boot
};

// Runs in any order. The time of a run that is inside another run counts only for the inner run.
struct LayerRuns {
  std::string path;  // file name for messages; empty: not from a file
  std::vector<LayerRun> runs;
  LayerClock clock = LayerClock::kUnix;
};

// Reads a CSV file. Its first line must name layer_name, start_time and end_time (UNIX seconds);
// other columns are skipped. Errors: NotFound, PermissionDenied and Unavailable (cannot read),
// DataLoss (a bad record, with its number; no runs), ResourceExhausted (over 1 GiB).
absl::StatusOr<LayerRuns> ReadLayerRuns(const std::string& path);

struct EnergyOptions {
  // `device` selects devices. The filters select only rows; the computation always uses all
  // executions.
  ReportOptions trace;
  std::string power_log;  // a file of `power record`; empty: the power counters of the trace
  std::map<int32_t, std::string>
      map;  // ordinal of the trace -> device of the log, counter of the trace, or a prefix of it
  // Definition of a layer: the part of a name scope that the first group of the pattern matches.
  // Empty: the whole scope. If there are marks, a layer is what ran between them.
  std::string layer_pattern;
  bool fold = false;  // the forward and the backward pass of a layer are one, as TreeOptions::fold
  LayerRuns layers;
  bool timelines = false;  // fill EnergyReport::timelines
};

enum class EnergyKind : uint8_t {
  kMeasured,    // it ran alone for a second or longer, so its windows contain no other kernel
  kAttributed,  // by regression
  kModelled,    // a stated power multiplied by the time
};
std::string_view EnergyKindName(EnergyKind kind);  // "measured", ...

// How power was aligned with the trace. kTrace: the power is in the trace.
enum class EnergyClock : uint8_t { kCaptureStart, kEstimated, kAmbiguous, kTrace };
std::string_view EnergyClockName(EnergyClock clock);  // "capture_start", ...

// Joules with a 95 % interval. A stated power has no interval.
struct Joules {
  double value = 0;
  std::optional<std::array<double, 2>> ci95 = {};
};

// A kernel, function, layer or source line of a device.
struct EnergyRow {
  DeviceRef device;
  std::string name;
  std::optional<std::string> function, program_id, variant_id;
  uint64_t count = 0;   // number of executions
  int64_t busy_ps = 0;  // their own time (if energy_j is known: the time that it covers)
  std::optional<EnergyKind> kind;
  std::optional<Joules> energy_j, active_j;
  std::optional<double> mean_w;  // energy_j divided by busy_ps
  // Energy of the mean execution. If energy_j covers only a part of the time, the energy of all
  // executions is extrapolated: power in the covered part times the whole time.
  std::optional<double> per_execution_j;
  std::optional<double> edp_js;  // of one execution: energy x mean time
  // For functions, if the split into runs is certain.
  std::optional<uint64_t> runs;
  std::optional<Joules> per_run_j;  // energy of all its kernels in one run
  std::optional<double> share;      // fraction of the energy of the device's kernels
  uint64_t windows = 0;             // windows of the sensor in which it ran
  std::optional<uint32_t> group;    // EnergyGroup::group
  std::string_view reason;          // why energy_j is unknown; empty: it is known
};

// Kernels for which only the sum is known.
struct EnergyGroup {
  DeviceRef device;
  uint32_t group = 0;
  std::vector<std::string> kernels;
  std::optional<Joules> energy_j;
};

struct EnergyDevice {
  DeviceRef device;
  std::string sensor;       // "nvml GPU-1234 gpu energy_uj"; empty: no sensor
  std::string_view reason;  // why there are no numbers; empty: there are numbers
  std::string message;      // the reason in words, with a remedy
  bool poor_fit = false;    // the executions do not explain the power
  bool shared = false;      // programs other than the traced one use the device
  std::optional<EnergyClock> clock;
  std::optional<double> coverage;  // fraction of the capture that windows cover
  uint64_t windows = 0;
  std::optional<double> measured_j, residual_j, residual_share;
  // Wide interval if the device is never idle. active_j is the sum over all kernels.
  std::optional<Joules> active_j, idle_j;
  // active energy outside the covered windows; residual_j excludes it
  std::optional<double> unseen_j;
  std::optional<int64_t> lag_ns, window_ns, period_ns;
};

// Power over time and the executions of the capture, by the windows of the sensor.
struct EnergyTimeline {
  struct Window {
    double from_s = 0, to_s = 0;  // since the start of the capture
    double measured_w = 0, explained_w = 0;
  };
  static constexpr size_t kColumns = 435;  // columns of equal length that span the capture
  struct Lane {
    std::string name;
    std::vector<double> busy;  // by column: the fraction of time in which it ran
  };
  DeviceRef device;
  int64_t start_ps = 0;  // start of the capture on the axis of the profile clock
  double capture_s = 0;
  std::vector<Window> windows;  // windows longer than three times the usual length are omitted
  // layers, else kernels: the at most 12 with the longest running time
  std::vector<Lane> lanes;
};

struct EnergyFinding {
  std::string_view code;      // poor_fit, coverage, clock_estimated, shared_device, ...
  std::string_view severity;  // warning, info
  DeviceRef device;
  std::string message;
};

struct EnergyReport {
  std::vector<InputRow> inputs;
  std::optional<CaptureInfo> capture;  // empty without a trace
  std::vector<EnergyDevice> devices;
  std::vector<EnergyRow> kernels;    // by device, then by energy, descending; unknown last
  std::vector<EnergyRow> functions;  // in the same order
  std::vector<EnergyRow> layers;     // by name scope if the trace has them, or by marks
  std::vector<EnergyRow> sources;    // by source line if the trace has them
  std::vector<EnergyGroup> groups;
  std::vector<EnergyFinding> findings;
  std::vector<EnergyTimeline> timelines;  // of devices with numbers
  std::vector<DiagnosticRow> diagnostics;
};

// Attributes energy to kernels. Errors: those of BuildReport and of reading a power log;
// FailedPrecondition (no device has a number, with the reason; or marked layers are from another
// time than the trace). Memory: about 60 bytes per execution. 10 million executions of 1,000
// kernels with 10,000 windows take seconds.
absl::StatusOr<EnergyReport> AttributeEnergy(const Trace& trace, const EnergyOptions& options,
                                             const Diagnostics& reading);

// Attributes energy to marked layers, without a trace. `trace.device` selects the device: "gpu",
// "gpu:1" or "cpu"; empty: a GPU if the log has one. Errors: as above, and InvalidArgument (no
// layers, invalid times, or an unknown device).
absl::StatusOr<EnergyReport> AttributeLayers(const EnergyOptions& options);

}  // namespace xplane_time
