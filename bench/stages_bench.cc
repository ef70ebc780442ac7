// Stages against the generated parser, in one run. Compare rows of one run only: machines
// are noisy. Inputs are built, not recorded, so that they are the same everywhere.
//
//   cmake --preset release -DXPLANE_TIME_BUILD_BENCH=ON && cmake --build build
//   build/bench/stages_bench
#include <benchmark/benchmark.h>
#include <google/protobuf/arena.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "proto/xplane.pb.h"
#include "tests/support/trace_builder.h"
#include "xplane_time/aggregate.h"
#include "xplane_time/merge.h"
#include "xplane_time/nest.h"
#include "xplane_time/read.h"
#include "xplane_time/report.h"

namespace xplane_time {
namespace {

constexpr int kRuns = 5'000, kKernelsPerRun = 20;

// One GPU, one program, its launches and executions on the host: 205,000 events.
const std::string& GpuTrace() {
  static const std::string bytes = [] {
    testing::TraceBuilder builder;
    auto stream = builder.Gpu(0).Stream(16);
    auto host = builder.Host().Thread("python");
    int64_t now_ps = 0;
    uint64_t correlation_id = 0;
    for (int run = 0; run < kRuns; ++run) {
      host.ModuleExecution("jit_step", now_ps, kKernelsPerRun * 10'000);
      for (int k = 0; k < kKernelsPerRun; ++k, now_ps += 10'000) {
        const std::string op = "fusion." + std::to_string(k);
        host.Launch({.start_ps = now_ps, .duration_ps = 5'000, .correlation_id = ++correlation_id});
        stream.Kernel({.name = op,
                       .start_ps = now_ps + 2'000,
                       .duration_ps = 7'000,
                       .hlo_module = "jit_step",
                       .program_id = 3,
                       .hlo_op = op,
                       .correlation_id = correlation_id});
      }
      now_ps += 50'000;
    }
    return builder.Bytes();
  }();
  return bytes;
}

void SetBytes(benchmark::State& state) {
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) *
                          static_cast<int64_t>(GpuTrace().size()));
}

void BM_GeneratedParser(benchmark::State& state) {
  const std::string& bytes = GpuTrace();
  for (auto _ : state) {
    google::protobuf::Arena arena;
    auto* space = google::protobuf::Arena::CreateMessage<proto::XSpace>(&arena);
    if (!space->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) std::abort();
    benchmark::DoNotOptimize(space);
  }
  SetBytes(state);
}
BENCHMARK(BM_GeneratedParser)->Unit(benchmark::kMillisecond);

void BM_OpenTrace(benchmark::State& state) {
  for (auto _ : state) {
    Diagnostics diagnostics;
    auto trace = OpenTraceFromMemory(GpuTrace(), "bench", {}, &diagnostics);
    if (!trace.ok()) std::abort();
    benchmark::DoNotOptimize(trace);
  }
  SetBytes(state);
}
BENCHMARK(BM_OpenTrace)->Unit(benchmark::kMillisecond);

void BM_Report(benchmark::State& state) {
  for (auto _ : state) {
    Diagnostics diagnostics;
    auto trace = OpenTraceFromMemory(GpuTrace(), "bench", {}, &diagnostics);
    if (!trace.ok()) std::abort();
    auto report = BuildReport(*trace, {}, diagnostics);
    if (!report.ok() || report->functions.at(0).runs != kRuns) std::abort();
    benchmark::DoNotOptimize(report);
  }
  SetBytes(state);
}
BENCHMARK(BM_Report)->Unit(benchmark::kMillisecond);

std::vector<Interval> NestedIntervals(size_t count) {
  std::vector<Interval> intervals;
  for (size_t i = 0; i < count; ++i) {  // four levels, in order
    const auto start_ps = static_cast<int64_t>(i / 4 * 100 + i % 4);
    intervals.push_back({start_ps, start_ps + 100 - 2 * static_cast<int64_t>(i % 4) - 1});
  }
  return intervals;
}

void BM_Nest(benchmark::State& state) {
  const auto intervals = NestedIntervals(static_cast<size_t>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(Nest(intervals, 0));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_Nest)->Arg(1 << 16)->Arg(1 << 20)->Unit(benchmark::kMillisecond);

void BM_Union(benchmark::State& state) {
  const auto intervals = NestedIntervals(static_cast<size_t>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(UnionLengthPs(intervals));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_Union)->Arg(1 << 16)->Arg(1 << 20)->Unit(benchmark::kMillisecond);

void BM_Summarize(benchmark::State& state) {
  std::mt19937_64 random(1);
  std::vector<int64_t> values(static_cast<size_t>(state.range(0)));
  for (int64_t& value : values) value = static_cast<int64_t>(random() % 1'000'000);
  for (auto _ : state) benchmark::DoNotOptimize(Summarize(values, 1));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_Summarize)->Arg(5)->Arg(100)->Arg(100'000)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace xplane_time
