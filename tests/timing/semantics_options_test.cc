// Tests of the options of reports, of rows over several devices, and of damaged traces.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/read/temp_dir.h"
#include "tests/support/trace_builder.h"
#include "tests/timing/report_of.h"

namespace xplane_time::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// Adds runs of `function` on a GPU, with one kernel each, every 1000 ps.
void AddRuns(TraceBuilder* t, int64_t gpu, const std::string& function, int64_t program_id,
             const std::vector<int64_t>& durations_ps, int64_t first_ps = 1000) {
  for (size_t run = 0; run < durations_ps.size(); ++run) {
    t->Gpu(gpu).Stream(16).Kernel({.name = "k",
                                   .start_ps = first_ps + 1000 * static_cast<int64_t>(run),
                                   .duration_ps = durations_ps[run],
                                   .hlo_module = function,
                                   .program_id = program_id,
                                   .hlo_op = "op"});
  }
}

// -- Several devices ---------------------------------------------------------

TEST(Combined, SlowestDeviceOfEachRun) {
  TraceBuilder t;
  AddRuns(&t, 0, "jit_f", 1, {10, 40, 30});
  AddRuns(&t, 1, "jit_f", 2, {20, 15, 30}, 1005);  // program ids can differ
  const FunctionRow row = TheCombined(ReportOf(t), "jit_f");
  EXPECT_EQ(row.status, RowStatus::kOk);
  EXPECT_EQ(row.program_id, std::nullopt);
  EXPECT_EQ(row.runs, 3u);
  EXPECT_EQ(row.active_ps.value().n, 3u);
  EXPECT_EQ(row.active_ps.value().min, 20);
  EXPECT_EQ(row.active_ps.value().median, 30);
  EXPECT_EQ(row.active_ps.value().max, 40);
}

TEST(Combined, UnmatchedDevicesGiveNoNumber) {
  struct {
    const char* name;
    std::vector<int64_t> second_device;
    int64_t first_ps;
  } const cases[] = {
      {"another count", {20, 15}, 1005},
      {"apart in time", {20, 15, 30}, 1500},
  };
  for (const auto& test : cases) {
    SCOPED_TRACE(test.name);
    TraceBuilder t;
    AddRuns(&t, 0, "jit_f", 1, {10, 40, 30});
    AddRuns(&t, 1, "jit_f", 1, test.second_device, test.first_ps);
    const Report report = ReportOf(t);
    const FunctionRow row = TheCombined(report, "jit_f");
    EXPECT_EQ(row.status, RowStatus::kDevicesUnmatched);
    EXPECT_FALSE(row.active_ps.has_value());
    EXPECT_FALSE(row.span_ps.has_value());
    EXPECT_EQ(DiagnosticCount(report, "devices_unmatched"), 1u);
    EXPECT_EQ(FunctionsNamed(report, "jit_f").size(), 2u);
    for (const FunctionRow& device : FunctionsNamed(report, "jit_f")) {
      EXPECT_EQ(device.status, RowStatus::kOk);
    }
  }
}

// The clocks of two cores may disagree. The profile clock shows which runs overlap.
TEST(Combined, TpuRunsMatchOnTheProfileClock) {
  TraceBuilder t;
  for (int64_t core : {0, 1}) {
    for (int64_t run : {0, 1}) {
      const int64_t at_ps = 1000 * run + 7 * core;
      t.Tpu(core)
          .Module({.name = "jit_f", .program_id = 1, .start_ps = at_ps, .duration_ps = 500})
          .Op({.name = "dot",
               .start_ps = at_ps,
               .duration_ps = 499,
               .device_offset_ps = 1'000'000 * (core + 1) + at_ps,
               .device_duration_ps = 100 + 10 * core + run});
    }
  }
  const FunctionRow row = TheCombined(ReportOf(t), "jit_f");
  EXPECT_EQ(row.status, RowStatus::kOk);
  EXPECT_EQ(row.clock, Clock::kDevice);
  EXPECT_EQ(row.active_ps.value().n, 2u);
  EXPECT_EQ(row.active_ps.value().min, 110);
  EXPECT_EQ(row.active_ps.value().max, 111);
}

