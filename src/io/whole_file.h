// Files as a whole: read up to a limit; written so that they are complete under their name, or not
// there.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace xplane_time::io {

// By errno: NotFound, PermissionDenied, or else Unavailable; "NAME: WHAT: why".
absl::Status IoError(const std::string& name, const char* what);

// What `fd` has, until `size` bytes are there or it ends: how many are. -1: see errno.
ssize_t ReadFull(int fd, char* to, size_t size);

// The first `most` bytes of a file, or of what comes through a pipe. None: see errno.
std::optional<std::string> ReadFile(const std::string& path, size_t most = std::string::npos);

// All of a file, or of what comes through a pipe. Errors: those of IoError, InvalidArgument (a
// directory, or a device, which may have no end), ResourceExhausted (over `max_bytes`).
absl::StatusOr<std::string> ReadWholeFile(const std::string& path, size_t max_bytes);

// False: see errno. What was written before it stays.
bool WriteAll(int fd, std::string_view bytes);

// Makes a new file beside `path`; `path` becomes its name. It has the mode of any new file, but no
// bit that an existing file at `path` lacks. It is locked (flock) until all copies of the
// descriptor are closed: rename it before that. Such files of writers that were killed are removed
// first. -1: see errno.
int OpenBeside(std::string* path);

// Writes a file beside `path`, syncs it, and renames it; writes to a device or a pipe as it is.
// Errors: Internal (cannot write), with the path; of CheckReplacesNoDatabase.
absl::Status WriteWholeFile(const std::string& path, std::string_view bytes);

}  // namespace xplane_time::io
