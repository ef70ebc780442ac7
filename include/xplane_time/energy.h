// Energy: what each kernel and function of a trace took, from a power log recorded beside it.
//
//   Diagnostics diagnostics;
//   auto trace = OpenTrace(*FindInputs({"trace.xplane.pb"}, {}), {}, &diagnostics);
//   auto report = AttributeEnergy(*trace, {.power_log = "power.jsonl"}, diagnostics);
//   for (const EnergyRow& row : report->kernels) {
//     if (row.energy_j) ...          // of all its executions; else row.reason says why not
//   }
//
// A sensor averages over 25 to 1,000 ms, a kernel takes microseconds: one reading tells nothing of
// one kernel. Many readings of different mixtures do, by regression:
//
//   energy of a window = sum over kernels of (power x time that it ran in it) + idle + noise
//
// energy_j    what a kernel drew above idle, and the idle power of the time that it ran (shared
//             equally where kernels run beside each other)
// active_j    the first part alone; unknown where the device is never idle
// intervals   95 %, with what is not known of the sensor's lag, window and period
//
// A device: measured_j = active_j + idle_j + residual_j, of the windows that the log covers; idle_j
// is of all their time. What the data cannot tell apart (a loop that is always the same) has no
// number of its own but that of its group. A kernel's own time: without what is nested in it.
//
// A Report of energy owns its strings. Thread-safe for different traces. Definition of the method:
// docs/energy.md.
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

// A run of a layer: the device did its work, and no other's, between the marks.
struct LayerRun {
  std::string layer;
  int64_t start_ns = 0, end_ns = 0;
};

// What clock the marks are of.
enum class LayerClock : uint8_t {
  kUnix,       // the calendar's
  kMonotonic,  // CLOCK_MONOTONIC of the machine that wrote the power log, since the same boot
};

// In any order. A run that lies in another is a part of it, and its time is its own.
struct LayerRuns {
  std::string path;  // for messages; empty: of no file
  std::vector<LayerRun> runs;
  LayerClock clock = LayerClock::kUnix;
};

// A CSV file whose first line names layer_name, start_time and end_time (UNIX seconds); other
// columns are skipped. Errors: NotFound, PermissionDenied and Unavailable (cannot read), DataLoss
// (with the record; no run at all), ResourceExhausted (over 1 GiB).
absl::StatusOr<LayerRuns> ReadLayerRuns(const std::string& path);

struct EnergyOptions {
  // `device` chooses devices, the filters choose rows: all that ran is accounted for.
  ReportOptions trace;
  std::string power_log;  // a file of `power record`; empty: the trace has power counters
  std::map<int32_t, std::string>
      map;  // ordinal of the trace -> device of the log, counter of the trace, or its beginning
  // What a layer is: what the pattern's first group matches in a name scope; empty: all of it. Or
  // what ran between marks, where there are any.
  std::string layer_pattern;
  bool fold = false;  // the forward and the backward pass of a layer are one, as TreeOptions::fold
  LayerRuns layers;
  bool timelines = false;  // EnergyReport::timelines
};

enum class EnergyKind : uint8_t {
  kMeasured,    // it ran alone for a second and more: its windows hold nothing else
  kAttributed,  // by regression
  kModelled,    // a power that was stated, times its time
};
std::string_view EnergyKindName(EnergyKind kind);  // "measured", ...

// How the power was put on the trace's axis; kTrace: it is in the trace.
enum class EnergyClock : uint8_t { kCaptureStart, kEstimated, kAmbiguous, kTrace };
std::string_view EnergyClockName(EnergyClock clock);  // "capture_start", ...

// Joules, and the 95 % interval; of a power that was stated there is none.
struct Joules {
  double value = 0;
  std::optional<std::array<double, 2>> ci95 = {};
};