TEST(Combined, ProgramsOfOneFunctionAreOneRow) {
  TraceBuilder t;
  for (int64_t gpu : {0, 1}) {
    AddRuns(&t, gpu, "jit_f", 1 + gpu, {10, 20}, 1000);
    AddRuns(&t, gpu, "jit_f", 7 + gpu, {30 + gpu}, 5000);
  }
  const FunctionRow row = TheCombined(ReportOf(t), "jit_f");
  EXPECT_EQ(row.status, RowStatus::kOk);
  EXPECT_EQ(row.runs, 3u);
  EXPECT_EQ(row.active_ps.value().min, 10);
  EXPECT_EQ(row.active_ps.value().max, 31);
}

// If a run lacks kernels on one device, its slowest device is unknown.
TEST(Combined, SuspectRunsAreLeftOut) {
  TraceBuilder t;
  for (int64_t gpu : {0, 1}) {
    AddRuns(&t, gpu, "jit_f", 1, {10, 10, 90, 10, 10});
    for (int64_t run = 0; run < 5; ++run) {
      if (gpu == 1 && run == 2) continue;
      t.Gpu(gpu).Stream(16).Kernel({.name = "second",
                                    .start_ps = 1100 + 1000 * run,
                                    .duration_ps = 5,
                                    .hlo_module = "jit_f",
                                    .program_id = 1,
                                    .hlo_op = "second"});
    }
  }
  const FunctionRow row = TheCombined(ReportOf(t), "jit_f");
  EXPECT_EQ(row.runs, 5u);
  EXPECT_EQ(row.suspect_runs, 1u);
  EXPECT_EQ(row.active_ps.value().n, 4u);
  EXPECT_EQ(row.active_ps.value().max, 15);
}

TEST(Combined, IntervalsOfDifferentDevicesNeverMerge) {
  TraceBuilder t;
  AddRuns(&t, 0, "jit_f", 1, {10});
  AddRuns(&t, 1, "jit_f", 1, {10}, 1005);
  const Report report = ReportOf(t);
  EXPECT_EQ(TheDevice(report, "/device:GPU:0").busy_ps, 10);
  EXPECT_EQ(TheDevice(report, "/device:GPU:1").busy_ps, 10);
  EXPECT_EQ(TheCombined(report, "jit_f").active_ps.value().max, 10);
}

TEST(Hosts, PlanesOfEqualNameOnTwoHostsAreTwoDevices) {
  const testing::TempDir folder;
  std::vector<Input> inputs;
  for (const char* host : {"a", "b"}) {
    TraceBuilder t;
    t.Hostname(host);
    AddRuns(&t, 0, "jit_f", 1, {host[0] == 'a' ? 10 : 25});
    inputs.push_back({.path = folder.Write(std::string(host) + ".xplane.pb", t.Bytes())});
  }
  Diagnostics reading;
  const auto trace = OpenTrace(inputs, {}, &reading);
  ASSERT_TRUE(trace.ok()) << trace.status().ToString();
  ReportOptions options;
  options.samples = true;
  const auto report = BuildReport(*trace, options, reading);
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  CheckInvariants(*report);
  std::vector<std::pair<std::string, int64_t>> busy_by_host;
  for (const DeviceRow& row : report->devices) {
    busy_by_host.emplace_back(row.device.host, row.busy_ps);
  }
  EXPECT_THAT(busy_by_host, UnorderedElementsAre(std::pair("a", 10), std::pair("b", 25)));
  EXPECT_EQ(TheCombined(*report, "jit_f").active_ps.value().max, 25);
}

// -- Options -----------------------------------------------------------------

