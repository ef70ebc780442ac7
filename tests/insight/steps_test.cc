// Steps against the slow and obvious definition: one picosecond after the other.
#include "timing/steps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/random.h"
#include "tests/support/trace_builder.h"
#include "xplane_time/read.h"
#include "xplane_time/report.h"
#include "xplane_time/where.h"

namespace xplane_time::testing {
namespace {

struct Execution {
  int64_t start_ps, end_ps, launch_ps;
  bool collective = false;
};

struct SlowStep {
  size_t mark = 0;
  int64_t start_ps = 0, end_ps = 0;
  int64_t compute_ps = 0, collective_ps = 0, idle_host_ps = 0, idle_launch_ps = 0;
};

// A step's members are those whose launch is in its mark; of several marks the last to begin.
std::vector<SlowStep> SlowSteps(const std::vector<Execution>& runs,
                                const std::vector<Interval>& marks) {
  std::map<size_t, std::vector<Execution>> members;
  for (const Execution& run : runs) {
    std::optional<size_t> of;
    for (size_t i = 0; i < marks.size(); ++i) {
      const bool inside = marks[i].start_ps <= run.launch_ps && run.launch_ps < marks[i].end_ps;
      if (inside && (!of.has_value() || marks[i].start_ps >= marks[*of].start_ps)) of = i;
    }
    if (of.has_value()) members[*of].push_back(run);
  }
  const auto first_start_ps = [](const std::vector<Execution>& own) {
    return std::ranges::min_element(own, {}, &Execution::start_ps)->start_ps;
  };
  std::vector<size_t> order;
  for (const auto& [mark, own] : members) order.push_back(mark);
  std::ranges::stable_sort(order, {}, [&](size_t mark) { return first_start_ps(members[mark]); });

  const int64_t first_ps = first_start_ps(runs);
  int64_t end_ps = first_ps;
  std::vector<SlowStep> steps;
  for (const size_t mark : order) {
    SlowStep step = {.mark = mark};
    // "It begins at the mark, but not after its first member", and steps do not overlap.
    step.start_ps = std::max(end_ps, std::min(marks[mark].start_ps, first_start_ps(members[mark])));
    for (const Execution& run : members[mark]) end_ps = std::max(end_ps, run.end_ps);
    step.end_ps = end_ps;
    for (int64_t t = step.start_ps; t < step.end_ps; ++t) {
      bool computes = false, collective = false;
      int64_t next_ps = std::numeric_limits<int64_t>::max();
      for (const Execution& run : runs) {
        if (run.start_ps <= t && t < run.end_ps) (run.collective ? collective : computes) = true;
        if (run.start_ps > t) next_ps = std::min(next_ps, run.start_ps);
      }
      if (computes) {
        ++step.compute_ps;
      } else if (collective) {
        ++step.collective_ps;
      } else {
        int64_t launch_ps = std::numeric_limits<int64_t>::max();
        for (const Execution& run : runs) {
          if (run.start_ps == next_ps) launch_ps = std::min(launch_ps, run.launch_ps);
        }
        ++(t < launch_ps ? step.idle_host_ps : step.idle_launch_ps);
      }
    }
    steps.push_back(step);
  }
  return steps;
}

struct Traced {
  WhereReport where;
  Report report;
};

Traced Find(const std::vector<Execution>& runs, const std::vector<Interval>& marks) {
  TraceBuilder t;
  auto stream = t.Gpu(0).Stream(1);
  auto thread = t.Host().Thread("python"), loop = t.Host().Thread("loop");
  for (size_t i = 0; i < runs.size(); ++i) {
    stream.Kernel({.name = runs[i].collective ? "ncclDevKernel_AllReduce" : "gemm",
                   .start_ps = runs[i].start_ps,
                   .duration_ps = runs[i].end_ps - runs[i].start_ps,
                   .correlation_id = i + 1});
    thread.Launch({.start_ps = runs[i].launch_ps, .duration_ps = 1, .correlation_id = i + 1});
  }
  for (size_t i = 0; i < marks.size(); ++i) {
    loop.Event({.name = "train",
                .start_ps = marks[i].start_ps,
                .duration_ps = marks[i].end_ps - marks[i].start_ps,
                .stats = {{"step_num", static_cast<int64_t>(i)}}});
  }
  const std::string bytes = t.Bytes();
  Diagnostics reading;
  const auto trace = OpenTraceFromMemory(bytes, "t", {}, &reading);
  EXPECT_TRUE(trace.ok()) << trace.status();
  ReportOptions options;
  options.parts = true;
  auto where = FindWhere(*trace, {.device = "", .host_of_gaps = false}, reading);
  auto report = BuildReport(*trace, options, reading);
  EXPECT_TRUE(where.ok() && report.ok()) << where.status() << report.status();
  return {*std::move(where), *std::move(report)};
}

void ExpectSlow(const std::vector<Execution>& runs, const std::vector<Interval>& marks) {
  const std::vector<SlowStep> slow = SlowSteps(runs, marks);
  const Traced found = Find(runs, marks);
  const WhereDevice& device = found.where.devices.at(0);
  ASSERT_EQ(device.step_source, StepSource::kHostLaunch);
  ASSERT_EQ(device.steps, slow.size());
  ASSERT_EQ(device.steps_empty, marks.size() - slow.size());
  ASSERT_EQ(found.where.steps.size(), slow.size());
  int64_t span_ps = 0, idle_ps = 0, idle_host_ps = 0, collective_ps = 0;
  std::vector<int64_t> spans_ps;
  for (size_t i = 0; i < slow.size(); ++i) {
    SCOPED_TRACE(i);
    const WhereStep& step = found.where.steps[i];
    ASSERT_EQ(step.name, std::to_string(slow[i].mark));
    ASSERT_EQ(step.start_ps, slow[i].start_ps);
    ASSERT_EQ(step.time.span_ps, slow[i].end_ps - slow[i].start_ps);
    ASSERT_EQ(step.time.compute_ps, slow[i].compute_ps);
    ASSERT_EQ(step.time.collective_exposed_ps, slow[i].collective_ps);
    ASSERT_EQ(step.time.idle_host_ps, slow[i].idle_host_ps);
    ASSERT_EQ(step.time.idle_launch_ps, slow[i].idle_launch_ps);
    ASSERT_EQ(step.marked_ps, marks[slow[i].mark].end_ps - marks[slow[i].mark].start_ps);
    spans_ps.push_back(slow[i].end_ps - slow[i].start_ps);
    span_ps += spans_ps.back();
    idle_ps += slow[i].idle_host_ps + slow[i].idle_launch_ps;
    idle_host_ps += slow[i].idle_host_ps;
    collective_ps += slow[i].collective_ps;
  }
  const std::optional<StepSummary>& summary = found.report.devices.at(0).steps;
  ASSERT_TRUE(summary.has_value());
  ASSERT_EQ(summary->steps, slow.size());
  ASSERT_EQ(summary->steps_empty, device.steps_empty);
  ASSERT_EQ(summary->step_median_ps, device.step_median_ps);
  if (slow.empty()) return;
  ASSERT_EQ(device.steps_span_ps, span_ps);
  ASSERT_EQ(*device.idle_in_steps_ps, idle_ps);
  ASSERT_EQ(*device.idle_in_steps_ps + *device.idle_between_steps_ps, device.time.idle_ps);
  std::ranges::sort(spans_ps);
  const size_t n = spans_ps.size();
  const double median_ps = static_cast<double>(spans_ps[(n - 1) / 2] + spans_ps[n / 2]) / 2;
  ASSERT_EQ(device.step_median_ps, median_ps);
  ASSERT_EQ(summary->shares.has_value(), median_ps > 0) << summary->reason;
  if (median_ps == 0) return;
  ASSERT_TRUE(summary->shares.has_value()) << summary->reason;
  const auto ps = [&](double share) { return share * static_cast<double>(span_ps); };
  ASSERT_NEAR(ps(summary->shares->idle_host.value_or(0)), static_cast<double>(idle_host_ps), 1e-6);
  ASSERT_NEAR(ps(summary->shares->idle_launch.value_or(0)),
              static_cast<double>(idle_ps - idle_host_ps), 1e-6);
  ASSERT_NEAR(ps(summary->shares->collective_exposed), static_cast<double>(collective_ps), 1e-6);
}

// Two executions of 0 to 2 ps and two marks, everywhere within 5 ps.
TEST(Steps, AllTinyCases) {
  constexpr int64_t kPlaces = 5;
  for (int64_t a = 0; a < kPlaces * 3; ++a) {
    for (int64_t b = 0; b < kPlaces * 3; ++b) {
      for (int64_t launch = 0; launch < kPlaces; ++launch) {
        for (int64_t mark = 0; mark < kPlaces; ++mark) {
          const std::vector<Execution> runs = {{a / 3, a / 3 + a % 3, 0},
                                               {b / 3, b / 3 + b % 3, launch}};
          const std::vector<Interval> marks = {{0, 1}, {mark, mark + 2}};
          if (a / 3 == b / 3) continue;  // which step of two that begin together is first is open
          ExpectSlow(runs, marks);
          if (HasFatalFailure()) FAIL() << a << " " << b << " " << launch << " " << mark;
        }
      }
    }
  }
}

TEST(Steps, RandomCases) {
  for (uint32_t seed = 0; seed < 1500; ++seed) {
    Random random(seed);
    std::vector<Execution> runs;
    std::vector<Interval> marks;
    int64_t start_ps = random.Below(10);
    const int64_t many = 1 + random.Below(10);
    for (int64_t i = 0; i < many; ++i) {
      runs.push_back({start_ps, start_ps + random.Below(8),
                      std::max(int64_t{0}, start_ps - random.Below(12) + random.Below(3)),
                      random.OneIn(3)});
      start_ps += 1 + random.Below(9);
    }
    int64_t mark_ps = random.Below(5);
    while (mark_ps < start_ps) {
      marks.push_back({mark_ps, mark_ps + 1 + random.Below(12)});
      mark_ps += 1 + random.Below(14);
    }
    if (marks.empty()) continue;
    ExpectSlow(runs, marks);
    if (HasFatalFailure()) FAIL() << seed;
  }
}

// ---- verdicts ----------------------------------------------------------------------------------

constexpr int64_t kPsPerMs = 1'000'000'000, kPsPerUs = 1'000'000;

struct Loop {
  int64_t steps = 10;
  int64_t input_ps = 0;                 // before the first launch of a step
  std::string input_event = {};         // of the host, meanwhile
  int64_t dispatch_ps = 10 * kPsPerUs;  // from one launch to the next
  int64_t kernel_ps = kPsPerMs;
  int64_t kernels = 10;
  bool collectives = false;
  bool marks_input = true;  // the mark begins before the wait
};

// The host launches the kernels of a step, waits for the device and goes on with the next step.
StepSummary Summarize(const Loop& loop) {
  TraceBuilder t;
  auto stream = t.Gpu(0).Stream(1);
  auto thread = t.Host().Thread("python");
  int64_t now_ps = kPsPerMs;
  uint64_t id = 0;
  for (int64_t step = 0; step < loop.steps; ++step) {
    const int64_t begin_ps = loop.marks_input ? now_ps : now_ps + loop.input_ps;
    if (!loop.input_event.empty()) {
      thread.Event({.name = loop.input_event, .start_ps = now_ps, .duration_ps = loop.input_ps});
    }
    now_ps += loop.input_ps;
    int64_t device_ps = now_ps;
    for (int64_t i = 0; i < loop.kernels; ++i) {
      thread.Launch({.start_ps = now_ps, .duration_ps = kPsPerUs, .correlation_id = ++id});
      device_ps = std::max(device_ps, now_ps + 5 * kPsPerUs);
      const bool collective = loop.collectives && i % 2 == 1;
      stream.Kernel({.name = collective ? "ncclDevKernel_AllReduce" : "gemm",
                     .start_ps = device_ps,
                     .duration_ps = loop.kernel_ps,
                     .correlation_id = id});
      device_ps += loop.kernel_ps;
      now_ps += loop.dispatch_ps;
    }
    now_ps = std::max(now_ps, device_ps);
    thread.Event({.name = "train",
                  .start_ps = begin_ps,
                  .duration_ps = now_ps - begin_ps,
                  .stats = {{"step_num", step}}});
  }
  const std::string bytes = t.Bytes();
  Diagnostics reading;
  const auto trace = OpenTraceFromMemory(bytes, "t", {}, &reading);
  EXPECT_TRUE(trace.ok()) << trace.status();
  ReportOptions options;
  options.parts = true;
  const auto report = BuildReport(*trace, options, reading);
  EXPECT_TRUE(report.ok()) << report.status();
  return report->devices.at(0).steps.value_or(StepSummary());
}

TEST(StepVerdicts, ADeviceThatWorksIsDeviceBound) {
  const StepSummary steps = Summarize({});
  EXPECT_EQ(steps.verdict, StepVerdict::kDeviceBound) << steps.reason;
  EXPECT_NEAR(steps.step_median_ps.value_or(0), 10.0 * kPsPerMs, 0.1 * kPsPerMs);
}

TEST(StepVerdicts, AWaitBeforeTheFirstLaunchIsInput) {
  const StepSummary steps = Summarize({.input_ps = 20 * kPsPerMs});
  EXPECT_EQ(steps.verdict, StepVerdict::kInputBound) << steps.reason;
  EXPECT_NEAR(steps.step_median_ps.value_or(0), 30.0 * kPsPerMs, 0.1 * kPsPerMs);
  // The first step begins with the device's first execution.
  EXPECT_NEAR(steps.shares->waits_for_host.value_or(0), 180.0 / 280, 0.01);
}

TEST(StepVerdicts, ADataLoaderInTheWaitIsInput) {
  const StepSummary steps =
      Summarize({.input_ps = 20 * kPsPerMs, .input_event = "enumerate(DataLoader)#Iter.__next__"});
  EXPECT_EQ(steps.verdict, StepVerdict::kInputBound) << steps.reason;
}

TEST(StepVerdicts, AWaitBetweenTwoMarksIsInput) {
  const StepSummary steps = Summarize({.input_ps = 20 * kPsPerMs, .marks_input = false});
  EXPECT_NEAR(steps.step_median_ps.value_or(0), 10.0 * kPsPerMs, 0.1 * kPsPerMs);
  EXPECT_EQ(steps.verdict, StepVerdict::kInputBound) << steps.reason;
}

TEST(StepVerdicts, ACallOfACompiledFunctionIsDispatch) {
  const StepSummary steps =
      Summarize({.input_ps = 20 * kPsPerMs, .input_event = "PjitFunction(train_step)"});
  EXPECT_EQ(steps.verdict, StepVerdict::kHostBound) << steps.reason;
}

TEST(StepVerdicts, AHostThatLaunchesSlowlyIsHostBound) {
  const StepSummary steps = Summarize({.dispatch_ps = 100 * kPsPerUs, .kernel_ps = 20 * kPsPerUs});
  EXPECT_EQ(steps.verdict, StepVerdict::kHostBound) << steps.reason;
}

TEST(StepVerdicts, LaunchesThatComeTooLateAreTheHosts) {
  // Each launch comes while the device is busy, but less than a launch's latency before its end.
  const StepSummary steps =
      Summarize({.dispatch_ps = 5 * kPsPerUs, .kernel_ps = 2 * kPsPerUs, .kernels = 100});
  EXPECT_EQ(steps.verdict, StepVerdict::kHostBound) << steps.reason;
}

TEST(StepVerdicts, ExposedCollectivesAreCommunication) {
  const StepSummary steps = Summarize({.collectives = true});
  EXPECT_EQ(steps.verdict, StepVerdict::kCommunicationBound) << steps.reason;
  EXPECT_NEAR(steps.shares->collective_exposed, 0.5, 0.01);
}

TEST(StepVerdicts, WithoutLaunchesIdleTimeIsUnclear) {
  TraceBuilder t;
  auto tpu = t.Tpu(0);
  for (int64_t i = 0; i < 5; ++i) {
    tpu.Module({.name = "jit_f", .program_id = 1, .start_ps = i * 100, .duration_ps = 40});
    tpu.Op({.name = "dot.1", .start_ps = i * 100, .duration_ps = 40});
  }
  const std::string bytes = t.Bytes();
  Diagnostics reading;
  const auto trace = OpenTraceFromMemory(bytes, "t", {}, &reading);
  ReportOptions options;
  options.parts = true;
  const auto report = BuildReport(*trace, options, reading);
  ASSERT_TRUE(report.ok()) << report.status();
  const StepSummary steps = report->devices.at(0).steps.value_or(StepSummary());
  EXPECT_EQ(steps.source, StepSource::kFunction);
  EXPECT_EQ(steps.steps_timed, 4u);
  EXPECT_EQ(steps.step_median_ps, 100);
  EXPECT_EQ(steps.verdict, StepVerdict::kUnclear);
  EXPECT_EQ(steps.shares->waits_for_host, std::nullopt);
  EXPECT_NEAR(steps.shares->idle_unknown, 0.6, 1e-9);
}

}  // namespace
}  // namespace xplane_time::testing
