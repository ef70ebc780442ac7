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

struct EnergyOptions {
  // `device` chooses devices, the filters choose rows: all that ran is accounted for.
  ReportOptions trace;
  std::string power_log;  // a file of `power record`
  std::map<int32_t, std::string>
      map;  // ordinal of the trace -> device of the log, or its beginning
};

enum class EnergyKind : uint8_t {
  kMeasured,    // it ran alone for a second and more: its windows hold nothing else
  kAttributed,  // by regression
};
std::string_view EnergyKindName(EnergyKind kind);  // "measured", "attributed"

// How the log was put on the trace's axis.
enum class EnergyClock : uint8_t { kCaptureStart, kEstimated, kAmbiguous };
std::string_view EnergyClockName(EnergyClock clock);  // "capture_start", ...

// Joules, and the 95 % interval.
struct Joules {
  double value = 0;
  std::array<double, 2> ci95 = {0, 0};
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
  std::optional<double> mean_w;           // energy_j over busy_ps
  std::optional<double> per_execution_j;  // energy_j over count
  std::optional<double> edp_js;           // of one execution: its energy x its mean time
  // Of a function, where it is certain how it splits into runs.
  std::optional<uint64_t> runs;
  std::optional<double> per_run_j;  // of all its kernels in one run
  std::optional<double> share;            // of what the device's kernels took
  uint64_t windows = 0;                   // of the sensor, in which it ran
  std::optional<uint32_t> group;          // EnergyGroup::group
  std::string_view reason;                // why energy_j is unknown; empty: it is known
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
  std::optional<Joules> active_j, idle_j;  // wide where the device is never idle
  std::optional<int64_t> lag_ns, window_ns, period_ns;
};

struct EnergyFinding {
  std::string_view code;      // poor_fit, coverage, clock_estimated, shared_device, ...
  std::string_view severity;  // warning, info
  DeviceRef device;
  std::string message;
};

struct EnergyReport {
  std::vector<InputRow> inputs;
  CaptureInfo capture;
  std::vector<EnergyDevice> devices;
  std::vector<EnergyRow> kernels;    // by device, then energy, descending; unknown last
  std::vector<EnergyRow> functions;  // as kernels
  std::vector<EnergyRow> layers;     // by name scope, where the trace has them
  std::vector<EnergyRow> sources;    // by source line, where the trace has them
  std::vector<EnergyGroup> groups;
  std::vector<EnergyFinding> findings;
  std::vector<DiagnosticRow> diagnostics;
};

// Errors: of BuildReport and of reading a power log; FailedPrecondition, where no device has a
// number, with the reason. Some 60 bytes an execution; 10 million executions of 1,000 kernels
// against 10,000 windows take seconds.
absl::StatusOr<EnergyReport> AttributeEnergy(const Trace& trace, const EnergyOptions& options,
                                             const Diagnostics& reading);

}  // namespace xplane_time
