// Analysis: everything measured, before it becomes rows. Internal to BuildReport and
// BuildTree.
#ifndef XPLANE_TIME_SRC_TIMING_ANALYSIS_H_
#define XPLANE_TIME_SRC_TIMING_ANALYSIS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "xplane_time/report.h"
#include "xplane_time/runs.h"

namespace re2 {
class RE2;
}

namespace xplane_time {

// An optional RE2; without a pattern everything matches. Names may be invalid UTF-8.
class NameFilter {
 public:
  static absl::StatusOr<NameFilter> Compile(std::string_view option, std::string_view pattern);
  bool any() const { return regex_ != nullptr; }
  bool Matches(std::string_view name) const;
  // The first capture group, where there is a match.
  std::optional<std::string> Capture(std::string_view name) const;

 private:
  std::shared_ptr<const re2::RE2> regex_;
};

struct Filters {
  NameFilter function, exclude, kernel, scope, id;
  std::string prefix;

  static absl::StatusOr<Filters> Compile(const ReportOptions& options);
  bool WantsFunction(std::string_view function) const;
  bool WantsOp(const OpInfo& op) const;
  // Whether some filter on functions is set: kernels in no function then do not count.
  bool any_function() const { return function.any() || exclude.any() || !prefix.empty(); }
};

// A run's times and what becomes of it.
struct Sample {
  Occurrence occurrence;
  Interval profile;      // on the capture's axis
  uint64_t ordinal = 0;  // within (device, function, program)
  std::optional<int64_t> key;
  bool skipped = false;  // a warm-up run
  bool uncertain = false;

  int64_t Metric(Metric which) const;
};

struct DeviceAnalysis {
  DeviceExecutions executions;
  std::vector<Run> runs;
  std::vector<std::optional<Clock>> clocks;   // by program, last: unattributed
  std::vector<bool> op_wanted, program_wanted;
  std::vector<Sample> samples;                // of wanted programs, by (program, start)
  DeviceRef ref;
  uint32_t capture = 0;
};

struct Analysis {
  Filters filters;
  std::vector<DeviceAnalysis> devices;
  Diagnostics diagnostics;
};

// Selects, collects, splits and measures. Errors: as BuildReport.
absl::StatusOr<Analysis> Analyze(const Trace& trace, const ReportOptions& options,
                                 const Diagnostics& reading);

// Row builders, one file each.
std::vector<FunctionRow> FunctionRows(const Analysis& analysis, const ReportOptions& options);
std::vector<FunctionRow> CombinedRows(Analysis* analysis, const ReportOptions& options,
                                      bool by_variant);
std::vector<KernelRow> KernelRows(Analysis* analysis, int64_t tolerance_ps);
std::vector<SampleRow> SampleRows(const Analysis& analysis);

// Fills runs, kernels and the summaries from samples of one function; shared by
// functions and combined rows.
void SummarizeSamples(const std::vector<Sample>& samples, const ReportOptions& options,
                      FunctionRow* row);

}  // namespace xplane_time

#endif  // XPLANE_TIME_SRC_TIMING_ANALYSIS_H_
