// LaunchConfigs: the launch configurations of one device's kernels, numbered.
//
//   LaunchConfigs configs(/*first_column=*/14);   // of the batch: the stats in kStats
//   configs.StartBatch(batch);
//   const uint32_t number = configs.Find(batch, row);
//   configs.Get(number).registers                 // 38
//
// XPlane has one text, whose form depends on the producer and its version:
//
//   regs:38 shm:0 grid:160,1,1 block:1024,1,1                                   TensorFlow, CUDA
//   regs:38 static_shared:0 dynamic_shared:512 grid:8,1,1 block:256,1,1 occ_pct:75      XLA, CUDA
//   grid:8,8,4 block:256,1,1 private_mem:0 group_mem:33792 occ_pct:0                    XLA, ROCm
//
// PyTorch has one stat a value. Some producers write uninitialized memory: a block that no GPU can
// launch makes all values unknown; registers or bytes that no GPU has make all of these unknown.
// An occupancy of 0 in XPlane means that the producer did not compute it.
//
// Not thread-safe. Memory: bounded, by kMaxConfigs and kMaxTexts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "xplane_time/read.h"
#include "xplane_time/report.h"

namespace xplane_time {

// Parses XPlane's text; empty if it has no value that a GPU can have. `occupancy_percent` is the
// theoretical occupancy, if a separate stat states it.
std::optional<LaunchConfig> ParseKernelDetails(std::string_view kernel_details,
                                               std::optional<double> occupancy_percent);

class LaunchConfigs {
 public:
  static constexpr std::array<std::string_view, 7> kStats = {
      "kernel_details",       "theoretical_occupancy_pct", "grid", "block", "shared memory",
      "registers per thread", "est. achieved occupancy %"};
  static constexpr uint32_t kUnknown = ~uint32_t{0};
  // The limit is reached, and this configuration is not among those that are kept.
  static constexpr uint32_t kOther = kUnknown - 1;
  static constexpr size_t kMaxConfigs = 16'384, kMaxTexts = 65'536, kMaxTextBytes = 1024;

  explicit LaunchConfigs(size_t first_column) : first_column_(first_column) {}

  // Before the rows of a batch.
  void StartBatch(const EventBatch& batch);
  // The configuration of an event: a number from 0 on, or kUnknown or kOther.
  uint32_t Find(const EventBatch& batch, size_t row);
  const LaunchConfig& Get(uint32_t number) const { return *configs_[number]; }

 private:
  std::optional<LaunchConfig> Parse(const EventBatch& batch, size_t row) const;
  uint32_t Number(const std::optional<LaunchConfig>& config);

  const size_t first_column_;
  std::vector<size_t> present_;  // columns of the batch that may have a value
  std::string key_, last_key_;   // the stats of a row
  uint32_t last_ = kUnknown;     // of last_key_
  absl::flat_hash_map<std::string, uint32_t> number_of_key_;
  std::map<LaunchConfig, uint32_t> number_of_;
  std::deque<const LaunchConfig*> configs_;  // keys of number_of_
};

}  // namespace xplane_time
