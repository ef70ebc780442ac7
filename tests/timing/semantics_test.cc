// Tests the critical cases of "the time of a function" through the public API. Runs on GPUs are in
// semantics_gpu_test.cc, options in semantics_options_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/trace_builder.h"
#include "tests/timing/report_of.h"
#include "xplane_time/intervals.h"
#include "xplane_time/report.h"

namespace xplane_time::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr int64_t kUs = 1'000'000;
constexpr int64_t kEpochNs = 1'770'000'000'000'000'000;

std::vector<std::pair<std::string, uint64_t>> KernelsAndCounts(const Report& report) {
  std::vector<std::pair<std::string, uint64_t>> counts;
  for (const KernelRow& row : report.kernels) counts.emplace_back(row.kernel, row.count);
  return counts;
}

// 1. An envelope over both calls would be 110 us.
TEST(Semantics, TwoCallsFarApartAreTwoSamples) {
  for (bool host_evidence : {false, true}) {
    SCOPED_TRACE(host_evidence);
    TraceBuilder t;
    auto stream = t.Gpu(0).Stream(16);
    auto python = t.Host().Thread("python");
    for (uint64_t call : {0, 1}) {
      const int64_t start_ps = static_cast<int64_t>(call) * 100 * kUs + kUs;
      stream.Kernel({.name = "k",
                     .start_ps = start_ps,
                     .duration_ps = 10 * kUs,
                     .hlo_module = "jit_f",
                     .program_id = 3,
                     .hlo_op = "dot.1",
                     .correlation_id = 7 + call});
      if (!host_evidence) continue;
      python.ModuleExecution("jit_f", start_ps - kUs, kUs);
      python.Launch({.start_ps = start_ps - kUs / 2, .duration_ps = 5, .correlation_id = 7 + call});
    }
    const Report report = ReportOf(t);
    EXPECT_THAT(ActivePs(report, "jit_f"), ElementsAre(10 * kUs, 10 * kUs));
    EXPECT_THAT(SpanPs(report, "jit_f"), ElementsAre(10 * kUs, 10 * kUs));
    const FunctionRow row = TheFunction(report, "jit_f");
    EXPECT_EQ(row.runs, 2u);
    EXPECT_EQ(row.program_id, "3");
    EXPECT_EQ(row.status, RowStatus::kOk);
    EXPECT_EQ(TheDevice(report, "/device:GPU:0").busy_ps, 20 * kUs);
  }
}

// 2. A child ends 1 ps after its parent.
TEST(Semantics, ChildPastItsParentNeedsTolerance) {
  struct {
    int64_t tolerance_ps;
    int64_t child_ps;
  } const cases[] = {{0, 0}, {1, 50}, {2000, 50}};
  const std::vector<Interval> events = {{10'000, 10'100}, {10'050, 10'101}};
  for (const auto& [tolerance_ps, child_ps] : cases) {
    SCOPED_TRACE(tolerance_ps);
    const Nesting nesting = Nest(events, tolerance_ps);
    EXPECT_EQ(nesting.parent[1], child_ps == 0 ? kNoParent : 0u);
    EXPECT_EQ(nesting.child_ps[0], child_ps);
    EXPECT_EQ(nesting.self_ps[0], 100 - child_ps);
  }
}

