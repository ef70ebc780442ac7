// Power: sensor readings over time, and the energy of any time window.
//
//   sensors -> readers (src/power/reader.h) -> PowerRecorder -> log (JSON Lines, docs/power-log.md)
//   log -> SummarizePowerLog -> PowerSummary: energies, gauges, findings
//
// Example:
//
//   PowerRecordOptions options;
//   options.from.sources = {"constant:65"};  // empty: all sensors of the machine
//   options.log_path = "step.jsonl";
//   auto recorder = PowerRecorder::Start(options);
//   if (!recorder.ok()) return recorder.status();  // FailedPrecondition: no sensor, with remedies
//   absl::Status status = (*recorder)->Begin("step");  // windows have names and may overlap
//   // ... the work to be measured
//   status.Update((*recorder)->End("step"));
//   status.Update((*recorder)->Stop());
//   if (!status.ok()) return status;
//   auto summary = SummarizePowerLog("step.jsonl", {});
//   if (!summary.ok()) return summary.status();
//   for (const EnergyEstimate& energy : summary->windows[0].energies) {
//     if (energy.energy_j) std::cout << *energy.energy_j << " J\n";
//     if (!energy.energy_j) std::cout << "unknown: " << PowerReasonName(energy.reason) << '\n';
//   }
//
// The log is the only data path: the summary of a recording and the summary of its replayed log are
// identical bytes. An unknown value is never 0: it is empty, with a reason.
//
// Units are in names. Times are nanoseconds of CLOCK_MONOTONIC unless stated otherwise. A step of
// the wall clock changes no energy, and CLOCK_BOOTTIME shows whether the machine was suspended.
// PowerRecorder is thread-safe; summaries are plain data.
//
// Not handled here: the assignment of energy to kernels (energy.h).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace xplane_time {

// Why a value is unknown.
enum class PowerReason : uint8_t {
  kKnown,
  kPermissionDenied,
  kUnsupported,
  kNoSamples,
  kReset,  // the counter restarted
  kGap,    // too long without a reading
  kDeviceLost,
  kDriverMismatch,  // versions of library and kernel module differ
  kResetRequired,
  kHung,          // the call did not return
  kAbsent,        // no such driver, library or directory
  kSuspended,     // the machine was suspended
  kImplausible,   // a jump that is impossible for the device
  kSharedWindow,  // other work at the same time cannot be separated
  kNotAsked,      // it is read only on request
};
std::string_view PowerReasonName(PowerReason reason);  // permission_denied, ...

enum class ReadingKind : uint8_t { kCumulative, kInstant, kAverage, kGauge };
std::string_view ReadingKindName(ReadingKind kind);  // cumulative, instant, average, gauge

// A quantity that is read repeatedly. `quantity` includes the unit: power_mw, energy_uj,
// temperature_mc (thousandths of a degree Celsius), clock_sm_mhz, clock_memory_mhz,
// memory_used_bytes, memory_total_bytes, rss_bytes, peak_rss_bytes, utilization_gpu_ppm,
// utilization_memory_ppm (fraction of time in which memory was busy, not bandwidth),
// power_limit_mw, pstate, throttle_reasons (bits as in NVML), gpm_sm_util_ppm, gpm_tensor_util_ppm,
// gpm_dram_bw_util_ppm (fractions of the peak, averaged since the previous reading), or a gauge of
// the caller.
struct PowerChannel {
  std::string source;  // nvml, rapl, hwmon, process, constant, caller
  std::string device;  // GPU-..., package-0, the PCI address of an hwmon device, pid:123
  std::string domain;  // gpu, module, gpu_memory, package, dram, core, uncore, psys, process, ...
  std::string quantity;
  ReadingKind kind = ReadingKind::kGauge;
  bool slow = false;  // read every PowerRecordOptions::slow_period_ns, independent of the period
  // Whether the channel is part of the total of its source. A package is part of the total; its
  // cores are not, because the package includes them.
  bool in_total = false;
  // for counters: the last value before the counter wraps to 0
  std::optional<int64_t> wrap_range = {};
  // for counters: a larger mean power is a jump, not energy
  std::optional<int64_t> max_plausible_mw = {};
  // Prior values: known for this model of chip, not for this individual chip.
  std::optional<int64_t> prior_period_ns = {}, prior_window_ns = {};
  std::string note = {};  // "since driver load", ...

  bool operator==(const PowerChannel&) const = default;
};

// Whether an energy can be computed from the channel.
inline bool IsPowerOrEnergy(const PowerChannel& channel) {
  return channel.quantity == "power_mw" || channel.quantity == "energy_uj";
}

