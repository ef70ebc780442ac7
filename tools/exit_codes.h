// Exit codes: what a script sees of a command. Those of verdicts are in compare.h and pick.h.
//
//   return WithExits(TuneStore::Open(path, {}), kStoreExits);   // a full disk is no bad trace
#pragma once

#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace xplane_time::tools {

inline constexpr int kExitTooLittle = 12, kExitAllFailed = 20, kExitWrong = 21, kExitUsage = 64,
                     kExitBadTrace = 65, kExitNoInput = 66,
                     kExitNotThere = 69,  // a harness, a command or a sensor
    kExitBug = 70, kExitCannotWrite = 73, kExitIo = 74, kExitStopped = 75, kExitInterrupted = 130;

// The same error with an exit code of its own, where it has none yet. 0: it ends quietly.
absl::Status WithExit(absl::Status error, int exit_code);

// What an error of a kind means where it comes from.
using Exits = std::span<const std::pair<absl::StatusCode, int>>;
absl::Status WithExits(absl::Status status, Exits exits);
template <typename T>
absl::StatusOr<T> WithExits(absl::StatusOr<T> value, Exits exits) {
  if (value.ok()) return value;
  return WithExits(value.status(), exits);
}

// Prints why on standard error; returns the exit code: its own, or that of its kind.
int Fail(const absl::Status& error);

}  // namespace xplane_time::tools
