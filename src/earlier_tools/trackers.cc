#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "io/sha256.h"
#include "io/whole_file.h"
#include "output/output.h"
#include "power/machine.h"
#include "power/sysfs.h"
#include "re2/re2.h"
#include "status.h"
#include "xplane_time/aggregate.h"
#include "xplane_time/trackers.h"

namespace xplane_time {
namespace {

int64_t UnixMicroseconds() { return power::NowOf(CLOCK_REALTIME) / 1000; }

double Seconds(const PowerSample& from, const PowerSample& to) {
  return static_cast<double>(to.t_ns - from.t_ns) * 1e-9;
}

// Adds the energy between two samples, if the estimator can determine it.
void Cover(const PowerSample& from, const PowerSample& to, EnergyEstimator estimator,
           TrackedEnergy* energy) {
  const double seconds = Seconds(from, to);
  const bool holds = estimator == EnergyEstimator::kHeld || estimator == EnergyEstimator::kBest;
  if (!from.watts.has_value() || !(holds || to.watts.has_value()) || seconds <= 0) return;
  const double watts = holds ? *from.watts : (*from.watts + *to.watts) / 2;
  energy->total_joules = energy->total_joules.value_or(0) + watts * seconds;
  energy->covered_s += seconds;
}

// "VmRSS:     1234 kB" in bytes; empty if it is missing.
std::optional<int64_t> ResidentBytes(const std::string& status_path) {
  constexpr size_t kMostBytes = 1 << 14;
  const std::string status = power::ReadText(status_path, kMostBytes).value.value_or("");
  const std::string_view line = power::LineOf(status, "VmRSS").value_or("");
  if (!power::Trimmed(line).ends_with(" kB")) return std::nullopt;
  return power::FieldOf(status, "VmRSS").value;
}

// Moments of all known values.
Moments KnownOf(std::span<const MemorySnapshot> snapshots, auto value_of) {
  Moments moments;
  for (const MemorySnapshot& each : snapshots) {
    if (const std::optional<int64_t> value = value_of(each)) moments.Add(*value);
  }
  return moments;
}

template <typename Row, typename Visit>
absl::Status WriteCsv(const std::string& path, std::span<const Row> rows, Visit visit) {
  return io::WriteWholeFile(path, output::CsvText(result::TableOf("", rows, visit)));
}

std::optional<int64_t> SumOf(const Moments& moments) {
  const bool fits = moments.sum() <= INT64_MAX && moments.sum() >= INT64_MIN;
  if (moments.n() == 0 || !fits) return std::nullopt;
  return static_cast<int64_t>(moments.sum());
}

// Writes a number as ECMAScript and RFC 8785 do: the shortest digits that read back, plain from
// 1e-6 to below 1e21, otherwise with an exponent.
std::string NumberText(double value) {
  const double size = std::abs(value);
  if (size == 0) return "0";  // never -0
  const bool exact = size >= 1e-6 && size < 0x1p53;
  std::array<char, 32> buffer = {};
  const auto end = std::to_chars(buffer.begin(), buffer.end(), value,
                                 exact ? std::chars_format::fixed : std::chars_format::scientific)
                       .ptr;
  std::string text(buffer.begin(), end);
  if (exact) return text;
  if (size < 1 || size >= 1e21) {
    RE2::Replace(&text, "e([+-])0", "e\\1");
    return text;
  }
  const size_t e = text.find('e'), digits = std::stoul(text.substr(e + 1)) + 1;
  text.resize(e);
  std::erase(text, '.');
  text.resize(digits + (value < 0 ? 1 : 0), '0');
  return text;
}

// JSON text, or InvalidArgument.
absl::StatusOr<std::string> QuotedText(const char* name, const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception& error) {
    return InvalidArgument("BenchConfig: ", name, " is not UTF-8: ", error.what());
  }
}

}  // namespace

void PowerTracker::Sample(PowerSource* source) {
  const int64_t before_ns = power::MonotonicNow();
  absl::StatusOr<double> watts = source->ReadWatts();
  const int64_t t_ns = before_ns + (power::MonotonicNow() - before_ns) / 2;
  if (watts.ok() && !(std::isfinite(*watts) && *watts >= 0)) {
    watts = absl::OutOfRangeError(absl::StrCat("an invalid power of ", *watts, " W"));
  }
  if (!watts.ok()) last_error_ = std::string(watts.status().message());
  Add({t_ns, UnixMicroseconds(), watts.ok() ? std::optional(*watts) : std::nullopt});
}

