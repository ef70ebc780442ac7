#include "tests/timing/report_of.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace xplane_time::testing {
namespace {

template <typename Row, typename Wanted>
Row TheOnly(const std::vector<Row>& rows, Wanted wanted, std::string_view what) {
  std::vector<Row> found;
  for (const Row& row : rows) {
    if (wanted(row)) found.push_back(row);
  }
  EXPECT_EQ(found.size(), 1u) << "rows of " << what;
  return found.size() == 1 ? found[0] : Row();
}

// The samples of a row, sorted by run.
std::vector<SampleRow> SamplesOf(const Report& report, const FunctionRow& row) {
  std::vector<SampleRow> samples;
  for (const SampleRow& sample : report.samples) {
    if (row.device && sample.device.plane == row.device->plane &&
        sample.device.ordinal == row.device->ordinal && sample.device.host == row.device->host &&
        sample.device.input == row.device->input && sample.function == row.function &&
        sample.program_id == row.program_id) {
      samples.push_back(sample);
    }
  }
  std::sort(samples.begin(), samples.end(),
            [](const SampleRow& a, const SampleRow& b) { return a.run < b.run; });
  return samples;
}

template <typename Value, typename Get>
std::vector<Value> OfSamples(const Report& report, std::string_view function, Get get) {
  std::vector<Value> values;
  for (const FunctionRow& row : FunctionsNamed(report, function)) {
    for (const SampleRow& sample : SamplesOf(report, row)) values.push_back(get(sample));
  }
  return values;
}

void CheckSummary(const std::optional<Summary>& summary, const std::vector<int64_t>& values,
                  const std::string& what) {
  ASSERT_EQ(summary.has_value(), !values.empty()) << what;
  if (!summary) return;
  EXPECT_EQ(summary->n, values.size()) << what;
  EXPECT_EQ(summary->min, *std::min_element(values.begin(), values.end())) << what;
  EXPECT_EQ(summary->max, *std::max_element(values.begin(), values.end())) << what;
  double sum = 0;
  for (int64_t value : values) sum += static_cast<double>(value);
  const double mean = sum / static_cast<double>(values.size());
  EXPECT_NEAR(summary->mean, mean, 1e-9 * (1 + std::abs(mean))) << what;
}

// Checks the numbers of the row against the samples that count.
void CheckFunction(const Report& report, const FunctionRow& row) {
  const std::string what = row.function + "(" + row.program_id.value_or("-") + ")";
  std::vector<int64_t> active, span, gap, sum;
  uint64_t suspects = 0, kernels = 0;
  const std::vector<SampleRow> samples = SamplesOf(report, row);
  for (const SampleRow& sample : samples) {
    kernels += sample.kernels;
    suspects += sample.suspect ? 1 : 0;
    if (sample.suspect) continue;
    if (!sample.active_ps) continue;
    active.push_back(*sample.active_ps);
    sum.push_back(*sample.sum_ps);
    span.push_back(sample.span_ps);
    gap.push_back(sample.span_ps - *sample.active_ps);
    EXPECT_LE(*sample.active_ps, sample.span_ps) << what;
    EXPECT_LE(*sample.active_ps, *sample.sum_ps) << what;
  }
  EXPECT_EQ(row.suspect_runs, suspects) << what;
  if (row.dropped_samples != 0) return;  // the report lacks trimmed samples
  EXPECT_EQ(row.kernels_total, kernels) << what;
  EXPECT_EQ(row.runs, samples.size()) << what;
  CheckSummary(row.active_ps, active, what + " active");
  CheckSummary(row.sum_ps, sum, what + " sum");
  CheckSummary(row.gap_ps, gap, what + " gap");
  if (row.status != RowStatus::kNoOps) CheckSummary(row.span_ps, span, what + " span");
}

}  // namespace

absl::StatusOr<Report> TryReport(const TraceBuilder& trace, const ReportOptions& options,
                                 Reader reader) {
  const std::string bytes = trace.Bytes();
  ReadOptions read_options;
  read_options.reader = reader;
  Diagnostics diagnostics;
  absl::StatusOr<Trace> opened =
      OpenTraceFromMemory(bytes, "test.xplane.pb", read_options, &diagnostics);
  if (!opened.ok()) return opened.status();
  return BuildReport(*opened, options, diagnostics);
}