struct PowerDevice {
  std::string id;    // equal to `device` of its channels
  std::string name;  // "NVIDIA H100 80GB HBM3"
  std::string source;
  std::optional<int32_t> index = {};  // in the order of the vendor
  // as the measured program numbers it; empty: hidden from the program
  std::optional<int32_t> ordinal = {};
  std::string pci_bus_id = {}, driver = {};
  bool mig = false;     // has MIG instances
  bool shared = false;  // programs other than the measured one use it
  std::string note = {};
  bool operator==(const PowerDevice&) const = default;
};

// A sensor that is not available, and the remedy.
struct PowerAbsence {
  std::string source, what;
  PowerReason reason = PowerReason::kAbsent;
  std::string message;   // names the file or call
  std::string fix = {};  // empty: there is no remedy
  bool operator==(const PowerAbsence&) const = default;
};

struct PowerInventory {
  std::vector<PowerDevice> devices;
  std::vector<PowerChannel> channels;
  std::vector<PowerAbsence> absences;
};

// Locations of sensors, which tests and containers can change.
struct PowerRoots {
  std::string sysfs = "/sys";
  std::string procfs = "/proc";
  std::string nvml_library = "libnvidia-ml.so.1";
};

// CUDA_VISIBLE_DEVICES and similar variables of the measured program. Unset variables are absent.
using PowerEnvironment = std::map<std::string, std::string>;

struct PowerSourceOptions {
  // nvml, rapl, hwmon, process, constant:WATTS, replay:LOG. Empty: nvml, rapl, hwmon and process.
  std::vector<std::string> sources = {};
  PowerRoots roots = {};
  PowerEnvironment environment = {};
  std::map<int32_t, std::string> ordinals = {};  // --map: device ids by ordinal
  int64_t pid = 0;                               // for `process`; 0: this process
  // For `process`: measure only the children that `pid` starts later, without `pid` itself.
  bool children_only = false;
  // For NVML: also reads GPM (from Hopper on). Off by default, because other profilers on the GPU
  // may need the same counters.
  bool gpm = false;
};

// Every requested source, with its sensors and absences. A missing sensor is not an error.
PowerInventory ListPowerSources(const PowerSourceOptions& options);

struct PowerRecordOptions {
  PowerSourceOptions from = {};
  // 0: 50 ms for nvml and hwmon, 10 ms for rapl, 100 ms for process. The maximum rate is 50 Hz for
  // NVML and 1 kHz for other sources. Shorter periods are raised to this limit, and a finding
  // reports it.
  int64_t period_ns = 0;
  // Period of slow channels, up to a second. If a source needs long to read them, it is read less
  // often: at most 2 % of the time is spent on them, but they are read at least once a second.
  int64_t slow_period_ns = 1'000'000'000;
  std::string log_path = {};  // empty: an unnamed file that disappears at the end
  std::string command = {};   // command of the measured program, for the header
  // Channels as measured on this machine (power calibrate). The log gets their prior_ values
  // instead of the known values of the chip model.
  std::vector<PowerChannel> calibrated = {};
  // A longer call counts as `hung`. Its reader is abandoned, and the others continue.
  int64_t hung_after_ns = 2'000'000'000;
};

class PowerRecorder {
 public:
  // Starts a thread for each reader and one that watches them. Errors: FailedPrecondition (no
  // sensor at all, or none of a named source; the message lists every absence), InvalidArgument
  // (name of a source, a period), Unavailable (no more threads), and those of the file.
  static absl::StatusOr<std::unique_ptr<PowerRecorder>> Start(const PowerRecordOptions& options);
  virtual ~PowerRecorder() = default;  // stops the recording

  virtual const PowerInventory& inventory() const = 0;
  // Messages by source, for the sources that are read less often than `period_ns` requires.
  virtual const std::map<std::string, std::string>& raised_periods() const = 0;
  // The path from which SummarizePowerLog can read the log as long as the recorder lives, even if
  // another file has the log's name by now. During that time no other recorder may write to it.
  virtual std::string log_path() const = 0;
  // Mark the begin and the end of the window `name`. Synchronize the device before each call.
  // Errors: InvalidArgument (an empty name, End without Begin, Begin of an open window).
  virtual absl::Status Begin(std::string_view name) = 0;
  virtual absl::Status End(std::string_view name) = 0;
  // Records the current value of a caller's gauge (kv_cache_bytes, ...); nullopt: unknown. Errors:
  // InvalidArgument (an empty name, or a value beyond 2^53, which JSON readers would round).
  virtual absl::Status Gauge(std::string_view quantity, std::optional<int64_t> value) = 0;
  // Adds a note to the log, which becomes a finding of the summary.
  virtual absl::Status Note(std::string_view code, std::string_view message) = 0;
  // Waits until every sensor of power or energy was read once more and the readings are in the log,
  // or until the timeout.
  virtual void AwaitReadings(std::chrono::nanoseconds at_most) = 0;
  // OK if the whole log could be written so far.
  virtual absl::Status log_status() const = 0;
  // Stops within one period unless calls hang. Returns the first write error of the log, if any.
  virtual absl::Status Stop() = 0;
};

