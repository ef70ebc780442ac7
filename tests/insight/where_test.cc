// Where of whole traces: steps and what marks them, who a device waited for, transfers whose halves
// are apart, and what the host did meanwhile. The sweep itself: partition_test.cc.
#include "xplane_time/where.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/support/random.h"
#include "tests/support/trace_builder.h"
#include "xplane_time/read.h"

namespace xplane_time::testing {
namespace {

using ::testing::ElementsAre;

WhereReport Where(const TraceBuilder& t, WhereOptions options = {}) {
  const std::string bytes = t.Bytes();
  Diagnostics reading;
  const auto trace = OpenTraceFromMemory(bytes, "t", {}, &reading);
  EXPECT_TRUE(trace.ok()) << trace.status();
  auto report = FindWhere(*trace, options, reading);
  EXPECT_TRUE(report.ok()) << report.status();
  return report.ok() ? *std::move(report) : WhereReport();
}

uint64_t CountOf(const WhereReport& report, std::string_view code) {
  uint64_t count = 0;
  for (const DiagnosticRow& row : report.diagnostics) count += row.code == code ? row.count : 0;
  return count;
}

std::vector<std::pair<int64_t, int64_t>> StepSpans(const WhereReport& report) {
  std::vector<std::pair<int64_t, int64_t>> spans;  // start, length
  for (const WhereStep& step : report.steps) spans.emplace_back(step.start_ps, *step.time.span_ps);
  return spans;
}

std::vector<std::string> StepNames(const WhereReport& report) {
  std::vector<std::string> names;
  for (const WhereStep& step : report.steps) names.push_back(step.name);
  return names;
}

// Kernels of 10 ps, launched by the calls with their number.
void Kernels(const std::vector<int64_t>& starts_ps, std::string_view module, TraceBuilder* t) {
  auto stream = t->Gpu(0).Stream(1);
  for (size_t i = 0; i < starts_ps.size(); ++i) {
    stream.Kernel({.name = "k",
                   .start_ps = starts_ps[i],
                   .duration_ps = 10,
                   .hlo_module = std::string(module),
                   .program_id = 1,
                   .hlo_op = "op",
                   .correlation_id = i + 1});
  }
}

// Returns the thread that launches.
LineBuilder Launches(const std::vector<int64_t>& starts_ps, TraceBuilder* t) {
  auto thread = t->Host().Thread("python");
  for (size_t i = 0; i < starts_ps.size(); ++i) {
    thread.Launch({.start_ps = starts_ps[i], .duration_ps = 1, .correlation_id = i + 1});
  }
  return thread;
}

void MarkSteps(const std::vector<std::pair<int64_t, int64_t>>& spans_ps, TraceBuilder* t) {
  auto thread = t->Host().Thread("main");
  int64_t number = 7;
  for (const auto& [start_ps, end_ps] : spans_ps) {
    thread.Event({.name = "train",
                  .start_ps = start_ps,
                  .duration_ps = end_ps - start_ps,
                  .stats = {{"step_num", number++}}});
  }
}

// ---- steps -------------------------------------------------------------------------------------

TEST(WhereSteps, OfALineAreThoseThatStartInside) {
  TraceBuilder t;
  Kernels({100, 120, 200, 300}, "jit_f", &t);
  auto line = t.Gpu(0).Line({.id = 9, .name = "Steps"});
  line.Event({.name = "4", .start_ps = 95, .duration_ps = 30});
  line.Event({.name = "5", .start_ps = 150, .duration_ps = 20});  // nothing in it
  line.Event({.name = "6", .start_ps = 200, .duration_ps = 5});
  MarkSteps({{0, 1000}}, &t);  // the line comes first
  const WhereReport report = Where(t);
  EXPECT_EQ(report.devices.at(0).step_source, StepSource::kStepLine);
  EXPECT_THAT(StepNames(report), ElementsAre("4", "6"));
  EXPECT_THAT(StepSpans(report), ElementsAre(std::pair(100, 30), std::pair(200, 10)));
  EXPECT_EQ(report.devices.at(0).steps_span_ps, 40);
  EXPECT_EQ(report.devices.at(0).idle_in_steps_ps, 10);
  EXPECT_EQ(report.devices.at(0).idle_between_steps_ps, 160);
}

TEST(WhereSteps, OfTheHostAreThoseThatWereLaunchedInside) {
  TraceBuilder t;
  Kernels({100, 210, 320}, "jit_f", &t);
  Launches({50, 60, 160}, &t);  // the second starts when the next step has begun
  MarkSteps({{40, 70}, {150, 400}}, &t);
  const WhereReport report = Where(t);
  EXPECT_EQ(report.devices.at(0).step_source, StepSource::kHostLaunch);
  EXPECT_THAT(StepNames(report), ElementsAre("7", "8"));
  EXPECT_THAT(StepSpans(report), ElementsAre(std::pair(100, 120), std::pair(220, 110)));
  EXPECT_EQ(report.steps[1].marked_ps, 250);
  EXPECT_EQ(report.devices.at(0).step_median_ps, 115);
}

TEST(WhereSteps, WithoutLaunchesAreThoseThatStartInside) {
  TraceBuilder t;
  Kernels({100, 210, 320}, "jit_f", &t);
  MarkSteps({{90, 150}, {200, 400}}, &t);
  const WhereReport report = Where(t);
  EXPECT_EQ(report.devices.at(0).step_source, StepSource::kHostTime);
  EXPECT_THAT(StepSpans(report), ElementsAre(std::pair(100, 10), std::pair(200, 130)));
}

TEST(WhereSteps, WithoutMarksAreRunsOfTheFunctionThatTookLongest) {
  TraceBuilder t;
  auto tpu = t.Tpu(0);
  for (int64_t i = 0; i < 3; ++i) {
    tpu.Module({.name = "jit_step", .program_id = 5, .start_ps = i * 100, .duration_ps = 50});
    tpu.Op({.name = "dot.1", .start_ps = i * 100 + 5, .duration_ps = 40});
  }
  tpu.Module({.name = "jit_eval", .program_id = 6, .start_ps = 60, .duration_ps = 30});
  tpu.Op({.name = "dot.2", .start_ps = 60, .duration_ps = 30});
  const WhereReport report = Where(t);
  EXPECT_EQ(report.devices.at(0).step_source, StepSource::kFunction);
  EXPECT_EQ(report.devices.at(0).step_function, "jit_step");
  EXPECT_THAT(StepSpans(report),
              ElementsAre(std::pair(5, 40), std::pair(45, 100), std::pair(145, 100)));
  EXPECT_EQ(report.devices.at(0).step_median_ps, 100);  // nobody knows when the first one began
  EXPECT_EQ(report.devices.at(0).steps_empty, 0u);
  EXPECT_EQ(report.steps[0].marked_ps, std::nullopt);
  EXPECT_EQ(report.devices.at(0).idle_between_steps_ps, 0);
}

TEST(WhereSteps, OfATieOrASingleRunAreNone) {
  TraceBuilder t;
  auto tpu = t.Tpu(0);
  for (int64_t i = 0; i < 4; ++i) {
    const std::string name = i % 2 == 0 ? "jit_a" : "jit_b";
    tpu.Module({.name = name, .program_id = 5, .start_ps = i * 100, .duration_ps = 50});
    tpu.Op({.name = "dot." + name, .start_ps = i * 100, .duration_ps = 40});
  }
  const WhereReport report = Where(t);
  EXPECT_EQ(report.devices.at(0).step_source, std::nullopt);
  EXPECT_EQ(report.devices.at(0).steps, 0u);
  EXPECT_EQ(report.devices.at(0).steps_span_ps, std::nullopt);
  EXPECT_EQ(report.devices.at(0).idle_in_steps_ps, std::nullopt);
  EXPECT_TRUE(report.steps.empty());
}

TEST(WhereSteps, BeginWhereThePreviousOneEnds) {
  TraceBuilder t;
  Kernels({100, 120, 110}, "jit_f", &t);
  Launches({50, 60, 170}, &t);
  MarkSteps({{40, 70}, {160, 400}}, &t);  // what the second launched runs among the first's
  const WhereReport report = Where(t);
  EXPECT_THAT(StepSpans(report), ElementsAre(std::pair(100, 30), std::pair(130, 0)));
}

TEST(WhereSteps, WithoutExecutionsAreCounted) {
  TraceBuilder t;
  Kernels({100, 210}, "jit_f", &t);
  MarkSteps({{90, 150}, {160, 170}, {200, 400}, {500, 600}}, &t);
  const WhereReport report = Where(t);
  EXPECT_EQ(report.devices.at(0).steps, 2u);
  EXPECT_EQ(report.devices.at(0).steps_empty, 2u);
  TraceBuilder none;
  Kernels({100, 210}, "jit_f", &none);
  MarkSteps({{500, 600}}, &none);
  const WhereDevice device = Where(none).devices.at(0);
  EXPECT_EQ(device.step_source, StepSource::kHostTime);
  EXPECT_EQ(device.steps, 0u);
  EXPECT_EQ(device.steps_empty, 1u);
  EXPECT_EQ(device.step_median_ps, std::nullopt);
  EXPECT_EQ(device.idle_in_steps_ps, std::nullopt);
}

TEST(WhereSteps, OfAChosenNameReplaceOthers) {
  TraceBuilder t;
  Kernels({100, 210, 320}, "jit_f", &t);
  auto line = t.Gpu(0).Line({.id = 9, .name = "Steps"});
  line.Event({.name = "4", .start_ps = 95, .duration_ps = 1000});
  MarkSteps({{0, 1000}}, &t);
  auto thread = t.Host().Thread("serve");
  thread.Event({.name = "execute_2(2)", .start_ps = 90, .duration_ps = 60});
  thread.Event({.name = "prepare", .start_ps = 160, .duration_ps = 60});
  thread.Event({.name = "execute_1(1)", .start_ps = 200, .duration_ps = 200});
  const WhereReport report = Where(t, {.device = "", .step = "^execute_"});
  EXPECT_EQ(report.devices.at(0).step_source, StepSource::kHostTime);
  EXPECT_THAT(StepNames(report), ElementsAre("execute_2(2)", "execute_1(1)"));
  EXPECT_THAT(StepSpans(report), ElementsAre(std::pair(100, 10), std::pair(200, 130)));
}

TEST(WhereSteps, OfANameThatNoEventHasAreAnError) {
  TraceBuilder t;
  Kernels({100, 210}, "jit_f", &t);
  MarkSteps({{90, 150}}, &t);
  const std::string bytes = t.Bytes();
  Diagnostics reading;
  const auto trace = OpenTraceFromMemory(bytes, "t", {}, &reading);
  const auto report = FindWhere(*trace, {.device = "", .step = "execute"}, reading);
  EXPECT_EQ(report.status().code(), absl::StatusCode::kFailedPrecondition);
  const auto bad = FindWhere(*trace, {.device = "", .step = "("}, reading);
  EXPECT_EQ(bad.status().code(), absl::StatusCode::kInvalidArgument);
}

// ---- waiting -----------------------------------------------------------------------------------

TEST(WhereIdle, EndsWithTheLaunchOfWhatComesNext) {
  TraceBuilder t;
  Kernels({100, 200, 300, 400}, "jit_f", &t);
  Launches({20, 150, 250, 90}, &t);  // the last was launched before its gap began
  const WhereReport report = Where(t);
  const TimeParts& time = report.devices.at(0).time;
  EXPECT_EQ(time.idle_ps, 270);
  EXPECT_EQ(time.idle_host_ps, 40 + 40);
  EXPECT_EQ(time.idle_launch_ps, 50 + 50 + 90);
  EXPECT_EQ(time.idle_unknown_ps, 0);
}

TEST(WhereIdle, WithoutAnyLaunchIsUnknownAndNeverZero) {
  TraceBuilder t;
  Kernels({100, 200}, "jit_f", &t);
  const WhereReport report = Where(t);
  const TimeParts& time = report.devices.at(0).time;
  EXPECT_EQ(time.idle_host_ps, std::nullopt);
  EXPECT_EQ(time.idle_launch_ps, std::nullopt);
  EXPECT_EQ(time.idle_unknown_ps, 90);
  EXPECT_EQ(report.gaps.at(0).idle_host_ps, std::nullopt);
}

TEST(WhereIdle, AGapHasTheInnermostHostEventThatCoversMostOfIt) {
  TraceBuilder t;
  Kernels({100, 200, 500}, "jit_f", &t);
  Launches({20, 190, 490}, &t);
  auto host = t.Host().Thread("loader");
  host.Event({.name = "whole program", .start_ps = 0, .duration_ps = 1000});
  host.Event({.name = "next batch", .start_ps = 205, .duration_ps = 290});
  host.Event({.name = "a part", .start_ps = 300, .duration_ps = 100});
  t.Host().Thread("other").Event({.name = "decode", .start_ps = 105, .duration_ps = 200});
  const WhereReport report = Where(t);
  ASSERT_EQ(report.gaps.size(), 2u);
  EXPECT_EQ(report.gaps[0].duration_ps, 290);
  EXPECT_EQ(report.gaps[0].host_event, "whole program");  // covers it whole
  EXPECT_EQ(report.gaps[1].duration_ps, 90);
  EXPECT_EQ(report.gaps[1].host_event, "decode");
  EXPECT_EQ(report.gaps[1].host_thread, "other");
  const WhereReport without = Where(t, {.device = "", .host_of_gaps = false});
  EXPECT_EQ(without.gaps.at(0).host_event, std::nullopt);
}

// Lines long enough to be cut into parts, most of which are nowhere near a gap.
TEST(WhereIdle, GapsOfLongHostLines) {
  for (uint32_t seed = 0; seed < 2; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    constexpr int64_t kEvents = 100'000, kApartPs = 10, kEndPs = kEvents * kApartPs;
    const int64_t gaps_ps[] = {random.Below(kEndPs / 2), kEndPs - 1000 - random.Below(500)};
    TraceBuilder t;
    Kernels({1, gaps_ps[0], gaps_ps[0] + 400, gaps_ps[1], gaps_ps[1] + 300}, "jit_f", &t);
    Launches({0, 1, 2, 3, 4}, &t);
    struct HostEvent {
      std::string name;
      int64_t start_ps, duration_ps;
    };
    std::vector<HostEvent> events;
    for (int64_t i = 0; i < kEvents; ++i) {
      // Now and then far from where its neighbours are.
      const int64_t at_ps = random.OneIn(5000) ? random.Below(kEndPs) : i * kApartPs;
      events.push_back({"f" + std::to_string(i % 20), at_ps, random.Below(25)});
    }
    auto thread = t.Host().Thread("loop");
    for (const HostEvent& event : events) {
      thread.Event(
          {.name = event.name, .start_ps = event.start_ps, .duration_ps = event.duration_ps});
    }
    ASSERT_GT(t.Bytes().size(), size_t{800'000});
    for (const WhereGap& gap : Where(t).gaps) {
      // The one that covers most of it; of several the last to begin, then the shortest.
      const HostEvent* best = nullptr;
      const auto covered_ps = [&](const HostEvent& event) {
        return std::min(gap.start_ps + gap.duration_ps, event.start_ps + event.duration_ps) -
               std::max(gap.start_ps, event.start_ps);
      };
      const auto key = [&](const HostEvent& event) {
        return std::tuple(covered_ps(event), event.start_ps, -event.duration_ps);
      };
      for (const HostEvent& event : events) {
        if (covered_ps(event) <= 0) continue;
        if (best == nullptr || key(event) >= key(*best)) best = &event;
      }
      ASSERT_NE(best, nullptr);
      EXPECT_EQ(gap.host_event, best->name) << gap.start_ps;
    }
  }
}

TEST(WhereIdle, TheThreadThatLaunchesComesBeforeOneThatOnlyWaits) {
  TraceBuilder t;
  Kernels({100, 500, 1000}, "jit_f", &t);
  LineBuilder python = Launches({20, 490, 990}, &t);
  python.Event({.name = "next_batch", .start_ps = 200, .duration_ps = 280});
  python.Event({.name = "decode", .start_ps = 220, .duration_ps = 60});
  python.Event({.name = "log", .start_ps = 600, .duration_ps = 100});  // less than half of its gap
  t.Host().Thread("waiter").Event({.name = "wait", .start_ps = 0, .duration_ps = 2000});
  const WhereReport report = Where(t);
  ASSERT_EQ(report.gaps.size(), 2u);
  const WhereGap& second = report.gaps[0];
  EXPECT_EQ(second.start_ps, 510);
  EXPECT_EQ(second.host_thread, "waiter");
  EXPECT_EQ(second.host_busy_ps, 490);
  const WhereGap& first = report.gaps[1];
  EXPECT_EQ(first.cause, "host");
  EXPECT_EQ(first.kernel_before, "k");
  EXPECT_EQ(first.kernel_after, "k");
  EXPECT_EQ(first.function_before, "jit_f");
  EXPECT_EQ(first.host_thread, "python");
  EXPECT_EQ(first.host_event, "next_batch");
  EXPECT_EQ(first.host_busy_ps, 281);
  ASSERT_EQ(first.host_events.size(), 3u);
  EXPECT_EQ(first.host_events[0].event, "next_batch");
  EXPECT_EQ(first.host_events[0].self_ps, 220);
  EXPECT_EQ(first.host_events[1].event, "decode");
  EXPECT_EQ(first.host_events[1].self_ps, 60);
  EXPECT_EQ(report.devices.at(0).gaps, 2u);
}

// ---- what the host did, against one picosecond after the other ---------------------------------

struct MadeEvent {
  std::string name;
  int64_t start_ps, duration_ps;
  int64_t end_ps() const { return start_ps + duration_ps; }
};

// What a thread did in a gap.
struct SlowHost {
  int64_t busy_ps = 0;
  std::vector<std::pair<int64_t, std::string>> self;  // the most first
  std::tuple<int64_t, int64_t, int64_t> cover;        // of the event that covers most
  std::string event;
};

SlowHost SlowHostOf(const std::vector<MadeEvent>& events, int64_t start_ps, int64_t end_ps) {
  SlowHost found;
  std::map<std::string, int64_t> self_ps;
  for (int64_t t = start_ps; t < end_ps; ++t) {
    const MadeEvent* innermost = nullptr;
    for (const MadeEvent& event : events) {
      if (t < event.start_ps || event.end_ps() <= t) continue;
      const auto key = [](const MadeEvent& of) { return std::pair(of.start_ps, -of.duration_ps); };
      if (innermost == nullptr || key(event) >= key(*innermost)) innermost = &event;
    }
    if (innermost == nullptr) continue;
    ++found.busy_ps;
    ++self_ps[innermost->name];
  }
  for (const auto& [name, ps] : self_ps) found.self.emplace_back(-ps, name);
  std::ranges::sort(found.self);
  for (const MadeEvent& event : events) {
    const int64_t covered_ps =
        std::min(end_ps, event.end_ps()) - std::max(start_ps, event.start_ps);
    const auto cover = std::tuple(covered_ps, event.start_ps, -event.duration_ps);
    if (covered_ps <= 0 || cover < found.cover) continue;
    found.cover = cover;
    found.event = event.name;
  }
  return found;
}

TEST(WhereIdle, WhatTheHostDidInRandomTraces) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    TraceBuilder t;
    std::vector<int64_t> kernels_ps, launches_ps;
    int64_t at_ps = 20;
    for (int64_t i = 0; i < 2 + random.Below(8); ++i) {
      kernels_ps.push_back(at_ps);
      launches_ps.push_back(at_ps - 1 - random.Below(10));
      at_ps += 10 + random.Below(60);
    }
    Kernels(kernels_ps, "jit_f", &t);
    const bool launched = !random.OneIn(4);
    // Lines in the order of the file: the launches are on the first.
    std::vector<std::vector<MadeEvent>> lines(3);
    LineBuilder python = launched ? Launches(launches_ps, &t) : t.Host().Thread("python");
    for (size_t i = 0; launched && i < launches_ps.size(); ++i) {
      lines[0].push_back({"hipModuleLaunchKernel", launches_ps[i], 1});
    }
    const std::string threads[] = {"python", "loader", "other"};
    for (size_t line = 0; line < 3; ++line) {
      LineBuilder thread = line == 0 ? python : t.Host().Thread(threads[line]);
      for (int64_t i = 0; i < random.Below(12); ++i) {
        const MadeEvent event = {"e" + std::to_string(random.Below(4)), random.Below(at_ps),
                                 random.Below(random.OneIn(3) ? at_ps : 15)};
        thread.Event(
            {.name = event.name, .start_ps = event.start_ps, .duration_ps = event.duration_ps});
        lines[line].push_back(event);
      }
    }
    for (const int threads_used : {1, 2}) {
      for (const WhereGap& gap :
           Where(t, {.device = "", .threads = threads_used, .gaps = 100}).gaps) {
        const int64_t end_ps = gap.start_ps + gap.duration_ps;
        std::vector<SlowHost> hosts;
        for (const auto& events : lines) hosts.push_back(SlowHostOf(events, gap.start_ps, end_ps));
        const SlowHost* best = nullptr;
        for (const SlowHost& host : hosts) {
          if (host.busy_ps == 0) continue;
          const auto key = [](const SlowHost& of) {
            return std::pair(std::get<0>(of.cover), std::get<2>(of.cover));
          };
          if (best == nullptr || key(host) > key(*best)) best = &host;
        }
        if (launched && hosts[0].busy_ps > 0 && 2 * hosts[0].busy_ps >= gap.duration_ps) {
          best = hosts.data();
        }
        ASSERT_EQ(gap.host_thread.has_value(), best != nullptr);
        if (best == nullptr) continue;
        EXPECT_EQ(gap.host_thread, threads[best - hosts.data()]);
        EXPECT_EQ(gap.host_event, best->event);
        EXPECT_EQ(gap.host_busy_ps, best->busy_ps);
        std::vector<std::pair<int64_t, std::string>> self;
        for (const WhereHostTime& each : gap.host_events)
          self.emplace_back(-each.self_ps, each.event);
        std::vector<std::pair<int64_t, std::string>> expected = best->self;
        if (expected.size() > 5) expected.resize(5);
        EXPECT_EQ(self, expected);
      }
    }
  }
}

// ---- transfers whose halves are apart ----------------------------------------------------------

struct TpuOp {
  std::string name, operand;
  int64_t start_ps, duration_ps;
};

void AddOps(const std::vector<TpuOp>& ops, TraceBuilder* t) {
  auto line = t->Tpu(0).Line({.id = 3, .name = "XLA Ops"});
  for (const TpuOp& op : ops) {
    const std::string opcode = op.name.substr(0, op.name.find('.'));
    line.Event(
        {.name = "%" + op.name + " = f32[8]{0} " + opcode + "(f32[8]{0} %" + op.operand + ")",
         .display_name = op.name,
         .start_ps = op.start_ps,
         .duration_ps = op.duration_ps});
  }
}

TEST(WhereTransfers, AreInFlightFromStartToDone) {
  TraceBuilder t;
  t.Tpu(0).Module({.name = "jit_f", .program_id = 5, .start_ps = 0, .duration_ps = 100});
  AddOps({{"copy-start.1", "p", 10, 2},
          {"fusion.1", "p", 12, 30},
          {"copy-done.1", "copy-start.1", 50, 5}},
         &t);
  const WhereReport report = Where(t);
  const TimeParts& time = report.devices.at(0).time;
  EXPECT_EQ(time.copy_ps, 45);
  EXPECT_EQ(time.copy_hidden_ps, 30);
  EXPECT_EQ(time.copy_exposed_ps, 7);
  EXPECT_EQ(time.idle_ps, 8);
  // A row each half; the pair's flight is the -done's.
  ASSERT_EQ(report.transfers.size(), 2u);
  EXPECT_EQ(report.transfers[0].kernel, "copy-done.1");
  EXPECT_EQ(report.transfers[0].in_flight_ps, 45);
  EXPECT_EQ(report.transfers[0].hidden_ps, 30);
  EXPECT_EQ(report.transfers[1].in_flight_ps, 2);
  EXPECT_EQ(CountOf(report, "lone_done"), 0u);
}

TEST(WhereTransfers, ADoneWithoutItsStartIsTold) {
  TraceBuilder t;
  t.Tpu(0).Module({.name = "jit_f", .program_id = 5, .start_ps = 0, .duration_ps = 40});
  t.Tpu(0).Module({.name = "jit_f", .program_id = 5, .start_ps = 50, .duration_ps = 40});
  AddOps({{"copy-start.1", "p", 10, 2},
          {"copy-done.1", "copy-start.1", 20, 5},
          {"copy-done.1", "copy-start.1", 30, 5},   // a second one for it
          {"copy-done.1", "copy-start.1", 60, 5}},  // of another run
         &t);
  const WhereReport report = Where(t);
  EXPECT_EQ(report.devices.at(0).time.copy_ps, 15 + 5 + 5);
  EXPECT_EQ(CountOf(report, "lone_done"), 2u);
}

// One picosecond after the other. Runs are 100 ps long and do not overlap.
std::pair<int64_t, int64_t> SlowCopies(const std::vector<TpuOp>& ops) {  // in flight, hidden
  const auto copies = [](const TpuOp& op) { return op.name.starts_with("copy"); };
  std::vector<std::pair<int64_t, int64_t>> flights;
  std::vector<bool> taken(ops.size());
  for (size_t i = 0; i < ops.size(); ++i) {
    if (copies(ops[i])) {
      flights.emplace_back(ops[i].start_ps, ops[i].start_ps + ops[i].duration_ps);
    }
    for (size_t j = i; j-- > 0 && ops[i].name.starts_with("copy-done");) {
      const bool same_run = ops[j].start_ps / 100 == ops[i].start_ps / 100;
      if (taken[j] || !same_run || ops[j].name != ops[i].operand) continue;
      taken[j] = true;
      flights.emplace_back(ops[j].start_ps, ops[i].start_ps + ops[i].duration_ps);
      break;
    }
  }
  int64_t in_flight_ps = 0, hidden_ps = 0;
  for (int64_t at = 0; at < 400; ++at) {
    const auto in = [at](int64_t start, int64_t end) { return start <= at && at < end; };
    const bool flies =
        std::ranges::any_of(flights, [&](const auto& of) { return in(of.first, of.second); });
    const bool works = std::ranges::any_of(ops, [&](const TpuOp& op) {
      return !copies(op) && in(op.start_ps, op.start_ps + op.duration_ps);
    });
    in_flight_ps += flies ? 1 : 0;
    hidden_ps += flies && works ? 1 : 0;
  }
  return {in_flight_ps, hidden_ps};
}

TEST(WhereTransfers, RandomPairsAreThoseOfTheSlowSearch) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    Random random(seed);
    std::vector<TpuOp> ops;
    TraceBuilder t;
    for (int64_t run = 0; run < 3; ++run) {
      t.Tpu(0).Module(
          {.name = "jit_f", .program_id = 5, .start_ps = run * 100, .duration_ps = 100});
      int64_t at_ps = run * 100;
      while ((at_ps += random.Below(12)) < run * 100 + 85) {
        const std::string number = std::to_string(random.Below(2));
        const int64_t kind = random.Below(3), duration_ps = 1 + random.Below(9);
        ops.push_back(kind == 0 ? TpuOp{"copy-start." + number, "p", at_ps, duration_ps}
                      : kind == 1
                          ? TpuOp{"copy-done." + number, "copy-start." + number, at_ps, duration_ps}
                          : TpuOp{"fusion." + number, "p", at_ps, duration_ps});
        at_ps += duration_ps;
      }
    }
    if (ops.empty()) continue;
    AddOps(ops, &t);
    const TimeParts& time = Where(t).devices.at(0).time;
    const auto [in_flight_ps, hidden_ps] = SlowCopies(ops);
    ASSERT_EQ(time.copy_ps, in_flight_ps) << seed;
    ASSERT_EQ(time.copy_hidden_ps, hidden_ps) << seed;
    ASSERT_LE(*time.copy_exposed_ps + *time.copy_hidden_ps, *time.copy_ps) << seed;
  }
}

}  // namespace
}  // namespace xplane_time::testing
