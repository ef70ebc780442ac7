// The GPU splitter: programs of very many executions in blocks, and runs that are known
// early.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "devices/device_kind.h"
#include "devices/gpu_runs/host_evidence.h"

namespace xplane_time::gpu_runs {
namespace {

absl::StatusOr<const HostEvidence*> NoEvidence() {
  static const HostEvidence none;
  return &none;
}

// One program whose kernels come in the order of `ops`, 10 ps each; before op 0 the device
// idles.
struct Chunk {
  std::shared_ptr<const ExecutionTables> tables;
  Executions executions;
};

std::vector<uint32_t> RunsOf(const Executions& executions) {
  std::vector<uint32_t> runs;
  for (const Execution& execution : executions) runs.push_back(execution.run);
  return runs;
}

Chunk ChunkOf(const std::vector<uint32_t>& ops) {
  auto tables = std::make_shared<ExecutionTables>();
  for (const char* const function : {"jit_f", "jit_g", "jit_h"}) {
    tables->programs.push_back({.function = function, .program_id = std::nullopt});
  }
  Chunk chunk;
  int64_t now_ps = 0;
  for (const uint32_t op : ops) {
    while (op >= tables->ops.size()) {
      OpInfo& info = tables->ops.push_back({});
      info.kernel = "k" + std::to_string(tables->ops.size());
      info.symbol = static_cast<uint32_t>(tables->ops.size());
    }
    if (op == 0) now_ps += 100;
    chunk.executions.push_back({.start_ps = now_ps, .duration_ps = 10, .op = op, .program = 0});
    now_ps += 10;
  }
  chunk.tables = tables;
  return chunk;
}

std::vector<uint32_t> RunsOf(const std::vector<uint32_t>& ops, size_t likelihood_block,
                             std::optional<uint64_t> most_by_likelihood = {},
                             Diagnostics* diagnostics = nullptr) {
  Chunk chunk = ChunkOf(ops);
  SplitContext context;
  context.plane = 0;
  context.tables = chunk.tables;
  context.evidence = NoEvidence;
  context.likelihood_block = likelihood_block;
  context.most_by_likelihood = most_by_likelihood.value_or(context.most_by_likelihood);
  const std::unique_ptr<RunSplitter> splitter = kGpuRules.make_splitter(context);
  while (splitter->WantsLook()) {
    EXPECT_TRUE(splitter->Look(chunk.executions).ok());
    splitter->EndLook();
  }
  splitter->Assign(chunk.executions);
  if (diagnostics != nullptr) {
    for (const Run& run : splitter->Finish(diagnostics)) EXPECT_TRUE(run.uncertain);
  }
  return RunsOf(chunk.executions);
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

TEST(GpuSplitterInBlocks, OfMoreThanMayBeSplitByLikelihoodRunsAreUncertain) {
  const std::vector<uint32_t> ops = Repeated({0, 1, 2, 1, 3}, 40);
  for (const size_t block : {13, 1000}) {
    EXPECT_EQ(RunsOf(ops, block, 200).back(), 39u);
    Diagnostics diagnostics;
    EXPECT_EQ(RunsOf(ops, block, 199, &diagnostics), std::vector<uint32_t>(200, 0));
    EXPECT_EQ(diagnostics.count(DiagnosticCode::kRunsUncertain), 1);
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

// Host executions of both programs' functions, one every 100 ps, and a launch in each that
// an id asks for: id = 1000 * (execution + 1) + anything below 1000.
HostEvidence EvidenceFor(const Chunk& chunk) {
  HostEvidence evidence;
  for (const char* const function : {"jit_f", "jit_g"}) {
    for (int64_t i = 0; i < 40; ++i) {
      evidence.executions[function].push_back(
          {.line = 3, .interval = {100 * i, 100 * i + 50}, .furthest_end_ps = 100 * i + 50});
    }
  }
  for (const Execution& execution : chunk.executions) {
    const auto id = static_cast<uint64_t>(execution.numbers[Execution::kCorrelationId]);
    if (id != 0) evidence.launches.Add(id, {static_cast<int64_t>(id / 1000 - 1) * 100 + 1, 3});
  }
  evidence.launches.Finish();
  evidence.device_count = 1;
  return evidence;
}

// Two programs whose runs are alternately scoped or launched, with gaps now and then.
Chunk RandomRuns(std::mt19937* random) {
  Chunk chunk = ChunkOf(std::vector<uint32_t>((*random)() % 60, 0));
  const auto scopes = (*random)() % 3, launches = (*random)() % 3, gaps = (*random)() % 3;
  uint64_t run = 0;
  for (size_t row = 0; row < chunk.executions.size(); ++row) {
    Execution& execution = chunk.executions[row];
    if ((*random)() % 4 == 0) ++run;
    execution.program = (*random)() % 20 == 0 ? kNone : static_cast<uint32_t>(run % 2);
    const bool gap = gaps > 0 && (*random)() % 8 == 0;
    if (scopes > 0 && !gap)
      execution.numbers[Execution::kScopeId] = static_cast<int64_t>(run / 2 + 1);
    if (launches > 0 && !gap) {
      execution.numbers[Execution::kCorrelationId] =
          static_cast<int64_t>(1000 * (run % 40 + 1) + row);
    }
    if (scopes == 2 && (*random)() % 30 == 0) execution.numbers[Execution::kScopeId] = 0;
  }
  return chunk;
}

// By the order in which they appear, a program at a time.
std::vector<uint32_t> Renumbered(const std::vector<uint32_t>& runs) {
  std::map<uint32_t, uint32_t> number = {{kNone, kNone}};
  std::vector<uint32_t> renumbered;
  for (const uint32_t run : runs) {
    const auto next = static_cast<uint32_t>(number.size());
    renumbered.push_back(number.try_emplace(run, next).first->second);
  }
  return renumbered;
}

TEST(GpuSplitterEarly, RunsKnownEarlyAreThoseAssignedLater) {
  std::mt19937 random(8);
  int right = 0, wrong = 0;
  for (int round = 0; round < 4000; ++round) {
    SCOPED_TRACE(round);
    Chunk chunk = RandomRuns(&random);
    const HostEvidence evidence = EvidenceFor(chunk);
    SplitContext context;
    context.plane = 0;
    context.tables = chunk.tables;
    context.evidence = [&]() -> absl::StatusOr<const HostEvidence*> { return &evidence; };
    const std::unique_ptr<RunSplitter> splitter = kGpuRules.make_splitter(context);
    bool assigned = false;
    Executions early = chunk.executions;
    while (splitter->WantsLook()) {
      ASSERT_TRUE(splitter->Look(early).ok());
      assigned = splitter->early_right();
      splitter->EndLook();
    }
    const bool was_right = splitter->early_right();
    EXPECT_TRUE(assigned || !was_right);
    ++(was_right ? right : wrong);
    if (!was_right || early.empty()) continue;
    const std::unique_ptr<RunSplitter> later = kGpuRules.make_splitter(context);
    // Nothing tells the runs of jit_h early, so that all are assigned later.
    chunk.executions.push_back({.start_ps = 1'000'000, .duration_ps = 10, .op = 0, .program = 2});
    while (later->WantsLook()) {
      ASSERT_TRUE(later->Look(chunk.executions).ok());
      later->EndLook();
    }
    Diagnostics diagnostics;
    const auto early_runs = splitter->Finish(&diagnostics);
    ASSERT_FALSE(later->early_right());
    later->Assign(chunk.executions);
    chunk.executions.pop_back();
    ASSERT_EQ(Renumbered(RunsOf(early)), Renumbered(RunsOf(chunk.executions)));
    for (const Execution& execution : early) {
      if (execution.run == kNone) continue;
      const xplane_time::Run& run = early_runs[execution.run];
      EXPECT_EQ(run.program, execution.program);
      EXPECT_LE(run.profile.start_ps, execution.start_ps);
      EXPECT_GE(run.profile.end_ps, execution.end_ps());
    }
  }
  EXPECT_GT(right, 1000);
  EXPECT_GT(wrong, 500);
}

}  // namespace
}  // namespace xplane_time::gpu_runs
