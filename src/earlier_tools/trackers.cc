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
#include "status.h"
#include "xplane_time/aggregate.h"
#include "xplane_time/trackers.h"

namespace xplane_time {
namespace {

constexpr double kSecondsPerNs = 1e-9;

int64_t UnixMicroseconds() { return power::NowOf(CLOCK_REALTIME) / 1000; }

double Seconds(const PowerSample& from, const PowerSample& to) {
  return static_cast<double>(to.t_ns - from.t_ns) * kSecondsPerNs;
}

// Mean power between two neighbours; empty where the estimator has none.
std::optional<double> WattsBetween(const PowerSample& from, const PowerSample& to,
                                   EnergyEstimator estimator) {
  if (estimator != EnergyEstimator::kTrapezoid) return from.watts;
  if (!from.watts.has_value() || !to.watts.has_value()) return std::nullopt;
  return (*from.watts + *to.watts) / 2;
}

void Cover(const PowerSample& from, const PowerSample& to, std::optional<double> watts,
           TrackedEnergy* energy) {
  const double seconds = Seconds(from, to);
  if (!watts.has_value() || seconds <= 0) return;
  energy->total_joules = energy->total_joules.value_or(0) + *watts * seconds;
  energy->covered_s += seconds;
}

// "VmRSS:     1234 kB" in bytes; empty where there is none.
std::optional<int64_t> ResidentBytes(const std::string& status_path) {
  constexpr size_t kMostBytes = 1 << 14;
  const std::string status = power::ReadText(status_path, kMostBytes).value.value_or("");
  const std::string_view line = power::LineOf(status, "VmRSS").value_or("");
  if (!power::Trimmed(line).ends_with(" kB")) return std::nullopt;
  return power::FieldOf(status, "VmRSS").value;
}

// Of all the values that are known.
std::optional<Moments> KnownOf(std::span<const MemorySnapshot> snapshots, auto value_of) {
  Moments moments;
  for (const MemorySnapshot& each : snapshots) {
    if (const std::optional<int64_t> value = value_of(each)) moments.Add(*value);
  }
  if (moments.n() == 0) return std::nullopt;
  return moments;
}

template <typename Row, typename Visit>
absl::Status WriteCsv(const std::string& path, std::span<const Row> rows, Visit visit) {
  return io::WriteWholeFile(path, output::CsvText(result::TableOf("", rows, visit)));
}

std::optional<int64_t> SumOf(const std::optional<Moments>& moments) {
  if (!moments.has_value() || moments->sum() > INT64_MAX || moments->sum() < INT64_MIN) {
    return std::nullopt;
  }
  return static_cast<int64_t>(moments->sum());
}

}  // namespace

void PowerTracker::Sample(PowerSource* source) {
  const int64_t before_ns = power::MonotonicNow();
  absl::StatusOr<double> watts = source->ReadWatts();
  const int64_t t_ns = before_ns + (power::MonotonicNow() - before_ns) / 2;
  if (watts.ok() && !(std::isfinite(*watts) && *watts >= 0)) {
    watts = absl::OutOfRangeError(absl::StrCat("a power of ", *watts, " W"));
  }
  if (!watts.ok()) last_error_ = std::string(watts.status().message());
  Add({t_ns, UnixMicroseconds(), watts.ok() ? std::optional(*watts) : std::nullopt});
}

void PowerTracker::Add(const PowerSample& sample) { samples_.push_back(sample); }

TrackedEnergy PowerTracker::Energy(EnergyEstimator estimator) const {
  TrackedEnergy energy;
  for (const PowerSample& sample : samples_) {
    (sample.watts.has_value() ? energy.samples : energy.unknown) += 1;
    if (sample.watts.has_value()) {
      energy.peak_watts = std::max(energy.peak_watts.value_or(*sample.watts), *sample.watts);
    }
  }
  if (samples_.size() < 2) return energy;
  const PowerSample &first = samples_.front(), &last = samples_.back();
  energy.duration_s = Seconds(first, last);
  if (estimator == EnergyEstimator::kCounter) return energy;
  if (estimator == EnergyEstimator::kEndpointMean) {
    Cover(first, last, WattsBetween(first, last, EnergyEstimator::kTrapezoid), &energy);
  } else {
    for (size_t i = 1; i < samples_.size(); ++i) {
      const PowerSample &from = samples_[i - 1], &to = samples_[i];
      Cover(from, to, WattsBetween(from, to, estimator), &energy);
    }
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
  if (rss.has_value()) {
    report.peak_rss = rss->max();
    report.mean_rss = rss->mean();
  }
  report.kv_cache_total =
      SumOf(KnownOf(snapshots_, [](const auto& each) { return each.parts.kv_cache_bytes; }));
  report.activation_total =
      SumOf(KnownOf(snapshots_, [](const auto& each) { return each.parts.activation_bytes; }));
  return report;
}

LatencyStats ComputeLatencyStats(std::span<const LatencyRecord> records) {
  LatencyStats stats = {.n = records.size()};
  if (records.empty()) return stats;
  Moments moments;
  std::vector<int64_t> sorted_us;
  for (const LatencyRecord& record : records) {
    moments.Add(record.wall_time_us);
    sorted_us.push_back(record.wall_time_us);
  }
  std::sort(sorted_us.begin(), sorted_us.end());
  stats.p50_us = Percentile(sorted_us, 0.50);
  stats.p95_us = Percentile(sorted_us, 0.95);
  stats.p99_us = Percentile(sorted_us, 0.99);
  stats.mean_us = moments.mean();
  stats.std_us = moments.std();
  return stats;
}

absl::Status WriteLatencyCsv(const std::string& path, std::span<const LatencyRecord> records) {
  return WriteCsv(path, records, [](const LatencyRecord& each, result::FieldSink* sink) {
    sink->Field("sample_id", each.sample_id);
    sink->Field("wall_time_us", each.wall_time_us);
    sink->Field("kernel_time_us", each.kernel_time_us);
    sink->Field("seq_len", each.seq_len);
  });
}

absl::Status WriteMemoryCsv(const std::string& path, std::span<const MemorySnapshot> snapshots) {
  return WriteCsv(path, snapshots, [](const MemorySnapshot& each, result::FieldSink* sink) {
    sink->Field("timestamp_us", each.timestamp_us);
    sink->Field("peak_rss_bytes", each.peak_rss_bytes);
    sink->Field("kv_cache_bytes", each.parts.kv_cache_bytes);
    sink->Field("activation_bytes", each.parts.activation_bytes);
    sink->Field("temp_buffer_bytes", each.parts.temp_buffer_bytes);
  });
}

absl::Status WriteResultsCsv(const std::string& path, std::span<const ResultRow> rows) {
  return WriteCsv(path, rows, [](const ResultRow& each, result::FieldSink* sink) {
    sink->Field("setting", std::string_view(each.setting));
    sink->Field("coherence_delta", each.coherence_delta);
    sink->Field("kv_cache_reduction", each.kv_cache_reduction);
    sink->Field("peak_mem_reduction", each.peak_mem_reduction);
    sink->Field("energy_reduction", each.energy_reduction);
    sink->Field("p95_latency_us", each.p95_latency_us);
    sink->Field("accuracy", each.accuracy);
  });
}

// ---- Which configuration

namespace {

// As ECMAScript writes a number, which is RFC 8785's rule: the shortest digits that read back,
// plain from 1e-6 up to below 1e21, else with an exponent.
std::string NumberText(double value) {
  const auto zeros = [](int count) { return std::string(static_cast<size_t>(count), '0'); };
  if (value == 0) return "0";  // no -0
  std::array<char, 32> buffer;
  const auto end =
      std::to_chars(buffer.begin(), buffer.end(), std::abs(value), std::chars_format::scientific)
          .ptr;
  const std::string_view text(buffer.data(), static_cast<size_t>(end - buffer.data()));
  const size_t e = text.find('e');
  std::string digits(text.substr(0, e));
  if (digits.size() > 1) digits.erase(1, 1);  // the point
  int exponent = 0;                           // from_chars knows no plus
  const size_t from = text[e + 1] == '+' ? e + 2 : e + 1;
  std::from_chars(text.data() + from, text.data() + text.size(), exponent);
  const int count = static_cast<int>(digits.size()), before_point = exponent + 1;
  const std::string sign = value < 0 ? "-" : "";
  if (exponent < -6 || exponent >= 21) {
    if (count > 1) digits.insert(1, ".");
    return absl::StrCat(sign, digits, "e", exponent < 0 ? "" : "+", exponent);
  }
  if (before_point <= 0) return absl::StrCat(sign, "0.", zeros(-before_point), digits);
  if (count <= before_point) return absl::StrCat(sign, digits, zeros(before_point - count));
  digits.insert(static_cast<size_t>(before_point), ".");
  return sign + digits;
}

absl::Status CheckNumber(const char* name, double value) {
  if (std::isfinite(value)) return absl::OkStatus();
  return InvalidArgument("BenchConfig: ", name, " is ", value,
                         "; a fingerprint needs a finite number");
}

// JSON's, or InvalidArgument.
absl::StatusOr<std::string> QuotedText(const char* name, const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception& error) {
    return InvalidArgument("BenchConfig: ", name, " is not UTF-8: ", error.what());
  }
}

}  // namespace

absl::StatusOr<std::string> CanonicalConfigJson(const BenchConfig& config) {
  constexpr int64_t kMostExact = int64_t{1} << 53;
  for (const auto& [name, value] : {std::pair{"lambda", config.lambda}, {"eps", config.eps}}) {
    RETURN_IF_ERROR(CheckNumber(name, value));
  }
  if (config.tau > kMostExact || config.tau < -kMostExact) {
    return InvalidArgument("BenchConfig: tau is ", config.tau,
                           "; beyond 2^53 readers of JSON round it");
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
  io::Sha256 hash;
  hash.Update(text);
  return hash.Hex();
}

}  // namespace xplane_time
