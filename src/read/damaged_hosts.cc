#include "read/damaged_hosts.h"

#include <string>

namespace xplane_time {

absl::Status DamagedHosts::LeaveOut(uint32_t file, const absl::Status& damage) {
  if (!trace_.leave_out_damaged_hosts || !absl::IsDataLoss(damage)) return damage;
  damage_.try_emplace(file, damage);
  for (uint32_t other = 0; other < trace_.files.size(); ++other) {
    const bool same_run = trace_.files[other].capture == trace_.files[file].capture;
    if (same_run && !Has(other)) return absl::OkStatus();
  }
  return damage;
}

void DamagedHosts::Note(Diagnostics* diagnostics) const {
  for (const auto& [file, damage] : damage_) {
    diagnostics->Note(DiagnosticCode::kHostLeftOut, std::string(damage.message()), {.file = file});
  }
}

}  // namespace xplane_time
