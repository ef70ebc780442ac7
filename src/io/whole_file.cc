#include "io/whole_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "status.h"

namespace xplane_time::io {
namespace {

absl::Status CannotWrite(const std::string& path, int error) {
  const char* way_out =
      error == ENOENT || error == ENOTDIR ? "; make its directory, or choose another path" : "";
  return Internal(path, ": cannot write: ", std::strerror(error), way_out);
}

}  // namespace

absl::Status IoError(const std::string& name, const char* what) {
  const std::string message = Cat(name, ": ", what, ": ", std::strerror(errno));
  if (errno == ENOENT || errno == ENOTDIR) return NotFound(message);
  if (errno == EACCES || errno == EPERM) return PermissionDenied(message);
  return Unavailable(message);
}

bool WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = TEMP_FAILURE_RETRY(write(fd, bytes.data(), bytes.size()));
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

int OpenBeside(std::string* path) {
  *path += ".XXXXXX";
  const int fd = mkostemp(path->data(), O_CLOEXEC);
  if (fd < 0) return fd;
  const mode_t mask = umask(0);
  umask(mask);
  fchmod(fd, 0666 & ~mask);
  return fd;
}

void SyncDirectory(const std::string& directory) {
  const int fd =
      open(directory.empty() ? "." : directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  fsync(fd);
  close(fd);
}

absl::Status WriteWholeFile(const std::string& path, std::string_view bytes) {
  std::string temporary = path;
  const int fd = OpenBeside(&temporary);
  if (fd < 0) return CannotWrite(path, errno);
  int error = WriteAll(fd, bytes) && fsync(fd) == 0 ? 0 : errno;
  if (close(fd) != 0 && error == 0) error = errno;
  if (error == 0 && std::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) {
    unlink(temporary.c_str());
    return CannotWrite(path, error);
  }
  SyncDirectory(std::filesystem::path(path).parent_path().string());
  return absl::OkStatus();
}

}  // namespace xplane_time::io
