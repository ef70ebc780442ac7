// Power: what sensors read while something ran, and the energy of any window of it.
//
//   sensors -> readers (src/power/reader.h) -> PowerRecorder -> log (JSON Lines, docs/power-log.md)
//   log -> SummarizePowerLog -> PowerSummary: energy, gauges, what was wrong
//
//   auto recorder =
//       PowerRecorder::Start({.from = {.sources = {"nvml", "rapl"}}, .log_path = "p.jsonl"});
//   if (!recorder.ok()) ...                // FailedPrecondition: no sensor; why, and the way out
//   auto status = (*recorder)->Begin("step");   // named windows; they may overlap
//   ...
//   status = (*recorder)->End("step");
//   status = (*recorder)->Stop();
//   auto summary = SummarizePowerLog("p.jsonl", {});
//   summary->windows[0].energies[0].energy_j;   // empty where it is unknown; `reason` says why
//
// The log is the only data path: a summary of a recording and that of its log replayed are
// the same bytes. A value that is not known is never 0: it is empty, with a reason.
//
// Units are in names. Times are nanoseconds of CLOCK_MONOTONIC where nothing else is said; a
// step of the wall clock changes no energy, a suspended machine is told from it by
// CLOCK_BOOTTIME. PowerRecorder is thread-safe; summaries are plain data.
//
// Not handled here: which kernel the energy belongs to.
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

// Why a value is not known.
enum class PowerReason : uint8_t {
  kKnown,
  kPermissionDenied,
  kUnsupported,
  kNoSamples,
  kReset,  // the counter started again
  kGap,    // too long without a reading
  kDeviceLost,
  kDriverMismatch,  // library and kernel module differ
  kResetRequired,
  kHung,          // the call did not return
  kAbsent,        // no such driver, library or directory
  kSuspended,     // the machine slept
  kImplausible,   // a jump that no device makes
  kSharedWindow,  // what else went on at the time cannot be told from it
  kNotAsked,      // it is not read unless it is asked for
};
std::string_view PowerReasonName(PowerReason reason);  // permission_denied, ...

enum class ReadingKind : uint8_t { kCumulative, kInstant, kAverage, kGauge };
std::string_view ReadingKindName(ReadingKind kind);  // cumulative, instant, average, gauge

// One thing that is read again and again. `quantity` carries the unit: power_mw, energy_uj,
// temperature_mc (thousandths of a degree Celsius), clock_sm_mhz, clock_memory_mhz,
// memory_used_bytes, memory_total_bytes, rss_bytes, peak_rss_bytes, utilization_gpu_ppm,
// utilization_memory_ppm (share of time in which memory was busy, not bandwidth),
// power_limit_mw, pstate, throttle_reasons (bits, as NVML's), gpm_sm_util_ppm, gpm_tensor_util_ppm,
// gpm_dram_bw_util_ppm (shares of the peak, means since the reading before), or a caller's gauge.
struct PowerChannel {
  std::string source;  // nvml, rapl, hwmon, process, constant, caller
  std::string device;  // GPU-..., package-0, an hwmon's PCI address, pid:123
  std::string domain;  // gpu, module, gpu_memory, package, dram, core, uncore, psys, process, ...
  std::string quantity;
  ReadingKind kind = ReadingKind::kGauge;
  bool slow = false;  // read every PowerRecordOptions::slow_period_ns, whatever the period
  // Part of the total of its source; a package is, the cores in it are not.
  bool in_total = false;
  std::optional<int64_t> wrap_range = {};        // of a counter: it starts again after this value
  std::optional<int64_t> max_plausible_mw = {};  // of a counter: more is a jump, not energy
  // Known of this model of chip, not of this chip: priors.
  std::optional<int64_t> prior_period_ns = {}, prior_window_ns = {};
  std::string note = {};  // "since driver load", ...

  bool operator==(const PowerChannel&) const = default;
};

// Whether energy can come from it.
inline bool IsPowerOrEnergy(const PowerChannel& channel) {
  return channel.quantity == "power_mw" || channel.quantity == "energy_uj";
}

