// Conflicts between files, and outputs that are complete or absent.
//
// FileRoles collects the files that a command reads and writes, with the user's names for them.
// CheckConflicts compares their identities (IdentityOf): device and inode, or the future path of a
// missing file.
//
// OutputFile writes to a locked temporary file beside the target and renames it in Commit. Signal
// handlers remove the temporary file; its name is set while all signals are blocked, so that no
// file is left behind.
#include "files.h"

#include <fcntl.h>
#include <pthread.h>
#include <re2/re2.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <map>
#include <span>

#include "io/database_file.h"
#include "io/whole_file.h"
#include "process.h"
#include "read/internals.h"
#include "status.h"

namespace xplane_time::tools {
namespace {

namespace fs = std::filesystem;

// The identity of a regular file, or of a file that will be created, even through dangling links.
// Empty for devices, pipes and terminals.
std::string IdentityOf(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) == 0) {
    return S_ISREG(info.st_mode) ? absl::StrCat(info.st_dev, ":", info.st_ino) : "";
  }
  constexpr int kMostLinks = 40;
  std::error_code error;
  fs::path at = fs::absolute(path, error);
  for (int i = 0; i < kMostLinks && fs::is_symlink(fs::symlink_status(at, error)); ++i) {
    at = at.parent_path() / fs::read_symlink(at, error);
  }
  const fs::path target = fs::weakly_canonical(at, error);
  return error ? at.lexically_normal().string() : target.string();
}

// The current temporary file, for signal handlers: a path, or "".
char unfinished_path[PATH_MAX] = "";

void SetUnfinished(const std::string& path) {
  if (path.size() < sizeof unfinished_path)
    std::memcpy(unfinished_path, path.c_str(), path.size() + 1);
}

// Creates a file beside `path` and registers it for signal handlers in one step.
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

constexpr char kElsewhere[] = "; choose another place";

// The error for errno.
absl::Status CannotWrite(const std::string& what, const char* way_out) {
  return WithExit(Internal(what, ": cannot write: ", std::strerror(errno), way_out),
                  kExitCannotWrite);
}

}  // namespace

void FileRoles::Reads(const std::string& what, const std::string& path) {
  if (!path.empty()) read_.push_back({what, path, path});
}

void FileRoles::ReadsTraces(const std::string& what, const std::vector<std::string>& paths,
                            const FindOptions& find) {
  for (const std::string& path : paths) {
    std::error_code ignored;
    if (path == "-") {
      read_.push_back({what, what, "/dev/stdin"});
    } else if (!fs::is_directory(path, ignored)) {
      Reads(what, path);
    } else if (const auto inputs = FindInputs(std::span(&path, 1), find); inputs.ok()) {
      for (const Input& input : *inputs) Reads(what, input.path);
    }
  }
}

void FileRoles::ReadsReplayed(const std::vector<std::string>& sources) {
  constexpr std::string_view kReplay = "replay:";
  for (const std::string& source : sources) {
    if (source.starts_with(kReplay)) Reads("--source", source.substr(kReplay.size()));
  }
}

void FileRoles::Writes(const std::string& what, const std::string& path) {
  if (!path.empty()) written_.push_back({what, path, path == "-" ? "/dev/stdout" : path});
}

void FileRoles::WritesBelow(const std::string& what, const std::string& folder) {
  folders_.push_back({what, folder, folder});
}

void FileRoles::Prints(const std::string& what, const std::string& path) {
  Writes(what, path);
  results_.push_back(path);
}

void FileRoles::PrintsOutput(const std::string& path) {
  Prints("--output", path);
  if (path.empty()) written_.push_back({"standard output", "standard output", "/dev/stdout"});
}

absl::Status FileRoles::CheckFolders() const {
  std::error_code ignored;
  for (const Role& folder : folders_) {
    const fs::path below = fs::weakly_canonical(folder.at, ignored);
    for (const auto* const roles : {&read_, &written_}) {
      for (const Role& role : *roles) {
        const fs::path file = fs::weakly_canonical(role.at, ignored);
        if (std::ranges::mismatch(below, file).in1 != below.end()) continue;
        return InvalidArgument(role.what, " ", role.path, ": is in ", folder.path, "; ",
                               folder.what, " writes its own files there; use another path");
      }
    }
  }
  return absl::OkStatus();
}

