// Stages compared with the generated parser, in one process. Compare rows of the same run only,
// because machines are noisy. Traces of three shapes are built and grown to 10 MB; --trace=FILE
// adds others.
//
//   build/bench/stages_bench [--trace=FILE]... [--benchmark_filter=RE ...]
#include <benchmark/benchmark.h>
#include <google/protobuf/arena.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "bench/grow.h"
#include "bench/shapes.h"
#include "proto/xplane.pb.h"
#include "xplane_time/aggregate.h"
#include "xplane_time/intervals.h"
#include "xplane_time/read.h"
#include "xplane_time/report.h"

namespace xplane_time {
namespace {

constexpr int kSeedRuns = 20;
constexpr size_t kSampleBytes = 10'000'000;

struct Sample {
  std::string name, bytes;
};

Sample ShapedSample(const std::string& name) {
  const std::string seed = bench::ShapedTrace(*bench::ShapeNamed(name), kSeedRuns);
  proto::XSpace space;
  if (!space.ParseFromString(seed)) std::abort();
  Sample sample = {name, ""};
  google::protobuf::io::StringOutputStream out(&sample.bytes);
  const auto times = static_cast<int64_t>(kSampleBytes / seed.size() + 1);
  if (!bench::WriteGrown(&space, times, &out).ok()) std::abort();
  return sample;
}

Trace Opened(const Sample& sample, Diagnostics* diagnostics) {
  auto trace = OpenTraceFromMemory(sample.bytes, sample.name, {}, diagnostics);
  if (!trace.ok()) std::abort();
  return *std::move(trace);
}

void CountBytes(benchmark::State& state, const Sample& sample) {
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(sample.bytes.size()));
}

// The reference. Its heap is warm, so a process that parses one file (such as parse_only) is
// slower.
void BM_GeneratedParser(benchmark::State& state, const Sample& sample) {
  const auto parse = [&] {
    google::protobuf::Arena arena;
    auto* space = google::protobuf::Arena::CreateMessage<proto::XSpace>(&arena);
    if (!space->ParseFromArray(sample.bytes.data(), static_cast<int>(sample.bytes.size()))) {
      std::abort();
    }
    benchmark::DoNotOptimize(space);
  };
  parse();
  for (auto _ : state) parse();
  CountBytes(state, sample);
}

// The index: planes, lines, metadata and numbers of events.
void BM_Open(benchmark::State& state, const Sample& sample) {
  for (auto _ : state) {
    Diagnostics diagnostics;
    benchmark::DoNotOptimize(Opened(sample, &diagnostics));
  }
  CountBytes(state, sample);
}

// Decodes all events of all lines to columns, without stats.
void BM_Decode(benchmark::State& state, const Sample& sample) {
  Diagnostics diagnostics;
  const Trace trace = Opened(sample, &diagnostics);
  for (auto _ : state) {
    EventReader events(trace, {}, &diagnostics);
    int64_t longest_ps = 0;
    for (uint32_t line = 0; line < trace.lines.size(); ++line) {
      events.Start(line);
      for (;;) {
        const auto batch = events.Next();
        if (!batch.ok()) std::abort();
        if (batch->size() == 0) break;
        for (const int64_t duration_ps : batch->duration_ps) {
          longest_ps = std::max(longest_ps, duration_ps);
        }
      }
    }
    benchmark::DoNotOptimize(longest_ps);
  }
  CountBytes(state, sample);
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(trace.event_count));
}

absl::StatusOr<Report> Reported(const Trace& trace, const Diagnostics& diagnostics) {
  ReportOptions options;
  options.device = "all";
  return BuildReport(trace, options, diagnostics);
}

// Everything that the command does except printing: index, decode, aggregate.
void BM_Report(benchmark::State& state, const Sample& sample) {
  for (auto _ : state) {
    Diagnostics diagnostics;
    const Trace trace = Opened(sample, &diagnostics);
    const auto report = Reported(trace, diagnostics);
    if (!report.ok()) std::abort();
    benchmark::DoNotOptimize(report);
  }
  CountBytes(state, sample);
}

