// Trackers: record memory, power and latency of a benchmark loop, step by step, and its
// configuration. The loop calls the trackers at each step. power.h has a recorder that samples in
// threads of its own.
//
// Example:
//
//   MemoryTracker memory("mincut");
//   PowerTracker power("gpu");
//   ConstantPowerSource source(75.0);  // or a class of yours, with ReadWatts()
//   std::vector<LatencyRecord> latencies;
//   for (int64_t i = 0; i < 1000; ++i) {
//     memory.Snapshot({.kv_cache_bytes = 1 << 20});
//     power.Sample(&source);
//     latencies.push_back({.sample_id = i, .wall_time_us = 850});
//   }
//   assert(power.Energy().total_joules);  // empty with fewer than two samples
//   const absl::Status written = WriteLatencyCsv("latency.csv", latencies);
//   if (!written.ok()) return written;
//   // Internal: results/latency.csv: cannot write: No such file or directory; make ...
//
// An unknown value is never 0: it is empty, and an empty cell in a CSV file. Names are those of an
// earlier tool; docs/power-seeds.md lists the differences. Units are in names. Not thread-safe: use
// each object from one thread at a time.
//
// Not handled here: sensors (see power.h), and reading CSV files.
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
  // Returns the current power. If the power is unknown, returns an error; PowerTracker keeps the
  // error's message (`last_error`).
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
  int64_t timestamp_us = 0;          // the same time as UNIX time
  std::optional<double> watts = {};  // empty: the reading failed
};

struct TrackedEnergy {
  // Energy of the covered time. Empty if no time is covered: no sample, or a single one.
  std::optional<double> total_joules = {};
  std::optional<double> mean_watts = {};  // total_joules over covered_s
  std::optional<double> peak_watts = {};
  std::optional<double> duration_s = {};  // first to last sample, including failed ones
  double covered_s = 0;                   // the part of the duration with known power
  uint64_t samples = 0, unknown = 0;      // numbers of known and of failed samples
};

class PowerTracker {
 public:
  explicit PowerTracker(std::string label) : label_(std::move(label)) {}

  // Reads `source` once. A reading that fails, is negative or is not finite becomes an unknown
  // sample.
  void Sample(PowerSource* source);
  // Adds a reading from elsewhere. Times must not decrease.
  void Add(const PowerSample& sample) { samples_.push_back(sample); }

  // kTrapezoid: straight lines between adjacent samples that are both known. kHeld (and kBest):
  // each known sample holds until the next sample, known or not. kEndpointMean: (first + last) / 2
  // times the duration, if both are known. kCounter: empty, because there is no counter.
  // O(samples).
  TrackedEnergy Energy(EnergyEstimator estimator = EnergyEstimator::kTrapezoid) const;

  const std::string& label() const { return label_; }
  const std::vector<PowerSample>& samples() const { return samples_; }
  // of a source; empty: there was no error
  const std::string& last_error() const { return last_error_; }

 private:
  std::string label_, last_error_;
  std::vector<PowerSample> samples_;
};

// ---- Memory

// Sizes in bytes that only the caller knows.
struct MemoryParts {
  std::optional<int64_t> kv_cache_bytes = {}, activation_bytes = {}, temp_buffer_bytes = {};
};

struct MemorySnapshot {
  int64_t timestamp_us = 0;  // UNIX time
  std::optional<int64_t> peak_rss_bytes =
      {};  // resident size at the snapshot; the name is that of the earlier tool
  MemoryParts parts = {};
};

struct MemoryReport {
  // Over the snapshots with a known size. Empty if there are none.
  std::optional<int64_t> peak_rss = {};
  std::optional<double> mean_rss = {};
  // sums; empty: unknown, or overflow
  std::optional<int64_t> kv_cache_total = {}, activation_total = {};
  uint64_t snapshots = 0;
};

class MemoryTracker {
 public:
  // `procfs`: the directory of self/status.
  explicit MemoryTracker(std::string label, std::string procfs = "/proc")
      : label_(std::move(label)), procfs_(std::move(procfs)) {}

  // Records VmRSS of this process now, together with the caller's parts.
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

// Statistics of wall times. Percentiles interpolate linearly between order statistics
// (aggregate.h). std has ddof 0. All are empty if n is 0.
struct LatencyStats {
  std::optional<double> p50_us = {}, p95_us = {}, p99_us = {}, mean_us = {}, std_us = {};
  uint64_t n = 0;
};

// Records in any order. O(n log n).
LatencyStats ComputeLatencyStats(std::span<const LatencyRecord> records);

// ---- Configuration

struct BenchConfig {
  std::string model_commit, weights_hash;
  double lambda = 0;
  int64_t tau = 0;
  double eps = 0;
  std::string compiler_flags;
};

// The configuration as JSON in the form of RFC 8785 (keys sorted, no spaces), which programs in
// other languages can reproduce. Errors: InvalidArgument (NaN, infinity, |tau| over 2^53, text that
// is not UTF-8).
absl::StatusOr<std::string> CanonicalConfigJson(const BenchConfig& config);
// SHA-256 of that text, 64 hex digits. It differs from the earlier tool's digest.
absl::StatusOr<std::string> ConfigHash(const BenchConfig& config);

// ---- CSV

// One setting of a sweep. Reductions are fractions: 0.25 is a reduction by 25 %.
struct ResultRow {
  std::string setting;
  std::optional<double> coherence_delta = {}, kv_cache_reduction = {}, peak_mem_reduction = {},
                        energy_reduction = {}, p95_latency_us = {}, accuracy = {};
};

// Write a header and a line per record. The file is written beside `path` and renamed, so it is
// either complete or absent. Numbers have the shortest text that reads back as the same number.
// Errors: Internal (cannot write), with the path.
absl::Status WriteLatencyCsv(const std::string& path, std::span<const LatencyRecord> records);
absl::Status WriteMemoryCsv(const std::string& path, std::span<const MemorySnapshot> snapshots);
absl::Status WriteResultsCsv(const std::string& path, std::span<const ResultRow> rows);

}  // namespace xplane_time