absl::Status FileRoles::CheckConflicts() const {
  RETURN_IF_ERROR(CheckFolders());
  std::map<std::string, Role> seen;
  for (const Role& role : read_) seen.emplace(IdentityOf(role.at), role);
  seen.erase("");
  for (const Role& role : written_) {
    const std::string identity = IdentityOf(role.at);
    if (identity.empty()) continue;
    const auto [other, is_new] = seen.emplace(identity, role);
    if (is_new) continue;
    return InvalidArgument(role.what, " and ", other->second.what, " refer to the same file, ",
                           other->second.path, "; use different files");
  }
  return absl::OkStatus();
}

absl::Status FileRoles::CheckResults() const {
  for (const std::string& path : results_) RETURN_IF_ERROR(OutputFile::Check(path));
  return absl::OkStatus();
}

std::optional<int> StreamOf(const std::string& path) {
  if (path.empty() || path == "-" || path == "/dev/stdout") return STDOUT_FILENO;
  if (path == "/dev/stderr") return STDERR_FILENO;
  int fd = 0;
  return RE2::FullMatch(path, "(?:/dev|/proc/self)/fd/([0-9]+)", &fd) ? std::optional(fd)
                                                                      : std::nullopt;
}

void RemoveUnfinishedOutput() {
  if (unfinished_path[0] != '\0') unlink(unfinished_path);
}

absl::StatusOr<OutputFile> OutputFile::Open(const std::string& path) {
  if (const std::optional<int> stream = StreamOf(path)) {
    // Opening the path would write from the start of the file.
    std::FILE* file = *stream == STDOUT_FILENO ? stdout : fdopen(dup(*stream), "w");
    if (file == nullptr) return CannotWrite(path, kElsewhere);
    return OutputFile(file, path, "");
  }
  std::error_code error;
  if (fs::is_symlink(path, error)) {  // write to the link's target
    const fs::file_status at = fs::status(path, error);
    errno = error.value();
    if (!fs::status_known(at)) return CannotWrite(path, kElsewhere);  // cyclic links
    return Open(fs::path(path).parent_path() / fs::read_symlink(path, error));
  }
  if (fs::is_other(path, error)) {  // a device or a pipe
    std::FILE* file = std::fopen(path.c_str(), "we");
    if (file == nullptr) return CannotWrite(path, kElsewhere);
    return OutputFile(file, path, "");
  }
  RETURN_IF_ERROR(WithExit(io::CheckReplacesNoDatabase(path), kExitCannotWrite));
  std::string temporary = path;
  const int fd = MakeTemporary(&temporary);
  if (fd < 0) return CannotWrite(path, kElsewhere);
  const int lock = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  return OutputFile(fdopen(fd, "w"), path, std::move(temporary), lock);
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : file_(std::exchange(other.file_, nullptr)),
      lock_(std::move(other.lock_)),
      path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, "")) {}

absl::Status OutputFile::Check(const std::string& path) {
  if (const std::string suffix = TraceSuffix(path); !suffix.empty()) {
    return WithExit(
        InvalidArgument("-o ", path,
                        ": would be read as a trace because of its suffix; use another ",
                        "suffix than ", suffix),
        kExitCannotWrite);
  }
  std::error_code ignored;
  if (fs::is_other(path, ignored)) return absl::OkStatus();
  if (!fs::is_directory(path, ignored)) return Open(path).status();
  errno = EISDIR;
  return CannotWrite(path, kElsewhere);
}

OutputFile::~OutputFile() {
  if (file_ != nullptr && file_ != stdout) std::fclose(file_);
  if (temporary_.empty()) return;
  unlink(temporary_.c_str());
  SetUnfinished("");
}

absl::Status OutputFile::WriteError() const {
  if (errno == EPIPE) return WithExit(absl::AbortedError("the reader closed the pipe"), 0);
  return CannotWrite(file_ == stdout ? "standard output" : path_, "");
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

absl::Status WriteText(const std::string& path, std::string_view text) {
  ASSIGN_OR_RETURN(OutputFile out, OutputFile::Open(path));
  absl::Status status = out.Write(text);
  if (status.ok()) status = out.Commit();
  return absl::IsAborted(status) ? absl::OkStatus() : status;
}

}  // namespace xplane_time::tools
