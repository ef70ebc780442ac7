// Tests TPU traces with several batches per line.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/random.h"
#include "tests/timing/report_of.h"
#include "tests/timing/stream_check.h"

namespace xplane_time::testing {
namespace {

constexpr uint64_t kProgram = 12190760917235803885u;

struct DeviceTime {
  int64_t offset_ps, duration_ps;
};

// Writes a line of ops. Several lines may have the same name.
class OpLine {
 public:
  explicit OpLine(TraceBuilder* t, int64_t id = 3)
      : line_(t->Tpu(0).Line({.id = id, .name = "XLA Ops"})) {}

  void Add(const std::string& name, int64_t start_ps, int64_t duration_ps,
           std::optional<DeviceTime> device = {}) {
    EventSpec event{.name = name, .start_ps = start_ps, .duration_ps = duration_ps};
    if (device.has_value()) {
      event.stats = {{"device_offset_ps", device->offset_ps},
                     {"device_duration_ps", device->duration_ps}};
    }
    line_.Event(event);
  }

 private:
  LineBuilder line_;
};

void AddModule(int64_t start_ps, int64_t duration_ps, TraceBuilder* t,
               const std::string& name = "jit_f") {
  t->Tpu(0).Module(
      {.name = name, .program_id = kProgram, .start_ps = start_ps, .duration_ps = duration_ps});
}

std::string OpName(int64_t k) { return "op" + std::to_string(k); }

// Runs of a loop with three children and of five ops after it. The first child begins with the
// loop. The device clock is twice as fast, and jumps back between runs.
void AddRuns(int64_t runs, bool device_clock, TraceBuilder* t) {
  OpLine ops(t);
  const auto add = [&](const std::string& name, int64_t run, int64_t at_ps, int64_t duration_ps) {
    std::optional<DeviceTime> device;
    if (device_clock) device = {1'000'000 - 700 * run + 2 * at_ps, 2 * duration_ps};
    ops.Add(name, kFirstPs + 100 * run + at_ps, duration_ps, device);
  };
  for (int64_t run = 0; run < runs; ++run) {
    AddModule(kFirstPs + 100 * run, run % 3 == 0 ? 100 : 90, t);
    add("while", run, 0, 40);
    for (int64_t k = 0; k < 3; ++k) add(OpName(k), run, 12 * k, 10 + run % 3);
    for (int64_t k = 3; k < 8; ++k) {
      if (run % 50 != 7 || k != 5) add(OpName(k), run, 10 * k + 11, 5);
    }
  }
}

TEST(StreamedTpu, NestedOpsOnTheProfileClock) {
  TraceBuilder t;
  AddRuns(400, /*device_clock=*/false, &t);
  EXPECT_TRUE(StreamAgrees(t, BuildSlowTpuReport));
  const KernelRow loop = TheKernel(StreamReport(t), "while");
  EXPECT_EQ(loop.count, 400u);
  // In three consecutive runs, the children take 30, 33 and 36 of the 40 ps of the loop.
  EXPECT_EQ(loop.self_ps, 133 * (10 + 7 + 4) + 10);
}

TEST(StreamedTpu, NestedOpsOnTheDeviceClock) {
  TraceBuilder t;
  AddRuns(400, /*device_clock=*/true, &t);
  EXPECT_TRUE(StreamAgrees(t, BuildSlowTpuReport));
}

// The body of a loop is read in three batches.
TEST(StreamedTpu, ALoopLongerThanABatch) {
  for (const bool device_clock : {false, true}) {
    TraceBuilder t;
    OpLine ops(&t);
    constexpr int64_t kOps = 2 * kBatch + 100;
    for (int64_t run = 0; run < 2; ++run) {
      const int64_t at_ps = kFirstPs + run * 100'000;
      AddModule(at_ps, 90'000, &t);
      const auto add = [&](const std::string& name, int64_t offset_ps, int64_t duration_ps) {
        std::optional<DeviceTime> device;
        if (device_clock) device = {7 + offset_ps, duration_ps};
        ops.Add(name, at_ps + offset_ps, duration_ps, device);
      };
      add("while", 0, 10 * kOps);
      for (int64_t i = 0; i < kOps; ++i) add(OpName(i % 5), 10 * i, 6);
    }
    EXPECT_TRUE(StreamAgrees(t, BuildSlowTpuReport));
    EXPECT_EQ(TheKernel(StreamReport(t), "while").self_ps, 2 * 4 * kOps);
  }
}

// Ops with equal starts are never separated: three of them across the end of a batch, or more than
// two batches of them.
TEST(StreamedTpu, EqualStartsAcrossABatch) {
  for (const int64_t alike : {int64_t{3}, 2 * kBatch + 7}) {
    SCOPED_TRACE(alike);
    TraceBuilder t;
    OpLine ops(&t);
    const int64_t count = 3 * kBatch;
    AddModule(kFirstPs, 10 * (count / alike + 1), &t);
    for (int64_t i = 0; i < count; ++i) {
      // The shorter ops come first, because sorting happens only within a chunk.
      ops.Add(OpName(i % 4), kFirstPs + i / alike * 10, i % 3 * 4);
    }
    EXPECT_TRUE(StreamAgrees(t, BuildSlowTpuReport));
  }
}

// The order changes within a run that is longer than two batches.
TEST(StreamedTpu, ADeviceClockOfAnotherOrder) {
  constexpr int64_t kOps = 2 * kBatch + 50;
  struct Case {
    const char* name;
    int64_t (*offset_ps)(int64_t op);
  };
  const Case cases[] = {
      {"backwards", [](int64_t op) { return 10 * (kOps - op); }},
      {"neighbours are swapped", [](int64_t op) { return 10 * (op ^ 1); }},
      {"once, in the second batch",
       [](int64_t op) { return op == kBatch + 30 ? int64_t{5} : 10 * op; }},
      {"at the beginning of the second chunk",
       [](int64_t op) { return op == kBatch - 1 ? 10 * op - 15 : 10 * op; }},
      {"the last is the first", [](int64_t op) { return op == kOps - 1 ? int64_t{-9} : 10 * op; }},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    TraceBuilder t;
    OpLine ops(&t);
    AddModule(kFirstPs, 10 * kOps, &t);
    for (int64_t op = 0; op < kOps; ++op) {
      ops.Add(OpName(op % 7), kFirstPs + 10 * op, 9, DeviceTime{c.offset_ps(op), 6 + op % 9});
    }
    EXPECT_TRUE(StreamAgrees(t, BuildSlowTpuReport));
  }
}

// The last op of the first chunk is empty and at 0 on the device clock, and the following ops are
// before it.
TEST(StreamedTpu, ADeviceClockThatGoesBackFromZero) {
  TraceBuilder t;
  OpLine ops(&t);
  constexpr int64_t kOps = 2 * kBatch, kLast = kBatch - 2;
  AddModule(kFirstPs, 10 * kOps, &t);
  for (int64_t op = 0; op < kOps; ++op) {
    const int64_t offset_ps = op <= kLast ? 10 * (op - kLast) : 10 * (op - kOps) - 30'000;
    ops.Add(OpName(op % 7), kFirstPs + 10 * op, 9, DeviceTime{offset_ps, op == kLast ? 0 : 6});
  }
  EXPECT_TRUE(StreamAgrees(t, BuildSlowTpuReport));
}

// The ops of a run are on two lines.
TEST(StreamedTpu, RunsOnTwoLines) {
  for (const bool device_clock : {false, true}) {
    TraceBuilder t;
    OpLine first(&t, 3), second(&t, 5);
    for (int64_t run = 0; run < 200; ++run) {
      AddModule(kFirstPs + 200 * run, 200, &t);
      for (int64_t k = 0; k < 10; ++k) {
        const int64_t at_ps = kFirstPs + 200 * run + 20 * k;
        std::optional<DeviceTime> device;
        if (device_clock) device = {3 * at_ps, 40};
        first.Add(OpName(k), at_ps, 15, device);
        if (k % 3 == 0) second.Add("copy", at_ps, 30, device);
      }
    }
    EXPECT_TRUE(StreamAgrees(t, BuildSlowTpuReport));
  }
}

// The reference does not support overlapping modules. An op belongs to the last module that began.
TEST(StreamedTpu, ModulesThatOverlap) {
  for (const bool device_clock : {false, true}) {
    TraceBuilder t;
    OpLine first(&t, 3), second(&t, 5);
    for (int64_t run = 0; run < 100; ++run) {
      AddModule(kFirstPs + 200 * run, 350, &t, run % 2 == 0 ? "jit_f" : "jit_g");
      for (int64_t k = 0; k < 20; ++k) {
        const int64_t at_ps = kFirstPs + 200 * run + 10 * k;
        std::optional<DeviceTime> device;
        if (device_clock) device = {at_ps + (k % 2 == 0 ? 0 : 90'000), 12};
        (k % 2 == 0 ? first : second).Add(OpName(k), at_ps, 9, device);
      }
    }
    EXPECT_TRUE(ChunksChangeNothing(t));
  }
}

// A line ends early, lines follow each other, or one is much denser than the other.
TEST(StreamedTpu, LinesThatHoldOtherTimes) {
  struct Span {
    int64_t first, count, step_ps;
  };
  const std::vector<Span> cases[] = {
      {{0, 3000, 10}, {5, 3, 10}},          {{0, 1500, 10}, {20'000, 1500, 10}},
      {{20'000, 1500, 10}, {0, 1500, 10}},  {{0, 3000, 5}, {0, 15, 1000}},
      {{0, 1024, 10}, {10'230, 1025, 10}},  {{0, 1025, 10}, {0, 1024, 10}, {0, 1023, 10}},
      {{0, 1, 10}, {1, 1, 10}, {0, 2, 10}},
  };
  for (const std::vector<Span>& spans : cases) {
    TraceBuilder t;
    for (int64_t run = 0; run < 80; ++run) AddModule(kFirstPs + 500 * run, 450, &t);
    for (size_t i = 0; i < spans.size(); ++i) {
      OpLine ops(&t, static_cast<int64_t>(3 + i));
      for (int64_t k = 0; k < spans[i].count; ++k) {
        ops.Add(OpName(k % 3), kFirstPs + spans[i].first + k * spans[i].step_ps, 7);
      }
    }
    EXPECT_TRUE(StreamAgrees(t, BuildSlowTpuReport));
  }
}

// One op of the last run lacks the device clock. So its whole program, and no other program, is
// measured again with the profile clock.
TEST(StreamedTpu, MixedClocksAreKnownLate) {
  TraceBuilder t;
  OpLine ops(&t);
  for (int64_t run = 0; run < 300; ++run) {
    const std::string name = run % 3 == 0 ? "jit_mixed" : "jit_f";
    AddModule(kFirstPs + 100 * run, 100, &t, name);
    for (int64_t k = 0; k < 8; ++k) {
      const int64_t at_ps = kFirstPs + 100 * run + 10 * k;
      std::optional<DeviceTime> device;
      if (run != 297 || k != 5) device = {9 * at_ps, 25};
      ops.Add(OpName(k), at_ps, 9, device);
    }
  }
  EXPECT_TRUE(StreamAgrees(t, BuildSlowTpuReport));
  const Report report = StreamReport(t);
  EXPECT_EQ(TheFunction(report, "jit_mixed").clock, Clock::kProfile);
  EXPECT_EQ(TheFunction(report, "jit_f").clock, Clock::kDevice);
}

// Both conditions that invalidate a pass.
TEST(StreamedTpu, MixedClocksAndAnotherOrder) {
  TraceBuilder t;
  OpLine ops(&t);
  constexpr int64_t kOps = 3 * kBatch;
  for (int64_t run = 0; run < 2; ++run) {
    AddModule(kFirstPs + 10 * kOps * run, 10 * kOps, &t, run == 0 ? "jit_mixed" : "jit_f");
  }
  for (int64_t op = 0; op < 2 * kOps; ++op) {
    std::optional<DeviceTime> device;
    if (op != kOps / 2) device = {50'000 - op, 9};
    ops.Add(OpName(op % 7), kFirstPs + 10 * op, 6, device);
  }
  EXPECT_TRUE(StreamAgrees(t, BuildSlowTpuReport));
}

// -- Random traces -----------------------------------------------------------

struct RandomOp {
  int64_t line, start_ps, duration_ps;
  std::optional<DeviceTime> device;
};

void BuildRandomTpuStream(Random* random, TraceBuilder* t) {
  const int64_t runs = 1 + random->Below(60), run_ps = 20 + random->Below(400);
  int64_t at_ps = kFirstPs;
  for (int64_t run = 0; run < runs; ++run) {
    at_ps += random->OneIn(2) ? 0 : random->Below(20);
    AddModule(at_ps, run_ps, t, "jit_f" + std::to_string(random->Below(3)));
    at_ps += run_ps;
  }
  const int64_t lines = 1 + random->Below(3), clock = random->Below(4);
  std::vector<RandomOp> ops(static_cast<size_t>(1200 + random->Below(1800)));
  for (RandomOp& op : ops) {
    op.line = random->OneIn(3) ? random->Below(lines) : 0;
    op.start_ps = kFirstPs + random->Below(at_ps - kFirstPs + 30);
    op.duration_ps = random->Below(random->OneIn(10) ? 200 : 10);
    const int64_t other_ps =
        clock == 3 ? random->Below(40) : 0;  // 3: another order on the device clock
    if (clock == 0 || (clock == 1 && random->OneIn(1000))) continue;
    op.device = DeviceTime{2 * op.start_ps + other_ps, random->Below(9)};
  }
  std::stable_sort(ops.begin(), ops.end(),
                   [](const RandomOp& a, const RandomOp& b) { return a.start_ps < b.start_ps; });
  std::vector<OpLine> op_lines;
  for (int64_t line = 0; line < lines; ++line) op_lines.emplace_back(t, 3 + line);
  for (const RandomOp& op : ops) {
    op_lines[static_cast<size_t>(op.line)].Add(OpName(random->Below(5)), op.start_ps,
                                               op.duration_ps, op.device);
  }
}

TEST(StreamedTpu, RandomTraces) {
  for (uint32_t seed = 1; seed <= 24; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    TraceBuilder t;
    BuildRandomTpuStream(&random, &t);
    ASSERT_TRUE(StreamAgrees(t, BuildSlowTpuReport));
  }
}

}  // namespace
}  // namespace xplane_time::testing