// Four nested levels, in order.
std::vector<Interval> NestedIntervals(int64_t count) {
  std::vector<Interval> intervals;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t start_ps = i / 4 * 100 + i % 4;
    intervals.push_back({start_ps, start_ps + 100 - 2 * (i % 4) - 1});
  }
  return intervals;
}

std::vector<Interval> ShuffledIntervals(int64_t count) {
  auto intervals = NestedIntervals(count);
  std::shuffle(intervals.begin(), intervals.end(), std::mt19937_64(1));
  return intervals;
}

void BM_Nest(benchmark::State& state) {
  const auto intervals = NestedIntervals(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(Nest(intervals, 0));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_Nest)->Arg(1 << 16)->Arg(1 << 20)->Unit(benchmark::kMillisecond);

void BM_SortAndNest(benchmark::State& state) {
  const auto intervals = ShuffledIntervals(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(Nest(intervals, 0));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_SortAndNest)->Arg(1 << 16)->Arg(1 << 20)->Unit(benchmark::kMillisecond);

void BM_Union(benchmark::State& state) {
  const auto intervals = NestedIntervals(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(UnionLengthPs(intervals));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_Union)->Arg(1 << 16)->Arg(1 << 20)->Unit(benchmark::kMillisecond);

void BM_SortAndUnion(benchmark::State& state) {
  const auto intervals = ShuffledIntervals(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(UnionLengthPs(intervals));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_SortAndUnion)->Arg(1 << 16)->Arg(1 << 20)->Unit(benchmark::kMillisecond);

void BM_Summarize(benchmark::State& state) {
  std::mt19937_64 random(1);
  std::vector<int64_t> values(static_cast<size_t>(state.range(0)));
  for (int64_t& value : values) value = static_cast<int64_t>(random() % 1'000'000);
  for (auto _ : state) benchmark::DoNotOptimize(Summarize(values, 1));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_Summarize)->Arg(5)->Arg(100)->Arg(100'000)->Unit(benchmark::kMicrosecond);

void RegisterStages(const Sample& sample) {
  const auto add = [&](const char* stage, void (*run)(benchmark::State&, const Sample&)) {
    benchmark::RegisterBenchmark((std::string(stage) + "/" + sample.name).c_str(),
                                 [run, &sample](benchmark::State& state) { run(state, sample); })
        ->Unit(benchmark::kMillisecond);
  };
  add("BM_GeneratedParser", BM_GeneratedParser);
  add("BM_Open", BM_Open);
  add("BM_Decode", BM_Decode);
  add("BM_Report", BM_Report);
}

// Reads a file. If it cannot be measured, the program ends with a message.
Sample FileSample(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  Sample sample = {path.substr(path.rfind('/') + 1),
                   {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()}};
  const char* problem = nullptr;
  proto::XSpace space;
  Diagnostics diagnostics;
  if (!file) {
    problem = "cannot read";
  } else if (sample.bytes.size() > static_cast<size_t>(std::numeric_limits<int>::max())) {
    problem = "longer than the 2 GiB that protobuf can parse";
  } else if (!space.ParseFromString(sample.bytes)) {
    problem = "not an XSpace";
  } else {
    if (!Reported(Opened(sample, &diagnostics), diagnostics).ok()) problem = "nothing to report";
  }
  if (problem != nullptr) {
    std::fprintf(stderr, "stages_bench: %s: %s\n", path.c_str(), problem);
    std::exit(66);
  }
  return sample;
}

}  // namespace
}  // namespace xplane_time

int main(int argc, char** argv) {
  using namespace xplane_time;
  constexpr std::string_view kTrace = "--trace=";
  benchmark::Initialize(&argc, argv);  // leaves arguments of this program
  std::deque<Sample> samples;
  for (const char* shape : {"tpu", "gpu", "cpu"}) samples.push_back(ShapedSample(shape));
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (!argument.starts_with(kTrace)) {
      std::fprintf(stderr, "stages_bench: unknown argument %s\n", argv[i]);
      return 64;
    }
    samples.push_back(FileSample(std::string(argument.substr(kTrace.size()))));
  }
  for (const Sample& sample : samples) RegisterStages(sample);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
