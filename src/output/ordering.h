// Ordering: which rows are shown, and in which order.
//
// Enters: a Report and the options `sort`, `top` and `metric`. Leaves: pointers into the
// Report. Numbers sort descending with unknown last, names ascending; ties keep the
// order of the Report.
//
//   functions, combined, variants   total name runs mean median std min max
//   kernels                         total self count mean median max name share
//
// Without `sort`: if `top` cuts or the format is for humans, functions by total and kernels
// by self time, which `share` is of; where that is unknown, by its bound, the total. Else the
// Report's own order (by device, then total).
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "output/output.h"
#include "xplane_time/report.h"

namespace xplane_time::output {

struct OrderedReport {
  std::vector<const FunctionRow*> functions, combined, variants;
  std::vector<const KernelRow*> kernels;
};

// Whose keys `sort` may name. kReport: those of the functions; the kernels follow where
// they have the key.
enum class SortKeys { kReport, kFunctions, kKernels };

// Errors: InvalidArgument, with the valid keys.
absl::StatusOr<OrderedReport> OrderReport(const Report& report, const OutputOptions& options,
                                          SortKeys keys);

// Mean times the number of samples; empty where the metric is unknown.
std::optional<double> TotalPs(const FunctionRow& row, Metric metric);

// Sorts by a key; one that the rows do not have means the order without `sort`.
void SortFunctions(std::string_view key, Metric metric, std::vector<const FunctionRow*>* rows);
void SortKernels(std::string_view key, std::vector<const KernelRow*>* rows);

}  // namespace xplane_time::output
