// Measurements: times of functions, one set a capture, whatever wrote them.
//
// Enters: paths of traces (any that OpenTrace takes), of Google Benchmark JSON, or of our
// own JSON with samples (report.v1 or functions.v1, written with --samples). Which it is
// shows in the content. Leaves: one Measurements a capture, which is what compare.h and
// pick.h infer over: the samples of one capture come from one process and share its
// offset.
//
//   auto base = ReadMeasurements({"base1.xplane.pb", "base2.xplane.pb"}, {});
//   base->size() == 2
//   ReadMeasurements({"report.json"}, {}).status()
//   // FailedPrecondition: report.json: holds no samples; write it with --samples
//
// Or energies of functions (`quantity`), of energy.v1 alone: a file is a process, its value for a
// function the energy of one execution with the interval that the file states.
//
// Not handled: JSON from standard input or in gzip; a trace may be either. Samples that
// are suspect, warm-up or trimmed are left out and counted. A capture that repeats an
// earlier one of the same list is left out with a note: it is no second process.
//
// Times are doubles in picoseconds, since Google Benchmark's are not whole.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "xplane_time/energy.h"
#include "xplane_time/read.h"
#include "xplane_time/report.h"

namespace xplane_time {

enum class Quantity : uint8_t { kTime, kEnergy };

// What a function took in one execution, by all of a capture.
struct EnergyOfOne {
  Joules joules;
  uint64_t executions = 0;
  uint64_t windows = 0;  // of the sensor, that tell it
};

struct Sampled {
  double time_ps = 0;
  int64_t start_ps = 0;  // on the capture's axis; 0 where unknown
  friend bool operator==(const Sampled&, const Sampled&) = default;
};

// One function (or variant) on one device of one capture.
struct Series {
  std::string function;
  std::optional<std::string> variant_id;
  std::string device = {};  // "GPU:0"; empty: the input does not tell
  // Several programs may have one name: numbered by their first run.
  uint32_t program = 0;
  std::string metric;      // "active", "span", "sum", "real_time", "cpu_time", "tuned", "energy"
  std::string clock = {};  // "profile", "device", "mixed"; empty: the input does not tell
  std::vector<Sampled> samples = {};
  std::vector<int64_t> left_out = {};      // suspect, warm-up or trimmed runs: their starts
  std::optional<EnergyOfOne> energy = {};  // instead of samples
  bool uncertain = false;    // the split into runs is; of energies, the power's reasons
  std::string failure = {};  // not empty: it failed, and has no samples
  std::string unknown = {};  // not empty: why it has no energy

  bool measured() const { return !samples.empty() || energy.has_value(); }
};

// What has to be equal before times are compared: {"device model", "H100"}.
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
  bool lacks_runs = false;  // some were trimmed before: which were of one round is not known
  std::vector<KernelTime> kernels = {};  // of traces and whole reports; else empty
};

enum class BenchmarkTime : uint8_t { kReal, kCpu };

struct MeasureOptions {
  // Of results of ours only what needs no trace applies: filters on functions, the metric, trim,
  // skip_runs; of Google Benchmark's and tuning sessions the filters on functions. Others are
  // refused there, unless a result was written with them.
  ReportOptions report;
  FindOptions find;
  ReadOptions read;
  bool by_variant = false;      // one series a variant id; functions without one are left out
  bool slowest_device = false;  // one series a function: of each run the slowest device
  BenchmarkTime benchmark_time = BenchmarkTime::kReal;
  Quantity quantity = Quantity::kTime;  // inputs that have the other one are refused
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
