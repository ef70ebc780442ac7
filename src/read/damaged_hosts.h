// Keeps track of the files of a run whose damage shows only when their events are read.
//
//   DamagedHosts damaged(trace);
//   RETURN_IF_ERROR(damaged.Read(file, [&] { return VisitEvents(...); }));
//   ...                                  // drop the data of files for which damaged.Has() is true
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
  // `trace` must outlive this object.
  explicit DamagedHosts(const Trace& trace) : trace_(trace) {}

  // Records damage. Returns OK if the file can be left out. Returns `damage` if all files of its
  // run are damaged, if it is the only one, if the trace was opened without
  // leave_out_damaged_hosts, or if it is another kind of error.
  absl::Status LeaveOut(uint32_t file, const absl::Status& damage) {
    if (!trace_.leave_out_damaged_hosts || !absl::IsDataLoss(damage)) return damage;
    damage_.try_emplace(file, damage);
    for (uint32_t other = 0; other < trace_.files.size(); ++other) {
      const bool same_run = trace_.files[other].capture == trace_.files[file].capture;
      if (same_run && !Has(other)) return absl::OkStatus();
    }
    return damage;
  }
  // Reads a part of a file, unless the file is known to be damaged.
  absl::Status Read(uint32_t file, absl::FunctionRef<absl::Status()> read) {
    return Has(file) ? absl::OkStatus() : LeaveOut(file, read());
  }
  bool Has(uint32_t file) const { return damage_.contains(file); }
  // The damage of the first file that was left out, by file index.
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
