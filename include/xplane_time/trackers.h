// Trackers: what a benchmark loop keeps of itself, step by step: memory, power, latency, and
// which configuration it ran. For loops that call us; what samples by itself is power.h.
//
//   MemoryTracker memory("mincut");
//   PowerTracker power("gpu");
//   ConstantPowerSource source(75.0);          // or one's own: ReadWatts()
//   for (int64_t i = 0; i < 1000; ++i) {
//     memory.Snapshot({.kv_cache_bytes = 1 << 20});
//     power.Sample(&source);
//     ... latencies.push_back({.sample_id = i, .wall_time_us = 850});
//   }
//   power.Energy().total_joules;               // empty with fewer than two samples
//   absl::Status status = WriteLatencyCsv("latency.csv", latencies);
//   // Internal: results/latency.csv: cannot write: No such file or directory; make its ...
//
// A value that is not known is never 0: it is empty, and an empty cell in a CSV file. Names are
// those of an earlier tool; docs/power-seeds.md says where we differ. Units are in names.
// Plain values, no threads: each object is for one thread at a time.
//
// Not handled here: sensors (power.h has them), reading CSV back.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "xplane_time/power.h"

namespace xplane_time {

// ---- Power

class PowerSource {
 public:
  virtual ~PowerSource() = default;
  // The power now. An error where it is not known: its message is kept (`last_error`).
  virtual absl::StatusOr<double> ReadWatts() = 0;
};

class ConstantPowerSource : public PowerSource {
 public:
  explicit ConstantPowerSource(double watts) : watts_(watts) {}
  absl::StatusOr<double> ReadWatts() override { return watts_; }

 private:
  double watts_;
};

struct PowerSample {
  int64_t t_ns = 0;                  // CLOCK_MONOTONIC, in the middle of the read
  int64_t timestamp_us = 0;          // the same as UNIX time
  std::optional<double> watts = {};  // empty: the read failed
};

struct TrackedEnergy {
  // Of the covered part; empty where nothing is covered: no sample, or a single one.
  std::optional<double> total_joules = {};
  std::optional<double> mean_watts = {};  // total_joules over covered_s
  std::optional<double> peak_watts = {};
  std::optional<double> duration_s = {};  // first to last sample, failed ones included
  double covered_s = 0;                   // of it, where the power is known
  uint64_t samples = 0, unknown = 0;      // known ones; failed ones
};

class PowerTracker {
 public:
  explicit PowerTracker(std::string label) : label_(std::move(label)) {}

  // One read of `source`, now. What fails, is negative or not finite is an unknown sample.
  void Sample(PowerSource* source);
  // A reading that was taken elsewhere; times do not decrease.
  void Add(const PowerSample& sample) { samples_.push_back(sample); }

  // kTrapezoid: straight lines between neighbouring samples, both known. kHeld (and kBest):
  // each known sample holds until the next, known or not. kEndpointMean: (first + last) / 2
  // times the duration, if both are known. kCounter: nothing, there is none. O(samples).
  TrackedEnergy Energy(EnergyEstimator estimator = EnergyEstimator::kTrapezoid) const;

  const std::string& label() const { return label_; }
  const std::vector<PowerSample>& samples() const { return samples_; }
  const std::string& last_error() const { return last_error_; }  // of a source; empty: none

 private:
  std::string label_, last_error_;
  std::vector<PowerSample> samples_;
};

// ---- Memory

// What only the caller knows, in bytes.
struct MemoryParts {
  std::optional<int64_t> kv_cache_bytes = {}, activation_bytes = {}, temp_buffer_bytes = {};
};

struct MemorySnapshot {
  int64_t timestamp_us = 0;  // UNIX time
  std::optional<int64_t> peak_rss_bytes =
      {};  // resident when it was taken; the earlier tool's name
  MemoryParts parts = {};
};

struct MemoryReport {
  // Over the snapshots that know it; empty where none does.
  std::optional<int64_t> peak_rss = {};
  std::optional<double> mean_rss = {};
  std::optional<int64_t> kv_cache_total = {}, activation_total = {};  // sums; empty: overflow
  uint64_t snapshots = 0;
};

class MemoryTracker {
 public:
  // `procfs`: where self/status is.
  explicit MemoryTracker(std::string label, std::string procfs = "/proc")
      : label_(std::move(label)), procfs_(std::move(procfs)) {}

  // VmRSS of this process now, with the caller's parts.
  void Snapshot(const MemoryParts& parts = {});
  void Add(const MemorySnapshot& snapshot) { snapshots_.push_back(snapshot); }
  MemoryReport Report() const;

  const std::string& label() const { return label_; }
  const std::vector<MemorySnapshot>& snapshots() const { return snapshots_; }

 private:
  std::string label_, procfs_;
  std::vector<MemorySnapshot> snapshots_;
};

// ---- Latency

struct LatencyRecord {
  int64_t sample_id = 0;
  int64_t wall_time_us = 0;
  std::optional<int64_t> kernel_time_us = {}, seq_len = {};
};

// Of wall times. Percentiles as everywhere here: linear between order statistics (aggregate.h);
// std has ddof 0. All empty where n is 0.
struct LatencyStats {
  std::optional<double> p50_us = {}, p95_us = {}, p99_us = {}, mean_us = {}, std_us = {};
  uint64_t n = 0;
};

// Any order. O(n log n).
LatencyStats ComputeLatencyStats(std::span<const LatencyRecord> records);

// ---- Which configuration

struct BenchConfig {
  std::string model_commit, weights_hash;
  double lambda = 0;
  int64_t tau = 0;
  double eps = 0;
  std::string compiler_flags;
};

// The configuration as RFC 8785 writes it (keys sorted, no spaces), so that any language makes
// the same. InvalidArgument: NaN, infinity, |tau| over 2^53, text that is not UTF-8.
absl::StatusOr<std::string> CanonicalConfigJson(const BenchConfig& config);
// SHA-256 of that text, 64 hex digits. Not the earlier tool's digest.
absl::StatusOr<std::string> ConfigHash(const BenchConfig& config);

// ---- CSV

// One setting of a sweep; reductions are shares (0.25 is a quarter less).
struct ResultRow {
  std::string setting;
  std::optional<double> coherence_delta = {}, kv_cache_reduction = {}, peak_mem_reduction = {},
                        energy_reduction = {}, p95_latency_us = {}, accuracy = {};
};

// A header, and a line for each; written beside `path` and renamed: complete or not at all.
// Numbers are the shortest that read back the same. Errors: Internal (cannot write), with the path.
absl::Status WriteLatencyCsv(const std::string& path, std::span<const LatencyRecord> records);
absl::Status WriteMemoryCsv(const std::string& path, std::span<const MemorySnapshot> snapshots);
absl::Status WriteResultsCsv(const std::string& path, std::span<const ResultRow> rows);

}  // namespace xplane_time
