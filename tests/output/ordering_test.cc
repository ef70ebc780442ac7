#include "output/trace_views.h"
#include "tests/output/rendered.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/output/sample_report.h"

namespace xplane_time::output {
namespace {

using Names = std::vector<std::string>;

Names FunctionNames(Report report, const OutputOptions& options) {
  Names names;
  const absl::Status ordered = OrderReport(options, SortKeys::kFunctions, &report);
  EXPECT_TRUE(ordered.ok()) << ordered;
  for (const FunctionRow& row : Top(report.functions, options.top)) names.push_back(row.function);
  return names;
}

std::vector<KernelRow> OrderedKernels(Report report, const OutputOptions& options) {
  const absl::Status ordered = OrderReport(options, SortKeys::kKernels, &report);
  EXPECT_TRUE(ordered.ok()) << ordered;
  return report.kernels;
}

// Functions "c", "a", "b" on one device, "a" without times.
Report ThreeFunctions() {
  Report report;
  report.functions = {MakeFunction("c", Gpu(0), 3, 100), MakeFunction("a", Gpu(0), 9, 0),
                      MakeFunction("b", Gpu(0), 4, 1000)};
  report.functions[1].active_ps.reset();
  return report;
}

TEST(OrderReportTest, KeysOfFunctions) {
  const Report report = ThreeFunctions();
  const OutputOptions json = {.format = Format::kJson};
  EXPECT_EQ(FunctionNames(report, json), (Names{"c", "a", "b"}));  // the report's own order
  EXPECT_EQ(FunctionNames(report, {}), (Names{"b", "c", "a"}));    // tables: by total
  for (const char* key : {"total", "mean", "median", "std", "min", "max"}) {
    EXPECT_EQ(FunctionNames(report, {.format = Format::kJson, .sort = key}), (Names{"b", "c", "a"}))
        << key;
  }
  EXPECT_EQ(FunctionNames(report, {.sort = "runs"}), (Names{"a", "b", "c"}));
  EXPECT_EQ(FunctionNames(report, {.sort = "name"}), (Names{"a", "b", "c"}));
  EXPECT_EQ(FunctionNames(report, {.sort = "total", .metric = Metric::kSpan}),
            (Names{"b", "c", "a"}));
}

TEST(OrderReportTest, TopCutsAfterSorting) {
  EXPECT_EQ(FunctionNames(ThreeFunctions(), {.format = Format::kCsv, .top = 1}), Names{"b"});
  EXPECT_EQ(FunctionNames(ThreeFunctions(), {.top = 0}), Names{});
  EXPECT_EQ(FunctionNames(ThreeFunctions(), {.top = 99}).size(), 3U);
}

TEST(OrderReportTest, KeysOfKernels) {
  Report report;
  report.kernels = {MakeKernel("b", Gpu(0), 10, 1000, 0.1), MakeKernel("a", Gpu(0), 1, 900, 0.2)};
  report.kernels[0].self_ps.reset();
  const auto first = [&](const char* key) {
    return OrderedKernels(report, {.sort = key})[0].kernel;
  };
  for (const char* key : {"total", "count", "max"}) EXPECT_EQ(first(key), "b") << key;
  for (const char* key : {"self", "mean", "median", "name", "share"}) {
    EXPECT_EQ(first(key), "a") << key;
  }
}

TEST(OrderReportTest, KernelsAreByWhatTheirShareIsOf) {
  Report report;
  report.kernels = {MakeKernel("outer", Gpu(0), 1, 1000, 0.1),
                    MakeKernel("inner", Gpu(0), 1, 900, 0.6),
                    MakeKernel("unknown", Gpu(0), 1, 300, 0.3)};
  report.kernels[0].self_ps = 100;
  report.kernels[2].self_ps.reset();
  const auto order = [&](const OutputOptions& options) {
    Names names;
    for (const KernelRow& row : OrderedKernels(report, options)) names.push_back(row.kernel);
    return names;
  };
  const Names by_own = {"inner", "unknown", "outer"};
  EXPECT_EQ(order({}), by_own);
  EXPECT_EQ(order({.format = Format::kJson, .top = 3}), by_own);
  EXPECT_EQ(order({.sort = "self"}), (Names{"inner", "outer", "unknown"}));
  EXPECT_EQ(order({.sort = "total"}), (Names{"outer", "inner", "unknown"}));
  EXPECT_EQ(order({.format = Format::kJson}), (Names{"outer", "inner", "unknown"}));
}

TEST(OrderReportTest, UnknownKeyListsTheValidOnes) {
  const absl::Status functions = RenderFunctions(Report(), {.sort = "size"}, false, false).status();
  EXPECT_EQ(functions.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      std::string(functions.message()),
      "--sort: unknown key \"size\"; valid keys: total, name, runs, mean, median, std, min, max");
  const absl::Status kernels = RenderKernels(Report(), {.sort = "runs"}).status();
  EXPECT_EQ(
      std::string(kernels.message()),
      "--sort: unknown key \"runs\"; valid keys: total, self, count, mean, median, max, name, "
      "share");
  // A report has both tables, so it accepts the keys of both.
  for (const char* key : {"self", "runs"}) {
    EXPECT_TRUE(RenderReport(Report(), {.format = Format::kJson, .sort = key}).ok()) << key;
  }
  EXPECT_EQ(RenderReport(Report(), {.format = Format::kJson, .sort = "size"}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(OrderReportTest, NotANumberSortsLast) {
  Report report;
  report.kernels = {MakeKernel("nan", Gpu(0), 1, 5, 0.1), MakeKernel("b", Gpu(0), 1, 1, 0.2)};
  report.kernels[0].mean_ps = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(OrderedKernels(report, {.sort = "mean"})[1].kernel, "nan");
}

}  // namespace
}  // namespace xplane_time::output
