// Inputs: each kind of input to Measurements, and what is done with the series of a capture.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "timing/filters.h"
#include "xplane_time/measurements.h"
#include "xplane_time/pick.h"
#include "xplane_time/report.h"

namespace xplane_time::compare {

// A trace: all captures that the path holds are one (a directory's hosts).
absl::StatusOr<Measurements> FromTrace(const std::string& path, const MeasureOptions& options);

// Whether the bytes begin a JSON object. A trace may begin with a line feed and a brace.
bool LooksLikeJson(std::string_view content);
// Google Benchmark's, or our own: a result with samples (of several captures it gives as many), or
// a tuning session, whose variants are functions and whose ratios within rounds are not used: two
// sides have no rounds in common.
absl::StatusOr<std::vector<Measurements>> FromJson(const std::string& path,
                                                   std::string_view content,
                                                   const MeasureOptions& options);

// The explicit list of a search space: {"variants": [{"id": "0", "params": {"block": 64}}]}; ids
// are strings or whole numbers. Errors: NotFound, DataLoss (JSON), FailedPrecondition (no such
// list).
absl::StatusOr<std::vector<KnownVariant>> ReadKnownVariants(const std::string& path);

// With start times no two captures agree in every sample; without them (Google Benchmark) only the
// same file does so by more than chance.
bool SameCapture(const Measurements& a, const Measurements& b);

// Rows of one capture become series. `uncertain`: device label and function.
using UncertainFunctions = std::set<std::pair<std::string, std::string>>;
std::vector<Series> SeriesFromSamples(std::span<const SampleRow> samples,
                                      const UncertainFunctions& uncertain, const Filters& filters,
                                      const MeasureOptions& options,
                                      std::vector<std::string>* notes);

// A function over all devices: of each run the slowest device. The k-th run on each device is one
// run, where the devices have equally many and runs overlap; else the function has no samples, and
// a note says so. A function on one device stays as it is.
std::vector<Series> SlowestDevice(std::span<const Series> series, std::vector<std::string>* notes);

// "GPU:0", "CPU:0", "host 1 TPU:2" where several hosts are known.
class DeviceLabels {
 public:
  explicit DeviceLabels(std::span<const SampleRow> samples);
  std::string Label(const DeviceRef& device) const;

 private:
  std::vector<std::string> hosts_;  // sorted
};

// Adds up the kernels and runs of a capture's functions, over devices and programs.
class KernelTimes {
 public:
  void AddRuns(const std::string& function, uint64_t runs) { runs_[function] += runs; }
  // `time_ps`: in all of these runs, without what is nested in it.
  void Add(const std::string& function, const std::string& kernel, int64_t time_ps) {
    times_ps_[{function, kernel}] += static_cast<double>(time_ps);
  }
  // Of functions that have runs.
  std::vector<KernelTime> Take() const;

 private:
  std::map<std::string, uint64_t> runs_;
  std::map<std::pair<std::string, std::string>, double> times_ps_;
};

}  // namespace xplane_time::compare
