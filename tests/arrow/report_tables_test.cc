// Tables of results hold what CSV prints, column by column.
#include "arrow/table.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "result/rows.h"
#include "tests/arrow/arrow_text.h"
#include "tests/output/rendered.h"
#include "tests/support/trace_builder.h"
#include "xplane_time/read.h"

namespace xplane_time::testing {
namespace {

// Rows with unknown values of every kind, names that need escapes, no rows at all.
std::string OddTrace() {
  TraceBuilder t;
  auto stream = t.Gpu(0).Stream(1);
  stream.Kernel({.name = "k, \"quoted\"\n\xff",
                 .start_ps = 5,
                 .duration_ps = 3,
                 .hlo_module = "jit_autotune_fn_7",
                 .program_id = 2,
                 .hlo_op = "dot"});
  stream.Kernel({.name = "copy", .start_ps = 10, .duration_ps = 4});
  stream.Event({.name = "many", .duration_ps = 50, .num_occurrences = 4});
  t.Tpu(0).Module({.name = "jit_idle(9)", .start_ps = 0, .duration_ps = 100});
  t.Host().Thread("python");
  t.Hostname("host, one");
  return t.Bytes();
}

template <typename Rows>
arrow::Table TableOf(const Rows& rows) {
  return arrow::FromRows(result::TableOf("", std::span(rows)));
}

arrow::Table FunctionsTable(const std::vector<FunctionRow>& rows, bool with_device) {
  return arrow::FromRows(result::FunctionTable("", std::span(rows), with_device));
}

void ExpectTablesLikeCsv(const Trace& trace, const Diagnostics& reading) {
  const output::OutputOptions csv = {.format = output::Format::kCsv};
  TreeOptions options;
  options.select.device = "all";
  options.select.samples = options.select.by_variant = true;
  const auto report = BuildReport(trace, options.select, reading);
  ASSERT_TRUE(report.ok()) << report.status();
  // Unsorted, as they are in the report: compare as they are rendered one by one.
  Report functions = *report;
  functions.samples.clear();
  EXPECT_EQ(CsvOf(TableOf(report->samples)),
            *output::RenderFunctions(*report, csv, /*by_id=*/false, /*samples=*/true));
  for (const FunctionRow& row : report->functions) {
    functions.functions = {row};
    EXPECT_EQ(CsvOf(FunctionsTable(functions.functions, true)),
              *output::RenderFunctions(functions, csv, false, false));
  }
  for (const FunctionRow& row : report->variants) {
    functions.variants = {row};
    EXPECT_EQ(CsvOf(FunctionsTable(functions.variants, false)),
              *output::RenderFunctions(functions, csv, /*by_id=*/true, false));
  }
  for (const KernelRow& row : report->kernels) {
    functions.kernels = {row};
    EXPECT_EQ(CsvOf(TableOf(functions.kernels)), *output::RenderKernels(functions, csv));
  }
  const auto tree = BuildTree(trace, options, reading);
  if (tree.ok()) {
    EXPECT_EQ(CsvOf(TableOf(tree->rows)), output::RenderTree(*tree, csv));
  }
  for (const bool stats : {false, true}) {
    const auto planes = DescribePlanes(trace, {.with_stats = stats}, reading);
    ASSERT_TRUE(planes.ok());
    EXPECT_EQ(
        CsvOf(arrow::FromRows(stats ? result::PlaneStats(*planes) : result::PlaneLines(*planes))),
        output::RenderPlanes(*planes, csv));
  }
}

TEST(ReportTables, OddTraceLikeCsv) {
  const std::string bytes = OddTrace();
  Diagnostics reading;
  const auto trace = OpenTraceFromMemory(bytes, "odd", {}, &reading);
  ASSERT_TRUE(trace.ok()) << trace.status();
  ExpectTablesLikeCsv(*trace, reading);
}

TEST(ReportTables, RecordedTracesLikeCsv) {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(XPLANE_TIME_TESTDATA)) {
    if (entry.path().extension() != ".pb") continue;
    SCOPED_TRACE(entry.path());
    Diagnostics reading;
    const std::vector<Input> inputs = {{.path = entry.path().string()}};
    const auto trace = OpenTrace(inputs, {}, &reading);
    ASSERT_TRUE(trace.ok()) << trace.status();
    ExpectTablesLikeCsv(*trace, reading);
    ++count;
  }
  EXPECT_GE(count, 4u);
}

TEST(ReportTables, WithoutRowsTheColumnsAreTheSame) {
  EXPECT_EQ(CsvOf(TableOf(std::vector<KernelRow>())),
            *output::RenderKernels({}, {.format = output::Format::kCsv}));
  const std::string devices = CsvOf(TableOf(std::vector<DeviceRow>()));
  EXPECT_EQ(devices,
            "input,plane,ordinal,host,kind,executions,busy_ps,sum_ps,first_ps,last_ps,steps_steps,"
            "steps_steps_empty,steps_step_source,steps_step_function,steps_step_program_id,"
            "steps_steps_timed,steps_step_median_ps,steps_step_period_ps,steps_verdict,steps_reason,"
            "steps_compute_share,steps_collective_exposed_share,steps_copy_exposed_share,"
            "steps_other_share,steps_idle_host_share,steps_idle_launch_share,"
            "steps_idle_unknown_share,steps_waits_for_host_share,steps_waits_for_input_share,"
            "steps_waits_for_input_ps\n");
  EXPECT_EQ(CsvOf(TableOf(std::vector<DiagnosticRow>())),
            "code,severity,count,message,plane,line,event,byte_offset\n");
  EXPECT_EQ(CsvOf(TableOf(std::vector<InputRow>())), "path,bytes,host,capture,base_ns\n");
}

// The type of a column does not depend on whether anything in it is known.
TEST(ReportTables, TypesDoNotDependOnValues) {
  const arrow::Table none = TableOf(std::vector<KernelRow>());
  KernelRow row;
  row.function = "f";
  row.median_ps = 1.5;
  row.flops = 3;
  const arrow::Table some = TableOf(std::vector{row});
  ASSERT_EQ(none.columns.size(), some.columns.size());
  for (size_t i = 0; i < none.columns.size(); ++i) {
    EXPECT_EQ(none.columns[i].type(), some.columns[i].type()) << none.columns[i].name();
  }
}

}  // namespace
}  // namespace xplane_time::testing
