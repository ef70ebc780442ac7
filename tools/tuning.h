// What tune and grid have in common: the options of a harness, where devices are locked, and which
// exit codes errors have.
#pragma once

#include <string>
#include <utility>

#include "options.h"
#include "process.h"
#include "tune/process_harness.h"

namespace xplane_time::tools {

// A full disk is no bad trace.
inline constexpr std::pair<absl::StatusCode, int> kStoreExits[] = {
    {absl::StatusCode::kResourceExhausted, kExitIo}};
// Of bundles and other whole files.
inline constexpr std::pair<absl::StatusCode, int> kWriteExits[] = {
    {absl::StatusCode::kInternal, kExitCannotWrite}};
// What follows the name of a store in the names of its files.
inline constexpr const char* kStoreEnds[] = {"", "-wal", "-shm", "-journal", "-lock"};
inline constexpr std::pair<absl::StatusCode, int> kHarnessExits[] = {
    {absl::StatusCode::kPermissionDenied, kExitCannotWrite},  // a log, a lock
    {absl::StatusCode::kUnavailable, kExitNotThere},
    {absl::StatusCode::kNotFound, kExitNotThere}};

// --calls and the limits of time.
void AddHarnessLimits(const Heading& heading, ProcessHarnessOptions* harness);

// One file of locks a user, where nothing needs to be cleaned up.
std::string DeviceLocks();

// An incumbent or a baseline may be given by its parameters. Errors: InvalidArgument.
absl::StatusOr<std::string> IdOf(const char* option, const std::string& given);

}  // namespace xplane_time::tools