enum class EnergyEstimator : uint8_t {
  kBest,          // the counter if there is one, else kHeld
  kCounter,       // differences of the counter, interpolated at the edges
  kHeld,          // a reading holds until the next one, for at most three periods
  kTrapezoid,     // over the readings in the window; for comparison with earlier tools
  kEndpointMean,  // (first + last) / 2 times the duration; for comparison with earlier tools
};
std::string_view EnergyEstimatorName(EnergyEstimator estimator);  // best, counter, held, ...
std::optional<EnergyEstimator> EnergyEstimatorOf(std::string_view name);

// The minimum coverage of an energy that is compared with others or averaged with them. The time
// before the first and after the last reading is then short.
inline constexpr double kNearlyWholeCoverage = 0.95;

// The meaning of lo_j and hi_j of an energy; or the reason why it is unbounded, in which case they
// are empty (docs/power-bounds.md).
enum class EnergyLimits : uint8_t {
  kBounds,             // bounds: the energy cannot be smaller or larger
  kInterval,           // a confidence interval with probability kIntervalShare
  kBetweenReadings,    // power between two readings is unknown
  kBrokenCounter,      // a reset, jump or suspension
  kFewUpdates,         // no update of the counter was seen after the window, and too few before
  kCounterCoversPart,  // the power readings cover more of the window, or only a part of it
};
inline constexpr double kIntervalShare = 0.95;
// The name of one of the last four, which are `unbounded`: between_readings, broken_counter, ...
std::string_view UnboundedReasonName(EnergyLimits limits);
inline bool IsUnbounded(EnergyLimits limits) { return limits >= EnergyLimits::kBetweenReadings; }

// The energy of one domain of one device in a window.
struct EnergyEstimate {
  std::string source, device, domain;
  bool in_total = false;
  bool modelled = false;                               // computed from a stated power
  EnergyEstimator estimator = EnergyEstimator::kHeld;  // the estimator that was used; never kBest
  std::optional<double> energy_j = {};                 // of the covered part of the window
  std::optional<double> lo_j = {}, hi_j = {};          // see `limits`
  EnergyLimits limits = EnergyLimits::kBetweenReadings;
  double coverage = 0;                               // fraction of the window with readings
  std::optional<double> mean_w = {}, peak_w = {};    // over the covered part
  std::optional<double> idle_j = {}, active_j = {};  // with an idle window
  PowerReason reason = PowerReason::kKnown;          // why energy_j is empty or partial
  bool shared = false;
  // The values of the counter and of the integral of readings, if both are known. `inconsistent` is
  // set if they are more than 5 % apart, or if energy_j is outside the counter's bounds.
  std::optional<double> counter_j = {}, integral_j = {};
  PowerReason counter_reason = PowerReason::kKnown;  // why counter_j is empty or partial
  bool inconsistent = false;
  uint64_t readings = 0, resets = 0, wraps = 0, jumps = 0;
  int64_t longest_gap_ns = 0;
};

// Statistics of all readings of one channel in a window, including its begin and end.
struct GaugeSummary {
  size_t channel = 0;  // index into PowerSummary::inventory.channels
  uint64_t n = 0, unknown = 0;
  // These values are in the unit of `quantity`. The median is exact for up to 16384 readings;
  // beyond that its error is at most 0.006 % (docs/power.md).
  std::optional<double> avg = {}, max = {}, median = {}, min = {};
  PowerReason reason = PowerReason::kKnown;  // if n is 0
  // If set, n is 0, and the four values come from the nearest reading outside the window. This
  // field is the time from the reading to the window (negative: the reading came after the window).
  std::optional<int64_t> nearest_age_ns = {};
};

