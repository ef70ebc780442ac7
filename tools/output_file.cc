#include "output_file.h"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "io/whole_file.h"

namespace xplane_time::tools {
namespace {

// The temporary file there is, for signal handlers: a path, or "".
char unfinished[PATH_MAX] = "";

void SetUnfinished(const std::string& path) {
  if (path.size() < sizeof unfinished) std::memcpy(unfinished, path.c_str(), path.size() + 1);
}

// A new file beside `path`, made and known as unfinished in one step for signal handlers.
int MakeTemporary(std::string* path) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  const int fd = io::OpenBeside(path);
  const int error = errno;
  if (fd >= 0) SetUnfinished(*path);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return fd;
}

}  // namespace

void RemoveUnfinishedOutput() {
  if (unfinished[0] != '\0') unlink(unfinished);
}

absl::StatusOr<OutputFile> OutputFile::Open(const std::string& path) {
  if (path.empty()) return OutputFile(stdout, "", "");
  struct stat info;
  if (lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode)) {  // write where it leads
    std::error_code error;
    const std::string target = std::filesystem::canonical(path, error).string();
    if (!error) return Open(target);
  }
  if (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {  // a device or a pipe
    std::FILE* file = std::fopen(path.c_str(), "we");
    if (file != nullptr) return OutputFile(file, path, "");
  }
  std::string temporary = path;
  const int fd = MakeTemporary(&temporary);
  if (fd < 0) {
    return absl::InternalError(
        absl::StrCat(path, ": cannot write: ", std::strerror(errno), "; choose another place"));
  }
  return OutputFile(fdopen(fd, "w"), path, std::move(temporary));
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : file_(std::exchange(other.file_, nullptr)),
      path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, "")),
      failed_(other.failed_) {}

absl::Status OutputFile::Check(const std::string& path) {
  for (const char* suffix : {".xplane.pb", ".xplane.pb.gz", ".xspace.pb", ".xspace.pb.gz"}) {
    if (absl::EndsWith(path, suffix)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "-o ", path, ": would be read as a trace; give it another suffix than ", suffix));
    }
  }
  struct stat info;
  const bool exists = !path.empty() && stat(path.c_str(), &info) == 0;
  if (path.empty() || (exists && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode))) {
    return absl::OkStatus();
  }
  if (exists && S_ISDIR(info.st_mode)) {
    return absl::InternalError(
        absl::StrCat(path, ": cannot write: ", std::strerror(EISDIR), "; choose another place"));
  }
  return Open(path).status();
}

OutputFile::~OutputFile() {
  if (file_ != nullptr && file_ != stdout) std::fclose(file_);
  if (temporary_.empty()) return;
  unlink(temporary_.c_str());
  SetUnfinished("");
}

absl::Status OutputFile::WriteError() {
  failed_ = true;
  if (errno == EPIPE) return absl::AbortedError("the reader closed the pipe");
  return absl::InternalError(absl::StrCat(path_.empty() ? "standard output" : path_,
                                          ": cannot write: ", std::strerror(errno)));
}

absl::Status OutputFile::Write(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), file_) != text.size()) return WriteError();
  return absl::OkStatus();
}

absl::Status OutputFile::Commit() {
  if (std::fflush(file_) != 0) return WriteError();
  if (temporary_.empty()) return absl::OkStatus();
  std::FILE* file = std::exchange(file_, nullptr);
  if (std::fclose(file) != 0 || std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    return WriteError();
  }
  temporary_.clear();
  SetUnfinished("");
  return absl::OkStatus();
}

}  // namespace xplane_time::tools
