// KernelsAlike: whether slow runs are slow in all kernels by the same factor, as after a drop of
// the clock, or only in some kernels, as after a change of the data.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "devices/device_kind.h"
#include "xplane_time/report.h"
#include "xplane_time/trace.h"

namespace xplane_time::insight {

// Runs of one program on one device, as an analysis numbers them; or its marked steps.
struct MarkedRuns {
  enum Mark : uint8_t { kOther, kFast, kSlow };
  DeviceRef device;
  std::optional<uint32_t> program = {};  // empty: steps
  std::string step = {};                 // ReportOptions::step
  std::vector<Mark> by_run;
};

struct KernelsAlike {
  size_t kernels = 0;
  // Slow to fast, of nine tenths of the time: the least and the largest.
  double least_ratio = 1, most_ratio = 1;
  std::string slowest;  // the kernel that lost most time
  double slowest_ratio = 1;
};

// For one kernel: its executions in runs of each mark, and their time.
struct MarkedTimes {
  double count = 0, sum_ps = 0;
  double mean_ps() const { return sum_ps / count; }
};
using KernelTimes = std::map<uint32_t, std::array<MarkedTimes, 3>>;  // by op, by mark
std::optional<KernelsAlike> CompareKernels(const ExecutionTables& tables,
                                           const KernelTimes& kernels);

// Reads the device once more. Empty if fewer than two kernels ran three times in both.
absl::StatusOr<std::optional<KernelsAlike>> CompareKernels(const Trace& trace,
                                                           const MarkedRuns& runs, int threads);

}  // namespace xplane_time::insight