struct PowerDevice {
  std::string id;    // the channels' `device`
  std::string name;  // "NVIDIA H100 80GB HBM3"
  std::string source;
  std::optional<int32_t> index = {};    // in the vendor's order
  std::optional<int32_t> ordinal = {};  // that the measured program sees; empty: hidden from it
  std::string pci_bus_id = {}, driver = {};
  bool mig = false;     // a parent of instances
  bool shared = false;  // others than the measured program use it
  std::string note = {};
  bool operator==(const PowerDevice&) const = default;
};

// What is not there, and how to get it.
struct PowerAbsence {
  std::string source, what;
  PowerReason reason = PowerReason::kAbsent;
  std::string message;   // names the file or call
  std::string fix = {};  // empty: there is none
  bool operator==(const PowerAbsence&) const = default;
};

struct PowerInventory {
  std::vector<PowerDevice> devices;
  std::vector<PowerChannel> channels;
  std::vector<PowerAbsence> absences;
};

// Where sensors are, so that tests and containers can say it.
struct PowerRoots {
  std::string sysfs = "/sys";
  std::string procfs = "/proc";
  std::string nvml_library = "libnvidia-ml.so.1";
};

// CUDA_VISIBLE_DEVICES and the like of the measured program; absent variables are not in it.
using PowerEnvironment = std::map<std::string, std::string>;

struct PowerSourceOptions {
  // nvml, rapl, hwmon, process, constant:WATTS, replay:LOG; empty: nvml, rapl, hwmon, process.
  std::vector<std::string> sources = {};
  PowerRoots roots = {};
  PowerEnvironment environment = {};
  std::map<int32_t, std::string> ordinals = {};  // --map: device ids by ordinal
  int64_t pid = 0;                               // for `process`; 0: this one
  // For `process`: what `pid` will start, not itself.
  bool children_only = false;
  // Of NVML: reads GPM, from Hopper on. Not unless it is asked for: other profilers on the GPU may
  // want the same counters.
  bool gpm = false;
};

// Every source asked for, with what it has and lacks. Never fails for a missing sensor.
PowerInventory ListPowerSources(const PowerSourceOptions& options);

struct PowerRecordOptions {
  PowerSourceOptions from = {};
  // 0: 50 ms for nvml and hwmon, 10 ms for rapl, 100 ms for process. NVML takes at most 50 Hz,
  // everything else 1 kHz; less is raised to that, which is among the findings.
  int64_t period_ns = 0;
  // Of channels that are slow, up to a second. A source that takes long for them is asked less
  // often: 2 % of the time at most, but once a second.
  int64_t slow_period_ns = 1'000'000'000;
  std::string log_path = {};  // empty: a file without a name, gone at the end
  std::string command = {};   // for the header
  // Channels as they were measured on this machine (power calibrate): the log has their prior_
  // values instead of those that the model of chip is known for.
  std::vector<PowerChannel> calibrated = {};
  // A call that takes longer is `hung`: its reader is left alone, the others go on.
  int64_t hung_after_ns = 2'000'000'000;
};

class PowerRecorder {
 public:
  // Starts a thread for each reader and one that watches them. Errors: FailedPrecondition
  // (nothing to read at all, or from a source that was named; the message has every absence),
  // InvalidArgument (a source's name, a period), Unavailable (no more threads), of the file.
  static absl::StatusOr<std::unique_ptr<PowerRecorder>> Start(const PowerRecordOptions& options);
  virtual ~PowerRecorder() = default;  // stops

  virtual const PowerInventory& inventory() const = 0;
  // By source, of those that are read less often than `period_ns` asks for: a message.
  virtual const std::map<std::string, std::string>& raised_periods() const = 0;
  // Where SummarizePowerLog reads it, as long as the recorder lives: also where its name is
  // another file's by now. Until then no other recorder may write there.
  virtual std::string log_path() const = 0;
  // Of the window `name`; synchronize the device before. InvalidArgument: an empty name, End
  // without Begin, Begin of a window that is open.
  virtual absl::Status Begin(std::string_view name) = 0;
  virtual absl::Status End(std::string_view name) = 0;
  // A caller's own gauge (kv_cache_bytes, ...), as it is now; empty: nobody knows. InvalidArgument:
  // an empty name, a value beyond 2^53, which JSON's readers would round.
  virtual absl::Status Gauge(std::string_view quantity, std::optional<int64_t> value) = 0;
  // What a reader of the log must know: it is among the findings.
  virtual absl::Status Note(std::string_view code, std::string_view message) = 0;
  // Until all that tells power or energy was read once more and is in the log; not for longer.
  virtual void AwaitReadings(std::chrono::nanoseconds at_most) = 0;
  // OK where all of the log could be written up to now.
  virtual absl::Status log_status() const = 0;
  // Within one period, but for calls that hang. The first write error of the log, if any.
  virtual absl::Status Stop() = 0;
};

