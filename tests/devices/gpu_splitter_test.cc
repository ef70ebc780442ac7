// The GPU splitter in blocks: programs of very many executions.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "devices/device_kind.h"

namespace xplane_time {
namespace {

absl::StatusOr<const HostEvidence*> NoEvidence() {
  static const HostEvidence none;
  return &none;
}

// One program whose kernels come in the order of `ops`, 10 ps each; before op 0 the device
// idles.
DeviceExecutions ChunkOf(const std::vector<uint32_t>& ops) {
  auto tables = std::make_shared<ExecutionTables>();
  tables->programs.push_back({.function = "jit_f", .program_id = std::nullopt});
  DeviceExecutions chunk;
  int64_t now_ps = 0;
  for (const uint32_t op : ops) {
    while (op >= tables->ops.size()) {
      OpInfo& info = tables->ops.emplace_back();
      info.kernel = "k" + std::to_string(tables->ops.size());
    }
    if (op == 0) now_ps += 100;
    chunk.start_ps.push_back(now_ps);
    chunk.duration_ps.push_back(10);
    chunk.op.push_back(op);
    now_ps += 10;
  }
  chunk.tables = tables;
  chunk.program.assign(ops.size(), 0);
  chunk.line.assign(ops.size(), 0);
  chunk.correlation_id.assign(ops.size(), 0);
  chunk.root_scope_id.assign(ops.size(), 0);
  return chunk;
}

std::vector<uint32_t> RunsOf(const std::vector<uint32_t>& ops, size_t period_block) {
  DeviceExecutions chunk = ChunkOf(ops);
  SplitContext context;
  context.plane = 0;
  context.tables = chunk.tables;
  context.evidence = NoEvidence;
  context.period_block = period_block;
  const std::unique_ptr<RunSplitter> splitter = kGpuRules.make_splitter(context);
  while (splitter->WantsLook()) {
    EXPECT_TRUE(splitter->Look(chunk).ok());
    splitter->EndLook();
  }
  splitter->Assign(&chunk);
  return chunk.run;
}

std::vector<uint32_t> Repeated(const std::vector<uint32_t>& pattern, size_t times) {
  std::vector<uint32_t> ops;
  for (size_t i = 0; i < times; ++i) ops.insert(ops.end(), pattern.begin(), pattern.end());
  return ops;
}

TEST(GpuSplitterInBlocks, AnExactPeriodIsTheSameWhateverTheBlock) {
  const std::vector<uint32_t> ops = Repeated({0, 1, 2, 1, 3}, 40);
  const std::vector<uint32_t> whole = RunsOf(ops, ops.size() + 1);
  EXPECT_EQ(whole.back(), 39u);
  for (const size_t block : {11, 12, 13, 14, 15, 16, 64, 100, 199, 200}) {
    SCOPED_TRACE(block);
    EXPECT_EQ(RunsOf(ops, block), whole);
  }
}

TEST(GpuSplitterInBlocks, RunsThatLackKernelsAreTheSameWhateverTheBlock) {
  std::mt19937 random(5);
  std::vector<uint32_t> ops;
  for (int run = 0; run < 200; ++run) {
    const uint32_t lost = run % 10 == 9 ? 1 + random() % 4 : 9;
    for (uint32_t op = 0; op < 5; ++op) {
      if (op != lost) ops.push_back(op);
    }
  }
  const std::vector<uint32_t> whole = RunsOf(ops, ops.size() + 1);
  EXPECT_EQ(whole.back(), 199u);
  for (const size_t block : {150, 333, 500, 977}) {
    SCOPED_TRACE(block);
    EXPECT_EQ(RunsOf(ops, block), whole);
  }
}

TEST(GpuSplitterInBlocks, WithoutRepetitionABlockGrowsUntilThereIsOne) {
  std::vector<uint32_t> once;
  for (uint32_t op = 0; op < 50; ++op) once.push_back(op);
  EXPECT_EQ(RunsOf(once, 8), std::vector<uint32_t>(50, 0));
  const std::vector<uint32_t> twice = Repeated(once, 4);
  EXPECT_EQ(RunsOf(twice, 8), RunsOf(twice, 1000));
  EXPECT_EQ(RunsOf(twice, 8).back(), 3u);
}

}  // namespace
}  // namespace xplane_time
