#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "output/csv.h"
#include "output/text.h"
#include "power/whole_file.h"
#include "xplane_time/aggregate.h"
#include "xplane_time/trackers.h"

namespace xplane_time {
namespace {

constexpr double kSecondsPerNs = 1e-9;

template <typename Unit, typename Clock>
int64_t Now() {
  return std::chrono::duration_cast<Unit>(Clock::now().time_since_epoch()).count();
}

int64_t UnixMicroseconds() { return Now<std::chrono::microseconds, std::chrono::system_clock>(); }
int64_t MonotonicNanoseconds() {
  return Now<std::chrono::nanoseconds, std::chrono::steady_clock>();
}

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
  constexpr std::string_view kName = "VmRSS:";
  std::ifstream status(status_path);
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with(kName)) continue;
    const size_t digits = line.find_first_of("0123456789"), end = line.find(" kB");
    int64_t kilobytes = 0;
    const bool read = digits != std::string::npos && end != std::string::npos && end > digits &&
                      absl::SimpleAtoi(line.substr(digits, end - digits), &kilobytes);
    if (!read || kilobytes > INT64_MAX / 1024) return std::nullopt;
    return kilobytes * 1024;
  }
  return std::nullopt;
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

std::optional<int64_t> SumOf(const std::optional<Moments>& moments) {
  if (!moments.has_value() || moments->sum() > INT64_MAX || moments->sum() < INT64_MIN) {
    return std::nullopt;
  }
  return static_cast<int64_t>(moments->sum());
}

}  // namespace

void PowerTracker::Sample(PowerSource* source) {
  const int64_t before_ns = MonotonicNanoseconds();
  absl::StatusOr<double> watts = source->ReadWatts();
  const int64_t t_ns = before_ns + (MonotonicNanoseconds() - before_ns) / 2;
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

namespace {

// Appends cells; the first of a line has no comma before it.
class CellLine {
 public:
  explicit CellLine(std::string* out) : out_(out) {}
  ~CellLine() { *out_ += '\n'; }
  CellLine(const CellLine&) = delete;
  CellLine& operator=(const CellLine&) = delete;

  CellLine& Cell(std::string_view text) {
    Part();
    output::AppendCsvCell(output::ValidUtf8(text), out_);
    return *this;
  }
  CellLine& Cell(std::optional<int64_t> value) {
    Part();
    if (value.has_value()) output::AppendCsvInteger(*value, out_);
    return *this;
  }
  CellLine& Cell(std::optional<double> value) {
    Part();
    if (value.has_value()) output::AppendCsvNumber(*value, out_);
    return *this;
  }

 private:
  void Part() {
    if (!first_) *out_ += ',';
    first_ = false;
  }

  std::string* out_;
  bool first_ = true;
};

}  // namespace

absl::Status WriteLatencyCsv(const std::string& path, std::span<const LatencyRecord> records) {
  std::string text = "sample_id,wall_time_us,kernel_time_us,seq_len\n";
  for (const LatencyRecord& each : records) {
    CellLine(&text)
        .Cell(std::optional(each.sample_id))
        .Cell(std::optional(each.wall_time_us))
        .Cell(each.kernel_time_us)
        .Cell(each.seq_len);
  }
  return power::WriteWholeFile(path, text);
}

absl::Status WriteMemoryCsv(const std::string& path, std::span<const MemorySnapshot> snapshots) {
  std::string text =
      "timestamp_us,peak_rss_bytes,kv_cache_bytes,activation_bytes,temp_buffer_bytes\n";
  for (const MemorySnapshot& each : snapshots) {
    CellLine(&text)
        .Cell(std::optional(each.timestamp_us))
        .Cell(each.peak_rss_bytes)
        .Cell(each.parts.kv_cache_bytes)
        .Cell(each.parts.activation_bytes)
        .Cell(each.parts.temp_buffer_bytes);
  }
  return power::WriteWholeFile(path, text);
}

absl::Status WriteResultsCsv(const std::string& path, std::span<const ResultRow> rows) {
  std::string text =
      "setting,coherence_delta,kv_cache_reduction,peak_mem_reduction,energy_reduction,"
      "p95_latency_us,accuracy\n";
  for (const ResultRow& each : rows) {
    CellLine(&text)
        .Cell(std::string_view(each.setting))
        .Cell(each.coherence_delta)
        .Cell(each.kv_cache_reduction)
        .Cell(each.peak_mem_reduction)
        .Cell(each.energy_reduction)
        .Cell(each.p95_latency_us)
        .Cell(each.accuracy);
  }
  return power::WriteWholeFile(path, text);
}

}  // namespace xplane_time