TEST(Options, DeviceSelection) {
  TraceBuilder t;
  for (int64_t gpu : {0, 1, 2}) AddRuns(&t, gpu, "jit_f", 1, {10 + gpu});
  struct {
    const char* selector;
    std::vector<int64_t> active_ps;
  } const cases[] = {
      {"gpu", {10, 11, 12}},      {"gpu:0,2", {10, 12}}, {"gpu:1", {11}},
      {"re:GPU:[12]$", {11, 12}}, {"all", {10, 11, 12}},
  };
  for (const auto& test : cases) {
    SCOPED_TRACE(test.selector);
    ReportOptions options;
    options.device = test.selector;
    EXPECT_THAT(ActivePs(ReportOf(t, options), "jit_f"),
                ::testing::UnorderedElementsAreArray(test.active_ps));
  }
}

TEST(Options, BadSelectorsAndPatterns) {
  TraceBuilder t;
  AddRuns(&t, 0, "jit_f", 1, {10});
  const auto code = [&](auto set) {
    ReportOptions options;
    set(&options);
    return TryReport(t, options).status().code();
  };
  using O = ReportOptions;
  using enum absl::StatusCode;
  EXPECT_EQ(code([](O* o) { o->device = "npu"; }), kInvalidArgument);
  EXPECT_EQ(code([](O* o) { o->device = "gpu:x"; }), kInvalidArgument);
  EXPECT_EQ(code([](O* o) { o->device = "re:("; }), kInvalidArgument);
  EXPECT_EQ(code([](O* o) { o->device = "gpu:5"; }), kFailedPrecondition);
  EXPECT_EQ(code([](O* o) { o->device = "tpu"; }), kFailedPrecondition);
  EXPECT_EQ(code([](O* o) { o->function = "("; }), kInvalidArgument);
  EXPECT_EQ(code([](O* o) { o->exclude = "("; }), kInvalidArgument);
  EXPECT_EQ(code([](O* o) { o->kernel = "("; }), kInvalidArgument);
  EXPECT_EQ(code([](O* o) { o->scope = "("; }), kInvalidArgument);
  EXPECT_EQ(code([](O* o) { o->id_pattern = "("; }), kInvalidArgument);
}

TEST(Options, FunctionExcludeAndPrefix) {
  TraceBuilder t;
  AddRuns(&t, 0, "jit_matmul", 1, {10}, 1000);
  AddRuns(&t, 0, "jit_add", 2, {20}, 3000);
  AddRuns(&t, 0, "pmap_add", 3, {30}, 5000);
  struct {
    const char *function, *exclude, *prefix;
    std::vector<std::string> left;
  } const cases[] = {
      {"", "", "", {"jit_matmul", "jit_add", "pmap_add"}},
      {"add", "", "", {"jit_add", "pmap_add"}},
      {"^jit_", "mat", "", {"jit_add"}},
      {"", "", "jit_", {"jit_matmul", "jit_add"}},
      {"", "add", "pmap", {}},
  };
  for (const auto& test : cases) {
    SCOPED_TRACE(std::string(test.function) + "/" + test.exclude + "/" + test.prefix);
    ReportOptions options;
    options.function = test.function;
    options.exclude = test.exclude;
    options.prefix = test.prefix;
    const Report report = ReportOf(t, options);
    std::vector<std::string> names;
    for (const FunctionRow& row : report.functions) names.push_back(row.function);
    EXPECT_THAT(names, ::testing::UnorderedElementsAreArray(test.left));
    EXPECT_EQ(TheDevice(report, "/device:GPU:0").busy_ps, 60) << "devices are not filtered";
  }
}

