// SlowRuns finds devices that compute slower than their peers, and functions that got slower, and
// attributes the lost time of all devices to them.
//
// A function is tested if its compute is at least 1 % of the device's time. Its runs count if
// they are not suspect and execute as many kernels as most. A device without such functions
// (PyTorch) is judged by its marked steps. Without marks, it is judged by the rounds of a loop: if
// most time is in kernels whose counts are multiples of N, round i of N has the i-th part of each.
// CPUs are not judged, because thunks return before their work is done. All tests of a trace
// together give a false alarm in at most 1 % of traces (Holm).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "insight/kernels_alike.h"
#include "timing/analysis.h"

namespace xplane_time::insight {

inline constexpr double kFalseAlarms = 0.01;  // of traces

// The time of one device that findings claim.
struct Claims {
  std::map<uint32_t, int64_t> compute_ps;  // by program; kNone: of all of them
  int64_t waits_ps = 0;                    // of its exposed collectives
  int64_t idle_ps = 0;                     // of its idle time
};

// Runs of a function, marked steps, or rounds of a loop.
struct RunsOf {
  std::optional<std::string> function = {};
  bool are_steps = false;
  std::string name() const { return function.value_or(are_steps ? "its steps" : "its kernels"); }
  const char* unit() const { return function.has_value() ? "run" : are_steps ? "step" : "round"; }
};

struct SlowDevice {
  size_t device = 0;  // index
  size_t peers = 0;   // 1: which of the two is slow is unknown
  RunsOf of = {};     // that give most
  double ratio = 1, p_value = 1;
  uint64_t runs = 0;
  // For the slow device: the time beyond the median of its peers. For the others: their waiting
  // meanwhile, in collectives or idle.
  std::vector<int64_t> by_device;
};

struct SlowedDown {
  RunsOf of = {};  // that give most
  double ratio = 1, p_value = 1;
  uint64_t runs = 0, slow_runs = 0, first_slow = 0;
  bool is_for_good = true;
  std::vector<int64_t> by_device;
  MarkedRuns marked = {};                  // of those, on the device that gives most
  std::optional<KernelsAlike> alike = {};  // of rounds of a loop
};

struct SlowRuns {
  std::vector<SlowDevice> devices;
  std::optional<SlowedDown> slowed;
  std::vector<Claims> claims;  // by device
};

// The devices need WhereWatch watchers.
SlowRuns FindSlow(std::span<const DeviceAnalysis* const> devices);

}  // namespace xplane_time::insight