// The sum of the energies of a window that are `in_total`. It is known only if each of them is
// known. Sensors without read permission do not make it unknown; `reason` and `missing` report
// them.
struct PowerTotal {
  std::optional<double> energy_j = {}, mean_w = {};
  std::optional<double> lo_j = {}, hi_j = {};  // sums; empty unless each energy has them
  EnergyLimits limits = EnergyLimits::kBetweenReadings;
  double interval_share = 1;                // probability of an interval
  bool modelled = false, measured = false;  // whether parts of the sum are modelled or measured
  std::optional<double> active_j = {};      // energy above idle; empty without an idle window
  // energy_j = mean_w x coverage x duration: the mean coverage, weighted by power.
  double coverage = 0;
  double least_coverage = 0;
  // the coverages of its parts differ by more than 5 % of the window
  bool differing_coverage = false;
  PowerReason reason = PowerReason::kKnown;
  std::string missing = {};  // the first unknown energy, such as "nvml GPU-1234 gpu"
};

struct WindowSummary {
  std::string name;
  uint64_t number = 1;  // number among the windows of this name, from 1
  int64_t begin_ns = 0, end_ns = 0;
  std::optional<int64_t> begin_unix_ns = {};  // empty: the log has no wall clock
  int64_t suspended_ns = 0;
  bool cut = false;  // the log ended before the window
  std::vector<EnergyEstimate> energies;
  std::vector<GaugeSummary> gauges;
  PowerTotal total;
};

// Statistics of the energies of several windows with one name.
struct RepeatedEnergy {
  std::string window;
  std::string source, device, domain;  // source "total": the totals of the windows
  uint64_t windows = 0;
  // windows with a coverage of 95 % or more, on which the next six values are based
  uint64_t known = 0;
  std::optional<double> mean_j = {}, std_j = {}, min_j = {}, max_j = {};  // std_j needs two windows
  std::optional<double> mean_active_j = {}, std_active_j = {};            // energy above idle
  double mean_s = 0, std_s = 0;                                           // of all windows
};

// Power over the time of the recording, for plots.
struct PowerColumn {
  double covered = 0;                                         // fraction of the column's time
  std::optional<double> min_w = {}, mean_w = {}, max_w = {};  // empty: a gap
};
struct PowerSeries {
  std::string source, device, domain;
  int64_t begin_ns = 0, column_ns = 0;
  std::vector<PowerColumn> columns;  // adjacent columns
};

// How regularly a source was read, compared with its period.
struct ReaderQuality {
  std::string source;
  int64_t period_ns = 0;
  uint64_t reads = 0, missed = 0;
  double effective_hz = 0;
  int64_t longest_gap_ns = 0;
  std::optional<int64_t> latency_p50_ns = {}, latency_p99_ns = {};  // empty: not in the log
  std::optional<int64_t> own_cpu_ns = {};
  bool hung = false;
};

struct PowerFinding {
  std::string code;  // clock_step, suspended, log_cut, hung, missed_deadlines, ...
  uint64_t count = 1;
  std::string message;
};

struct PowerSummary {
  std::string machine_json = "{}", command = {};
  std::string host = {};
  std::optional<int64_t> start_unix_ns = {};
  PowerInventory inventory;
  std::vector<WindowSummary> windows;   // the whole recording first, then by start
  std::vector<RepeatedEnergy> repeats;  // by name, in order of start
  std::vector<ReaderQuality> readers;
  std::vector<PowerFinding> findings;
  std::vector<PowerSeries> series;
  bool complete = false;  // the log has its last line
};

// A window that is not marked in the log. The caller states its times.
struct PowerWindow {
  std::string name;
  int64_t begin_ns = 0, end_ns = 0;  // CLOCK_MONOTONIC of the machine that wrote the log
};

struct PowerSummaryOptions {
  EnergyEstimator estimator = EnergyEstimator::kBest;
  // in addition to the windows of the log, and listed before them
  std::vector<PowerWindow> windows = {};
  // Name of the windows with idle power; their mean power is the idle power.
  std::string idle_window = "idle";
  bool whole = true;  // include a window of the whole recording
  // If a window has no reading of a gauge, it uses the nearest reading up to this distance; 0:
  // none. This does not apply to readings of power.
  int64_t nearest_within_ns = 0;
  // Windows beyond this number, and windows that begin while 1024 are open, are counted and
  // omitted.
  uint64_t max_windows = 100'000;
  size_t max_columns = 1024;  // of each series; 0: no series
};

// Reads a log (JSON Lines of this project, also in gzip, or CSV of nvidia-smi) in one pass with
// bounded memory. A log that was cut at any byte is summarized up to there, with `complete` false.
// Errors: NotFound, DataLoss (no header or another version, with the line and the byte).
absl::StatusOr<PowerSummary> SummarizePowerLog(const std::string& path,
                                               const PowerSummaryOptions& options);
// The same for a log in memory, which must not be compressed. `name` is for errors.
absl::StatusOr<PowerSummary> SummarizePowerLogText(std::string_view text, const std::string& name,
                                                   const PowerSummaryOptions& options);

}  // namespace xplane_time
