// ModulePaths: the time of a device by the nn.Modules in which it was launched.
//
//   Net_0                 |--------------------|
//   Linear_0                |------|
//   launches                   ^ Net_0/Linear_0     ^ in no module
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "timing/analysis.h"

namespace xplane_time {

class ModulePaths : public ExecutionWatcher {
 public:
  // `filters` must outlive it: executions count if they were launched in a wanted function. Errors:
  // FailedPrecondition if the host has no nn.Modules.
  static absl::StatusOr<std::unique_ptr<ExecutionWatcher>> Make(const WatchContext& context,
                                                                const Filters& filters);

  absl::Status Add(std::span<const Execution> chunk) override;
  void Finish() override;

  struct Sum {
    uint64_t count = 0;
    int64_t total_ps = 0;
  };
  // By path, from the outermost module on; an empty one: in no module.
  const std::map<std::vector<std::string>, Sum>& sums() const { return sums_by_path_; }
  // Executions without a launch in the trace.
  const Sum& without_launch() const { return without_launch_; }

 private:
  ModulePaths(const WatchContext& context, const gpu_runs::HostEvidence& evidence,
              const Filters& filters);
  bool Wants(const std::vector<uint32_t>* ranges) const;
  Sum* SumOf(const std::vector<uint32_t>& ranges);

  const std::shared_ptr<const ExecutionTables> tables_;
  const Filters& filters_;
  const size_t launch_id_;
  const gpu_runs::HostRanges& ranges_;  // until Finish()
  gpu_runs::LaunchRanges launch_ranges_;
  std::vector<uint8_t> wanted_;                           // by name of a range
  absl::flat_hash_map<std::vector<uint32_t>, Sum> sums_;  // by names
  std::vector<uint32_t> path_;
  std::map<std::vector<std::string>, Sum> sums_by_path_;  // after Finish()
  Sum without_launch_;
};

}  // namespace xplane_time
