// CrashVfs: a file system below SQLite that ends the process at its n-th change to a file.
//
//   in a child:  InstallCrashVfs(/*at=*/17, Crash::kPowerCut);  ... use SQLite ...
//   in the parent: the child died of SIGKILL, or it made less than 17 changes
//
// kKill: kill -9, what was written stays. kPowerCut: before the process dies every file gets
// back what it held when it was last flushed, and files never flushed go away: the worst
// that a power cut may do to a disk that keeps its promises. Changes counted: writes,
// flushes, cuts and deletions.
#pragma once

#include <cstdint>

namespace xplane_time::testing {

enum class Crash : uint8_t { kKill, kPowerCut };

void InstallCrashVfs(int at, Crash crash);

// So far, in this process.
int ChangesSeen();

}  // namespace xplane_time::testing