enum class EnergyEstimator : uint8_t {
  kBest,          // the counter where there is one, else kHeld
  kCounter,       // differences, interpolated at the edges
  kHeld,          // a reading holds until the next one, at most three periods
  kTrapezoid,     // of the readings in the window; of earlier tools
  kEndpointMean,  // (first + last) / 2 times the duration; of earlier tools
};
std::string_view EnergyEstimatorName(EnergyEstimator estimator);  // best, counter, held, ...
std::optional<EnergyEstimator> EnergyEstimatorOf(std::string_view name);

// The coverage from which on an energy is compared with others, or makes a mean with them: what
// is before the first reading and after the last is little.
inline constexpr double kNearlyWholeCoverage = 0.95;

// What lo_j and hi_j of an energy are; or why it is unbounded, and they are empty.
// docs/power-bounds.md
enum class EnergyLimits : uint8_t {
  kBounds,             // it cannot be less or more
  kInterval,           // it is between them in kIntervalShare of all cases
  kBetweenReadings,    // nothing is known of the time between two readings of power
  kBrokenCounter,      // reset, jump or suspension
  kFewUpdates,         // the counter was not seen to change after it, and too seldom before
  kCounterCoversPart,  // the readings of power cover more of the window, or less
};
inline constexpr double kIntervalShare = 0.95;
// Of the last four, which are `unbounded`: between_readings, broken_counter, few_updates, ...
std::string_view UnboundedReasonName(EnergyLimits limits);
inline bool IsUnbounded(EnergyLimits limits) { return limits >= EnergyLimits::kBetweenReadings; }

// Of one domain of one device in a window.
struct EnergyEstimate {
  std::string source, device, domain;
  bool in_total = false;
  bool modelled = false;                               // of a power that somebody states
  EnergyEstimator estimator = EnergyEstimator::kHeld;  // what it is; never kBest
  std::optional<double> energy_j = {};                 // of the covered part of the window
  std::optional<double> lo_j = {}, hi_j = {};          // as `limits` says
  EnergyLimits limits = EnergyLimits::kBetweenReadings;
  double coverage = 0;                               // share of the window with readings
  std::optional<double> mean_w = {}, peak_w = {};    // over the covered part
  std::optional<double> idle_j = {}, active_j = {};  // with a baseline
  PowerReason reason = PowerReason::kKnown;  // where energy_j is empty, or of what is missing
  bool shared = false;
  // Counter and integral of readings, where both are known; more than 5 % apart, or energy_j
  // outside the counter's bounds: inconsistent.
  std::optional<double> counter_j = {}, integral_j = {};
  PowerReason counter_reason = PowerReason::kKnown;  // why counter_j is empty, or not of all
  bool inconsistent = false;
  uint64_t readings = 0, resets = 0, wraps = 0, jumps = 0;
  int64_t longest_gap_ns = 0;
};

// Of all readings of one channel in a window, its begin and end included.
struct GaugeSummary {
  size_t channel = 0;  // into PowerSummary::inventory.channels
  uint64_t n = 0, unknown = 0;
  // In the unit of `quantity`; the median is exact of up to 16384 readings, beyond within
  // 0.006 % (docs/power.md).
  std::optional<double> avg = {}, max = {}, median = {}, min = {};
  PowerReason reason = PowerReason::kKnown;  // where n is 0
  // The four are of a reading outside of the window, n is 0: it was taken so long before, or, where
  // it is negative, after it.
  std::optional<int64_t> nearest_age_ns = {};
};

