// Reports of built traces, and helpers to access their rows.
//
// ReportOf checks the invariants of reports (CheckInvariants), so each test of this folder checks
// them on its trace.
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

inline constexpr int64_t kFirstPs = 5000;  // leaves room for timestamps of lines

absl::StatusOr<Report> TryReport(const TraceBuilder& trace, const ReportOptions& options,
                                 Reader reader = Reader::kWire);

// An error fails the test. Samples are always filled.
Report ReportOf(const TraceBuilder& trace, ReportOptions options = {},
                Reader reader = Reader::kWire);

// The rows of this function, in the order of the report.
std::vector<FunctionRow> FunctionsNamed(const Report& report, std::string_view function);
// The only row of this function. If there is not exactly one, fails the test and returns an empty
// row.
FunctionRow TheFunction(const Report& report, std::string_view function);
FunctionRow TheCombined(const Report& report, std::string_view function);
KernelRow TheKernel(const Report& report, std::string_view kernel);
DeviceRow TheDevice(const Report& report, std::string_view plane);

// One value per run, sorted by start, including suspect runs.
std::vector<int64_t> ActivePs(const Report& report, std::string_view function);
std::vector<int64_t> SpanPs(const Report& report, std::string_view function);
std::vector<uint64_t> KernelCounts(const Report& report, std::string_view function);

uint64_t DiagnosticCount(const Report& report, std::string_view code);

// The rows in the format of the slow reference.
SlowReport ToSlow(const Report& report);

// Checks that rows add up to totals, runs = n + suspect + dropped, and summaries match the samples.
void CheckInvariants(const Report& report);

}  // namespace xplane_time::testing