// Filters select executions, but do not change the begin of runs.
TEST(Options, KernelAndScopeFilters) {
  TraceBuilder t;
  for (int64_t run = 0; run < 3; ++run) {
    for (int64_t i = 0; i < 3; ++i) {
      t.Gpu(0).Stream(1).Kernel(
          {.name = i == 1 ? "gemm" : "copy" + std::to_string(i),
           .start_ps = 1000 * run + 20 * i,
           .duration_ps = 10 + i,
           .hlo_module = "jit_f",
           .program_id = 1,
           .hlo_op = "op" + std::to_string(i),
           .stats = {{.name = "name", .value = i == 1 ? "jit(f)/attention" : "jit(f)/mlp"}}});
    }
  }
  struct {
    const char *kernel, *scope;
    int64_t active_ps, span_ps;
    uint64_t kernels;
  } const cases[] = {
      {"", "", 33, 52, 3},          {"gemm", "", 11, 11, 1},  {"copy", "", 22, 52, 2},
      {"", "attention", 11, 11, 1}, {"", "/mlp$", 22, 52, 2}, {"copy2", "mlp", 12, 12, 1},
  };
  for (const auto& test : cases) {
    SCOPED_TRACE(std::string(test.kernel) + "/" + test.scope);
    ReportOptions options;
    options.kernel = test.kernel;
    options.scope = test.scope;
    const Report report = ReportOf(t, options);
    EXPECT_THAT(ActivePs(report, "jit_f"),
                ElementsAre(test.active_ps, test.active_ps, test.active_ps));
    EXPECT_THAT(SpanPs(report, "jit_f"), ElementsAre(test.span_ps, test.span_ps, test.span_ps));
    EXPECT_THAT(KernelCounts(report, "jit_f"),
                ElementsAre(test.kernels, test.kernels, test.kernels));
  }
  ReportOptions none;
  none.kernel = "no such kernel";
  EXPECT_THAT(ReportOf(t, none).functions, IsEmpty());
}

// A module without ops has no matching kernel, so it is not a run of a filtered function.
TEST(Options, KernelFilterLeavesNoModuleWithoutOps) {
  TraceBuilder t;
  t.Tpu(0)
      .Module({.name = "jit_empty", .program_id = 1, .start_ps = 0, .duration_ps = 100})
      .Module({.name = "jit_f", .program_id = 2, .start_ps = 200, .duration_ps = 100})
      .Op({.name = "gemm", .start_ps = 210, .duration_ps = 5});
  ReportOptions options;
  options.kernel = "gemm";
  const Report report = ReportOf(t, options);
  EXPECT_EQ(TheFunction(report, "jit_f").active_ps.value().max, 5);
  EXPECT_THAT(FunctionsNamed(report, "jit_empty"), IsEmpty());
}

