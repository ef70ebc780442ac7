#include "power/gpu_metrics.h"

#include <cstdint>
#include <limits>

namespace xplane_time::power {
namespace {

uint64_t LittleEndian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i > 0; --i) value = value << 8 | static_cast<uint8_t>(bytes[i - 1]);
  return value;
}

constexpr size_t kFieldBytes = sizeof(uint64_t);

// Where the accumulator is; 0: not in this format.
size_t OffsetOf(uint64_t format, uint64_t content) {
  if (format != 1) return 0;
  constexpr size_t kHeaderToVcn = 24, kJpegEngines = 32;
  if (content == 4) return kHeaderToVcn;
  return content == 5 ? kHeaderToVcn + kJpegEngines * sizeof(uint16_t) : 0;
}

}  // namespace

FileNumber ReadGpuMetricsEnergy(const std::string& path) {
  const FileText bytes = ReadBytes(path, 4096);
  if (!bytes.value) return Unknown<int64_t>(bytes.reason);
  const std::string_view table = *bytes.value;
  if (table.size() < 4) return Unknown<int64_t>(PowerReason::kUnsupported);
  const size_t offset =
      OffsetOf(LittleEndian(table.substr(2, 1)), LittleEndian(table.substr(3, 1)));
  const uint64_t size = LittleEndian(table.substr(0, 2));
  if (offset == 0 || size > table.size() || size < offset + kFieldBytes) {
    return Unknown<int64_t>(PowerReason::kUnsupported);
  }
  const uint64_t count = LittleEndian(table.substr(offset, kFieldBytes));
  if (count == std::numeric_limits<uint64_t>::max()) {
    return Unknown<int64_t>(PowerReason::kUnsupported);
  }
  // 1e6 / 2^16 = 15625 / 1024, in two parts so that nothing overflows.
  const uint64_t energy_uj = count / 1024 * 15625 + count % 1024 * 15625 / 1024;
  if (count / 1024 > std::numeric_limits<int64_t>::max() / 15625 - 1) {
    return Unknown<int64_t>(PowerReason::kUnsupported);
  }
  return {static_cast<int64_t>(energy_uj), PowerReason::kKnown};
}

}  // namespace xplane_time::power
