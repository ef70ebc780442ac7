// What a report says that a device did, and what `where` says: the same, of any trace.
#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <span>
#include <string>

#include "tests/support/random.h"
#include "tests/support/trace_builder.h"
#include "xplane_time/headroom.h"
#include "xplane_time/read.h"
#include "xplane_time/report.h"
#include "xplane_time/where.h"

namespace xplane_time {
namespace {

using testing::LineBuilder;
using testing::Random;
using testing::TraceBuilder;

// Names of each category.
const std::string kNames[] = {
    "fusion.1", "ncclDevKernel_AllReduce", "MemcpyD2D", "while.2", "all-reduce.3", "copy.4"};

std::string AnyName(Random* random) { return kNames[random->Below(std::size(kNames))]; }

void AddGpu(Random* random, int64_t many, TraceBuilder* t) {
  for (int64_t stream = 0; stream < 1 + random->Below(3); ++stream) {
    LineBuilder line = t->Gpu(0).Stream(16 + stream);
    int64_t start_ps = random->Below(20);
    for (int64_t i = 0; i < many; ++i) {
      line.Kernel({.name = AnyName(random), .start_ps = start_ps, .duration_ps = random->Below(9)});
      start_ps += random->Below(6);
    }
  }
}

// Ops contain each other, or overlap; the device's clock runs beside the profile's, and back where
// `goes_back`.
void AddTpu(Random* random, int64_t many, bool goes_back, TraceBuilder* t) {
  auto tpu = t->Tpu(1);
  const bool device_clock = !random->OneIn(3);
  const bool lacks = random->OneIn(4);
  int64_t start_ps = 0;
  for (int64_t i = 0; i < many; ++i) {
    testing::OpSpec op = {.name = AnyName(random), .start_ps = start_ps};
    op.duration_ps = random->OneIn(4) ? 5 + random->Below(20) : random->Below(4);
    const bool back = goes_back && i == many / 2;
    if (device_clock && !(lacks && random->OneIn(5))) {
      op.device_offset_ps = 1000 + start_ps + random->Below(2) - (back ? 900 : 0);
      op.device_duration_ps = op.duration_ps + random->Below(2);
    }
    tpu.Op(op);
    start_ps += random->Below(6);
  }
  tpu.Module({.name = "jit_f", .program_id = 1, .start_ps = 0, .duration_ps = start_ps + 30});
}

void AddCpu(Random* random, int64_t many, TraceBuilder* t) {
  for (int64_t thread = 0; thread < 1 + random->Below(4); ++thread) {
    LineBuilder line = t->Host().Thread("thread " + std::to_string(thread));
    int64_t start_ps = random->Below(10);
    for (int64_t i = 0; i < many; ++i) {
      line.Thunk({.start_ps = start_ps,
                  .duration_ps = random->OneIn(4) ? 5 + random->Below(20) : random->Below(4),
                  .hlo_op = AnyName(random),
                  .hlo_module = "jit_f",
                  .run_id = 1,
                  .device_ordinal = random->Below(2)});
      start_ps += random->Below(6);
    }
  }
}

// Steps on the host, some of which overlap or are empty.
void AddMarks(Random* random, int64_t end_ps, TraceBuilder* t) {
  LineBuilder line = t->Host().Thread("loop");
  int64_t number = 0;
  for (int64_t start_ps = random->Below(20); start_ps < end_ps; start_ps += 1 + random->Below(40)) {
    line.Event({.name = "train",
                .start_ps = start_ps,
                .duration_ps = 1 + random->Below(50),
                .stats = {{"step_num", number++}}});
  }
}

// Steps are runs of a program that takes half of the busy time. Of runs that overlap, the sum of
// their times is more than what the program takes.
void ExpectNoSteps(const StepSummary& steps, const WhereDevice& device,
                   std::span<const WhereFunction> functions) {
  EXPECT_EQ(steps.steps, 0u);
  EXPECT_EQ(steps.step_median_ps, std::nullopt);
  EXPECT_EQ(steps.step_period_ps, std::nullopt);
  EXPECT_FALSE(steps.shares.has_value());
  EXPECT_EQ(steps.verdict, StepVerdict::kUnclear);
  EXPECT_NE(steps.reason.find("no compiled program takes half"), std::string::npos);
  bool is_listed = false;
  for (const WhereFunction& row : functions) {
    is_listed |= row.function == device.step_function && row.program_id == device.step_program_id;
  }
  EXPECT_TRUE(is_listed);
}

// Whether all runs of the device's longest program together take less than half of its busy time.
bool IsSmall(const WhereDevice& device, std::span<const WhereFunction> functions) {
  for (const WhereFunction& row : functions) {
    if (row.device.plane != device.device.plane || row.device.ordinal != device.device.ordinal ||
        row.function != device.step_function || row.program_id != device.step_program_id) {
      continue;
    }
    const int64_t own_ps =
        row.time.span_ps.value_or(0) - row.time.idle_ps.value_or(0) - row.foreign_ps.value_or(0);
    return row.suspect_runs == 0 && own_ps * 2 < *device.time.span_ps - *device.time.idle_ps;
  }
  return false;
}

// `steps`: of this device and those behind it.
void ExpectSameSteps(const DeviceRow& row, const WhereDevice& device,
                     std::span<const WhereFunction> functions, std::span<const WhereStep> steps) {
  if (!device.step_source.has_value()) {
    // The longest programs tie, or the longest ran once.
    if (!row.steps.has_value()) return;
    EXPECT_TRUE(row.steps->has_no_steps());
    EXPECT_EQ(row.steps->steps, 0u);
    EXPECT_FALSE(row.steps->reason.empty());
    return;
  }
  ASSERT_TRUE(row.steps.has_value());
  EXPECT_EQ(row.steps->source, *device.step_source);
  if (row.steps->has_no_steps()) return ExpectNoSteps(*row.steps, device, functions);
  const bool are_runs = device.step_source == StepSource::kFunction;
  EXPECT_FALSE(are_runs && IsSmall(device, functions));
  EXPECT_EQ(row.steps->function, device.step_function);
  EXPECT_EQ(row.steps->steps, device.steps);
  EXPECT_EQ(row.steps->steps_empty, device.steps_empty);
  EXPECT_EQ(row.steps->step_median_ps, device.step_median_ps);
  double span_ps = 0;
  std::array<double, 5> parts_ps = {};
  for (size_t i = device.steps - row.steps->steps_timed; i < device.steps; ++i) {
    const TimeParts& time = steps[i].time;
    span_ps += static_cast<double>(*time.span_ps);
    const std::optional<int64_t> all[] = {time.compute_ps, time.collective_exposed_ps,
                                          time.copy_exposed_ps, time.other_ps, time.idle_ps};
    for (size_t k = 0; k < parts_ps.size(); ++k) parts_ps[k] += static_cast<double>(*all[k]);
  }
  const bool has_shares = span_ps > 0 && row.steps->step_median_ps.value_or(0) > 0;
  ASSERT_EQ(row.steps->shares.has_value(), has_shares) << row.steps->reason;
  if (!has_shares) return;
  const StepShares& shares = *row.steps->shares;
  const double found[] = {
      shares.compute, shares.collective_exposed, shares.copy_exposed, shares.other,
      shares.idle_host.value_or(0) + shares.idle_launch.value_or(0) + shares.idle_unknown};
  for (size_t k = 0; k < parts_ps.size(); ++k) {
    EXPECT_NEAR(found[k] * span_ps, parts_ps[k], 1e-6 * span_ps) << k;
  }
}

// Rows of both are in the same order; where has none of a device that executed nothing.
void ExpectSame(const TraceBuilder& t) {
  const std::string bytes = t.Bytes();
  Diagnostics diagnostics;
  const auto trace = OpenTraceFromMemory(bytes, "trace", {}, &diagnostics);
  ASSERT_TRUE(trace.ok()) << trace.status();
  ReportOptions options;
  options.device = "all";
  options.parts = true;
  const auto report = BuildReport(*trace, options, diagnostics);
  ASSERT_TRUE(report.ok()) << report.status();
  const auto with_rates = BuildReportWithRates(*trace, options, diagnostics);
  ASSERT_TRUE(with_rates.ok()) << with_rates.status();
  ASSERT_EQ(with_rates->devices.size(), report->devices.size());
  for (size_t i = 0; i < report->devices.size(); ++i) {
    EXPECT_EQ(with_rates->devices[i].parts, report->devices[i].parts);
  }
  const auto where = FindWhere(*trace, {.device = "all"}, diagnostics);
  ASSERT_TRUE(where.ok()) << where.status();
  size_t at = 0;
  std::span<const WhereStep> steps = where->steps;
  for (const DeviceRow& row : report->devices) {
    if (row.executions == 0) {
      EXPECT_FALSE(row.parts.has_value());
      continue;
    }
    ASSERT_LT(at, where->devices.size());
    ExpectSameSteps(row, where->devices[at], where->functions, steps);
    steps = steps.subspan(where->devices[at].steps);
    const TimeParts& time = where->devices[at++].time;
    ASSERT_TRUE(row.parts.has_value());
    EXPECT_EQ(row.parts->span_ps, time.span_ps);
    EXPECT_EQ(row.parts->compute_ps, time.compute_ps);
    EXPECT_EQ(row.parts->collective_exposed_ps, time.collective_exposed_ps);
    EXPECT_EQ(row.parts->copy_exposed_ps, time.copy_exposed_ps);
    EXPECT_EQ(row.parts->other_ps, time.other_ps);
    EXPECT_EQ(row.parts->idle_ps, time.idle_ps);
  }
  EXPECT_EQ(at, where->devices.size());
}

TEST(ReportParts, ShortTraces) {
  for (uint32_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    TraceBuilder t;
    const int64_t many = 1 + random.Below(12);
    if (seed % 3 == 0) AddGpu(&random, many, &t);
    if (seed % 3 == 1) AddTpu(&random, many, random.OneIn(3), &t);
    if (seed % 3 == 2) AddCpu(&random, many, &t);
    if (random.OneIn(2)) AddMarks(&random, many * 3, &t);
    ExpectSame(t);
    if (HasFailure()) return;
  }
}

TEST(ReportParts, MoreThanOneChunk) {
  for (uint32_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    TraceBuilder t;
    constexpr int64_t kMany = 3000;
    if (seed % 3 == 0) AddGpu(&random, kMany, &t);
    if (seed % 3 == 1) AddTpu(&random, kMany, /*goes_back=*/false, &t);
    if (seed % 3 == 2) AddCpu(&random, kMany, &t);
    if (random.OneIn(2)) AddMarks(&random, kMany * 3, &t);
    ExpectSame(t);
    if (HasFatalFailure()) return;
  }
}

// As where a trace holds the same span of a device several times. Of a few readings that are off
// the order is, too.
TEST(ReportParts, OfAClockThatBeginsAnewAreUnknownAndWhereHasTheProfilesClock) {
  constexpr int64_t kMs = 1'000'000'000, kOnce = 40;
  for (const int64_t many : {int64_t{15}, kOnce}) {  // that the clock had before
    SCOPED_TRACE(many);
    TraceBuilder t;
    for (int64_t i = 0; i < kOnce + many; ++i) {
      t.Tpu(1).Op({.name = "fusion.1",
                   .start_ps = 10 * i * kMs,
                   .duration_ps = 7 * kMs,
                   .device_offset_ps = 10 * (i % kOnce) * kMs,
                   .device_duration_ps = 7 * kMs});
    }
    t.Tpu(1).Module({.name = "jit_f", .program_id = 1, .duration_ps = 800 * kMs});
    const std::string bytes = t.Bytes();
    Diagnostics diagnostics;
    const auto trace = OpenTraceFromMemory(bytes, "trace", {}, &diagnostics);
    ASSERT_TRUE(trace.ok()) << trace.status();
    ReportOptions options;
    options.parts = true;
    const auto report = BuildReport(*trace, options, diagnostics);
    ASSERT_TRUE(report.ok()) << report.status();
    const auto where = FindWhere(*trace, {}, diagnostics);
    ASSERT_TRUE(where.ok()) << where.status();
    const bool holds = many < kOnce;
    EXPECT_EQ(report->devices.at(0).parts.has_value(), holds);
    EXPECT_EQ(where->devices.at(0).clock, holds ? Clock::kDevice : Clock::kProfile);
    const int64_t shown = holds ? kOnce : kOnce + many;
    EXPECT_EQ(where->devices.at(0).time.span_ps, (10 * shown - 3) * kMs);
    EXPECT_EQ(where->devices.at(0).time.compute_ps, 7 * shown * kMs);
  }
}

TEST(ReportParts, NotAskedFor) {
  TraceBuilder t;
  t.Gpu(0).Stream(16).Kernel({.name = "k", .start_ps = 0, .duration_ps = 5});
  const std::string bytes = t.Bytes();
  Diagnostics diagnostics;
  const auto trace = OpenTraceFromMemory(bytes, "trace", {}, &diagnostics);
  ASSERT_TRUE(trace.ok()) << trace.status();
  const auto report = BuildReport(*trace, {}, diagnostics);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_FALSE(report->devices[0].parts.has_value());
}

}  // namespace
}  // namespace xplane_time
