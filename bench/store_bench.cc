// The tuning store and the search space: samples per second with one durable transaction per round,
// look-ups in a tuned table, and listing a million points.
//
//   build/bench/store_bench [--benchmark_filter=RE ...]
//
// Stores are created in the directory TMPDIR (default /tmp); its disk determines the cost of a
// flush.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "xplane_time/space.h"
#include "xplane_time/store.h"
#include "xplane_time/tuned_table.h"

namespace xplane_time {
namespace {

template <typename T>
T Checked(absl::StatusOr<T> value) {
  if (!value.ok()) std::abort();
  return *std::move(value);
}

void AppendRounds(benchmark::State& state, Durability durability) {
  const auto directory =
      std::filesystem::temp_directory_path() / ("store_bench." + std::to_string(getpid()));
  std::filesystem::create_directory(directory);
  {
    TuneStore store =
        Checked(TuneStore::Open((directory / "t.db").string(), {.durability = durability}));
    const TuneSession session = Checked(store.Begin({.resume = Resume::kNever}));
    std::vector<Configuration> variants;
    RoundRecord round;
    for (int32_t i = 0; i < state.range(0); ++i) {
      variants.push_back({"v" + std::to_string(i), "{\"n\":" + std::to_string(i) + "}", {}});
      round.samples.push_back({variants.back().id, i, "ok", 123'456'789 + i, 4'711});
    }
    if (!store.RegisterVariants(session, variants).ok()) std::abort();
    for (auto _ : state) {
      ++round.round;
      if (!store.Append(session, round).ok()) std::abort();
    }
    state.SetItemsProcessed(state.iterations() * state.range(0));  // samples
  }
  std::filesystem::remove_all(directory);
}
BENCHMARK_CAPTURE(AppendRounds, power_loss, Durability::kPowerLoss)
    ->Arg(20)
    ->Arg(100)
    ->UseRealTime();
BENCHMARK_CAPTURE(AppendRounds, process_loss, Durability::kProcessLoss)->Arg(20)->UseRealTime();

TuneKey KeyOf(int64_t i) {
  return {"matmul[" + std::to_string(i) + ",4096,4096] bf16",
          "NVIDIA H100 80GB HBM3",
          "550.54.15",
          "jax 0.4.38 jaxlib 0.4.38",
          "--xla_gpu_autotune_level=0",
          "8dca5e87d246d22d8dca5e87d246d22d",
          "0123456789abcdef0123456789abcdef"};
}

// range(0): the level that matches.
void Find(benchmark::State& state) {
  std::vector<TunedEntry> entries;
  for (int64_t i = 0; i < 10'000; ++i) {
    entries.push_back({KeyOf(i), {"v", "{\"n\":1}", {}}, "winner", "{}", i});
  }
  const TunedTable table(std::move(entries), DefaultFallbacks());
  std::vector<TuneKey> asked;
  for (int64_t i = 0; i < 256; ++i) {
    asked.push_back(KeyOf(i * 39));
    if (state.range(0) > 0) asked.back().protocol_hash = "other";
    if (state.range(0) > 1) asked.back().code_hash = "other";
    if (state.range(0) > 2) asked.back().device_class = "other";
  }
  size_t i = 0;
  for (auto _ : state) benchmark::DoNotOptimize(table.Find(asked[i++ % asked.size()]));
}
BENCHMARK(Find)->DenseRange(0, 3);

constexpr const char* kMillion = R"({"schema": "xplane-time.space.v1", "parameters": [
  {"name": "block_m", "type": "int", "range": {"min": 16, "max": 160, "step": 16}},
  {"name": "block_n", "type": "int", "range": {"min": 16, "max": 160, "step": 16}},
  {"name": "block_k", "type": "int", "range": {"min": 16, "max": 160, "step": 16}},
  {"name": "stages", "type": "int", "range": {"min": 1, "max": 10, "step": 1}},
  {"name": "warps", "type": "int", "range": {"min": 1, "max": 10, "step": 1}},
  {"name": "split", "type": "int", "range": {"min": 1, "max": 10, "step": 1}}],
  "constraints": ["(block_m * block_k + block_k * block_n) * stages * 2 <= 10000000",
                  "block_m * block_n // (warps * 32) >= 1",
                  "split == 1 or block_k % split != 99"]})";

void ListAMillion(benchmark::State& state) {
  const SearchSpace space = Checked(ParseSpace(kMillion, "million"));
  size_t listed = 0;
  for (auto _ : state) listed = Checked(ChooseConfigurations(space, {})).size();
  state.counters["configurations"] = static_cast<double>(listed);
}
BENCHMARK(ListAMillion)->Unit(benchmark::kMillisecond);

void SampleATrillion(benchmark::State& state) {
  SearchSpace space = Checked(ParseSpace(kMillion, "million"));
  space.parameters.insert(space.parameters.end(), space.parameters.begin(), space.parameters.end());
  for (size_t i = 6; i < 12; ++i) space.parameters[i].name += "_too";
  const Choice choice = {.strategy = Strategy::kRandom, .count = 1000, .seed = 1};
  for (auto _ : state) benchmark::DoNotOptimize(Checked(ChooseConfigurations(space, choice)));
}
BENCHMARK(SampleATrillion)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace xplane_time

BENCHMARK_MAIN();
