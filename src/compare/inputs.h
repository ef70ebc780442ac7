// Inputs: the three kinds of input, each to Measurements.
#ifndef XPLANE_TIME_SRC_COMPARE_INPUTS_H_
#define XPLANE_TIME_SRC_COMPARE_INPUTS_H_

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "timing/filters.h"
#include "xplane_time/measurements.h"
#include "xplane_time/report.h"

namespace xplane_time::compare {

// A trace: all captures that the path holds are one (a directory's hosts).
absl::StatusOr<Measurements> FromTrace(const std::string& path, const MeasureOptions& options);

// Whether the bytes begin a JSON object. A trace may begin with a line feed and a brace.
bool LooksLikeJson(std::string_view content);
// Google Benchmark's, or our own. A result of several captures gives as many.
absl::StatusOr<std::vector<Measurements>> FromJson(const std::string& path,
                                                   std::string_view content,
                                                   const MeasureOptions& options);

// With start times no two captures agree in every sample; without them (Google Benchmark) only the
// same file does so by more than chance.
bool SameCapture(const Measurements& a, const Measurements& b);

// Rows of one capture become series. `uncertain`: device label and function.
using UncertainFunctions = std::set<std::pair<std::string, std::string>>;
std::vector<Series> SeriesFromSamples(std::span<const SampleRow> samples,
                                      const UncertainFunctions& uncertain, const Filters& filters,
                                      const MeasureOptions& options,
                                      std::vector<std::string>* notes);

// "GPU:0", "CPU:0", "host 1 TPU:2" where several hosts are known.
class DeviceLabels {
 public:
  explicit DeviceLabels(std::span<const SampleRow> samples);
  std::string Label(const DeviceRef& device) const;

 private:
  std::vector<std::string> hosts_;  // sorted
};

}  // namespace xplane_time::compare

#endif  // XPLANE_TIME_SRC_COMPARE_INPUTS_H_
