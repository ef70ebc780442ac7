// Means of GPM counters between two samples.
//
// Two samples are allocated once and exchanged after each pass: the new sample is compared with the
// previous one. The time of a sample is the middle of its call. IsDue limits the load: the time
// since the last sample must be more than 100 ms, the refresh period of the counters, and 50 times
// the duration of the last sample, up to a second.
#include "power/nvml_gpm.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "power/machine.h"

namespace xplane_time::power {
namespace {

constexpr int64_t kRefreshNs = 100'000'000, kMostPeriodNs = 1'000'000'000;
constexpr int64_t kShare = 50;  // samples take at most one part in this many of the time

// Empty if it is not a percentage. Since counters run between two reads, it may slightly exceed 100
// %.
std::optional<int64_t> PpmOf(double percent) {
  constexpr double kMost = 101, kPpm = 10'000;
  if (!(percent >= 0 && percent <= kMost)) return std::nullopt;
  return std::llround(percent * kPpm);
}

}  // namespace

bool GpmSampler::IsDue(int64_t now_ns) const {
  const int64_t took_ns = std::min(took_ns_, kMostPeriodNs);
  return now_ns - asked_ns_ > std::clamp(took_ns * kShare, kRefreshNs, kMostPeriodNs);
}

NvmlReturn GpmSampler::Allocate() {
  for (NvmlGpmSample& each : samples_) {
    if (each != nullptr) continue;
    const NvmlReturn result = nvml_.gpm_alloc(&each);
    if (result != kNvmlSuccess) return result;
  }
  return kNvmlSuccess;
}

NvmlReturn GpmSampler::Sample(NvmlDevice device, std::optional<GpmMeans>* means) {
  means->reset();
  const int64_t begin_ns = asked_ns_ = MonotonicNow();
  NvmlReturn result = Allocate();
  if (result == kNvmlSuccess) result = nvml_.gpm_sample(device, samples_[1]);
  const int64_t at_ns = begin_ns + (MonotonicNow() - begin_ns) / 2;
  const bool had = before_ns_.has_value();
  if (result == kNvmlSuccess && had) result = Compare(at_ns, means);
  std::swap(samples_[0], samples_[1]);
  took_ns_ = MonotonicNow() - begin_ns;
  before_ns_ = result == kNvmlSuccess ? std::optional(at_ns) : std::nullopt;
  return result;
}

NvmlReturn GpmSampler::Compare(int64_t end_ns, std::optional<GpmMeans>* means) {
  metrics_.version = kNvmlGpmVersion;
  metrics_.metric_count = kGpmQuantities.size();
  metrics_.before = samples_[0];
  metrics_.after = samples_[1];
  for (size_t i = 0; i < kGpmQuantities.size(); ++i) {
    // A metric that the driver leaves untouched was not answered.
    metrics_.metrics[i].id = kGpmQuantities[i].metric;
    metrics_.metrics[i].result = kNvmlNotSupported;
  }
  const NvmlReturn result = nvml_.gpm_metrics(&metrics_);
  if (result != kNvmlSuccess) return result;
  GpmMeans& all = means->emplace();
  all.begin_ns = *before_ns_;
  all.end_ns = end_ns;
  for (size_t i = 0; i < kGpmQuantities.size(); ++i) {
    const NvmlGpmMetric& metric = metrics_.metrics[i];
    GpmMeans::One& one = all.of[i];
    one.reason = ReasonOf(metric.result);
    if (metric.result != kNvmlSuccess) continue;
    one.ppm = PpmOf(metric.value);
    if (!one.ppm) one.reason = PowerReason::kImplausible;
  }
  return kNvmlSuccess;
}

void GpmSampler::Forget() {
  for (NvmlGpmSample& each : samples_) {
    if (each != nullptr) nvml_.gpm_free(each);
    each = nullptr;
  }
  before_ns_.reset();
  asked_ns_ = took_ns_ = 0;
}

}  // namespace xplane_time::power
