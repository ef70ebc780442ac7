#include "io/whole_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>

#include "io/database_file.h"
#include "io/descriptor.h"
#include "status.h"

namespace xplane_time::io {
namespace {

absl::Status CannotWrite(const std::string& path) {
  const char* way_out =
      errno == ENOENT || errno == ENOTDIR ? "; create its directory, or choose another path" : "";
  return Internal(path, ": cannot write: ", std::strerror(errno), way_out);
}

}  // namespace

absl::Status IoError(const std::string& name, const char* what) {
  const std::string message = Cat(name, ": ", what, ": ", std::strerror(errno));
  if (errno == ENOENT || errno == ENOTDIR) return NotFound(message);
  if (errno == EACCES || errno == EPERM || errno == EROFS) return PermissionDenied(message);
  return Unavailable(message);
}

ssize_t ReadFull(int fd, char* to, size_t size) {
  size_t filled = 0;
  while (filled < size) {
    const ssize_t got = TEMP_FAILURE_RETRY(read(fd, to + filled, size - filled));
    if (got < 0) return got;
    if (got == 0) break;
    filled += static_cast<size_t>(got);
  }
  return static_cast<ssize_t>(filled);
}

std::optional<std::string> ReadFile(const std::string& path, size_t most) {
  constexpr size_t kChunk = size_t{1} << 16;
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.open()) return std::nullopt;
  std::string text;
  for (size_t size = 0; size < most;) {
    const size_t wanted = std::min(most - size, std::max(size, kChunk));
    text.resize(size + wanted);
    const ssize_t got = ReadFull(file.get(), text.data() + size, wanted);
    if (got < 0) return std::nullopt;
    size += static_cast<size_t>(got);
    text.resize(size);
    if (static_cast<size_t>(got) < wanted) break;
  }
  return text;
}

absl::StatusOr<std::string> ReadWholeFile(const std::string& path, size_t max_bytes) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) return IoError(path, "cannot read");
  const bool is_device = S_ISBLK(info.st_mode) || S_ISCHR(info.st_mode);
  if (is_device || S_ISDIR(info.st_mode)) {
    return InvalidArgument(path, is_device ? ": this is a device" : ": this is a directory",
                           "; give a file");
  }
  std::optional<std::string> text = ReadFile(path, max_bytes + 1);
  if (!text.has_value()) return IoError(path, "cannot read");
  if (text->size() > max_bytes) {
    return ResourceExhausted(path, ": larger than ", max_bytes >> 20, " MiB");
  }
  return *std::move(text);
}

bool WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = TEMP_FAILURE_RETRY(write(fd, bytes.data(), bytes.size()));
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

namespace {

// A temporary file is named NAME.xplane-XXXXXX, and is locked while its writer lives.
constexpr std::string_view kTemporary = ".xplane-", kRandom = "XXXXXX";

bool Lock(int fd) { return flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK; }

// Removes the temporary files of `path` that killed writers left.
void RemoveLeftovers(const std::string& path) {
  const std::filesystem::path target(path);
  const std::string directory = target.parent_path().empty() ? "." : target.parent_path().string();
  const std::string begin = Cat(target.filename().string(), kTemporary);
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(opendir(directory.c_str()), closedir);
  if (entries == nullptr) return;
  while (const dirent* entry = readdir(entries.get())) {
    const std::string_view name = entry->d_name;
    if (!name.starts_with(begin) || name.size() != begin.size() + kRandom.size()) continue;
    const std::string leftover = Cat(directory, "/", name);
    const Descriptor file(open(leftover.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat info = {};
    const bool is_ours = file.open() && fstat(file.get(), &info) == 0 && S_ISREG(info.st_mode) &&
                         info.st_uid == geteuid();
    if (is_ours && flock(file.get(), LOCK_EX | LOCK_NB) == 0) unlink(leftover.c_str());
  }
}

}  // namespace

int OpenBeside(std::string* path) {
  RemoveLeftovers(*path);
  const mode_t mask = umask(0);
  umask(mask);
  mode_t mode = 0666 & ~mask;
  struct stat before = {};
  if (stat(path->c_str(), &before) == 0 && S_ISREG(before.st_mode)) mode &= before.st_mode;
  constexpr int kAttempts = 100;
  for (int i = 0; i < kAttempts; ++i) {
    std::string temporary = Cat(*path, kTemporary, kRandom);
    Descriptor file(mkostemp(temporary.data(), O_CLOEXEC));
    if (!file.open()) return -1;
    // Before it was locked, another writer may have removed it as a leftover.
    struct stat made = {};
    if (!Lock(file.get()) || fstat(file.get(), &made) != 0 || made.st_nlink == 0) continue;
    fchmod(file.get(), mode);
    *path = std::move(temporary);
    return file.Release();
  }
  errno = EBUSY;
  return -1;
}

absl::Status WriteWholeFile(const std::string& path, std::string_view bytes) {
  std::error_code ignored;
  if (std::filesystem::is_other(path, ignored)) {
    const Descriptor device(open(path.c_str(), O_WRONLY | O_CLOEXEC));
    return device.open() && WriteAll(device.get(), bytes) ? absl::OkStatus() : CannotWrite(path);
  }
  RETURN_IF_ERROR(CheckReplacesNoDatabase(path));
  std::string temporary = path;
  const Descriptor file(OpenBeside(&temporary));
  if (!file.open()) return CannotWrite(path);
  if (!WriteAll(file.get(), bytes) || fsync(file.get()) != 0 ||
      std::rename(temporary.c_str(), path.c_str()) != 0) {
    const absl::Status failed = CannotWrite(path);
    unlink(temporary.c_str());
    return failed;
  }
  // Syncs the directory, so that the new name survives a crash if the file system supports that.
  const std::string directory = std::filesystem::path(path).parent_path().string();
  const Descriptor folder(open(directory.empty() ? "." : directory.c_str(), O_RDONLY | O_CLOEXEC));
  fsync(folder.get());
  return absl::OkStatus();
}

}  // namespace xplane_time::io
