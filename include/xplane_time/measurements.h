// Measurements: times (or energies) of functions, one set a capture, whatever wrote them.
//
// Enters: paths of traces (any that OpenTrace takes), of Google Benchmark JSON, or of our
// own JSON with samples (report.v1 or functions.v1, written with --samples), or of energies
// (energy.v1). Which it is shows in the content. Leaves: one Measurements a capture, which is what
// compare.h and pick.h infer over: the samples of one capture come from one process and share its
// offset.
//
//   auto base = ReadMeasurements({"base1.xplane.pb", "base2.xplane.pb"}, {});
//   base->size() == 2
//   ReadMeasurements({"report.json"}, {}).status()
//   // FailedPrecondition: report.json: holds no samples; write it with --samples
//
// Not handled: JSON from standard input or in gzip; a trace may be either. Samples that
// are suspect, warm-up or trimmed are left out and counted. A capture that repeats an
// earlier one of the same list is left out with a note: it is no second process.
//
// Times are doubles in picoseconds, since Google Benchmark's are not whole. Energies are joules of
// a run; a capture has one value a function, with the error that was stated for it.
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
  double value = 0;      // picoseconds; joules where the metric is kEnergyMetric
  int64_t start_ps = 0;  // on the capture's axis; 0 where unknown
  friend bool operator==(const Sampled&, const Sampled&) = default;
};

inline constexpr char kEnergyMetric[] = "energy";

// The typical time of a function on one device alone.
struct DeviceTime {
  std::string device;
  double typical = 0;  // picoseconds
};

// One function (or variant) on one device of one capture.
struct Series {
  std::string function;
  std::optional<std::string> variant_id;
  std::string device = {};  // "GPU:0"; empty: the input does not tell
  // Several programs may have one name: numbered by their first run.
  uint32_t program = 0;
  std::string metric;      // "active", "span", "sum", "real_time", "cpu_time", kEnergyMetric
  std::string clock = {};  // "profile", "device", "mixed"; empty: the input does not tell
  std::vector<Sampled> samples = {};
  std::vector<int64_t> left_out = {};  // suspect, warm-up or trimmed runs: their starts
  bool uncertain = false;              // the split into runs is
  std::string failure = {};  // not empty: it failed (its energy is unknown), and has no samples
  // Not empty: it ran and cannot be judged, and has no samples: "its runs on 2 devices do not
  // match".
  std::string obstacle = {};
  // Over several devices (slowest_device): each device alone, in the order of their names.
  std::vector<DeviceTime> by_device = {};
  // Of energies: the standard error of the log of the one value, as it was stated.
  std::optional<double> log_error = {};
  std::string doubt = {};  // not empty: why nothing firm may rest on it
};

// What has to be equal before two captures are compared: {"device model", "H100"}.
struct Fact {
  std::string name, value;
  friend bool operator==(const Fact&, const Fact&) = default;
};

// A kernel's own time in a run of its function, over all devices and all runs.
struct KernelTime {
  std::string function, kernel;
  double run_ps = 0;
};

struct Measurements {
  std::string source;              // the path
  std::vector<Fact> facts = {};    // a fact that is missing is unknown
  std::vector<Fact> options = {};  // {"kernel", "tanh"}; one that is missing is the default
  std::vector<Fact> labels = {};   // worth telling where they differ, no obstacle: host names
  std::vector<Series> series = {};
  std::vector<std::string> notes = {};
  std::string unit = {};    // not empty: what it is of (a host), by which paired sides are paired
  bool lacks_runs = false;  // some were trimmed before: which were of one round is not known
  std::vector<KernelTime> kernels = {};  // of traces and whole reports; else empty
};

enum class BenchmarkTime : uint8_t { kReal, kCpu };

struct MeasureOptions {
  // kTime or kEnergy: what is measured. A path that has the other is refused.
  Objective objective = Objective::kTime;
  // Of results of ours only what needs no trace applies: filters on functions, the metric, trim,
  // skip_runs; of Google Benchmark's and tuning sessions the filters on functions. Others are
  // refused there, unless a result was written with them.
  ReportOptions report;
  FindOptions find;
  ReadOptions read;
  bool by_variant = false;      // one series a variant id; functions without one are left out
  bool slowest_device = false;  // one series a function: of each run the slowest device
  BenchmarkTime benchmark_time = BenchmarkTime::kReal;
  // Asked before each path is read; true: Cancelled.
  std::function<bool()> stopped = {};
};

struct MeasurementSet {
  std::vector<Measurements> captures;  // in the order of the paths
  std::vector<std::string> notes = {};
};

// Errors: NotFound, FailedPrecondition and DataLoss (as OpenTrace and BuildReport; JSON that
// is damaged, of another kind, or without samples), InvalidArgument (options).
absl::StatusOr<MeasurementSet> ReadMeasurements(std::span<const std::string> paths,
                                                const MeasureOptions& options);

}  // namespace xplane_time
