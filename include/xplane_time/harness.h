// Harness: what `xplane-time tune` runs, in C++. One header, one function.
//
//   int main() {
//     xplane_time::HarnessCode code;
//     code.device = "gpu:0";
//     code.device_class = "NVIDIA H100";
//     code.prepare = [](const std::string& variant, const std::string& params_json) {
//       return Build(variant, params_json);              // an error is a compile_error
//     };
//     code.run = [](const std::string& variant, const std::string& workload) {
//       return TimeOnce(variant);                        // picoseconds, or a runtime_error
//     };
//     return xplane_time::ServeHarness(code);            // until the driver says bye
//   }
//
//   $ xplane-time tune space.json -- ./harness
//
// The protocol is in docs/harness.md. Code that runs the loop in its own process implements
// Harness of tune.h instead. Not thread-safe: one call a process.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace xplane_time {

// Errors of these functions are failures of the variant: ResourceExhausted is oom,
// FailedPrecondition of `verify` wrong_result, Unavailable infra (the variant is not to blame), any
// other one compile_error of `prepare` and runtime_error of the others.
struct HarnessCode {
  std::string device = "cpu", device_class = "cpu";
  std::string clock = "wall";  // device, profile or wall: what `run` measures with
  std::string driver = {}, flags = {}, code_hash = {};
  std::string versions_json = "{}";
  // Compiles; the fingerprint is equal for equal programs, or empty. Needed.
  std::function<absl::StatusOr<std::string>(const std::string& variant,
                                            const std::string& params_json)>
      prepare = {};
  // Runs it once and compares with the reference. Where it is not set, `run` warms up.
  std::function<absl::Status(const std::string& variant)> verify = {};
  // Runs it once; picoseconds. Needed.
  std::function<absl::StatusOr<int64_t>(const std::string& variant, const std::string& workload)>
      run = {};
};

// The exit status for main: 0 after bye, 64 without a driver or with functions that are not
// set, 74 where the driver went away.
int ServeHarness(const HarnessCode& code);

}  // namespace xplane_time
