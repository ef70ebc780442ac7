// Tests CPU traces with several batches per line, with interleaved devices and threads, and with
// bodies that complete later than their ops.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/random.h"
#include "tests/timing/report_of.h"
#include "tests/timing/stream_check.h"

namespace xplane_time::testing {
namespace {

LineBuilder Thread(int64_t thread, TraceBuilder* t) {
  return t->Host().Thread("worker/" + std::to_string(thread));
}

// Adds a call. Its body is complete at the marker with its flow id.
void AddCall(int64_t start_ps, int64_t duration_ps, int64_t run_id, uint64_t flow,
             LineBuilder line) {
  line.Event({.name = "call.1",
              .start_ps = start_ps,
              .duration_ps = duration_ps,
              .stats = {{"hlo_op", Ref{"call.1"}},
                        {"hlo_module", Ref{"jit_f"}},
                        {"run_id", run_id},
                        {"device_ordinal", int64_t{0}},
                        {"_p", flow}}});
}

void AddMarker(int64_t time_ps, uint64_t flow, LineBuilder line) {
  line.Event({.name = "end: call.1", .start_ps = time_ps, .stats = {{"_c", flow}}});
}

ThunkSpec Thunk(int64_t start_ps, int64_t duration_ps, int64_t op, int64_t run_id,
                int64_t ordinal = 0) {
  return {.start_ps = start_ps,
          .duration_ps = duration_ps,
          .hlo_op = "op" + std::to_string(op),
          .hlo_module = "jit_f",
          .program_id = 1,
          .run_id = run_id,
          .device_ordinal = ordinal};
}

// Thunks of three devices alternate on two threads. Runs overlap on each thread.
TEST(StreamedCpu, DevicesInterleaved) {
  TraceBuilder t;
  for (int64_t i = 0; i < 3000; ++i) {
    const int64_t ordinal = i % 3, run = i / 36, late = i % 7 == 0 ? 1 : 0;
    Thread(i % 2, &t).Thunk(
        Thunk(kFirstPs + 10 * i, 8 + i % 4 * 3, i / 3 % 12, run - late * (run > 0), ordinal));
  }
  EXPECT_TRUE(StreamAgrees(t, BuildSlowCpuReport));
  EXPECT_EQ(StreamReport(t).devices.size(), 3u);
}

// A device has no executions in most chunks.
TEST(StreamedCpu, ADeviceThatIsHardlyThere) {
  TraceBuilder t;
  for (int64_t i = 0; i < 3 * kBatch; ++i) {
    const bool rare = i == 5 || i == kBatch - 1 || i == 3 * kBatch - 1;
    Thread(0, &t).Thunk(Thunk(kFirstPs + 10 * i, 9, i % 4, i / 4, rare ? 7 : 0));
  }
  EXPECT_TRUE(StreamAgrees(t, BuildSlowCpuReport));
}

// Many other events are between the executions.
TEST(StreamedCpu, ABatchWithoutExecutions) {
  TraceBuilder t;
  for (int64_t i = 0; i < 4 * kBatch; ++i) {
    if (i / kBatch % 2 == 1 || i % 5 == 0) {
      Thread(0, &t).Event({.name = "wait", .start_ps = kFirstPs + 10 * i, .duration_ps = 50});
    } else {
      Thread(0, &t).Thunk(Thunk(kFirstPs + 10 * i, 9, i % 4, i / 4));
    }
    if (i % 100 == 0) Thread(1, &t).Thunk(Thunk(kFirstPs + 10 * i, 9, 9, i / 4));
  }
  EXPECT_TRUE(StreamAgrees(t, BuildSlowCpuReport));
}

// Each call contains four thunks. Every third call completes much later, in another chunk.
TEST(StreamedCpu, BodiesThatAreCompleteLater) {
  constexpr int64_t kCalls = 600, kLaterPs = 1'000'000;
  for (const bool any_later : {false, true}) {
    TraceBuilder t;
    for (int64_t call = 0; call < kCalls; ++call) {
      const int64_t at_ps = kFirstPs + 100 * call;
      AddCall(at_ps, 90, call, static_cast<uint64_t>(call), Thread(0, &t));
      for (int64_t k = 0; k < 4; ++k) {
        Thread(0, &t).Thunk(Thunk(at_ps + 20 * k, 15, k, call));
      }
      if (!any_later || call % 3 != 0) {
        AddMarker(at_ps + 88, static_cast<uint64_t>(call), Thread(1, &t));
      }
    }
    for (int64_t call = 0; any_later && call < kCalls; call += 3) {
      AddMarker(kLaterPs + call, static_cast<uint64_t>(call), Thread(1, &t));
    }
    EXPECT_TRUE(StreamAgrees(t, BuildSlowCpuReport));
    const Report report = StreamReport(t);
    EXPECT_EQ(DiagnosticCount(report, "asynchronous_body"), any_later ? kCalls / 3 : 0);
    const auto self_ps = TheKernel(report, "call.1").self_ps;
    EXPECT_EQ(self_ps, any_later ? std::nullopt : std::optional<int64_t>(30 * kCalls));
  }
}

// Two markers have the flow id of one call, on lines that are read alternately. The call completes
// at the later marker, in whatever order they are read.
TEST(StreamedCpu, TwoMarkersOfOneFlow) {
  for (const int64_t first_line : {0, 1}) {
    TraceBuilder t;
    Thread(0, &t);
    Thread(1, &t);
    const int64_t other_line = 1 - first_line;
    AddCall(kFirstPs, 90, 0, 5, Thread(first_line, &t));
    AddMarker(kFirstPs + 80, 5, Thread(other_line, &t));
    for (int64_t i = 0; i < 2 * kBatch; ++i) {
      Thread(0, &t).Thunk(Thunk(kFirstPs + 100 + 10 * i, 9, i % 4, i / 4));
      Thread(1, &t).Thunk(Thunk(kFirstPs + 100 + 10 * i, 9, i % 4, i / 4));
    }
    AddMarker(kFirstPs + 1'000'000, 5, Thread(first_line, &t));
    EXPECT_TRUE(StreamAgrees(t, BuildSlowCpuReport));
    EXPECT_EQ(TheKernel(StreamReport(t), "call.1").self_ps, std::nullopt);
  }
}

// One thread is much busier than the other, or ends early, or the threads follow each other.
TEST(StreamedCpu, ThreadsThatHoldOtherTimes) {
  const std::function<int64_t(int64_t)> thread_of[] = {
      [](int64_t i) { return i % 500 == 0 ? 1 : 0; },
      [](int64_t i) { return i < 40 ? i % 2 : 1; },
      [](int64_t i) { return i < 1500 ? 1 : 0; },
      [](int64_t i) { return i / kBatch; },
  };
  for (const auto& thread : thread_of) {
    TraceBuilder t;
    for (const int64_t each : {0, 1, 2}) Thread(each, &t);
    for (int64_t i = 0; i < 3000; ++i) {
      Thread(thread(i), &t).Thunk(Thunk(kFirstPs + i / 3 * 10, 4 + i % 20, i % 6, i / 6, i % 2));
    }
    EXPECT_TRUE(StreamAgrees(t, BuildSlowCpuReport));
  }
}

// More lines than are read at the same time.
TEST(StreamedCpu, ManyThreads) {
  for (const int64_t threads : {256, 257}) {
    TraceBuilder t;
    for (int64_t i = 0; i < 6 * threads; ++i) {
      Thread(i % threads, &t).Thunk(Thunk(kFirstPs + 5 * i, 7, i % 3, i / 6));
    }
    EXPECT_TRUE(StreamAgrees(t, BuildSlowCpuReport));
  }
}

TEST(StreamedCpu, MinDurationAndDeviceSelection) {
  TraceBuilder t;
  for (int64_t i = 0; i < 3 * kBatch; ++i) {
    // The short events are not sorted, but they do not count.
    const int64_t late_ps = i % 3 == 0 ? 5000 : 0;
    Thread(i % 2, &t).Thunk(
        Thunk(kFirstPs + 10 * i + late_ps, late_ps > 0 ? 1 : 9, i % 4, i / 8, i % 2));
  }
  ReportOptions options;
  options.min_duration_ps = 5;
  EXPECT_TRUE(ChunksChangeNothing(t, options));
  EXPECT_EQ(DiagnosticCount(StreamReport(t, options), "unsorted_line"), 0u);
  options.device = "cpu:1";
  EXPECT_TRUE(ChunksChangeNothing(t, options));
  EXPECT_EQ(StreamReport(t, options).devices.size(), 1u);
}

// -- Random traces -----------------------------------------------------------

void BuildRandomCpuStream(Random* random, TraceBuilder* t) {
  struct Placed {
    int64_t thread;
    ThunkSpec thunk;
    uint64_t flow;
  };
  std::vector<Placed> thunks(static_cast<size_t>(1200 + random->Below(1600)));
  const int64_t threads = 1 + random->Below(4), ordinals = 1 + random->Below(3);
  const int64_t axis_ps = 500 + random->Below(40'000), runs = 1 + random->Below(100);
  uint64_t flow = 0;
  for (Placed& placed : thunks) {
    const int64_t offset_ps = random->Below(axis_ps), program = random->Below(3);
    placed.thread = random->OneIn(2) ? random->Below(threads) : 0;
    placed.flow = ++flow;
    placed.thunk = Thunk(kFirstPs + offset_ps, random->Below(random->OneIn(10) ? 300 : 12),
                         random->Below(4), offset_ps * runs / axis_ps, random->Below(ordinals));
    placed.thunk.hlo_module = "jit_f" + std::to_string(program / 2);
    placed.thunk.program_id = program;
  }
  std::stable_sort(thunks.begin(), thunks.end(), [](const Placed& a, const Placed& b) {
    return a.thunk.start_ps < b.thunk.start_ps;
  });
  const bool calls = random->OneIn(2);
  for (const Placed& placed : thunks) {
    LineBuilder line = Thread(placed.thread, t);
    line.Thunk(placed.thunk);
    const ThunkSpec& thunk = placed.thunk;
    if (!calls || !random->OneIn(8)) continue;
    AddCall(thunk.start_ps, random->Below(60), thunk.run_id, placed.flow, line);
    // The marker is before the end of the call, after it, or missing.
    if (!random->OneIn(200)) {
      AddMarker(thunk.start_ps + random->Below(61) * (random->OneIn(90) ? 50 : 0), placed.flow,
                Thread(random->Below(threads), t));
    }
  }
}

TEST(StreamedCpu, RandomTraces) {
  for (uint32_t seed = 1; seed <= 24; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    TraceBuilder t;
    BuildRandomCpuStream(&random, &t);
    ASSERT_TRUE(StreamAgrees(t, BuildSlowCpuReport));
  }
}

// If the launches of a GPU are requested, the lines of the host are read once for CPU and GPU. The
// CPU must have the same results as if it were read alone.
TEST(StreamedCpu, BesideAGpu) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    TraceBuilder t;
    int64_t at_ps = kFirstPs;
    for (int64_t i = 0; i < 60; ++i, at_ps += 100) {
      const int64_t kind = random.Below(8), thread = random.Below(3);
      LineBuilder line = Thread(thread + (kind < 5 ? 3 : 0), &t);
      if (kind < 3) line.Event({.name = "f.py", .start_ps = at_ps, .duration_ps = 50});
      if (kind == 3) line.ModuleExecution("jit_g", at_ps, 90);
      if (kind == 4) {
        const auto id = static_cast<uint64_t>(i + 1);
        line.Launch({.start_ps = at_ps,
                     .correlation_id = id,
                     .hlo_module = "jit_g",
                     .program_id = 2,
                     .hlo_op = "op"});
        t.Gpu(0).Stream(1).Kernel({.name = "k",
                                   .start_ps = at_ps + 10,
                                   .duration_ps = 20,
                                   .hlo_module = "jit_g",
                                   .program_id = 2,
                                   .hlo_op = "op",
                                   .correlation_id = id});
      }
      if (kind == 5) line.Thunk(Thunk(at_ps, 60, random.Below(3), i / 6));
      if (kind == 6) AddMarker(at_ps, 7, line);
      if (kind == 7) {
        const bool told = random.OneIn(2);
        line.Event({.name = told ? "of metadata" : "odd",
                    .start_ps = at_ps,
                    .duration_ps = told ? 30 : -1,
                    .metadata_stats = told ? std::vector<StatSpec>{{"hlo_op", Ref{"m"}},
                                                                   {"hlo_module", Ref{"jit_f"}}}
                                           : std::vector<StatSpec>{}});
      }
    }
    t.Gpu(0).Stream(1).Kernel({.name = "k",
                               .start_ps = at_ps,
                               .duration_ps = 20,
                               .hlo_module = "jit_g",
                               .program_id = 2,
                               .hlo_op = "op"});
    Thread(0, &t).Thunk(Thunk(at_ps, 60, 0, 100));
    ReportOptions options;
    options.device = "cpu";
    const Report alone = ReportOf(t, options);
    options.device = "all";
    Report beside = ReportOf(t, options);
    std::erase_if(beside.kernels,
                  [](const KernelRow& row) { return row.device.plane != "/host:CPU"; });
    ASSERT_EQ(beside.kernels.size(), alone.kernels.size());
    for (size_t i = 0; i < alone.kernels.size(); ++i) {
      EXPECT_EQ(beside.kernels[i].kernel, alone.kernels[i].kernel);
      EXPECT_EQ(beside.kernels[i].count, alone.kernels[i].count);
      EXPECT_EQ(beside.kernels[i].self_ps, alone.kernels[i].self_ps);
    }
    EXPECT_EQ(DiagnosticCount(beside, "negative_duration"),
              DiagnosticCount(alone, "negative_duration"));
  }
}

}  // namespace
}  // namespace xplane_time::testing
