// Kernel changes: what differs between two sides, kernel by kernel, without a verdict.
#ifndef XPLANE_TIME_SRC_COMPARE_KERNEL_CHANGES_H_
#define XPLANE_TIME_SRC_COMPARE_KERNEL_CHANGES_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "xplane_time/compare.h"
#include "xplane_time/measurements.h"

namespace xplane_time::compare {

// Adds up the kernels and runs of a capture's functions, over devices and programs.
class KernelTimes {
 public:
  void AddRuns(const std::string& function, uint64_t runs) { runs_[function] += runs; }
  // `time_ps`: in all of these runs, without what is nested in it.
  void Add(const std::string& function, const std::string& kernel, int64_t time_ps) {
    times_ps_[{function, kernel}] += static_cast<double>(time_ps);
  }
  // Of functions that have runs.
  std::vector<KernelTime> Take() const;

 private:
  std::map<std::string, uint64_t> runs_;
  std::map<std::pair<std::string, std::string>, double> times_ps_;
};

// Means over the captures that have the kernel; the largest change first. Without kernels that did
// not change, and of functions that both sides have.
std::vector<KernelChange> KernelChanges(std::span<const Measurements> base,
                                        std::span<const Measurements> head);

}  // namespace xplane_time::compare

#endif  // XPLANE_TIME_SRC_COMPARE_KERNEL_CHANGES_H_
