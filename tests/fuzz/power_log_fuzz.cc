// Arbitrary bytes as a power log: no crash, no endless loop, and bounded memory. A log that can be
// read gives the same result again, its windows do not end before they begin, and energies are
// within their bounds.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "xplane_time/power.h"

namespace xplane_time {
namespace {

void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

void CheckEnergy(const EnergyEstimate& energy) {
  Require(energy.coverage >= 0 && energy.coverage <= 1 + 1e-9, "coverage is a share");
  Require(energy.energy_j.has_value() || energy.reason != PowerReason::kKnown,
          "what is not known has a reason");
  if (!energy.energy_j.has_value()) return;
  Require(std::isfinite(*energy.energy_j) && *energy.energy_j >= 0, "energy is a number");
  Require(energy.lo_j.has_value() == !IsUnbounded(energy.limits), "limits that are there");
  if (!energy.lo_j.has_value()) return;
  const double slack_j = 1e-6 * (1 + *energy.energy_j);
  Require(*energy.lo_j <= *energy.energy_j + slack_j, "at least its lower bound");
  Require(*energy.hi_j >= *energy.energy_j - slack_j, "at most its upper bound");
}

}  // namespace
}  // namespace xplane_time

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace xplane_time;  // NOLINT: the whole program
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto summary = SummarizePowerLogText(text, "log", {});
  const auto again = SummarizePowerLogText(text, "log", {});
  Require(summary.ok() == again.ok(), "read twice, read the same");
  if (!summary.ok()) {
    Require(absl::IsDataLoss(summary.status()), "DataLoss");
    return 0;
  }
  Require(summary->windows.size() == again->windows.size(), "the same windows");
  for (const WindowSummary& window : summary->windows) {
    Require(window.begin_ns <= window.end_ns, "a window ends after its begin");
    for (const EnergyEstimate& energy : window.energies) CheckEnergy(energy);
  }
  return 0;
}
