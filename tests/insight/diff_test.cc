// Diffs that add up, of random traces, and how often they are wrong of programs that did not
// change.
#include "xplane_time/diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "insight/diff.h"
#include "stats/random.h"
#include "tests/insight/captured.h"
#include "tests/read/temp_dir.h"
#include "tests/support/random.h"
#include "tests/support/trace_builder.h"
#include "xplane_time/read.h"
#include "xplane_time/where.h"

namespace xplane_time::testing {
namespace {

using insight::DiffCapture;
using ::testing::HasSubstr;

constexpr DiffPer kAllPers[] = {DiffPer::kStep, DiffPer::kRun, DiffPer::kCapture};

absl::StatusOr<DiffReport> Diffed(const TraceBuilder& base, const TraceBuilder& head,
                                  const DiffOptions& options = {}) {
  return insight::DiffOf({Captured(base, "base", options)}, {Captured(head, "head", options)},
                         options);
}

// Steps that the host marked, in which it launched runs of two functions on two streams.
void AddRandomProgram(Random* random, TraceBuilder* t) {
  auto compute = t->Gpu(0).Stream(1), other = t->Gpu(0).Stream(2);
  auto host = t->Host().Thread("python");
  int64_t at_ps = 10'000;
  uint64_t id = 1;
  for (int64_t step = 0; step < 2 + random->Below(4); ++step) {
    const int64_t begin_ps = at_ps - 9000;
    for (int64_t run = 0; run <= random->Below(3); ++run) {
      const std::string function = random->OneIn(3) ? "jit_g" : "jit_f";
      for (int64_t i = 0; i < 2 + random->Below(3); ++i) {
        const std::string op = std::string(random->OneIn(4) ? "copy." : "dot.") + std::to_string(i);
        const int64_t length_ps = 1000 * random->Below(6);
        auto& stream = random->OneIn(3) ? other : compute;
        if (!random->OneIn(5)) {
          host.Launch({.start_ps = at_ps - 1000 * random->Below(8),
                       .duration_ps = 100,
                       .correlation_id = id});
        }
        stream.Kernel({.name = op,
                       .start_ps = at_ps,
                       .duration_ps = length_ps,
                       .hlo_module = random->OneIn(9) ? "" : function,
                       .program_id = 3,
                       .hlo_op = op,
                       .correlation_id = id++});
        at_ps += 1000 * random->Below(7);
      }
    }
    host.Event({.name = "step",
                .start_ps = begin_ps,
                .duration_ps = at_ps - begin_ps - 9000,
                .stats = {{"step_num", step}}});
    at_ps += 20'000;
  }
}

// total = the rows, on both sides, in picoseconds, and of the means.
void CheckSums(const DiffReport& report, const std::string& what) {
  int64_t base_ps = 0, head_ps = 0;
  double delta_ps = 0, sums_ps = 0;
  for (const DiffRow& row : report.rows) {
    if (row.base.has_value()) base_ps += row.base->total_ps;
    if (row.head.has_value()) head_ps += row.head->total_ps;
    delta_ps += row.delta_ps;
  }
  for (const DiffSum& sum : report.sums) sums_ps += sum.delta_ps;
  EXPECT_EQ(base_ps, report.base.total_ps) << what;
  EXPECT_EQ(head_ps, report.head.total_ps) << what;
  EXPECT_NEAR(delta_ps, report.total.delta_ps, 1e-3) << what;
  EXPECT_NEAR(sums_ps, report.total.delta_ps, 1e-3) << what;
}

TEST(DiffTest, AddsUpToTheTimeThatWhereKnows) {
  for (uint32_t seed = 0; seed < 400; ++seed) {
    Random random(seed);
    TraceBuilder base, head;
    AddRandomProgram(&random, &base);
    AddRandomProgram(&random, &head);
    for (const DiffPer per : kAllPers) {
      const std::string what = std::to_string(seed) + " per " + std::string(DiffPerName(per));
      const auto report = Diffed(base, head, {.per = per});
      if (!report.ok()) {  // steps without members, or nothing in common
        EXPECT_EQ(report.status().code(), absl::StatusCode::kFailedPrecondition) << what;
        continue;
      }
      CheckSums(*report, what);
      // Here a step ends with the next one's first execution, there with its own last one.
      if (per == DiffPer::kStep) continue;
      // The span of it all, by another way.
      const std::string bytes = base.Bytes();
      Diagnostics reading;
      const auto trace = OpenTraceFromMemory(bytes, "base", {}, &reading);
      const auto where = FindWhere(*trace, {}, reading);
      ASSERT_TRUE(where.ok()) << where.status();
      int64_t span_ps = 0;
      if (per == DiffPer::kCapture) span_ps = *where->devices.at(0).time.span_ps;
      if (per == DiffPer::kRun) {
        for (const WhereFunction& each : where->functions) span_ps += *each.time.span_ps;
      }
      EXPECT_EQ(report->base.total_ps, span_ps) << what;
    }
  }
}

TEST(DiffTest, ACaptureAgainstItselfIsAllZeros) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    Random random(seed);
    TraceBuilder t;
    AddRandomProgram(&random, &t);
    const auto report = Diffed(t, t);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_TRUE(report->same_capture);
    EXPECT_EQ(report->total.delta_ps, 0);
    for (const DiffRow& row : report->rows) {
      EXPECT_EQ(row.delta_ps, 0) << seed;
      EXPECT_TRUE(row.match == DiffMatch::kExact || IsWaiting(row.match)) << seed;
      EXPECT_EQ(row.verdict, DiffVerdict::kNoVerdict) << seed;
    }
  }
}