Report ReportOf(const TraceBuilder& trace, ReportOptions options, Reader reader) {
  options.samples = true;
  absl::StatusOr<Report> report = TryReport(trace, options, reader);
  if (!report.ok()) {
    ADD_FAILURE() << report.status().ToString();
    return {};
  }
  const bool filtered = !options.kernel.empty() || !options.scope.empty() ||
                        !options.function.empty() || !options.exclude.empty() ||
                        !options.prefix.empty() || options.skip_runs != 0;
  if (!filtered) CheckInvariants(*report);
  return *std::move(report);
}

std::vector<FunctionRow> FunctionsNamed(const Report& report, std::string_view function) {
  std::vector<FunctionRow> rows;
  for (const FunctionRow& row : report.functions) {
    if (row.function == function) rows.push_back(row);
  }
  return rows;
}

FunctionRow TheFunction(const Report& report, std::string_view function) {
  return TheOnly(
      report.functions, [&](const FunctionRow& row) { return row.function == function; }, function);
}

FunctionRow TheCombined(const Report& report, std::string_view function) {
  return TheOnly(
      report.combined, [&](const FunctionRow& row) { return row.function == function; }, function);
}

KernelRow TheKernel(const Report& report, std::string_view kernel) {
  return TheOnly(
      report.kernels, [&](const KernelRow& row) { return row.kernel == kernel; }, kernel);
}

DeviceRow TheDevice(const Report& report, std::string_view plane) {
  return TheOnly(
      report.devices, [&](const DeviceRow& row) { return row.device.plane == plane; }, plane);
}

std::vector<int64_t> ActivePs(const Report& report, std::string_view function) {
  return OfSamples<int64_t>(report, function,
                            [](const SampleRow& sample) { return sample.active_ps.value_or(-1); });
}

std::vector<int64_t> SpanPs(const Report& report, std::string_view function) {
  return OfSamples<int64_t>(report, function,
                            [](const SampleRow& sample) { return sample.span_ps; });
}

std::vector<uint64_t> KernelCounts(const Report& report, std::string_view function) {
  return OfSamples<uint64_t>(report, function,
                             [](const SampleRow& sample) { return sample.kernels; });
}

uint64_t DiagnosticCount(const Report& report, std::string_view code) {
  uint64_t count = 0;
  for (const DiagnosticRow& row : report.diagnostics) {
    if (row.code == code) count += row.count;
  }
  return count;
}

SlowReport ToSlow(const Report& report) {
  SlowReport slow;
  for (const DeviceRow& row : report.devices) {
    if (row.executions == 0) continue;
    slow.devices[{row.device.plane, row.device.ordinal}] = {row.executions, row.busy_ps, row.sum_ps,
                                                            row.first_ps.value_or(-1),
                                                            row.last_ps.value_or(-1)};
  }
  for (const FunctionRow& row : report.functions) {
    SlowFunction& function =
        slow.functions[{row.device->plane, row.device->ordinal, row.function, row.program_id}];
    function.clock = row.clock ? std::string(ClockName(*row.clock)) : "unknown";
    function.kernels_total = row.kernels_total;
    for (const SampleRow& sample : SamplesOf(report, row)) {
      function.runs.push_back({sample.start_ps, sample.span_ps, sample.active_ps, sample.sum_ps,
                               sample.kernels, sample.suspect,
                               std::string(ClockName(sample.clock))});
    }
    std::sort(function.runs.begin(), function.runs.end());
  }
  for (const KernelRow& row : report.kernels) {
    slow.kernels[{row.device.plane, row.device.ordinal, row.kernel, row.function, row.program_id}] =
        {row.count, row.total_ps, std::string(ClockName(row.clock))};
  }
  return slow;
}

void CheckInvariants(const Report& report) {
  for (const DeviceRow& row : report.devices) {
    EXPECT_LE(row.busy_ps, row.sum_ps) << row.device.plane;
    EXPECT_LE(row.busy_ps, row.last_ps.value_or(0) - row.first_ps.value_or(0)) << row.device.plane;
    uint64_t count = 0;
    double share = 0;
    for (const KernelRow& kernel : report.kernels) {
      if (kernel.device.plane != row.device.plane || kernel.device.ordinal != row.device.ordinal ||
          kernel.device.input != row.device.input) {
        continue;
      }
      count += kernel.count;
      share += kernel.share.value_or(0);
      EXPECT_LE(kernel.self_ps.value_or(0), kernel.total_ps) << kernel.kernel;
    }
    EXPECT_EQ(count, row.executions) << row.device.plane;
    EXPECT_LE(share, 1 + 1e-9) << row.device.plane;
  }
  for (const FunctionRow& row : report.functions) CheckFunction(report, row);
}

}  // namespace xplane_time::testing
