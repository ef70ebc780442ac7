// Harness: a C++ harness for `xplane-time tune`. One header, one function.
//
// Example:
//
//   HarnessCode code;
//   code.device = "gpu:0";
//   code.device_class = "NVIDIA H100";
//   code.prepare = [](const std::string& variant,
//                     const std::string& params_json) -> absl::StatusOr<std::string> {
//     return "fingerprint of " + variant;  // build it; an error is a compile_error
//   };
//   code.run = [](const std::string& variant,
//                 const std::string& workload) -> absl::StatusOr<int64_t> {
//     return 5'000'000;  // time it; picoseconds, or an error for a runtime_error
//   };
//   const int exit_code = ServeHarness(code);  // returns when the driver sends bye
//
//   $ xplane-time tune space.json -- ./harness
//
// The protocol is in docs/harness.md. Code that runs the tuning loop in its own process implements
// Harness of tune.h instead. Not thread-safe: one ServeHarness per process.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace xplane_time {

// Errors of these functions are failures of the variant. ResourceExhausted becomes oom,
// FailedPrecondition of `verify` becomes wrong_result, and Unavailable becomes infra (not the fault
// of the variant). Any other error of `prepare` becomes compile_error, and of the other functions
// runtime_error.
struct HarnessCode {
  std::string device = "cpu", device_class = "cpu";
  std::string clock = "wall";  // device, profile or wall: the clock of the times that `run` returns
  std::string driver = {}, flags = {}, code_hash = {};
  std::string versions_json = "{}";
  // Compiles a variant and returns its fingerprint, which is equal for equal programs, or an empty
  // text. Required.
  std::function<absl::StatusOr<std::string>(const std::string& variant,
                                            const std::string& params_json)>
      prepare = {};
  // Runs a variant once and compares the result with the reference. If not set, `run` is used to
  // warm up.
  std::function<absl::Status(const std::string& variant)> verify = {};
  // Runs a variant once and returns its time in picoseconds. Required.
  std::function<absl::StatusOr<int64_t>(const std::string& variant, const std::string& workload)>
      run = {};
};

// Serves the protocol and returns the exit status for main: 0 after bye, 64 without a driver or if
// a required function is not set, 74 if the driver disappeared.
int ServeHarness(const HarnessCode& code);

}  // namespace xplane_time
