// Which rows of a diff have a verdict: those that were measured twice on each side.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "insight/diff.h"
#include "tests/insight/captured.h"
#include "tests/support/random.h"
#include "tests/support/trace_builder.h"
#include "xplane_time/diff.h"
#include "xplane_time/read.h"

namespace xplane_time::testing {
namespace {

using insight::DiffCapture;
using ::testing::Contains;
using ::testing::HasSubstr;

struct MadeOp {
  std::string name;
  int64_t duration_ps;
};

struct MadeRun {
  std::string function;
  std::vector<MadeOp> ops;
};

using MadeStep = std::vector<MadeRun>;

// Runs one after the other on one stream, a launch before each kernel, in steps that the host
// marked.
DiffCapture Captured(const std::string& name, const std::vector<MadeStep>& steps,
                     const DiffOptions& options = {}) {
  TraceBuilder t;
  auto stream = t.Gpu(0).Stream(1);
  auto host = t.Host().Thread("python");
  int64_t at_ps = 100'000, step_num = 0;
  uint64_t id = 1;
  for (const MadeStep& step : steps) {
    const int64_t begin_ps = at_ps - 50'000;
    for (const MadeRun& run : step) {
      for (const MadeOp& op : run.ops) {
        host.Launch({.start_ps = at_ps - 100, .duration_ps = 10, .correlation_id = id});
        stream.Kernel({.name = op.name,
                       .start_ps = at_ps,
                       .duration_ps = op.duration_ps,
                       .hlo_module = run.function,
                       .program_id = 1 + run.function.back(),
                       .hlo_op = op.name,
                       .correlation_id = id++});
        at_ps += op.duration_ps;
      }
      at_ps += 1000;
    }
    host.Event({.name = "step",
                .start_ps = begin_ps,
                .duration_ps = at_ps - begin_ps,
                .stats = {{"step_num", step_num++}}});
    at_ps += 100'000;
  }
  return Captured(t, name, options);
}

const DiffPart& PartOf(const DiffRow& row) { return row.head.has_value() ? *row.head : *row.base; }

std::vector<DiffRow> RowsOf(const DiffReport& report, const std::string& function) {
  std::vector<DiffRow> rows;
  for (const DiffRow& row : report.rows) {
    if (!IsWaiting(row.match) && PartOf(row).function == function) rows.push_back(row);
  }
  return rows;
}

void ExpectNone(const DiffRow& row, const std::string& reason) {
  EXPECT_EQ(row.verdict, DiffVerdict::kNoVerdict);
  EXPECT_FALSE(row.lo_ps.has_value() || row.hi_ps.has_value() || row.p_value.has_value());
  EXPECT_EQ(row.reason, reason);
}

// What runs in each capture, a bit longer from one to the next. In odd picoseconds: what all
// kernels of a capture are multiples of is taken for the step of its clock.
MadeRun Common(int64_t nth) {
  return {"jit_f", {{"dot", 1'000'003 + 1000 * nth}, {"add", 500'002 + 700 * nth}}};
}

TEST(DiffVerdictsTest, AFunctionThatRanOnceHasNoneAndTheOthersHaveTheirs) {
  const std::vector<DiffCapture> base = {
      Captured("b0", {{Common(0), {"jit_g", {{"sort", 8'000'000}, {"iota", 90'000}}}}}),
      Captured("b1", {{Common(1)}}), Captured("b2", {{Common(2)}}), Captured("b3", {{Common(3)}})};
  const auto with = [](const std::string& name, int64_t nth, const MadeRun& more) {
    MadeRun common = Common(nth);
    common.ops.pop_back();  // `add` is gone
    return Captured(name, {{common, more}});
  };
  std::vector<DiffCapture> head, other;
  for (int64_t i = 0; i < 4; ++i) {
    const std::string name = "h" + std::to_string(i);
    head.push_back(with(name, i, {"jit_g", {{"scan", 2'000'009 + 9000 * i}}}));
    other.push_back(with(name, i, {"jit_new", {{"scan", 2'000'009 + 9000 * i}}}));
  }

  const auto report = insight::DiffOf(base, head, {.per = DiffPer::kRun});
  ASSERT_TRUE(report.ok()) << report.status();
  const std::vector<DiffRow> of_g = RowsOf(*report, "jit_g");
  EXPECT_GE(of_g.size(), 2u);
  for (const DiffRow& row : of_g) {
    ExpectNone(row, "its function ran in one capture of base, but a verdict needs two");
  }
  ExpectNone(report->total, "all functions ran in one capture of base, but a verdict needs two");
  const std::vector<DiffRow> of_f = RowsOf(*report, "jit_f");
  ASSERT_EQ(of_f.size(), 2u);
  EXPECT_EQ(of_f[0].match, DiffMatch::kGone);
  EXPECT_EQ(of_f[0].verdict, DiffVerdict::kLess);  // where its function ran, it did not
  EXPECT_EQ(of_f[1].verdict, DiffVerdict::kUnproven);

  const auto apart = insight::DiffOf(base, other, {.per = DiffPer::kRun});
  ASSERT_TRUE(apart.ok()) << apart.status();
  for (const char* function : {"jit_g", "jit_new"}) {
    EXPECT_FALSE(RowsOf(*apart, function).empty());
    for (const DiffRow& row : RowsOf(*apart, function)) {
      ExpectNone(row, "its function ran on one side only");
    }
  }
  ExpectNone(apart->total, "some functions ran on one side only");
}

TEST(DiffVerdictsTest, AStepInWhichAFunctionDidNotRunIsNoMeasurementOfIt) {
  const auto steps = [](const MadeStep& step) { return std::vector<MadeStep>(3, step); };
  const MadeRun rare = {"jit_g", {{"sort", 8'000'000}}};
  const std::vector<DiffCapture> base = {Captured("b0", steps({Common(0), rare})),
                                         Captured("b1", steps({Common(1)})),
                                         Captured("b2", steps({Common(2)}))};
  const std::vector<DiffCapture> head = {Captured("h0", steps({Common(1)})),
                                         Captured("h1", steps({Common(2)})),
                                         Captured("h2", steps({Common(3)}))};
  for (const DiffPer per : {DiffPer::kStep, DiffPer::kCapture}) {
    const auto report = insight::DiffOf(base, head, {.per = per});
    ASSERT_TRUE(report.ok()) << report.status();
    ASSERT_EQ(RowsOf(*report, "jit_g").size(), 1u);
    ExpectNone(RowsOf(*report, "jit_g")[0], "its function ran on one side only");
    EXPECT_TRUE(report->total.lo_ps.has_value());
  }
}

TEST(DiffVerdictsTest, AnIntervalMayBeHugeAndProvesNothing) {
  const auto one = [](const std::string& name, int64_t ps) {
    return Captured(name, {{{"jit_f", {{"dot", ps}}}}});
  };
  const auto report = insight::DiffOf({one("b0", 1000), one("b1", 9'000'000)},
                                      {one("h0", 2000), one("h1", 11'000'000)}, {});
  ASSERT_TRUE(report.ok()) << report.status();
  const DiffRow row = RowsOf(*report, "jit_f").at(0);
  EXPECT_EQ(row.verdict, DiffVerdict::kUnproven);
  EXPECT_EQ(row.delta_ps, 1'000'500);
  EXPECT_GT(*row.hi_ps - *row.lo_ps, 20 * 1'000'500.0);
  EXPECT_EQ(row.p_value, 1);
}

TEST(DiffVerdictsTest, PairsCountWhereBothRanAndStatedNoiseNeedsTwoRuns) {
  const MadeRun g = {"jit_g", {{"sort", 800'000}}};
  const std::vector<DiffCapture> base = {Captured("b0", {{Common(0), g}}),
                                         Captured("b1", {{Common(1), g}}),
                                         Captured("b2", {{Common(2)}})};
  const std::vector<DiffCapture> head = {Captured("h0", {{Common(0)}}),
                                         Captured("h1", {{Common(1), g}}),
                                         Captured("h2", {{Common(2), g}})};
  DiffOptions paired = {.per = DiffPer::kRun};
  paired.decision.paired = true;
  const auto pairs = insight::DiffOf(base, head, paired);
  ASSERT_TRUE(pairs.ok()) << pairs.status();
  ExpectNone(RowsOf(*pairs, "jit_g").at(0),
             "its function ran in one pair of captures, but a verdict needs two");
  EXPECT_TRUE(RowsOf(*pairs, "jit_f").at(0).lo_ps.has_value());

  DiffOptions stated = {.per = DiffPer::kRun};
  stated.decision.offset_std = 0.01;
  const auto once = insight::DiffOf({Captured("b0", {{Common(0), Common(1), g}})},
                                    {Captured("h0", {{Common(2), Common(3), g, g}})}, stated);
  ASSERT_TRUE(once.ok()) << once.status();
  ExpectNone(RowsOf(*once, "jit_g").at(0), "its function ran in one run of base, but a verdict needs two");
  EXPECT_TRUE(RowsOf(*once, "jit_f").at(0).lo_ps.has_value());
}

TEST(DiffVerdictsTest, WhatIsOnBothSidesIsSaid) {
  const DiffCapture one = Captured("one.pb", {{Common(0)}}),
                    two = Captured("two.pb", {{Common(1)}});
  DiffCapture copy = one;
  copy.source = "copy.pb";
  const auto same = insight::DiffOf({one}, {one}, {});
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_THAT(same->notes, Contains(HasSubstr("one.pb is on both sides")));
  const auto copied = insight::DiffOf({one, two}, {copy, two}, {});
  ASSERT_TRUE(copied.ok()) << copied.status();
  EXPECT_THAT(copied->notes,
              Contains(HasSubstr("copy.pb, which repeats one.pb, and 1 more are on both sides")));
}

// No two functions have a kernel in common, so that none is matched to one of another name.
std::vector<MadeStep> RandomSteps(Random* random) {
  std::vector<MadeStep> steps;
  for (int64_t step = 0; step < 2 + random->Below(2); ++step) {
    MadeStep runs = {{"jit_a", {{"dot", 1000 * (1 + random->Below(9))}}}};
    for (const char* function : {"jit_b", "jit_c"}) {
      if (!random->OneIn(3)) continue;
      MadeRun run = {function, {}};
      for (int64_t i = 0; i <= random->Below(3); ++i) {
        const std::string kind = random->OneIn(3) ? "sort" : "add";
        run.ops.push_back(
            {kind + function + "." + std::to_string(i), 1000 * (1 + random->Below(9))});
      }
      runs.push_back(std::move(run));
    }
    steps.push_back(std::move(runs));
  }
  return steps;
}

// In how many captures a function has units; by another way.
int64_t CapturesWith(const std::vector<DiffCapture>& side, const std::string& function,
                     DiffPer per) {
  return std::ranges::count_if(side, [&](const DiffCapture& capture) {
    if (per == DiffPer::kRun) {
      return std::ranges::any_of(capture.programs, [&](const insight::DiffProgram& program) {
        return program.function == function && program.runs.units > 0;
      });
    }
    return std::ranges::any_of(capture.ops, [&](const insight::DiffOp& op) {
      return capture.programs[op.program].function == function &&
             op.times[static_cast<size_t>(per)].own_ps > 0;
    });
  });
}

void CheckRow(const DiffRow& row) {
  const bool judged = row.verdict != DiffVerdict::kNoVerdict && row.verdict != DiffVerdict::kSmall;
  EXPECT_EQ(row.reason.empty(), row.verdict != DiffVerdict::kNoVerdict);
  EXPECT_EQ(row.lo_ps.has_value(), judged);
  EXPECT_EQ(row.hi_ps.has_value(), judged);
  EXPECT_EQ(row.p_value.has_value(), judged);
}

TEST(DiffVerdictsTest, NoRowHasAVerdictThatWasNotMeasuredTwiceOnEachSide) {
  int with = 0, without = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    std::vector<DiffCapture> sides[2];
    const int64_t captures = 1 + random.Below(4);
    const bool paired = random.OneIn(3);
    for (size_t side = 0; side < 2; ++side) {
      const int64_t count = paired ? captures : 1 + random.Below(4);
      for (int64_t i = 0; i < count; ++i) {
        const std::string name = std::to_string(side) + std::to_string(i);
        sides[side].push_back(Captured(name, RandomSteps(&random)));
      }
    }
    for (const DiffPer per : {DiffPer::kStep, DiffPer::kRun, DiffPer::kCapture}) {
      DiffOptions options = {.per = per};
      options.decision.paired = paired;
      const auto report = insight::DiffOf(sides[0], sides[1], options);
      if (!report.ok()) continue;  // captures that are alike by chance are no pairs
      CheckRow(report->total);
      for (const DiffRow& row : report->rows) {
        CheckRow(row);
        if (IsWaiting(row.match)) continue;
        const std::string& function = *PartOf(row).function;
        const bool twice = CapturesWith(sides[0], function, per) >= 2 &&
                           CapturesWith(sides[1], function, per) >= 2;
        if (row.verdict != DiffVerdict::kNoVerdict) {
          EXPECT_TRUE(twice) << seed << " " << function << " per " << DiffPerName(per);
        } else if (!paired) {
          EXPECT_FALSE(twice) << seed << " " << function << " per " << DiffPerName(per);
        }
        ++(row.verdict != DiffVerdict::kNoVerdict ? with : without);
      }
    }
  }
  EXPECT_GT(with, 1000);
  EXPECT_GT(without, 1000);
}

}  // namespace
}  // namespace xplane_time::testing
