// Reports of built traces, and short ways to look into them.
//
// ReportOf checks what must hold for every report (CheckInvariants), so each test of
// this folder checks it on its own trace.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/support/slow_report.h"
#include "tests/support/trace_builder.h"
#include "xplane_time/read.h"
#include "xplane_time/report.h"

namespace xplane_time::testing {

inline constexpr int64_t kFirstPs = 5000;  // room for lines with a timestamp

absl::StatusOr<Report> TryReport(const TraceBuilder& trace, const ReportOptions& options,
                                 Reader reader = Reader::kWire);

// An error fails the test. Samples are always filled.
Report ReportOf(const TraceBuilder& trace, ReportOptions options = {},
                Reader reader = Reader::kWire);

// Rows of this function, in the report's order.
std::vector<FunctionRow> FunctionsNamed(const Report& report, std::string_view function);
// The only row of this function. None or several: fails the test, an empty row.
FunctionRow TheFunction(const Report& report, std::string_view function);
FunctionRow TheCombined(const Report& report, std::string_view function);
KernelRow TheKernel(const Report& report, std::string_view kernel);
DeviceRow TheDevice(const Report& report, std::string_view plane);

// One value a run, by start; suspect runs included.
std::vector<int64_t> ActivePs(const Report& report, std::string_view function);
std::vector<int64_t> SpanPs(const Report& report, std::string_view function);
std::vector<uint64_t> KernelCounts(const Report& report, std::string_view function);

uint64_t DiagnosticCount(const Report& report, std::string_view code);

// The rows as the slow reference tells them.
SlowReport ToSlow(const Report& report);

// Rows sum to their totals, runs = n + suspect + dropped, summaries match the samples.
void CheckInvariants(const Report& report);

}  // namespace xplane_time::testing