// The energies of a window that are `in_total`, added up: only where each of them is known. What
// may not be read at all does not make it unknown: it has the reason, and `missing` names it.
struct PowerTotal {
  std::optional<double> energy_j = {}, mean_w = {};
  std::optional<double> lo_j = {}, hi_j = {};  // the sums, where each has them
  EnergyLimits limits = EnergyLimits::kBetweenReadings;
  double interval_share = 1;                // of an interval
  bool modelled = false, measured = false;  // a part of it is
  std::optional<double> active_j = {};      // less idle; empty without a window of idle
  // energy_j = mean_w x coverage x the window's time: the mean one, by power.
  double coverage = 0;
  double least_coverage = 0;
  bool differing_coverage = false;  // its parts are of different times
  PowerReason reason = PowerReason::kKnown;
  std::string missing = {};  // "nvml GPU-1234 gpu", the first energy that is not known
};

struct WindowSummary {
  std::string name;
  uint64_t number = 1;  // of windows of one name, from 1
  int64_t begin_ns = 0, end_ns = 0;
  std::optional<int64_t> begin_unix_ns = {};  // empty: the log has no clocks
  int64_t suspended_ns = 0;
  bool cut = false;  // the log ended before the window did
  std::vector<EnergyEstimate> energies;
  std::vector<GaugeSummary> gauges;
  PowerTotal total;
};

// Of the windows of one name where there are several: what one of them takes.
struct RepeatedEnergy {
  std::string window;
  std::string source, device, domain;  // source "total": the windows' totals
  uint64_t windows = 0;
  uint64_t known = 0;  // with an energy of 95 % and more of its time; the next six are of these
  std::optional<double> mean_j = {}, std_j = {}, min_j = {}, max_j = {};  // std_j: from two on
  std::optional<double> mean_active_j = {}, std_active_j = {};            // less idle
  double mean_s = 0, std_s = 0;                                           // of all
};

// Power over the time of the recording, for a plot.
struct PowerColumn {
  double covered = 0;                                         // share of the column's time
  std::optional<double> min_w = {}, mean_w = {}, max_w = {};  // empty: a gap
};
struct PowerSeries {
  std::string source, device, domain;
  int64_t begin_ns = 0, column_ns = 0;
  std::vector<PowerColumn> columns;  // one after the other
};

// How well the sampler kept its times.
struct ReaderQuality {
  std::string source;
  int64_t period_ns = 0;
  uint64_t reads = 0, missed = 0;
  double effective_hz = 0;
  int64_t longest_gap_ns = 0;
  std::optional<int64_t> latency_p50_ns = {}, latency_p99_ns = {};  // empty: the log has none
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
  std::vector<WindowSummary> windows;   // the whole recording first, then as they began
  std::vector<RepeatedEnergy> repeats;  // by name, as they began
  std::vector<ReaderQuality> readers;
  std::vector<PowerFinding> findings;
  std::vector<PowerSeries> series;
  bool complete = false;  // the log has its last line
};

// A window that the log does not mark: whoever reads it knows when something ran.
struct PowerWindow {
  std::string name;
  int64_t begin_ns = 0, end_ns = 0;  // CLOCK_MONOTONIC of the machine that wrote the log
};

struct PowerSummaryOptions {
  EnergyEstimator estimator = EnergyEstimator::kBest;
  std::vector<PowerWindow> windows = {};  // besides those of the log, and before them
  // Its mean power is the idle power: the name of windows.
  std::string idle_window = "idle";
  bool whole = true;  // with the window of the whole recording
  // A window without a reading of a gauge has the nearest one that is not further away; 0: none.
  // Not of power, which has an energy.
  int64_t nearest_within_ns = 0;
  // Later ones are counted and left out, and so are those that begin while 1024 are open.
  uint64_t max_windows = 100'000;
  size_t max_columns = 1024;  // of each series; 0: no series
};

// Reads `path` (JSON Lines of this project, gzip accepted, or nvidia-smi's CSV) once, in
// bounded memory. Errors: NotFound, DataLoss (no header, or of another version, with the line
// and the byte). A log that is cut at any byte is summarized up to there, `complete` false.
absl::StatusOr<PowerSummary> SummarizePowerLog(const std::string& path,
                                               const PowerSummaryOptions& options);
// The same of a log in memory, not inflated; `name` is for errors.
absl::StatusOr<PowerSummary> SummarizePowerLogText(std::string_view text, const std::string& name,
                                                   const PowerSummaryOptions& options);

}  // namespace xplane_time
