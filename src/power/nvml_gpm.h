// GPM: the utilization of the parts of an NVIDIA GPU, from Hopper on.
//
//   sample   sample       sample
//     |--------|------------|        each Sample returns the means since the previous one
//
//   GpmSampler gpm(nvml);
//   std::optional<GpmMeans> means;
//   NvmlReturn result = gpm.Sample(device, &means);   // the first call returns no means
//
// The hardware's counters are refreshed every 100 ms; nvml.h requires a longer time between two
// samples. After an error, the next sample counts as the first one. Not thread-safe; `nvml` must
// outlive the sampler.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "power/nvml_api.h"

namespace xplane_time::power {

struct GpmQuantity {
  unsigned metric;
  std::string_view quantity;  // as in PowerChannel
};
inline constexpr std::array<GpmQuantity, 3> kGpmQuantities = {
    {{kNvmlGpmSmUtil, "gpm_sm_util_ppm"},
     {kNvmlGpmAnyTensorUtil, "gpm_tensor_util_ppm"},
     {kNvmlGpmDramBandwidthUtil, "gpm_dram_bw_util_ppm"}}};

struct GpmMeans {
  struct One {
    std::optional<int64_t> ppm = {};
    PowerReason reason = PowerReason::kNoSamples;  // why ppm is empty
  };
  int64_t begin_ns = 0, end_ns = 0;  // CLOCK_MONOTONIC of the two samples
  std::array<One, kGpmQuantities.size()> of = {};
};

class GpmSampler {
 public:
  explicit GpmSampler(const NvmlApi& nvml) : nvml_(nvml) {}
  ~GpmSampler() { Forget(); }
  GpmSampler(const GpmSampler&) = delete;
  GpmSampler& operator=(const GpmSampler&) = delete;

  // Whether enough time has passed since the last sample. The wait grows with the duration of that
  // sample, up to a second.
  bool IsDue(int64_t now_ns) const;
  // Errors: that of the sample, after which the state is empty; that of the means.
  NvmlReturn Sample(NvmlDevice device, std::optional<GpmMeans>* means);
  // Frees all samples; call it before NVML is initialized again.
  void Forget();

 private:
  NvmlReturn Allocate();
  NvmlReturn Compare(int64_t end_ns, std::optional<GpmMeans>* means);

  const NvmlApi& nvml_;
  std::array<NvmlGpmSample, 2> samples_ = {};  // before and after; null: not allocated
  std::optional<int64_t> before_ns_;           // empty: samples_[0] contains no sample
  int64_t asked_ns_ = 0, took_ns_ = 0;         // start and duration of the last sample
  NvmlGpmMetrics metrics_ = {};
};

}  // namespace xplane_time::power