TEST(Semantics, TreeOfALineTakesTheTolerance) {
  TraceBuilder t;
  t.Tpu(0)
      .Module({.name = "jit_f", .program_id = 1, .start_ps = 10'000, .duration_ps = 500})
      .Op({.name = "while", .start_ps = 10'000, .duration_ps = 100})
      .Op({.name = "add", .start_ps = 10'050, .duration_ps = 51});
  const std::string bytes = t.Bytes();
  Diagnostics reading;
  const auto trace = OpenTraceFromMemory(bytes, "t", {}, &reading);
  ASSERT_TRUE(trace.ok()) << trace.status().ToString();
  for (int64_t tolerance_ps : {0, 2000}) {
    SCOPED_TRACE(tolerance_ps);
    TreeOptions options;
    options.line = "^XLA Ops$";
    options.select.tolerance_ps = tolerance_ps;
    const auto tree = BuildTree(*trace, options, reading);
    ASSERT_TRUE(tree.ok()) << tree.status().ToString();
    ASSERT_EQ(tree->rows.size(), 2u);
    for (const TreeRow& row : tree->rows) {
      EXPECT_EQ(row.depth, row.name == "add" && tolerance_ps == 2000 ? 1u : 0u) << row.name;
    }
  }
}

// A trace with a run on each kind of device. The times begin at 5,000 ps.
void BuildOneOfEach(TraceBuilder* t) {
  t->Gpu(0)
      .Stream(1, "Kernel", 4)
      .Kernel({.name = "k",
               .start_ps = 5'001,
               .duration_ps = 7,
               .hlo_module = "jit_g",
               .program_id = 2});
  t->Tpu(0)
      .Module({.name = "jit_t", .program_id = 9, .start_ps = 5'000, .duration_ps = 100})
      .Op({.name = "add", .start_ps = 5'003, .duration_ps = 11});
  t->Host()
      .Thread("tf_XLAPjRtCpuClient/1", 2)
      .Thunk({.start_ps = 5'100,
              .duration_ps = 13,
              .hlo_op = "mul",
              .hlo_module = "jit_c",
              .program_id = 4,
              .run_id = -5});
}

// 3. Epoch timestamps do not lose precision, and the absolute times can be computed from the
// report.
TEST(Semantics, EpochTimestampsGiveTheSameTimes) {
  TraceBuilder normalized, epoch;
  BuildOneOfEach(&normalized);
  BuildOneOfEach(&epoch);
  epoch.ShiftTimestamps(kEpochNs);
  ReportOptions options;
  options.device = "all";
  const Report a = ReportOf(normalized, options);
  const Report b = ReportOf(epoch, options);
  EXPECT_EQ(a.capture.base_ns, 0);
  ASSERT_GT(b.capture.base_ns, 0);
  const int64_t moved_ps = (kEpochNs - b.capture.base_ns) * 1000;
  ASSERT_EQ(a.devices.size(), 3u);
  ASSERT_EQ(b.devices.size(), 3u);
  for (size_t i = 0; i < a.devices.size(); ++i) {
    EXPECT_EQ(*a.devices[i].first_ps + moved_ps, *b.devices[i].first_ps);
    EXPECT_EQ(*a.devices[i].last_ps + moved_ps, *b.devices[i].last_ps);
    EXPECT_EQ(a.devices[i].busy_ps, b.devices[i].busy_ps);
  }
  for (const char* function : {"jit_g", "jit_t", "jit_c"}) {
    EXPECT_EQ(ActivePs(a, function), ActivePs(b, function)) << function;
    EXPECT_EQ(SpanPs(a, function), SpanPs(b, function)) << function;
    EXPECT_EQ(ActivePs(b, function).size(), 1u) << function;
  }
}

// 4. Lines of a plane have different timestamps, so only absolute times are comparable.
TEST(Semantics, ContainmentAcrossLinesWithDifferentTimestamps) {
  TraceBuilder t;
  auto tpu = t.Tpu(0);
  const auto add = [&](const LineSpec& line, std::string name, int64_t start_ps, int64_t ps) {
    tpu.Line(line).Event({.name = name, .start_ps = start_ps, .duration_ps = ps});
  };
  add({.id = 2, .name = "XLA Modules", .timestamp_ns = 900}, "jit_f(1)", 1'000'000, 1000);
  add({.id = 2, .name = "XLA Modules", .timestamp_ns = 5}, "jit_g(2)", 2'000'000, 1000);
  add({.id = 3, .name = "XLA Ops", .timestamp_ns = 1000}, "in_f", 1'000'100, 40);
  add({.id = 3, .name = "XLA Ops", .timestamp_ns = 1}, "in_g", 2'000'999, 50);
  const Report report = ReportOf(t);
  EXPECT_THAT(ActivePs(report, "jit_f"), ElementsAre(40));
  EXPECT_THAT(ActivePs(report, "jit_g"), ElementsAre(50));
  EXPECT_EQ(TheKernel(report, "in_f").function, "jit_f");
  EXPECT_EQ(TheKernel(report, "in_g").function, "jit_g");
}

// 5. Half-open intervals.
TEST(Semantics, TouchingEqualAndEmptyIntervals) {
  TraceBuilder t;
  t.Tpu(0)
      .Module({.name = "jit_f", .program_id = 1, .start_ps = 100, .duration_ps = 50})
      .Op({.name = "a", .start_ps = 100, .duration_ps = 10})
      .Op({.name = "b", .start_ps = 110, .duration_ps = 10})  // touches
      .Op({.name = "c", .start_ps = 110, .duration_ps = 10})  // equal
      .Op({.name = "d", .start_ps = 110, .duration_ps = 0})   // empty, inside
      .Op({.name = "e", .start_ps = 130, .duration_ps = 0});  // empty and alone: extends the span
  const Report report = ReportOf(t);
  EXPECT_THAT(ActivePs(report, "jit_f"), ElementsAre(20));
  EXPECT_THAT(SpanPs(report, "jit_f"), ElementsAre(30));
  const FunctionRow row = TheFunction(report, "jit_f");
  EXPECT_EQ(row.sum_ps.value().max, 30);
  EXPECT_EQ(row.gap_ps.value().max, 10);
  EXPECT_EQ(row.kernels_total, 5u);
  EXPECT_EQ(TheDevice(report, "/device:TPU:0").busy_ps, 20);
}

TEST(Semantics, EmptyOpOnABoundaryBelongsToTheLaterRun) {
  TraceBuilder t;
  t.Tpu(0)
      .Module({.name = "jit_f", .program_id = 1, .start_ps = 100, .duration_ps = 50})
      .Module({.name = "jit_f", .program_id = 1, .start_ps = 150, .duration_ps = 50})
      .Op({.name = "a", .start_ps = 100, .duration_ps = 50})
      .Op({.name = "marker", .start_ps = 150, .duration_ps = 0})
      .Op({.name = "a", .start_ps = 160, .duration_ps = 20})
      .Op({.name = "after", .start_ps = 200, .duration_ps = 0});  // no module starts here
  const Report report = ReportOf(t);
  EXPECT_THAT(KernelCounts(report, "jit_f"), ElementsAre(1, 2));
  EXPECT_THAT(SpanPs(report, "jit_f"), ElementsAre(50, 30));
  EXPECT_EQ(TheKernel(report, "after").function, std::nullopt);
  EXPECT_EQ(DiagnosticCount(report, "execution_outside_module"), 1u);
}

// 6. Names are complete, and ids are unsigned.
TEST(Semantics, VariantAndProgramIds) {
  TraceBuilder t;
  auto tpu = t.Tpu(0);
  const uint64_t program_id = 12190760917235803885u;
  int64_t start_ps = 0;
  for (const char* name : {"jit_autotune_fn_1", "jit_autotune_fn_12", "jit_tune_jax_fn_7"}) {
    tpu.Module({.name = name, .program_id = program_id, .start_ps = start_ps, .duration_ps = 10});
    tpu.Op({.name = "op", .start_ps = start_ps, .duration_ps = 5});
    start_ps += 10;
  }
  const Report report = ReportOf(t);
  EXPECT_EQ(TheFunction(report, "jit_autotune_fn_1").variant_id, "1");
  EXPECT_EQ(TheFunction(report, "jit_autotune_fn_12").variant_id, "12");
  EXPECT_EQ(TheFunction(report, "jit_tune_jax_fn_7").variant_id, "7");
  EXPECT_EQ(TheFunction(report, "jit_autotune_fn_1").program_id, "12190760917235803885");
  ReportOptions options;
  options.function = "^jit_autotune_fn_1$";
  EXPECT_EQ(ReportOf(t, options).functions.size(), 1u);
}

// 7. Spans on the async line overlap each other, and do not count as op time.
TEST(Semantics, AsyncLineNeverEntersOpTime) {
  TraceBuilder t;
  t.Tpu(0)
      .Module({.name = "jit_f", .program_id = 1, .start_ps = 0, .duration_ps = 100})
      .Op({.name = "add", .start_ps = 10, .duration_ps = 20})
      .AsyncOp({.name = "copy-start", .start_ps = 5, .duration_ps = 60})
      .AsyncOp({.name = "copy-start.1", .start_ps = 40, .duration_ps = 50});
  const Report report = ReportOf(t);
  EXPECT_THAT(ActivePs(report, "jit_f"), ElementsAre(20));
  EXPECT_EQ(TheDevice(report, "/device:TPU:0").executions, 1u);
  EXPECT_EQ(TheDevice(report, "/device:TPU:0").busy_ps, 20);
  EXPECT_EQ(TheDevice(report, "/device:TPU:0").sum_ps, 20);
  EXPECT_THAT(KernelsAndCounts(report), ElementsAre(std::pair("add", 1)));
}

// 8. An aggregated event has a count and a total, but no position on the axis.
TEST(Semantics, AggregatedEventsCountWithoutAnInterval) {
  TraceBuilder t;
  auto stream = t.Gpu(0).Stream(1);
  stream.Kernel({.name = "placed", .start_ps = 50, .duration_ps = 10});
  stream.Event({.name = "aggregated", .duration_ps = 700, .num_occurrences = 7});
  const Report report = ReportOf(t);
  const DeviceRow device = TheDevice(report, "/device:GPU:0");
  EXPECT_EQ(device.busy_ps, 10);
  EXPECT_EQ(device.first_ps, 50);
  EXPECT_EQ(device.last_ps, 60);
  const KernelRow row = TheKernel(report, "aggregated");
  EXPECT_EQ(row.count, 7u);
  EXPECT_EQ(row.total_ps, 700);
  EXPECT_EQ(row.mean_ps, 100);
  EXPECT_EQ(row.min_ps, std::nullopt);
  EXPECT_EQ(DiagnosticCount(report, "aggregated_event"), 1u);
}

// 9. Runs on GPUs are tested in semantics_gpu_test.cc.

// 10. One SPMD run uses four CPU devices.
TEST(Semantics, SpmdRunOverFourCpuDevices) {
  TraceBuilder t;
  for (int64_t ordinal = 0; ordinal < 4; ++ordinal) {
    t.Host()
        .Thread("tf_XLAPjRtCpuClient/" + std::to_string(ordinal))
        .Thunk({.start_ps = 100 + ordinal,
                .duration_ps = 10 + ordinal,
                .hlo_op = "all-reduce",
                .hlo_module = "jit_spmd",
                .program_id = 16,
                .run_id = -638615642,
                .device_ordinal = ordinal});
  }
  const Report report = ReportOf(t);
  EXPECT_THAT(ActivePs(report, "jit_spmd"), UnorderedElementsAre(10, 11, 12, 13));
  std::vector<std::optional<int64_t>> ordinals;
  for (const FunctionRow& row : report.functions) ordinals.push_back(row.device->ordinal);
  EXPECT_THAT(ordinals, UnorderedElementsAre(0, 1, 2, 3));
  EXPECT_EQ(report.devices.size(), 4u);
  const FunctionRow combined = TheCombined(report, "jit_spmd");
  EXPECT_FALSE(combined.device.has_value());
  EXPECT_EQ(combined.status, RowStatus::kOk);
  EXPECT_EQ(combined.runs, 1u);
  EXPECT_EQ(combined.active_ps.value().n, 1u);
  EXPECT_EQ(combined.active_ps.value().max, 13);
}

// 11. The CPU is never used silently instead of an accelerator.
TEST(Semantics, IdleAcceleratorBesideABusyCpuIsAnError) {
  TraceBuilder t;
  t.Gpu(0);
  t.Gpu(1);
  t.Host().Thread("worker").Thunk(
      {.start_ps = 1, .duration_ps = 1, .hlo_op = "add", .hlo_module = "jit_f", .program_id = 1});
  const auto refused = TryReport(t, {});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.status().message()),
              AllOf(HasSubstr("no executions on the accelerators (the default)"),
                    HasSubstr("cpu = /host:CPU (1 events)")));
  ReportOptions cpu;
  cpu.device = "cpu";
  EXPECT_THAT(ActivePs(ReportOf(t, cpu), "jit_f"), ElementsAre(1));
}

// Older versions of jax write no run_id. Then the number of runs is uncertain, and reported as
// such.
TEST(Semantics, CpuThunksWithoutARunIdAreUncertain) {
  TraceBuilder t;
  auto line = t.Host().Thread("tf_XLAPjRtCpuClient/1");
  for (int64_t i = 0; i < 4; ++i) {
    line.Event({.name = "dot.1",
                .start_ps = 100 * i,
                .duration_ps = 10,
                .stats = {{"hlo_op", std::string("dot.1")},
                          {"hlo_module", std::string("jit_f")},
                          {"program_id", int64_t{3}}}});
  }
  const Report report = ReportOf(t);
  const FunctionRow row = TheFunction(report, "jit_f");
  EXPECT_EQ(row.status, RowStatus::kRunsUncertain);
  EXPECT_EQ(row.runs, 1u);
  ASSERT_EQ(report.diagnostics.size(), 1u);
  EXPECT_EQ(report.diagnostics[0].code, "runs_uncertain");
  EXPECT_NE(report.diagnostics[0].message.find("jit_f: its thunks have no run_id"),
            std::string::npos)
      << report.diagnostics[0].message;
}

TEST(Semantics, CpuIsTheDefaultWithoutAccelerators) {
  TraceBuilder t;
  t.Host().Thread("worker").Thunk(
      {.start_ps = 1, .duration_ps = 4, .hlo_op = "add", .hlo_module = "jit_f", .program_id = 1});
  EXPECT_THAT(ActivePs(ReportOf(t), "jit_f"), ElementsAre(4));
}

// Host threads with thunks also contain completion markers and launches.
TEST(Semantics, CpuMarkersAndLaunchesAreNotExecutions) {
  TraceBuilder t;
  auto worker = t.Host().Thread("worker");
  worker.Thunk({.start_ps = 0, .duration_ps = 5, .hlo_op = "add", .hlo_module = "jit_f"});
  worker.Thunk({.name = "end: add", .start_ps = 5, .hlo_op = "add", .hlo_module = "jit_f"});
  worker.Launch({.start_ps = 9,
                 .duration_ps = 5,
                 .correlation_id = 1,
                 .hlo_module = "jit_f",
                 .hlo_op = "add"});
  worker.Event({.name = "PjitFunction(f)", .start_ps = 0, .duration_ps = 90});
  const Report report = ReportOf(t);
  EXPECT_THAT(KernelsAndCounts(report), ElementsAre(std::pair("add", 1)));
  EXPECT_EQ(TheDevice(report, "/host:CPU").executions, 1u);
}

// If ops have the device clock, it provides the times. The profile clock assigns ops to runs.
TEST(Semantics, TpuTimesAreOnTheDeviceClock) {
  TraceBuilder t;
  t.Tpu(0)
      .Module({.name = "jit_f", .program_id = 1, .start_ps = 0, .duration_ps = 100})
      .Op({.name = "a",
           .start_ps = 0,
           .duration_ps = 30,
           .device_offset_ps = 7000,
           .device_duration_ps = 20})
      .Op({.name = "b",
           .start_ps = 40,
           .duration_ps = 50,
           .device_offset_ps = 7030,
           .device_duration_ps = 25});
  const Report report = ReportOf(t);
  EXPECT_EQ(TheFunction(report, "jit_f").clock, Clock::kDevice);
  EXPECT_THAT(ActivePs(report, "jit_f"), ElementsAre(45));
  EXPECT_THAT(SpanPs(report, "jit_f"), ElementsAre(55));
  EXPECT_EQ(TheKernel(report, "a").clock, Clock::kDevice);
  EXPECT_EQ(TheKernel(report, "a").total_ps, 20);
  EXPECT_EQ(TheDevice(report, "/device:TPU:0").busy_ps, 80) << "devices: the profile clock";
  ReportOptions profile;
  profile.clock = ClockChoice::kProfile;
  const Report on_profile = ReportOf(t, profile);
  EXPECT_EQ(TheFunction(on_profile, "jit_f").clock, Clock::kProfile);
  EXPECT_THAT(ActivePs(on_profile, "jit_f"), ElementsAre(80));
  EXPECT_THAT(SpanPs(on_profile, "jit_f"), ElementsAre(90));
}

TEST(Semantics, ModuleWithoutOps) {
  TraceBuilder t;
  t.Tpu(0)
      .Module({.name = "jit_f", .program_id = 1, .start_ps = 0, .duration_ps = 100})
      .Module({.name = "jit_g", .program_id = 2, .start_ps = 200, .duration_ps = 30})
      .Op({.name = "a", .start_ps = 210, .duration_ps = 5});
  const Report report = ReportOf(t);
  const FunctionRow row = TheFunction(report, "jit_f");
  EXPECT_EQ(row.status, RowStatus::kNoOps);
  EXPECT_FALSE(row.active_ps.has_value());
  ASSERT_TRUE(row.span_ps.has_value());
  EXPECT_EQ(row.span_ps->max, 100);
  EXPECT_EQ(row.runs, 1u);
  EXPECT_EQ(row.kernels_total, 0u);
  EXPECT_EQ(DiagnosticCount(report, "no_ops"), 1u);
}

// Lines that the profiler derived from others would count the same time twice.
TEST(Semantics, DerivedLinesAreIgnored) {
  TraceBuilder t;
  auto gpu = t.Gpu(0);
  gpu.Stream(1).Kernel({.name = "k", .start_ps = 5, .duration_ps = 10, .hlo_module = "jit_f"});
  gpu.Stream(2, "").Kernel({.name = "k", .start_ps = 50, .duration_ps = 10});
  int64_t id = 100;
  for (const char* name : {"Steps", "XLA Modules", "XLA Ops", "TensorFlow Ops", "Framework Ops",
                           "Source code", "Launch Stats", "_counters_", "CUPTI overhead"}) {
    gpu.Line({.id = ++id, .name = name})
        .Event({.name = "derived", .start_ps = 0, .duration_ps = 1000});
  }
  const Report report = ReportOf(t);
  EXPECT_EQ(TheDevice(report, "/device:GPU:0").busy_ps, 20);
  EXPECT_EQ(TheDevice(report, "/device:GPU:0").executions, 2u);
  for (const KernelRow& row : report.kernels) EXPECT_EQ(row.kernel, "k");
}

TEST(Semantics, BusyTimeIsAUnionAlsoWithinAStream) {
  TraceBuilder t;
  auto gpu = t.Gpu(0);
  gpu.Stream(1).Kernel({.name = "a", .start_ps = 0, .duration_ps = 10});
  gpu.Stream(1).Kernel({.name = "b", .start_ps = 8, .duration_ps = 10});  // overlaps
  gpu.Stream(2).Kernel({.name = "c", .start_ps = 5, .duration_ps = 20});
  gpu.Stream(2).Kernel({.name = "d", .start_ps = 30, .duration_ps = 1});
  const Report report = ReportOf(t);
  const DeviceRow row = TheDevice(report, "/device:GPU:0");
  EXPECT_EQ(row.busy_ps, 26);
  EXPECT_EQ(row.sum_ps, 41);
  EXPECT_EQ(DiagnosticCount(report, "overlap_in_stream"), 1u);
  EXPECT_THAT(report.functions, IsEmpty());
}

}  // namespace
}  // namespace xplane_time::testing
