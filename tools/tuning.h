// The common part of tune and grid: options of a harness, locks of devices, and exit codes of
// errors.
#pragma once

#include <string>
#include <utility>

#include "options.h"
#include "process.h"
#include "tune/process_harness.h"

namespace xplane_time::tools {

// A full disk is not a bad trace.
inline constexpr std::pair<absl::StatusCode, int> kStoreExits[] = {
    {absl::StatusCode::kResourceExhausted, kExitIo}};
// For bundles and other whole files.
inline constexpr std::pair<absl::StatusCode, int> kWriteExits[] = {
    {absl::StatusCode::kInternal, kExitCannotWrite}};
// Suffixes of the files that belong to a store.
inline constexpr const char* kStoreEnds[] = {"", "-wal", "-shm", "-journal", "-lock"};
inline constexpr std::pair<absl::StatusCode, int> kHarnessExits[] = {
    {absl::StatusCode::kPermissionDenied, kExitCannotWrite},  // a log, a lock
    {absl::StatusCode::kUnavailable, kExitNotThere},
    {absl::StatusCode::kNotFound, kExitNotThere}};

// --calls and the time limits.
void AddHarnessLimits(const Heading& heading, ProcessHarnessOptions* harness);

// One lock file for each user, which need not be removed.
std::string DeviceLocks();

// The id of an incumbent or baseline, which may be given by its parameters. Errors:
// InvalidArgument.
absl::StatusOr<std::string> IdOf(const char* option, const std::string& given);

}  // namespace xplane_time::tools
