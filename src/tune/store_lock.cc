#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tune/space_json.h"
#include "xplane_time/store.h"

namespace xplane_time {

// Open file description locks: they belong to the descriptor, so they also hold between two
// users within one process, and end with it. Each name has a byte of its own.
absl::StatusOr<FileLock> FileLock::Acquire(const std::string& path, std::string_view name) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) {
    const int error = errno;
    const std::string what = absl::StrCat(path, ": cannot be opened: ", std::strerror(error));
    const bool denied = error == EACCES || error == EROFS || error == EPERM;
    return denied ? absl::PermissionDeniedError(what) : absl::UnavailableError(what);
  }
  FileLock held(fd);
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  const std::string digits = tune::StableHash(name).substr(0, 15);  // 60 bits: below 2^63
  lock.l_start = static_cast<off_t>(std::strtoull(digits.c_str(), nullptr, 16));
  lock.l_len = 1;
  if (fcntl(fd, F_OFD_SETLK, &lock) == 0) return held;
  const int error = errno;
  if (error == EAGAIN || error == EACCES) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": \"", tune::Absl(name), "\" is locked by another user"));
  }
  return absl::UnavailableError(absl::StrCat(path, ": cannot be locked: ", std::strerror(error)));
}

FileLock::~FileLock() {
  if (fd_ >= 0) close(fd_);
}

FileLock::FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

}  // namespace xplane_time
