// Timelines: the lanes against the executions, runs and steps that other parts tell of.
#include "insight/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/support/random.h"
#include "tests/support/trace_builder.h"
#include "timing/analysis.h"
#include "xplane_time/read.h"

namespace xplane_time::insight {
namespace {

using ::testing::ElementsAre;
using testing::Random;
using testing::TraceBuilder;
using Of = TimelineLane::Of;
using Event = std::tuple<int64_t, int64_t, std::string>;  // start, duration, name

std::vector<Event> EventsOf(const Timeline& timeline, const TimelineLane& lane) {
  std::vector<Event> events;
  for (size_t i = 0; i < lane.size(); ++i) {
    events.emplace_back(lane.start_ps[i], lane.duration_ps[i], timeline.names[lane.name[i]]);
  }
  return events;
}

// By device and what the lane is of: "TPU:0 steps", "GPU:0 Stream #1(Kernel)".
std::map<std::string, std::vector<Event>> LanesOf(const Timeline& timeline) {
  constexpr const char* kOf[] = {" steps", " runs", " ", " host "};
  std::map<std::string, std::vector<Event>> lanes;
  for (const TimelineLane& lane : timeline.lanes) {
    EXPECT_GT(lane.size(), 0U);
    lanes[DeviceName(lane.device) + kOf[static_cast<size_t>(lane.of)] + lane.line] =
        EventsOf(timeline, lane);
  }
  EXPECT_EQ(lanes.size(), timeline.lanes.size());
  return lanes;
}

struct Seen {
  Timeline timeline;
  WhereReport where;
  Report report;
};

// One pass says what two do.
void ExpectSame(const ReportAndTimeline& both, const Seen& seen) {
  EXPECT_EQ(LanesOf(both.timeline), LanesOf(seen.timeline));
  ASSERT_EQ(both.report.devices.size(), seen.report.devices.size());
  for (size_t i = 0; i < seen.report.devices.size(); ++i) {
    EXPECT_EQ(both.report.devices[i].busy_ps, seen.report.devices[i].busy_ps);
    EXPECT_EQ(both.report.devices[i].parts, seen.report.devices[i].parts);
  }
  EXPECT_EQ(both.report.functions.size(), seen.report.functions.size());
  EXPECT_EQ(both.report.samples.size(), seen.report.samples.size());
}

Seen SeenOf(const TraceBuilder& t, int threads = 1) {
  const std::string bytes = t.Bytes();
  Diagnostics reading;
  const auto trace = OpenTraceFromMemory(bytes, "t", {}, &reading);
  EXPECT_TRUE(trace.ok()) << trace.status();
  WhereOptions options;
  options.device = "all";
  options.threads = threads;
  ReportOptions how;
  how.device = "all";
  how.samples = how.parts = true;
  how.threads = threads;
  auto timeline = BuildTimeline(*trace, how, reading);
  EXPECT_TRUE(timeline.ok()) << timeline.status();
  Seen seen = {*std::move(timeline), *FindWhere(*trace, options, reading),
               *BuildReport(*trace, how, reading)};
  ExpectSame(*BuildReportAndTimeline(*trace, how, reading), seen);
  const auto with_where = FindWhereAndTimeline(*trace, options, reading);
  EXPECT_EQ(LanesOf(with_where->timeline), LanesOf(seen.timeline));
  EXPECT_EQ(with_where->where.steps.size(), seen.where.steps.size());
  return seen;
}

TEST(Timeline, HasStepsRunsAndLinesInThisOrder) {
  TraceBuilder t;
  auto tpu = t.Tpu(0);
  for (int64_t i = 0; i < 2; ++i) {
    tpu.Module({.name = "jit_f", .program_id = 5, .start_ps = i * 100, .duration_ps = 50});
    tpu.Op({.name = "long", .start_ps = i * 100 + 5, .duration_ps = 30});
    tpu.Op({.name = "short", .start_ps = i * 100 + 36, .duration_ps = 4});
  }
  const Timeline timeline = SeenOf(t).timeline;
  ASSERT_EQ(timeline.lanes.size(), 3U);
  EXPECT_THAT((std::vector{timeline.lanes[0].of, timeline.lanes[1].of, timeline.lanes[2].of}),
              ElementsAre(Of::kSteps, Of::kRuns, Of::kExecutions));
  EXPECT_EQ(timeline.lanes[2].line, "XLA Ops");
  EXPECT_THAT(EventsOf(timeline, timeline.lanes[0]),
              ElementsAre(Event(5, 35, "0"), Event(40, 100, "1")));
  EXPECT_THAT(EventsOf(timeline, timeline.lanes[2]),
              ElementsAre(Event(5, 30, "long"), Event(36, 4, "short"), Event(105, 30, "long"),
                          Event(136, 4, "short")));
  // What took longest comes first, and kernels before the others.
  EXPECT_EQ(timeline.names[0], "long");
  EXPECT_EQ(timeline.names[1], "short");
}

TEST(Timeline, PutsWhatStartsTogetherInOrderOfLength) {
  TraceBuilder t;
  auto stream = t.Gpu(0).Stream(1);
  stream.Kernel({.name = "a", .start_ps = 10, .duration_ps = 5, .hlo_module = "m", .hlo_op = "a"});
  stream.Kernel({.name = "b", .start_ps = 10, .duration_ps = 9, .hlo_module = "m", .hlo_op = "b"});
  EXPECT_THAT(LanesOf(SeenOf(t).timeline).at("GPU:0 Stream #1(Kernel)"),
              ElementsAre(Event(10, 9, "b"), Event(10, 5, "a")));
}

// GPUs with some streams, TPUs, disorder.
void MakeRandom(Random* random, TraceBuilder* t,
                std::map<std::string, std::vector<Event>>* expected) {
  for (int device = 0; device < 1 + random->Below(3); ++device) {
    auto gpu = t->Gpu(device);
    for (int id = 1; id <= 1 + random->Below(3); ++id) {
      auto stream = gpu.Stream(id);
      std::vector<Event>* const events =
          &(*expected)["GPU:" + std::to_string(device) + " Stream #" + std::to_string(id) +
                       "(Kernel)"];
      int64_t at = random->Below(50);
      for (int64_t i = 0; i < 1 + random->Below(30); ++i) {
        const std::string name = "k" + std::to_string(random->Below(4));
        const int64_t start = std::max<int64_t>(0, at - (random->OneIn(9) ? 40 : 0));
        const int64_t duration = random->Below(12);
        stream.Kernel({.name = name,
                       .start_ps = start,
                       .duration_ps = duration,
                       .hlo_module = "jit_f",
                       .program_id = 1,
                       .hlo_op = name});
        events->emplace_back(start, duration, name);
        at += 1 + random->Below(20);
      }
      std::ranges::stable_sort(*events, [](const Event& a, const Event& b) {
        return std::pair(std::get<0>(a), -std::get<1>(a)) <
               std::pair(std::get<0>(b), -std::get<1>(b));
      });
    }
  }
}

TEST(Timeline, HasTheThreadsOfTheHostThoseThatLaunchFirst) {
  TraceBuilder t;
  t.Gpu(0).Stream(1).Kernel({.name = "k",
                             .start_ps = 30,
                             .duration_ps = 5,
                             .hlo_module = "m",
                             .hlo_op = "k",
                             .correlation_id = 1});
  auto loader = t.Host().Thread("loader");
  loader.Event({.name = "decode", .start_ps = 7, .duration_ps = 3});
  loader.Event({.name = "batch", .start_ps = 5, .duration_ps = 20});
  loader.Event({.name = "decode", .start_ps = 12, .duration_ps = 0});
  t.Host().Thread("python").Launch({.start_ps = 10, .duration_ps = 4, .correlation_id = 1});
  t.Host().Thread("empty");
  for (const int threads : {1, 2}) {
    const Timeline timeline = SeenOf(t, threads).timeline;
    ASSERT_EQ(timeline.lanes.size(), 4U);  // runs, the stream, two threads
    const TimelineLane& first = timeline.lanes[2];
    EXPECT_EQ(first.of, Of::kHost);
    EXPECT_EQ(first.name_of_lane(), "python");
    EXPECT_EQ(first.clock, Clock::kProfile);
    EXPECT_EQ(first.device.plane, "/host:CPU");
    EXPECT_EQ(first.device.ordinal, std::nullopt);
    EXPECT_THAT(EventsOf(timeline, first), ElementsAre(Event(10, 4, "hipModuleLaunchKernel")));
    EXPECT_EQ(timeline.lanes[3].name_of_lane(), "loader");
    EXPECT_THAT(EventsOf(timeline, timeline.lanes[3]),
                ElementsAre(Event(5, 20, "batch"), Event(7, 3, "decode"), Event(12, 0, "decode")));
    EXPECT_EQ(timeline.names[0], "k");  // the host takes no colour from the kernels
  }
}

// Lines that are cut into parts, and lines with one id, are one thread.
TEST(Timeline, HasEveryEventOfLongThreads) {
  Random random(1);
  TraceBuilder t;
  t.Gpu(0).Stream(1).Kernel({.name = "k", .start_ps = 1, .hlo_module = "m", .hlo_op = "k"});
  std::vector<Event> expected;
  for (int line = 0; line < 2; ++line) {
    auto thread = t.Host().Line({.id = 77, .name = "python"});
    for (int64_t i = 0; i < 15'000; ++i) {
      const Event event(random.Below(1'000'000), random.Below(9),
                        "f" + std::to_string(random.Below(2000)));
      thread.Event({.name = std::get<2>(event),
                    .start_ps = std::get<0>(event),
                    .duration_ps = std::get<1>(event)});
      expected.push_back(event);
    }
  }
  const auto lanes = LanesOf(SeenOf(t, 2).timeline);
  std::vector<Event> found = lanes.at("CPU host python");
  std::ranges::sort(found);
  std::ranges::sort(expected);
  EXPECT_EQ(found, expected);
}

TEST(Timeline, OfRandomTracesHasEveryExecutionRunAndStep) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    TraceBuilder t;
    std::map<std::string, std::vector<Event>> expected;
    MakeRandom(&random, &t, &expected);
    const Seen seen = SeenOf(t, 1 + static_cast<int>(seed % 2));
    for (const WhereStep& step : seen.where.steps) {
      expected[DeviceName(step.device) + " steps"].emplace_back(step.start_ps, *step.time.span_ps,
                                                                step.name);
    }
    std::map<std::string, std::vector<Event>> lanes = LanesOf(seen.timeline), runs;
    for (const SampleRow& run : seen.report.samples) {
      runs[DeviceName(run.device) + " runs"].emplace_back(
          run.start_ps, run.span_ps, run.function + (run.suspect ? " (suspect)" : ""));
    }
    for (auto& [name, events] : runs) expected[name] = std::move(events);
    for (auto& [name, events] : expected) std::ranges::sort(events);
    for (auto& [name, events] : lanes) {
      EXPECT_TRUE(std::ranges::is_sorted(events, {}, [](const Event& e) {
        return std::pair(std::get<0>(e), -std::get<1>(e));
      })) << name;
      std::ranges::sort(events);
    }
    EXPECT_EQ(lanes, expected);
  }
}

}  // namespace
}  // namespace xplane_time::insight
