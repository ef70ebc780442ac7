// Measurements: times (or energies) of functions, one set per capture, from any supported format.
//
// Input: paths of traces (any that OpenTrace reads), of Google Benchmark JSON, of our own JSON with
// samples (report.v1 or functions.v1, written with --samples), or of energies (energy.v1). The
// content determines the format. Output: one Measurements per capture, the unit of inference of
// compare.h and pick.h. The samples of one capture come from one process and share its offset.
//
// Example:
//
//   const std::vector<std::string> paths = {"base1.xplane.pb", "base2.xplane.pb"};
//   auto base = ReadMeasurements(paths, {});
//   if (!base.ok()) return base.status();
//   // FailedPrecondition: report.json: holds no samples; write it with --samples
//   assert(base->captures.size() == 2);
//
// Not handled: JSON from standard input or in gzip (traces support both). Suspect, warm-up and
// trimmed samples are excluded and counted. A capture that repeats an earlier one of the same list
// is skipped with a note, because it is not an independent process.
//
// Times are doubles in picoseconds, because the times of Google Benchmark are not integers.
// Energies are joules per run. A capture has one energy per function, with its stated error.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "xplane_time/objective.h"
#include "xplane_time/read.h"
#include "xplane_time/report.h"

namespace xplane_time {

struct Sampled {
  double value = 0;      // picoseconds; joules if the metric is kEnergyMetric
  int64_t start_ps = 0;  // on the capture's axis; 0 if unknown
  friend bool operator==(const Sampled&, const Sampled&) = default;
};

inline constexpr char kEnergyMetric[] = "energy";

// The typical time of a function on one device, without the other devices.
struct DeviceTime {
  std::string device;
  double typical = 0;  // picoseconds
};

// The samples of one function (or variant) on one device of one capture.
struct Series {
  std::string function;
  std::optional<std::string> variant_id;
  std::string device = {};  // "GPU:0"; empty: not in the input
  // Number of the program, if several have one name, in order of their first run.
  uint32_t program = 0;
  std::string metric;      // "active", "span", "sum", "real_time", "cpu_time", kEnergyMetric
  std::string clock = {};  // "profile", "device", "mixed"; empty: not in the input
  std::vector<Sampled> samples = {};
  std::vector<int64_t> left_out = {};  // starts of the suspect, warm-up and trimmed runs
  bool uncertain = false;              // the split into runs is uncertain
  // reason of a failure (or of an unknown energy); if not empty, there are no samples
  std::string failure = {};
  // If not empty, the function ran but cannot be judged, for example "its runs on 2 devices do not
  // match". It then has no samples.
  std::string obstacle = {};
  // With slowest_device: the typical time on each device alone, sorted by device name.
  std::vector<DeviceTime> by_device = {};
  // For an energy: the stated standard error of its logarithm.
  std::optional<double> log_error = {};
  std::string doubt = {};  // if not empty: the reason why no firm claim may rest on it
};

// A property that must be equal in all compared captures, such as {"device model", "H100"}.
struct Fact {
  std::string name, value;
  friend bool operator==(const Fact&, const Fact&) = default;
};

// Own time of a kernel per run of its function, over all devices and runs.
struct KernelTime {
  std::string function, kernel;
  double run_ps = 0;
};

struct Measurements {
  std::string source;              // the path
  std::vector<Fact> facts = {};    // a missing fact is unknown
  std::vector<Fact> options = {};  // {"kernel", "tanh"}; a missing option is at its default
  // facts that may differ, such as host names; a difference is only reported
  std::vector<Fact> labels = {};
  std::vector<Series> series = {};
  std::vector<std::string> notes = {};
  // if not empty: the measured unit, such as a host; paired sides are matched by it
  std::string unit = {};
  bool lacks_runs = false;  // some runs were trimmed before, so rounds cannot be reconstructed
  std::vector<KernelTime> kernels = {};  // for traces and whole reports; else empty
};

enum class BenchmarkTime : uint8_t { kReal, kCpu };

struct MeasureOptions {
  // What is measured: kTime or kEnergy. Paths with the other kind are refused.
  Objective objective = Objective::kTime;
  // For our own results, only the options that need no trace apply: filters on functions, metric,
  // trim, skip_runs. For Google Benchmark and tuning sessions, only filters on functions apply.
  // Other options are refused, unless a result was written with them.
  ReportOptions report;
  FindOptions find;
  ReadOptions read;
  bool by_variant = false;      // one series per variant id; functions without one are skipped
  bool slowest_device = false;  // one series per function: for each run the slowest device
  BenchmarkTime benchmark_time = BenchmarkTime::kReal;
  // Called before each path is read. If it returns true, the result is Cancelled.
  std::function<bool()> stopped = {};
};

struct MeasurementSet {
  std::vector<Measurements> captures;  // in the order of the paths
  std::vector<std::string> notes = {};
};

// Reads measurements. Errors: NotFound, FailedPrecondition and DataLoss (as OpenTrace and
// BuildReport; JSON that is damaged, of another kind, or without samples), InvalidArgument
// (options), Cancelled.
absl::StatusOr<MeasurementSet> ReadMeasurements(std::span<const std::string> paths,
                                                const MeasureOptions& options);

}  // namespace xplane_time