TEST(Options, SkipRunsLeavesOutTheFirstOfEachFunctionAndDevice) {
  TraceBuilder t;
  AddRuns(&t, 0, "jit_f", 1, {90, 80, 10, 11});
  AddRuns(&t, 0, "jit_g", 2, {70, 60, 20}, 20'000);
  AddRuns(&t, 1, "jit_f", 1, {50, 40, 30, 31});
  ReportOptions options;
  options.skip_runs = 2;
  const Report report = ReportOf(t, options);
  std::vector<std::pair<uint64_t, int64_t>> n_and_max;
  for (const FunctionRow& row : report.functions) {
    EXPECT_EQ(row.runs, row.active_ps.value().n + row.suspect_runs + row.dropped_samples);
    n_and_max.emplace_back(row.active_ps.value().n, row.active_ps.value().max);
  }
  EXPECT_THAT(n_and_max,
              UnorderedElementsAre(std::pair(2, 11), std::pair(1, 20), std::pair(2, 31)));
}

TEST(Options, TrimmingShowsWhatItDropped) {
  struct {
    Trim trim;
    uint64_t dropped;
    int64_t min_ps, max_ps;
  } const cases[] = {
      {{Trim::Policy::kKeepAll, 0}, 0, 1, 500},  {{Trim::Policy::kDropExtremes, 0}, 2, 18, 22},
      {{Trim::Policy::kIqr, 0}, 2, 18, 22},      {{Trim::Policy::kMad, 0}, 2, 18, 22},
      {{Trim::Policy::kPercent, 20}, 2, 18, 22}, {{Trim::Policy::kPercent, 5}, 0, 1, 500},
  };
  for (const auto& test : cases) {
    SCOPED_TRACE(TrimName(test.trim));
    TraceBuilder t;
    AddRuns(&t, 0, "jit_f", 1, {500, 20, 21, 19, 1, 22, 18});
    ReportOptions options;
    options.trim = test.trim;
    const FunctionRow row = TheFunction(ReportOf(t, options), "jit_f");
    EXPECT_EQ(row.runs, 7u);
    EXPECT_EQ(row.dropped_samples, test.dropped);
    EXPECT_EQ(row.active_ps.value().n + row.suspect_runs + row.dropped_samples, row.runs);
    EXPECT_EQ(row.active_ps.value().min, test.min_ps);
    EXPECT_EQ(row.active_ps.value().max, test.max_ps);
  }
}

// Trimming uses one metric, and removes complete runs.
TEST(Options, TrimmingFollowsTheMetric) {
  TraceBuilder t;
  const std::pair<int64_t, int64_t> active_and_span[] = {{10, 99}, {90, 95}, {20, 50}, {21, 51}};
  for (size_t run = 0; run < 4; ++run) {
    const auto at_ps = 1000 * static_cast<int64_t>(run);
    const auto [active_ps, span_ps] = active_and_span[run];
    for (bool last : {false, true}) {
      t.Gpu(0).Stream(1).Kernel({.name = last ? "last" : "first",
                                 .start_ps = at_ps + (last ? span_ps - 1 : 0),
                                 .duration_ps = last ? 1 : active_ps - 1,
                                 .hlo_module = "jit_f",
                                 .program_id = 1,
                                 .hlo_op = last ? "last" : "first"});
    }
  }
  ReportOptions options;
  options.trim.policy = Trim::Policy::kDropExtremes;
  options.metric = Metric::kActive;
  FunctionRow row = TheFunction(ReportOf(t, options), "jit_f");
  EXPECT_EQ(row.active_ps.value().max, 21);
  EXPECT_EQ(row.span_ps.value().max, 51);
  options.metric = Metric::kSpan;
  row = TheFunction(ReportOf(t, options), "jit_f");
  EXPECT_EQ(row.span_ps.value().max, 95);
  EXPECT_EQ(row.active_ps.value().max, 90);
}

TEST(Options, MinDurationAndMaxEventsSayWhatTheyLeftOut) {
  TraceBuilder t;
  AddRuns(&t, 0, "jit_f", 1, {10, 20, 30, 40});
  ReportOptions short_ones;
  short_ones.min_duration_ps = 20;
  const Report a = ReportOf(t, short_ones);
  EXPECT_EQ(DiagnosticCount(a, "left_out_by_min_duration"), 1u);
  EXPECT_THAT(ActivePs(a, "jit_f"), ElementsAre(20, 30, 40));
  ReportOptions first_ones;
  first_ones.max_events = 3;
  const Report b = ReportOf(t, first_ones);
  EXPECT_EQ(DiagnosticCount(b, "left_out_by_max_events"), 1u);
  EXPECT_THAT(ActivePs(b, "jit_f"), ElementsAre(10, 20, 30));
  const Report all = ReportOf(t);
  EXPECT_EQ(DiagnosticCount(all, "left_out_by_min_duration"), 0u);
  EXPECT_EQ(DiagnosticCount(all, "left_out_by_max_events"), 0u);
}

TEST(Options, IdPatternNamesVariants) {
  TraceBuilder t;
  AddRuns(&t, 0, "jit_block_64_v2", 1, {10});
  AddRuns(&t, 0, "jit_other", 2, {20}, 3000);
  ReportOptions options;
  options.id_pattern = "^jit_block_([0-9]+)_";
  const Report report = ReportOf(t, options);
  EXPECT_EQ(TheFunction(report, "jit_block_64_v2").variant_id, "64");
  EXPECT_EQ(TheFunction(report, "jit_other").variant_id, std::nullopt);
}

// -- Damage ------------------------------------------------------------------

TEST(Damage, BadEventsAreCountedAndSkipped) {
  TraceBuilder t;
  t.Gpu(0)
      .Stream(1)
      .Event({.name = "negative", .start_ps = 5, .duration_ps = -1})
      .Event({.name = "overflow", .start_ps = INT64_MAX, .duration_ps = 1})
      .Event({.start_ps = 10, .duration_ps = 7, .metadata_id = 42})
      .Event({.name = "good", .start_ps = 0, .duration_ps = 5});
  const Report report = ReportOf(t);
  EXPECT_EQ(DiagnosticCount(report, "negative_duration"), 1u);
  EXPECT_EQ(DiagnosticCount(report, "time_overflow"), 1u);
  EXPECT_EQ(DiagnosticCount(report, "missing_event_metadata"), 1u);
  EXPECT_EQ(TheKernel(report, "(event metadata 42)").total_ps, 7);
  EXPECT_EQ(TheKernel(report, "good").total_ps, 5);
  EXPECT_EQ(TheDevice(report, "/device:GPU:0").executions, 2u);
  EXPECT_EQ(TheDevice(report, "/device:GPU:0").first_ps, 0);
}

TEST(Damage, LinesWithEqualIdsAreOneTimeline) {
  TraceBuilder t;
  auto gpu = t.Gpu(0);
  gpu.Line({.id = 7, .name = "Stream #7(Kernel)"})
      .Kernel({.name = "a", .start_ps = 10, .duration_ps = 5});
  gpu.Line({.id = 7, .name = "Stream #7(Kernel)"})
      .Kernel({.name = "b", .start_ps = 0, .duration_ps = 12});
  const Report report = ReportOf(t);
  EXPECT_EQ(TheDevice(report, "/device:GPU:0").executions, 2u);
  EXPECT_EQ(TheDevice(report, "/device:GPU:0").busy_ps, 15);
}

// Stats of the event take precedence over those of its metadata. Texts may be references.
TEST(Damage, StatsOfAnyType) {
  TraceBuilder t;
  auto stream = t.Gpu(0).Stream(1);
  const auto add = [&](std::string name, int64_t start_ps, StatContent module, StatContent id,
                       std::vector<StatSpec> metadata_stats) {
    stream.Event(
        {.name = name,
         .start_ps = start_ps,
         .duration_ps = 1,
         .stats = {{.name = "hlo_module", .value = module}, {.name = "program_id", .value = id}},
         .metadata_stats = std::move(metadata_stats)});
  };
  add("a", 0, Ref{"jit_f"}, int64_t{3}, {});
  add("b", 10, "jit_g", uint64_t{12190760917235803885u}, {});
  add("c", 20, "jit_h", "7", {{.name = "hlo_module", .value = "from metadata"}});
  stream.Event({.name = "d",
                .start_ps = 30,
                .duration_ps = 1,
                .metadata_stats = {{.name = "hlo_module", .value = "jit_m"}}});
  const Report report = ReportOf(t);
  EXPECT_EQ(TheFunction(report, "jit_f").program_id, "3");
  EXPECT_EQ(TheFunction(report, "jit_g").program_id, "12190760917235803885");
  EXPECT_EQ(TheFunction(report, "jit_h").program_id, "7");
  EXPECT_EQ(TheFunction(report, "jit_m").program_id, std::nullopt);
}

TEST(Capture, EnvironmentAndProducerMessages) {
  TraceBuilder t;
  t.Hostname("worker-3").Environment(1'795'256'236'744'101'975, 1'795'256'236'751'092'977);
  AddRuns(&t, 0, "jit_f", 1, {10});
  t.proto().add_warnings("dropped 17 events");
  t.proto().add_errors("no CUPTI");
  const Report report = ReportOf(t);
  EXPECT_THAT(report.capture.hostnames, ElementsAre("worker-3"));
  EXPECT_THAT(report.capture.warnings, ElementsAre("dropped 17 events"));
  EXPECT_THAT(report.capture.errors, ElementsAre("no CUPTI"));
  EXPECT_EQ(report.capture.start_unix_ns, 1'795'256'236'744'101'975u);
  EXPECT_EQ(report.capture.stop_unix_ns, 1'795'256'236'751'092'977u);
  EXPECT_EQ(DiagnosticCount(report, "producer_warning"), 1u);
  EXPECT_EQ(DiagnosticCount(report, "producer_error"), 1u);
  EXPECT_EQ(TheDevice(report, "/device:GPU:0").device.host, "worker-3");
}

}  // namespace
}  // namespace xplane_time::testing
