#include "insight/peaks.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <string_view>

#include "hlo/program.h"

namespace xplane_time::insight {
namespace {

// Dense products of 16-bit floats, per core (multiprocessor, compute unit) and clock.
struct Generation {
  std::string_view vendor;
  int major, minor;  // compute_cap
  double f16_flops;
  bool bf16;  // as many
  bool f8;    // twice as many
  // The collector assumes two transfers a clock, but HBM3 has four, so the real peak is twice the
  // recorded one. On an MI300X 39 of 94 ops are above the recorded peak, and no op is above twice
  // that peak.
  double memory = 1;
};
constexpr Generation kGenerations[] = {
    {"Nvidia", 7, 0, 1024, false, false},  // V100
    {"Nvidia", 8, 0, 2048, true, false},   // A100
    {"Nvidia", 9, 0, 4096, true, true},    // H100, H200
    {"AMD", 9, 4, 2048, true, true, 2},    // MI300
    {"AMD", 9, 5, 4096, true, true, 2},    // MI350
};

std::optional<double> NumberOf(const Plane& plane, std::string_view name) {
  const StatValue value = plane.FindStat(name);
  if (value.type == StatType::kInt64) {
    return static_cast<double>(static_cast<int64_t>(value.bits));
  }
  if (value.type == StatType::kUint64) return static_cast<double>(value.bits);
  if (value.type == StatType::kDouble) return std::bit_cast<double>(value.bits);
  return std::nullopt;
}

// Null: the model is not in the table, or the plane has no vendor.
const Generation* GenerationOf(const Plane& plane) {
  const std::string_view vendor = plane.FindStat("device_vendor").text;
  const auto major = NumberOf(plane, "compute_cap_major"),
             minor = NumberOf(plane, "compute_cap_minor");
  const auto* const found = std::ranges::find_if(kGenerations, [&](const Generation& each) {
    return each.vendor == vendor && major == each.major && minor == each.minor;
  });
  return found == std::end(kGenerations) ? nullptr : found;
}

// A known peak that can be, scaled.
std::optional<double> Believable(const std::optional<double>& peak, double most,
                                 bool* unbelievable) {
  if (!peak.has_value() || (*peak >= kLeastPeak && *peak <= most)) return peak;
  *unbelievable = true;
  return std::nullopt;
}

std::optional<double> Times(const std::optional<double>& value, double factor) {
  return value.has_value() ? std::optional(*value * factor) : std::nullopt;
}

bool IsF8(int32_t type) {
  constexpr int32_t kTypes[] = {19, 20, 23, 24, 25, 28, 29};
  return std::find(std::begin(kTypes), std::end(kTypes), type) != std::end(kTypes);
}

void FillGpu(const Plane& plane, const Generation& generation, bool* unbelievable,
             DevicePeaks* peaks) {
  constexpr double kHzPerKhz = 1000;
  const auto cores = NumberOf(plane, "core_count"), clock_khz = NumberOf(plane, "clock_rate");
  if (cores.has_value() && clock_khz.has_value()) {
    // Two that are negative make no peak.
    const double clock_hz = std::max(*clock_khz, 0.0) * kHzPerKhz;
    peaks->flops_per_s =
        Believable(*cores * clock_hz * generation.f16_flops, kMostPeakFlops, unbelievable);
  }
  if (generation.f8) peaks->f8_flops_per_s = Times(peaks->flops_per_s, 2);
  peaks->has_bf16 = generation.bf16;
  if (peaks->flops_per_s.has_value()) peaks->flops_source = PeakSource::kTable;
}

}  // namespace

DevicePeaks PeaksOf(const Plane& plane, bool* unbelievable) {
  DevicePeaks peaks;
  *unbelievable = false;
  peaks.flops_per_s = Believable(Times(NumberOf(plane, "peak_teraflops_per_second"), 1e12),
                                 kMostPeakFlops, unbelievable);
  peaks.of_all_types = peaks.flops_per_s.has_value();
  if (peaks.of_all_types) peaks.flops_source = PeakSource::kTrace;
  const Generation* const generation = GenerationOf(plane);
  if (generation != nullptr && !peaks.of_all_types) {
    FillGpu(plane, *generation, unbelievable, &peaks);
  }
  const double factor = generation == nullptr ? 1 : generation->memory;
  auto bytes = Times(NumberOf(plane, "peak_hbm_bw_gigabytes_per_second"), 1e9);
  if (!bytes.has_value()) bytes = Times(NumberOf(plane, "memory_bandwidth"), factor);
  peaks.bytes_per_s = Believable(bytes, kMostPeakBytes, unbelievable);
  if (peaks.bytes_per_s.has_value()) {
    peaks.bytes_source = factor == 1 ? PeakSource::kTrace : PeakSource::kTable;
  }
  return peaks;
}

std::optional<double> FlopsPeakFor(const DevicePeaks& peaks, int32_t type) {
  if (peaks.of_all_types || type == HloShape::kF16) return peaks.flops_per_s;
  if (type == HloShape::kBf16 && peaks.has_bf16) return peaks.flops_per_s;
  return IsF8(type) ? peaks.f8_flops_per_s : std::nullopt;
}

}  // namespace xplane_time::insight
