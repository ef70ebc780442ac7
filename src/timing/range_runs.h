// RangeRuns: what a device executed in each range of its host's time (gpu_runs/host_ranges.h).
//
//   host     |------ step 0 ------|------ step 1 ------|
//              launch 1   launch 2   launch 3
//   device                 |--1--| |-2-|   |--3--|          step 0: 1 and 2; step 1: 3
//
// A range is a run of its function on each device, with executions or without. Memory: the ranges.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "devices/gpu_runs/host_evidence.h"
#include "timing/device_meter.h"

namespace xplane_time {

class RangeRuns {
 public:
  // For kinds with a launch_id. The arguments must outlive this.
  RangeRuns(const Trace& trace, const gpu_runs::HostEvidence& evidence, const KindRules& rules,
            const ExecutionTables& tables, const Filters& filters);

  // In order of start.
  void Add(std::span<const Execution> chunk);
  // For the last chunk, if filters select functions: whether each execution is in a wanted one.
  std::span<const uint8_t> in_function() const { return in_function_; }

  struct OneRun {
    Interval profile = {0, Run::kUnset};  // of its executions
    RunTimes times;                       // of those that are wanted
  };
  // By range.
  std::span<const OneRun> runs() const { return runs_; }
  const gpu_runs::HostRanges& ranges() const { return evidence_.ranges; }

 private:
  bool Wants(uint32_t op);
  bool AnyWanted(const std::vector<uint32_t>* ranges) const;

  const gpu_runs::HostEvidence& evidence_;
  gpu_runs::LaunchRanges launch_ranges_;
  const size_t launch_id_;
  const ExecutionTables& tables_;
  const Filters& filters_;

  std::vector<OneRun> runs_;
  std::vector<uint8_t> op_wanted_, name_wanted_;
  std::vector<uint8_t> in_function_;
};

}  // namespace xplane_time
