// Files of a run that show their damage only when their events are read.
//
//   DamagedHosts damaged(trace);
//   RETURN_IF_ERROR(damaged.Read(file, [&] { return VisitEvents(...); }));
//   ...                                  // drop what is of files that damaged.Has()
//   damaged.Note(&diagnostics);
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "xplane_time/diagnostics.h"
#include "xplane_time/trace.h"

namespace xplane_time {

class DamagedHosts {
 public:
  // `trace` must outlive it.
  explicit DamagedHosts(const Trace& trace) : trace_(trace) {}

  // `damage`, where it is some and the file cannot be left out: all of its run are damaged, it is
  // the only one, or the trace was opened without leave_out_damaged_hosts.
  absl::Status LeaveOut(uint32_t file, const absl::Status& damage) {
    if (!trace_.leave_out_damaged_hosts || !absl::IsDataLoss(damage)) return damage;
    damage_.try_emplace(file, damage);
    for (uint32_t other = 0; other < trace_.files.size(); ++other) {
      const bool same_run = trace_.files[other].capture == trace_.files[file].capture;
      if (same_run && !Has(other)) return absl::OkStatus();
    }
    return damage;
  }
  // Reads a part of a file, unless its damage is known.
  absl::Status Read(uint32_t file, absl::FunctionRef<absl::Status()> read) {
    return Has(file) ? absl::OkStatus() : LeaveOut(file, read());
  }
  bool Has(uint32_t file) const { return damage_.contains(file); }
  // The damage of the first file that was left out.
  absl::Status First() const {
    return damage_.empty() ? absl::OkStatus() : damage_.begin()->second;
  }
  void Note(Diagnostics* diagnostics) const {
    for (const auto& [file, damage] : damage_) {
      diagnostics->Note(DiagnosticCode::kHostLeftOut, std::string(damage.message()),
                        {.file = file});
    }
  }

 private:
  const Trace& trace_;
  std::map<uint32_t, absl::Status> damage_;  // by file
};

}  // namespace xplane_time