// A kernel, function, layer or source line of a device.
struct EnergyRow {
  DeviceRef device;
  std::string name;
  std::optional<std::string> function, program_id, variant_id;
  uint64_t count = 0;   // executions
  int64_t busy_ps = 0;  // own time of them, overlaps counted once
  std::optional<EnergyKind> kind;
  std::optional<Joules> energy_j, active_j;
  std::optional<double> mean_w;  // energy_j over busy_ps
  // Of the mean execution; where windows cover a part of them, of all: what each kernel takes in a
  // second of that part, times all its time.
  std::optional<double> per_execution_j;
  std::optional<double> edp_js;  // of one execution: its energy x its mean time
  // Of a function, where it is certain how it splits into runs.
  std::optional<uint64_t> runs;
  std::optional<Joules> per_run_j;  // of all its kernels in one run
  std::optional<double> share;      // of what the device's kernels took
  uint64_t windows = 0;             // of the sensor, in which it ran
  std::optional<uint32_t> group;    // EnergyGroup::group
  std::string_view reason;          // why energy_j is unknown; empty: it is known
};

// Kernels of which only the sum is known.
struct EnergyGroup {
  DeviceRef device;
  uint32_t group = 0;
  std::vector<std::string> kernels;
  std::optional<Joules> energy_j;
};

struct EnergyDevice {
  DeviceRef device;
  std::string sensor;       // "nvml GPU-1234 gpu energy_uj"; empty: none
  std::string_view reason;  // why there are no numbers; empty: there are
  std::string message;      // the same in words, with the way out
  bool poor_fit = false;    // the power is not explained by what ran
  bool shared = false;      // others than the traced program use the device
  std::optional<EnergyClock> clock;
  std::optional<double> coverage;  // share of the capture that windows cover
  uint64_t windows = 0;
  std::optional<double> measured_j, residual_j, residual_share;
  // Wide where the device is never idle. active_j: of all kernels together.
  std::optional<Joules> active_j, idle_j;
  std::optional<double> unseen_j;  // of active_j: what no window saw; residual_j lacks it
  std::optional<int64_t> lag_ns, window_ns, period_ns;
};

// Power over time, and what ran: of the capture, as the windows of the sensor lie in it.
struct EnergyTimeline {
  struct Window {
    double from_s = 0, to_s = 0;  // since the capture's start
    double measured_w = 0, explained_w = 0;
  };
  static constexpr size_t kColumns = 435;  // of equal length, over the capture
  struct Lane {
    std::string name;
    std::vector<double> busy;  // by column: the share of its time that it ran
  };
  DeviceRef device;
  int64_t start_ps = 0;  // of the capture, on the axis of the profile's clock
  double capture_s = 0;
  std::vector<Window> windows;  // without gaps: those of more than three times the usual length
  std::vector<Lane> lanes;      // layers, else kernels: those that ran longest, at most 12
};

struct EnergyFinding {
  std::string_view code;      // poor_fit, coverage, clock_estimated, shared_device, ...
  std::string_view severity;  // warning, info
  DeviceRef device;
  std::string message;
};

struct EnergyReport {
  std::vector<InputRow> inputs;
  std::optional<CaptureInfo> capture;  // none without a trace
  std::vector<EnergyDevice> devices;
  std::vector<EnergyRow> kernels;    // by device, then energy, descending; unknown last
  std::vector<EnergyRow> functions;  // as kernels
  std::vector<EnergyRow> layers;     // by name scope, where the trace has them, or by marks
  std::vector<EnergyRow> sources;    // by source line, where the trace has them
  std::vector<EnergyGroup> groups;
  std::vector<EnergyFinding> findings;
  std::vector<EnergyTimeline> timelines;  // of devices with numbers
  std::vector<DiagnosticRow> diagnostics;
};

// Errors: of BuildReport and of reading a power log; FailedPrecondition, where no device has a
// number, with the reason, or where marked layers are of another time than the trace. Some 60 bytes
// an execution; 10 million executions of 1,000 kernels against 10,000 windows take seconds.
absl::StatusOr<EnergyReport> AttributeEnergy(const Trace& trace, const EnergyOptions& options,
                                             const Diagnostics& reading);

// Without a trace: what ran on a device are the layers that were marked. `trace.device` says on
// which: "gpu", "gpu:1", "cpu"; empty: a GPU where the log has one. Errors: as above, and
// InvalidArgument (no layers; their times; a device that is none).
absl::StatusOr<EnergyReport> AttributeLayers(const EnergyOptions& options);

}  // namespace xplane_time
