// NvmlCalls: the calls that answer with one or two plain numbers, as a table.
//
//   for (const NvmlCall& call : NvmlCalls()) call.read(nvml, device, raw);   // times scale: value
//
// Not here: power by fields and buffered samples (nvml_reader.cc), which carry times of their
// own.
#ifndef XPLANE_TIME_SRC_POWER_NVML_CALLS_H_
#define XPLANE_TIME_SRC_POWER_NVML_CALLS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "power/nvml_api.h"

namespace xplane_time::power {

struct NvmlQuantity {
  std::string_view name;  // of PowerChannel::quantity
  int64_t scale = 1;      // from NVML's unit to that of the name
};

struct NvmlCall {
  std::string_view function;
  std::array<NvmlQuantity, 2> quantities;  // the second may have no name
  NvmlReturn (*read)(const NvmlApi&, NvmlDevice, std::array<uint64_t, 2>&);

  size_t n_quantities() const { return quantities[1].name.empty() ? 1 : 2; }
};

const NvmlCall& EnergyCall();      // millijoules since the driver was loaded
const NvmlCall& PowerUsageCall();  // milliwatts
std::span<const NvmlCall> SlowCalls();

// raw * scale; empty where that is no possible value (all ones is NVML's "not available").
std::optional<int64_t> Scaled(uint64_t raw, int64_t scale);
// Of a field or a sample; empty where it is negative, not finite, or of no known type.
std::optional<uint64_t> RawOf(const NvmlValue& value, int value_type);

}  // namespace xplane_time::power

#endif  // XPLANE_TIME_SRC_POWER_NVML_CALLS_H_
