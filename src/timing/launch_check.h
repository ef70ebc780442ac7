// LaunchCheck: what one device executed, beside the launches of its host. timing/completeness.h
// makes findings of it.
//
//   host     launch 1   launch 2   launch 3
//   device        |--1--|                |--3--| |--4--|
//
// Launch 2 has no execution here (has_executed), execution 4 has no launch (without_launch).
//
// Memory: a bit for each launch of the host, a few words for each stream and each run.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "devices/device_kind.h"
#include "devices/gpu_runs/host_evidence.h"

namespace xplane_time {

class LaunchCheck {
 public:
  // `launch_id`: the place of the id in Execution::numbers. `evidence` must outlive this.
  LaunchCheck(const gpu_runs::HostEvidence& evidence, size_t launch_id)
      : evidence_(evidence), launch_id_(launch_id), has_executed_(evidence.launches.size()) {}

  // In order of start.
  void Add(std::span<const Execution> chunk);

  const gpu_runs::HostEvidence& evidence() const { return evidence_; }
  // By LaunchTable::IndexOf.
  bool has_executed(size_t index) const { return has_executed_[index]; }
  // Lines of the host with launches that this device executed.
  const absl::flat_hash_set<uint32_t>& launching_lines() const { return launching_lines_; }

  struct Stream {
    int64_t last_launch_ps = kNoTimePs;  // of its executions: the latest start
    int64_t last_end_ps = kNoTimePs;
  };
  std::span<const Stream> streams() const { return streams_; }
  int64_t longest_ps() const { return longest_ps_; }  // of the executions

  // The launches of one run: starts of the first and the last, and the line of the first.
  struct RunLaunches {
    int64_t first_ps = kNoTimePs, last_ps = kNoTimePs;
    uint32_t line = 0;
  };
  // By run. Runs beyond the end, and runs without a known launch, have no times.
  std::span<const RunLaunches> runs() const { return runs_; }
  uint64_t without_launch() const { return without_launch_; }

  // Executions that start before their launch.
  struct Early {
    uint64_t count = 0;
    int64_t most_ps = 0;
    uint32_t line = 0;  // of the first
  };
  const Early& early() const { return early_; }

 private:
  Stream* StreamOf(uint32_t line);
  void AddToRun(uint32_t run, int64_t launched_ps, uint32_t line);

  const gpu_runs::HostEvidence& evidence_;
  const size_t launch_id_;
  std::vector<bool> has_executed_;
  absl::flat_hash_set<uint32_t> launching_lines_;
  std::vector<RunLaunches> runs_;
  std::vector<Stream> streams_;
  absl::flat_hash_map<uint32_t, size_t> stream_of_line_;
  uint32_t last_line_ = kNone;
  size_t last_stream_ = 0;
  int64_t longest_ps_ = 0;
  uint64_t without_launch_ = 0;
  Early early_;

  // A cache of ids, indexed by their last bits: the executions of a graph have one launch, and
  // short traces that are repeated have few.
  struct Known {
    uint64_t id = 0;
    bool found = false;
    int64_t launched_ps = 0;
    uint32_t line = 0;  // of the launch
  };
  static constexpr size_t kKnown = 1024;
  Known Find(uint64_t correlation_id);

  std::array<Known, kKnown> known_ = {};
  uint32_t launching_line_ = kNone;
  gpu_runs::LaunchTable::Place place_;
};

}  // namespace xplane_time
