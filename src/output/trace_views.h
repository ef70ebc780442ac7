// Shared by the views of a trace's commands: the selection and order of rows, and common sections.
//
// Input: a Report and the options `sort` and `metric`. Output: its rows in order. Numbers
// sort descending with unknown last, names ascending; ties keep the order of the Report.
//
//   functions, combined, variants   total name runs mean median std min max
//   kernels                         total self count mean median max name share
//
// Without `sort`: if `top` cuts or the format is for humans, functions sort by total, and kernels
// by self time, to which `share` is relative. If the self time is unknown, its upper bound, the
// total, is used. Otherwise the Report's order remains (by device, then total).
#pragma once

#include "output/view.h"
#include "result/rows.h"
#include "xplane_time/brief.h"

namespace xplane_time::output {

// Mean times the number of samples; empty if the metric is unknown.
std::optional<double> TotalPs(const FunctionRow& row, Metric metric);

// Sorts by a key; one that the rows do not have means the order without `sort`.
void SortFunctions(std::string_view key, Metric metric, std::vector<FunctionRow>* rows);
void SortKernels(std::string_view key, std::vector<KernelRow>* rows);

// report.cc: the member `options`, if any option is given.
void AddOptions(const std::vector<GivenOption>& given, result::Result* result);
// report.cc: the members `inputs`, `capture` (if given) and `options`.
void AddHead(const std::vector<InputRow>& inputs, const CaptureInfo* capture,
             const std::vector<GivenOption>& given, result::Result* result);

// steps.cc: the step time, and below it what limits it: of the device whose steps take longest.
// Empty: no device has steps.
std::vector<std::string> StepLines(const Report& report);
std::vector<std::string> StepLines(const BriefReport& report);

// functions.cc: the members `functions`, `combined` and, if requested, `variants`.
void AddFunctions(const Report& report, bool with_variants, const OutputOptions& options,
                  result::Result* result);
// functions.cc: a sample of many runs, for a page's figure.
void AddRunsDrawn(std::span<const SampleRow> samples, const OutputOptions& options, Output* out);
// functions.cc, for the report: combined rows if several devices ran functions, and the rows of
// each device for functions without a combined time. A note has the number of rows past `most`.
Section OverviewSection(const Report& report, const OutputOptions& options, size_t most);
// kernels.cc, for the report: one row a kernel and function over all programs and devices.
std::vector<KernelRow> MergeKernels(const std::vector<KernelRow>& rows);
Section TopKernelSection(const std::vector<KernelRow>& merged, const OutputOptions& options,
                         size_t most);

}  // namespace xplane_time::output
