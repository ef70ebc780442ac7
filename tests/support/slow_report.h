// The slow and obvious reference for reports: what a trace says, by the rules of timing,
// with quadratic loops and maps, and without any code of the library.
//
// Enters: a parsed XSpace whose timestamps count from the capture's start. Leaves: the
// rows that the library must report, keyed for comparison. Not handled: filters,
// trimming, aggregated events, damaged events, and what the rules leave open: programs
// of which only a part has host evidence, module events that overlap, and programs
// without any evidence whose sequence of kernels is not exactly periodic (these are one
// run here; the library finds runs that lack kernels).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include "proto/xplane.pb.h"

namespace xplane_time::testing {

// Plane and ordinal.
using SlowDeviceKey = std::tuple<std::string, std::optional<int64_t>>;
// Plane, ordinal, function, program id.
using SlowFunctionKey =
    std::tuple<std::string, std::optional<int64_t>, std::string, std::optional<std::string>>;
// Plane, ordinal, kernel, function, program id.
using SlowKernelKey = std::tuple<std::string, std::optional<int64_t>, std::string,
                                 std::optional<std::string>, std::optional<std::string>>;

struct SlowDevice {
  uint64_t executions = 0;
  int64_t busy_ps = 0, sum_ps = 0;
  int64_t first_ps = 0, last_ps = 0;
  friend bool operator==(const SlowDevice&, const SlowDevice&) = default;
};

struct SlowRun {
  int64_t start_ps = 0;
  int64_t span_ps = 0;
  std::optional<int64_t> active_ps{}, sum_ps{};  // empty: a module without ops
  uint64_t kernels = 0;
  bool suspect = false;
  std::string clock = "profile";
  friend auto operator<=>(const SlowRun&, const SlowRun&) = default;
};

struct SlowFunction {
  std::string clock = "profile";
  uint64_t kernels_total = 0;
  std::vector<SlowRun> runs;  // sorted
  friend bool operator==(const SlowFunction&, const SlowFunction&) = default;
};

struct SlowKernel {
  uint64_t count = 0;
  int64_t total_ps = 0;
  std::string clock = "profile";
  friend bool operator==(const SlowKernel&, const SlowKernel&) = default;
};

struct SlowReport {
  std::map<SlowDeviceKey, SlowDevice> devices;  // those that executed something
  std::map<SlowFunctionKey, SlowFunction> functions;
  std::map<SlowKernelKey, SlowKernel> kernels;
  friend bool operator==(const SlowReport&, const SlowReport&) = default;
};

SlowReport BuildSlowGpuReport(const proto::XSpace& space);
SlowReport BuildSlowTpuReport(const proto::XSpace& space);
SlowReport BuildSlowCpuReport(const proto::XSpace& space);

// All rows, one a line.
std::ostream& operator<<(std::ostream& out, const SlowReport& report);
// For the messages of GoogleTest.
inline void PrintTo(const SlowReport& report, std::ostream* out) { *out << '\n' << report; }

}  // namespace xplane_time::testing
