// What the views of a trace's commands share.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "output/ordering.h"
#include "output/view.h"
#include "result/rows_trace.h"

namespace xplane_time::output {

// report.cc: lines on the inputs (in a table three) and the capture.
std::vector<ViewLine> CaptureLines(const std::vector<InputRow>& inputs, const CaptureInfo& capture,
                                   const OutputOptions& options);
// report.cc: the member `options`, where there are any.
void AddOptions(const std::vector<GivenOption>& given, result::Result* result);
// report.cc: the members `inputs`, `capture` (where it is given) and `options`.
void AddHead(const std::vector<InputRow>& inputs, const CaptureInfo* capture,
             const std::vector<GivenOption>& given, result::Result* result);

// functions.cc: combined rows have no device. Flat: all rows of a table have the same columns.
result::Table FunctionRows(std::string name, std::vector<const FunctionRow*> rows);
result::Table FlatFunctionRows(std::vector<const FunctionRow*> rows);
// functions.cc, for the report: combined rows where several devices ran functions, and the rows of
// each device for functions that have no combined time. Rows past `most` are told of in a note.
Section OverviewSection(const Report& report, const OrderedReport& rows,
                        const OutputOptions& options, size_t most);
// kernels.cc, for the report: one row a kernel and function over all programs and devices.
std::vector<KernelRow> MergeKernels(const std::vector<KernelRow>& rows);
Section TopKernelSection(const std::vector<const KernelRow*>& merged, const OutputOptions& options,
                         size_t most);

}  // namespace xplane_time::output
