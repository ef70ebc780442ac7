// Reads whole files up to a limit, and writes whole files atomically: a file appears under its name
// only when it is complete.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace xplane_time::io {

// An error by errno: NotFound, PermissionDenied, or else Unavailable; "NAME: WHAT: why".
absl::Status IoError(const std::string& name, const char* what);

// Reads up to `size` bytes from `fd` until its end. Returns their number. -1: see errno.
ssize_t ReadFull(int fd, char* to, size_t size);

// The first `most` bytes of a file or pipe. nullopt: see errno.
std::optional<std::string> ReadFile(const std::string& path, size_t most = std::string::npos);

// All bytes of a file or pipe. Errors: those of IoError, InvalidArgument (a directory, or a device,
// which may be endless), ResourceExhausted (over `max_bytes`).
absl::StatusOr<std::string> ReadWholeFile(const std::string& path, size_t max_bytes);

// Writes all bytes. False: see errno; a part may have been written.
bool WriteAll(int fd, std::string_view bytes);

// Creates a temporary file beside `path` and sets `path` to its name. Its mode is that of a new
// file, but without bits that an existing file at `path` lacks. It is locked (flock) until all
// copies of the descriptor are closed; rename it before that. Temporary files of killed writers are
// removed first. -1: see errno.
int OpenBeside(std::string* path);

// Writes a file beside `path`, syncs it and renames it. Devices and pipes are written directly.
// Errors: Internal (cannot write), with the path; those of CheckReplacesNoDatabase.
absl::Status WriteWholeFile(const std::string& path, std::string_view bytes);

}  // namespace xplane_time::io
