// The slow and obvious reference for reports: it computes the rows of a trace from the rules of
// timing, with quadratic loops and maps, and without code of the library.
//
// Input: a parsed XSpace with timestamps that count from the start of the capture. Output: the rows
// that the library must report, keyed for comparison. Not handled: filters, trimming, aggregated
// events, damaged events, and cases that the rules leave open: programs with partial host evidence,
// overlapping module events, and programs without any evidence whose sequence of kernels is not
// exactly periodic (here they are one run; the library finds runs that lack kernels).
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
  std::map<SlowDeviceKey, SlowDevice> devices;  // devices that executed something
  std::map<SlowFunctionKey, SlowFunction> functions;
  std::map<SlowKernelKey, SlowKernel> kernels;
  friend bool operator==(const SlowReport&, const SlowReport&) = default;
};

SlowReport BuildSlowGpuReport(const proto::XSpace& space);
SlowReport BuildSlowTpuReport(const proto::XSpace& space);
SlowReport BuildSlowCpuReport(const proto::XSpace& space);

// Prints all rows, one per line.
std::ostream& operator<<(std::ostream& out, const SlowReport& report);
// For the messages of GoogleTest.
inline void PrintTo(const SlowReport& report, std::ostream* out) { *out << '\n' << report; }

}  // namespace xplane_time::testing
