#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "status.h"
#include "tune/space_json.h"
#include "xplane_time/store.h"

namespace xplane_time {
namespace {

// Where a name's lock is: 60 bits, below 2^63.
uint64_t ByteOf(std::string_view name) {
  const std::string digits = tune::StableHash(name).substr(0, 15);
  return std::strtoull(digits.c_str(), nullptr, 16);
}

// At the beginning of the file, who took a lock last: "BYTE PID", in one of so many places.
constexpr uint64_t kNotes = 1024;
constexpr size_t kNoteBytes = 32;

void Note(int fd, uint64_t byte) {
  std::string note = absl::StrCat(absl::Hex(byte, absl::kZeroPad16), " ", getpid());
  note.resize(kNoteBytes - 1, ' ');
  note.push_back('\n');
  const auto at = static_cast<off_t>(byte % kNotes * kNoteBytes);
  // A message says less where this fails.
  const ssize_t ignored = pwrite(fd, note.data(), note.size(), at);
  static_cast<void>(ignored);
}

}  // namespace

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
  const uint64_t byte = ByteOf(name);
  lock.l_start = static_cast<off_t>(byte);
  lock.l_len = 1;
  if (fcntl(fd, F_OFD_SETLK, &lock) == 0) {
    Note(fd, byte);
    return held;
  }
  const int error = errno;
  if (error == EAGAIN || error == EACCES) {
    return FailedPrecondition(path, ": \"", tune::Absl(name), "\" is locked by another user");
  }
  return Unavailable(path, ": cannot be locked: ", std::strerror(error));
}

// The kernel does not tell whose open file description a lock is.
std::string FileLock::HolderOf(const std::string& path, std::string_view name) {
  const std::string unknown = "another process";
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return unknown;
  const uint64_t byte = ByteOf(name);
  std::string note(kNoteBytes, ' ');
  const ssize_t got =
      pread(fd, note.data(), note.size(), static_cast<off_t>(byte % kNotes * kNoteBytes));
  close(fd);
  const std::string begin = absl::StrCat(absl::Hex(byte, absl::kZeroPad16), " ");
  if (got != static_cast<ssize_t>(kNoteBytes) || !note.starts_with(begin)) return unknown;
  const std::string pid = note.substr(begin.size(), note.find(' ', begin.size()) - begin.size());
  return absl::StrCat("process ", pid);
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
