#include "core_trackers.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core_status.h"
#include "xplane_time/trackers.h"

namespace nb = nanobind;

namespace xplane_time::python {
namespace {

using Count = std::optional<int64_t>;
using Value = std::optional<double>;

EnergyEstimator EstimatorOf(const std::string& name) {
  if (name == "trapezoid") return EnergyEstimator::kTrapezoid;
  if (name == "held") return EnergyEstimator::kHeld;
  if (name == "endpoint_mean") return EnergyEstimator::kEndpointMean;
  Throw(absl::InvalidArgumentError(
      absl::StrCat("estimator: must be trapezoid, held or endpoint_mean, not ", name)));
}

// Samples: (t_ns, watts).
std::tuple<Value, Value, Value, Value, double, uint64_t, uint64_t> Energy(
    const std::vector<std::tuple<int64_t, Value>>& samples, const std::string& estimator) {
  PowerTracker tracker("");
  for (const auto& [t_ns, watts] : samples) tracker.Add({t_ns, 0, watts});
  const TrackedEnergy energy = tracker.Energy(EstimatorOf(estimator));
  return {energy.total_joules, energy.mean_watts, energy.peak_watts, energy.duration_s,
          energy.covered_s,    energy.samples,    energy.unknown};
}

// timestamp_us, resident bytes.
std::tuple<int64_t, Count> ResidentNow() {
  MemoryTracker tracker("");
  tracker.Snapshot();
  const MemorySnapshot& now = tracker.snapshots()[0];
  return {now.timestamp_us, now.peak_rss_bytes};
}

// timestamp_us, and bytes: resident, KV cache, activations, temporary buffers.
using SnapshotRow = std::tuple<int64_t, Count, Count, Count, Count>;

std::vector<MemorySnapshot> Snapshots(const std::vector<SnapshotRow>& rows) {
  std::vector<MemorySnapshot> snapshots;
  for (const auto& [t_us, rss, kv_cache, activation, temp_buffer] : rows) {
    snapshots.push_back({t_us, rss, {kv_cache, activation, temp_buffer}});
  }
  return snapshots;
}

std::tuple<Count, Value, Count, Count> ReportMemory(const std::vector<SnapshotRow>& rows) {
  MemoryTracker tracker("");
  for (const MemorySnapshot& each : Snapshots(rows)) tracker.Add(each);
  const MemoryReport report = tracker.Report();
  return {report.peak_rss, report.mean_rss, report.kv_cache_total, report.activation_total};
}

// sample_id, wall_time_us, kernel_time_us, seq_len.
using LatencyRow = std::tuple<int64_t, int64_t, Count, Count>;

std::vector<LatencyRecord> Latencies(const std::vector<LatencyRow>& rows) {
  std::vector<LatencyRecord> records;
  for (const auto& [id, wall_us, kernel_us, seq_len] : rows) {
    records.push_back({id, wall_us, kernel_us, seq_len});
  }
  return records;
}

std::tuple<Value, Value, Value, Value, Value, uint64_t> Stats(const std::vector<LatencyRow>& rows) {
  const LatencyStats stats = ComputeLatencyStats(Latencies(rows));
  return {stats.p50_us, stats.p95_us, stats.p99_us, stats.mean_us, stats.std_us, stats.n};
}

// model_commit, weights_hash, lambda, tau, eps, compiler_flags.
using ConfigRow = std::tuple<std::string, std::string, double, int64_t, double, std::string>;

BenchConfig ConfigOf(const ConfigRow& row) {
  const auto& [commit, weights, lambda, tau, eps, flags] = row;
  return {commit, weights, lambda, tau, eps, flags};
}

using SettingRow = std::tuple<std::string, Value, Value, Value, Value, Value, Value>;

std::vector<ResultRow> Settings(const std::vector<SettingRow>& rows) {
  std::vector<ResultRow> results;
  for (const auto& [setting, coherence, kv, peak, energy, p95, accuracy] : rows) {
    results.push_back({setting, coherence, kv, peak, energy, p95, accuracy});
  }
  return results;
}

void Check(const absl::Status& status) {
  if (!status.ok()) Throw(status);
}

}  // namespace

void AddTrackers(nb::module_* module) {
  module->def("tracked_energy", &Energy, nb::arg("samples"), nb::arg("estimator"));
  module->def("resident_now", &ResidentNow);
  module->def("memory_report", &ReportMemory, nb::arg("snapshots"));
  module->def("latency_stats", &Stats, nb::arg("records"));
  module->def(
      "config_json",
      [](const ConfigRow& config) { return ValueOf(CanonicalConfigJson(ConfigOf(config))); },
      nb::arg("config"));
  module->def(
      "config_hash", [](const ConfigRow& config) { return ValueOf(ConfigHash(ConfigOf(config))); },
      nb::arg("config"));
  module->def(
      "write_latency_csv",
      [](const std::string& path, const std::vector<LatencyRow>& rows) {
        Check(WriteLatencyCsv(path, Latencies(rows)));
      },
      nb::arg("path"), nb::arg("records"));
  module->def(
      "write_memory_csv",
      [](const std::string& path, const std::vector<SnapshotRow>& rows) {
        Check(WriteMemoryCsv(path, Snapshots(rows)));
      },
      nb::arg("path"), nb::arg("snapshots"));
  module->def(
      "write_results_csv",
      [](const std::string& path, const std::vector<SettingRow>& rows) {
        Check(WriteResultsCsv(path, Settings(rows)));
      },
      nb::arg("path"), nb::arg("rows"));
}

}  // namespace xplane_time::python