// One run of `ops` kernels, each of 100 ns but the first.
TraceBuilder& OneRun(TraceBuilder* t, int64_t first_ps, const std::string& function = "jit_f",
                     int ops = 3) {
  auto stream = t->Gpu(0).Stream(1);
  int64_t at_ps = 0;
  for (int i = 0; i < ops; ++i) {
    const int64_t length_ps = i == 0 ? first_ps : 100'000;
    const std::string op = std::string(1, static_cast<char>('a' + i));
    stream.Kernel({.name = op,
                   .start_ps = at_ps,
                   .duration_ps = length_ps,
                   .hlo_module = function,
                   .program_id = 1,
                   .hlo_op = op});
    at_ps += length_ps;
  }
  return *t;
}

TEST(DiffTest, TheKernelThatChangedComesFirst) {
  TraceBuilder base, head;
  const auto report = Diffed(OneRun(&base, 100'000), OneRun(&head, 250'000));
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->per, DiffPer::kRun);
  EXPECT_EQ(report->rows.at(0).head->kernel, "a");
  EXPECT_EQ(report->rows[0].delta_ps, 150'000);
  EXPECT_EQ(report->rows[0].share, 1);
  EXPECT_EQ(report->total.delta_ps, 150'000);
  EXPECT_FALSE(report->by_hlo);
}

TEST(DiffTest, WhatIsNewOrGoneIsOnOneSideOnly) {
  TraceBuilder base, head;
  const auto report =
      Diffed(OneRun(&base, 100'000, "jit_f", 3), OneRun(&head, 100'000, "jit_f", 4));
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->rows.at(0).match, DiffMatch::kNew);
  EXPECT_FALSE(report->rows[0].base.has_value());
  EXPECT_EQ(report->rows[0].delta_ps, 100'000);
}

TEST(DiffTest, LaunchesOnOneSideOnlyAreNotSetAgainstNothing) {
  TraceBuilder base, head;
  OneRun(&base, 100'000);
  auto host = OneRun(&head, 100'000).Host().Thread("python");
  auto stream = head.Gpu(0).Stream(1);
  stream.Kernel({.name = "d",
                 .start_ps = 500'000,
                 .duration_ps = 1000,
                 .hlo_module = "jit_f",
                 .program_id = 1,
                 .hlo_op = "d",
                 .correlation_id = 7});
  host.Launch({.start_ps = 400'000, .duration_ps = 10, .correlation_id = 7});
  const auto report = Diffed(base, head, {.per = DiffPer::kCapture});
  ASSERT_TRUE(report.ok()) << report.status();
  for (const DiffRow& row : report->rows) {
    EXPECT_NE(row.match, DiffMatch::kIdleHost);
    EXPECT_NE(row.match, DiffMatch::kIdleUnknown);
  }
  CheckSums(*report, "one side");
}

TEST(DiffTest, TwoModelsAreSaidToBeTwo) {
  TraceBuilder base, head;
  OneRun(&base, 100'000, "jit_train");
  auto stream = head.Gpu(0).Stream(1);
  stream.Kernel({.name = "sort",
                 .start_ps = 0,
                 .duration_ps = 9000,
                 .hlo_module = "jit_other",
                 .program_id = 1,
                 .hlo_op = "sort"});
  const auto report = Diffed(base, head);
  ASSERT_TRUE(report.ok()) << report.status();
  const std::string notes = ::testing::PrintToString(report->notes);
  EXPECT_THAT(notes, HasSubstr("jit_train of base is compared with jit_other of head"));
  EXPECT_THAT(notes, HasSubstr("look like different programs"));
  CheckSums(*report, "two models");

  OneRun(&base, 1000, "jit_a");
  const auto none = Diffed(base, head);
  EXPECT_THAT(none.status().message(), HasSubstr("no function in common"));
}

TEST(DiffTest, StepsThatAreNotThereAreAnError) {
  TraceBuilder base, head;
  const auto report = Diffed(OneRun(&base, 1000), OneRun(&head, 1000), {.per = DiffPer::kStep});
  EXPECT_EQ(report.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(report.status().message(), HasSubstr("StepTraceAnnotation"));
}

TEST(DiffTest, DevicesOfOtherNumberOrKindAreTold) {
  TraceBuilder base, head;
  OneRun(&base, 1000);
  OneRun(&head, 1000);
  auto stream = head.Gpu(1).Stream(1);
  stream.Kernel({.name = "a",
                 .start_ps = 0,
                 .duration_ps = 1000,
                 .hlo_module = "jit_f",
                 .program_id = 1,
                 .hlo_op = "a"});
  const auto report = Diffed(base, head);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(::testing::PrintToString(report->notes), HasSubstr("head on 2"));
  CheckSums(*report, "devices");

  TraceBuilder tpu;
  tpu.Tpu(0).Module({.name = "jit_f", .program_id = 1, .start_ps = 0, .duration_ps = 10});
  tpu.Tpu(0).Op({.name = "a", .start_ps = 0, .duration_ps = 10});
  const auto kinds = Diffed(base, tpu);
  ASSERT_TRUE(kinds.ok()) << kinds.status();
  EXPECT_THAT(::testing::PrintToString(kinds->notes),
              HasSubstr("device kind is gpu in base, tpu in head"));
}

TEST(DiffTest, JsonIsNoTrace) {
  const TempDir dir;
  const std::vector<std::string> json = {dir.Write("a.json", "{\"schema\": \"x\"}")};
  const auto report = FindDiff(json, json, {});
  EXPECT_EQ(report.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(report.status().message(), HasSubstr("give the trace"));
  EXPECT_EQ(FindDiff({}, json, {}).status().code(), absl::StatusCode::kInvalidArgument);
}

// ---- how often it is wrong ------------------------------------------------------------------

constexpr size_t kOps = 12;

// A capture of 10 runs. Its process is off by `process` (std of the log), each kernel in it by a
// third of that.
DiffCapture Simulated(const std::string& name, double process, double planted,
                      stats::MersenneRandom* random) {
  DiffCapture capture;
  capture.source = name;
  capture.any_run = true;
  capture.devices = {"GPU:0"};
  capture.programs.push_back({.function = "jit_f"});
  insight::UnitTimes& runs = capture.programs[0].runs;
  runs.units = 10;
  const double offset = process * random->Normal();
  constexpr auto kRun = static_cast<size_t>(DiffPer::kRun);
  for (size_t i = 0; i < kOps; ++i) {
    insight::DiffOp op;
    op.traits.kernel = "k" + std::string(1, static_cast<char>('a' + i));
    const double change = i == 3 ? planted : 1;
    insight::OwnTimes& times = op.times[kRun];
    for (int run = 0; run < 10; ++run) {
      const double own_ps = 1e7 * static_cast<double>(i + 1) * change *
                            std::exp(offset + process / 3 * random->Normal());
      times.Add({static_cast<int64_t>(own_ps), 0, 1, own_ps * own_ps});
    }
    runs.busy_ps += times.own_ps;
    capture.ops.push_back(std::move(op));
  }
  runs.idle_unknown_ps = static_cast<int64_t>(2e7 * std::exp(random->Normal()));
  runs.span_ps = runs.busy_ps + runs.idle_unknown_ps;
  capture.times[kRun] = runs;
  return capture;
}

// A second function, of one kernel, that does not run in each process.
void AddRare(stats::MersenneRandom* random, DiffCapture* capture) {
  if (random->Below(2) == 0) return;
  constexpr auto kRun = static_cast<size_t>(DiffPer::kRun);
  insight::DiffOp op;
  op.program = 1;
  op.traits.kernel = "rare";
  const double own_ps = 3e7 * std::exp(0.02 * random->Normal());
  op.times[kRun] = {static_cast<int64_t>(own_ps), 0, 1, own_ps * own_ps};
  insight::UnitTimes runs;
  runs.units = 1;
  runs.busy_ps = runs.span_ps = op.times[kRun].own_ps;
  capture->programs.push_back({.function = "jit_rare", .runs = runs});
  capture->times[kRun].Add(runs);
  capture->ops.push_back(std::move(op));
}

struct Told {
  int alarms = 0, found = 0;
};

// `pairs` diffs of programs of which one kernel may have changed.
Told Simulate(int pairs, size_t captures, double alpha, double planted, bool rare = false) {
  stats::MersenneRandom random(7);
  Told told;
  for (int pair = 0; pair < pairs; ++pair) {
    std::vector<DiffCapture> sides[2];
    for (size_t i = 0; i < captures; ++i) {
      sides[0].push_back(Simulated("b" + std::to_string(i), 0.02, 1, &random));
      sides[1].push_back(Simulated("h" + std::to_string(i), 0.02, planted, &random));
      for (auto& side : sides) {
        if (rare) AddRare(&random, &side.back());
      }
    }
    DiffOptions options;
    options.decision.alpha = alpha;
    const auto report = insight::DiffOf(sides[0], sides[1], options);
    EXPECT_TRUE(report.ok()) << report.status();
    bool alarm = false;
    const auto proved = [](const DiffRow& row) {
      return row.verdict == DiffVerdict::kMore || row.verdict == DiffVerdict::kLess;
    };
    for (const DiffRow& row : report->rows) {
      const bool lacks = rare && row.verdict == DiffVerdict::kNoVerdict;
      EXPECT_TRUE(row.lo_ps.has_value() || row.verdict == DiffVerdict::kSmall || lacks);
      const bool is_planted = row.head.has_value() && row.head->kernel == "kd";
      if (is_planted && planted != 1) {
        told.found += proved(row) && &row == report->rows.data() ? 1 : 0;
      } else {
        alarm |= proved(row);
      }
    }
    if (planted == 1) alarm |= proved(report->total);
    told.alarms += alarm ? 1 : 0;
  }
  return told;
}

// Of 1000 the promised rate is 1, and 50: beyond these bounds is chance of less than 1 in 1000.
TEST(DiffTest, AThousandPairsOfUnchangedProgramsRaiseNoMoreAlarmsThanPromised) {
  for (const size_t captures : {2, 3, 5, 10}) {
    EXPECT_LE(Simulate(1000, captures, 0.001, 1).alarms, 5) << captures;
    EXPECT_LE(Simulate(1000, captures, 0.05, 1).alarms, 72) << captures;
  }
}

TEST(DiffTest, FunctionsThatRunInSomeProcessesOnlyRaiseNoMoreAlarms) {
  for (const size_t captures : {2, 4}) {
    EXPECT_LE(Simulate(1000, captures, 0.001, 1, /*rare=*/true).alarms, 5) << captures;
    EXPECT_LE(Simulate(1000, captures, 0.05, 1, /*rare=*/true).alarms, 72) << captures;
  }
}

TEST(DiffTest, APlantedChangeIsFoundAndNothingElse) {
  const Told told = Simulate(200, 6, 0.001, 1.4);
  EXPECT_GE(told.found, 190);
  EXPECT_LE(told.alarms, 3);
}

TEST(DiffTest, OneCaptureASideGivesNoVerdict) {
  stats::MersenneRandom random(1);
  const auto report =
      insight::DiffOf({Simulated("b", 0.02, 1, &random)}, {Simulated("h", 0.02, 2, &random)}, {});
  ASSERT_TRUE(report.ok()) << report.status();
  for (const DiffRow& row : report->rows) {
    EXPECT_EQ(row.verdict, DiffVerdict::kNoVerdict);
    EXPECT_FALSE(row.lo_ps.has_value());
  }
  EXPECT_EQ(report->rows.at(0).head->kernel, "kd");
}

TEST(DiffTest, ACaptureGivenTwiceCountsOnce) {
  stats::MersenneRandom random(1);
  const DiffCapture base = Simulated("b", 0.02, 1, &random),
                    head = Simulated("h", 0.02, 1, &random);
  const auto report = insight::DiffOf({base, base}, {head}, {});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->base.sources.size(), 1u);
  EXPECT_THAT(::testing::PrintToString(report->notes), HasSubstr("given twice"));
}

}  // namespace
}  // namespace xplane_time::testing
