// Arbitrary bytes as marked layers and a power log ("layers \0 log"), or as a trace with power
// counters: no crash and no endless loop. Known values lie in their intervals and add up; unknown
// values have a reason.
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "xplane_time/energy.h"
#include "xplane_time/read.h"

namespace xplane_time {
namespace {

void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

// A file in memory, which exists as long as this object.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : fd_(memfd_create("fuzz", 0)) {
    Require(write(fd_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()), "room");
  }
  ~MemoryFile() { close(fd_); }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  const int fd_;
};

void CheckRow(const EnergyRow& row) {
  Require(row.energy_j.has_value() == row.reason.empty(), "what is not known has a reason");
  if (!row.energy_j.has_value()) return;
  Require(row.energy_j->ci95.has_value() == (row.kind != EnergyKind::kModelled), "an interval");
  if (!row.energy_j->ci95.has_value()) return;
  const auto [lo_j, hi_j] = *row.energy_j->ci95;
  Require(std::isfinite(lo_j) && std::isfinite(hi_j), "an interval has ends");
  Require(lo_j <= row.energy_j->value && row.energy_j->value <= hi_j, "a value in its interval");
  Require(row.energy_j->value > 0, "what ran took energy");
}

void Check(const absl::StatusOr<EnergyReport>& report) {
  if (!report.ok()) return;
  for (const EnergyDevice& device : report->devices) {
    if (!device.reason.empty()) continue;
    if (!device.active_j.has_value()) continue;  // for a stated power
    const double sum_j = device.active_j->value + device.idle_j->value + *device.residual_j;
    Require(std::abs(sum_j - *device.measured_j) <= 1e-6 * (1 + std::abs(*device.measured_j)),
            "measured = active + idle + residual");
  }
  for (const auto* rows : {&report->kernels, &report->functions, &report->layers}) {
    for (const EnergyRow& row : *rows) CheckRow(row);
  }
}

}  // namespace
}  // namespace xplane_time

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace xplane_time;  // NOLINT: the whole program
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const size_t middle = bytes.find(std::string_view("\n\0", 2));
  EnergyOptions options;
  options.timelines = true;
  if (middle == bytes.npos) {
    Diagnostics diagnostics;
    const auto trace = OpenTraceFromMemory(bytes, "trace", {}, &diagnostics);
    if (trace.ok()) Check(AttributeEnergy(*trace, options, diagnostics));
    return 0;
  }
  const MemoryFile layers(bytes.substr(0, middle + 1)), log(bytes.substr(middle + 2));
  auto runs = ReadLayerRuns(layers.path());
  if (!runs.ok()) return 0;
  options.layers = *std::move(runs);
  options.power_log = log.path();
  Check(AttributeLayers(options));
  return 0;
}
