// A file written as a whole: complete under its name, or not there.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace xplane_time::io {

// By errno: NotFound, PermissionDenied, or else Unavailable; "NAME: WHAT: why".
absl::Status IoError(const std::string& name, const char* what);

// False: see errno. What was written before it stays.
bool WriteAll(int fd, std::string_view bytes);

// A new file beside `path`, with the rights of any new file; `path` becomes its name. -1: see
// errno.
int OpenBeside(std::string* path);

// Written beside `path`, synced, and renamed. Errors: Internal (cannot write), with the path.
absl::Status WriteWholeFile(const std::string& path, std::string_view bytes);

// A rename in it is kept over a crash once this returns, where the file system can.
void SyncDirectory(const std::string& directory);

}  // namespace xplane_time::io