TrackedEnergy PowerTracker::Energy(EnergyEstimator estimator) const {
  TrackedEnergy energy;
  for (const PowerSample& sample : samples_) {
    (sample.watts.has_value() ? energy.samples : energy.unknown) += 1;
    energy.peak_watts = std::max(energy.peak_watts, sample.watts);
  }
  if (samples_.size() < 2) return energy;
  energy.duration_s = Seconds(samples_.front(), samples_.back());
  if (estimator == EnergyEstimator::kCounter) return energy;
  const size_t step = estimator == EnergyEstimator::kEndpointMean ? samples_.size() - 1 : 1;
  for (size_t i = step; i < samples_.size(); i += step) {
    Cover(samples_[i - step], samples_[i], estimator, &energy);
  }
  if (energy.covered_s > 0) energy.mean_watts = *energy.total_joules / energy.covered_s;
  return energy;
}

void MemoryTracker::Snapshot(const MemoryParts& parts) {
  Add({UnixMicroseconds(), ResidentBytes(procfs_ + "/self/status"), parts});
}

MemoryReport MemoryTracker::Report() const {
  const auto rss = KnownOf(snapshots_, [](const auto& each) { return each.peak_rss_bytes; });
  MemoryReport report = {.snapshots = snapshots_.size()};
  if (rss.n() > 0) {
    report.peak_rss = rss.max();
    report.mean_rss = rss.mean();
  }
  report.kv_cache_total =
      SumOf(KnownOf(snapshots_, [](const auto& each) { return each.parts.kv_cache_bytes; }));
  report.activation_total =
      SumOf(KnownOf(snapshots_, [](const auto& each) { return each.parts.activation_bytes; }));
  return report;
}

LatencyStats ComputeLatencyStats(std::span<const LatencyRecord> records) {
  if (records.empty()) return {};
  std::vector<int64_t> wall_us;
  for (const LatencyRecord& record : records) wall_us.push_back(record.wall_time_us);
  const Summary all = Summarize(wall_us, /*seed=*/0);
  return {all.p50, all.p95, all.p99, all.mean, all.std, all.n};
}

absl::Status WriteLatencyCsv(const std::string& path, std::span<const LatencyRecord> records) {
  return WriteCsv(path, records, [](const LatencyRecord& each, result::FieldSink* sink) {
    XPLANE_TIME_FIELDS(sink, each.sample_id, each.wall_time_us, each.kernel_time_us, each.seq_len);
  });
}

absl::Status WriteMemoryCsv(const std::string& path, std::span<const MemorySnapshot> snapshots) {
  return WriteCsv(path, snapshots, [](const MemorySnapshot& each, result::FieldSink* sink) {
    XPLANE_TIME_FIELDS(sink, each.timestamp_us, each.peak_rss_bytes, each.parts.kv_cache_bytes,
                       each.parts.activation_bytes, each.parts.temp_buffer_bytes);
  });
}

absl::Status WriteResultsCsv(const std::string& path, std::span<const ResultRow> rows) {
  return WriteCsv(path, rows, [](const ResultRow& each, result::FieldSink* sink) {
    XPLANE_TIME_FIELDS(sink, each.setting, each.coherence_delta, each.kv_cache_reduction,
                       each.peak_mem_reduction, each.energy_reduction, each.p95_latency_us,
                       each.accuracy);
  });
}

absl::StatusOr<std::string> CanonicalConfigJson(const BenchConfig& config) {
  constexpr int64_t kMostExact = int64_t{1} << 53;
  for (const auto& [name, value] : {std::pair{"lambda", config.lambda}, {"eps", config.eps}}) {
    if (std::isfinite(value)) continue;
    return InvalidArgument("BenchConfig: ", name, " is ", value,
                           "; a fingerprint requires a finite number");
  }
  if (config.tau > kMostExact || config.tau < -kMostExact) {
    return InvalidArgument("BenchConfig: tau is ", config.tau,
                           "; readers of JSON round numbers beyond 2^53");
  }
  ASSIGN_OR_RETURN(const std::string flags, QuotedText("compiler_flags", config.compiler_flags));
  ASSIGN_OR_RETURN(const std::string commit, QuotedText("model_commit", config.model_commit));
  ASSIGN_OR_RETURN(const std::string weights, QuotedText("weights_hash", config.weights_hash));
  return absl::StrCat("{\"compiler_flags\":", flags, ",\"eps\":", NumberText(config.eps),
                      ",\"lambda\":", NumberText(config.lambda), ",\"model_commit\":", commit,
                      ",\"tau\":", config.tau, ",\"weights_hash\":", weights, "}");
}

absl::StatusOr<std::string> ConfigHash(const BenchConfig& config) {
  ASSIGN_OR_RETURN(const std::string text, CanonicalConfigJson(config));
  return io::Sha256Hex(text);
}

}  // namespace xplane_time
