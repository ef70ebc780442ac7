// Data sets that a Python library reads: a Python program converts them to JSON Lines.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "io/whole_file.h"
#include "scratch.h"
#include "status.h"
#include "workload/datasets.h"

namespace xplane_time {
namespace {

constexpr uint64_t kMaxConvertedBytes = uint64_t{8} << 30;
constexpr char kWayOut[] =
    "; Parquet and Hugging Face folders require Python 3.11 or newer with xplane-time and pyarrow: "
    "pip install xplane-time pyarrow (XPLANE_TIME_PYTHON sets the interpreter)";

// Starts Python with these descriptors as standard output and error. Returns an errno if it cannot
// start.
int Spawn(const std::string& python, const std::string& path, int out, int said, pid_t* pid) {
  // Without -P, Python would import modules from the current directory first, such as a pyarrow.py
  // beside a downloaded data set.
  std::array<std::string, 5> words = {python, "-P", "-m", "xplane_time.datasets",
                                      path.starts_with('-') ? "./" + path : path};
  std::array<char*, 6> argv = {};
  for (size_t i = 0; i < words.size(); ++i) argv[i] = words[i].data();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, said, STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t by_default;
  sigemptyset(&by_default);
  sigaddset(&by_default, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &by_default);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  const int error = posix_spawnp(pid, argv[0], &actions, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  return error;
}

// Copies everything, up to the limit. Errors: DataLoss (more), Internal (no space), Unavailable.
absl::Status Copy(int from, int to) {
  std::array<char, 1 << 16> buffer;
  for (uint64_t bytes = 0;;) {
    const ssize_t got = read(from, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Unavailable("cannot be read: ", std::strerror(errno));
    if (got == 0) return absl::OkStatus();
    bytes += static_cast<uint64_t>(got);
    if (bytes > kMaxConvertedBytes) return DataLoss("over 8 GiB as JSON Lines; use a part of it");
    if (!io::WriteAll(to, {buffer.data(), static_cast<size_t>(got)})) {
      return Internal("not enough space to convert it to JSON Lines: ", std::strerror(errno),
                      " (TMPDIR is ", ScratchFolder(), ")");
    }
  }
}

std::string LastLineOf(int file) {
  constexpr off_t kMostTail = 2000;
  const off_t size = lseek(file, 0, SEEK_END);
  lseek(file, std::max<off_t>(0, size - kMostTail), SEEK_SET);
  std::string tail(kMostTail, '\0');
  tail.resize(
      static_cast<size_t>(std::max<ssize_t>(0, io::ReadFull(file, tail.data(), kMostTail))));
  while (tail.ends_with('\n')) tail.pop_back();
  return tail.substr(tail.rfind('\n') + 1);
}

// The result of the program, by the exit codes of xplane_time.datasets (EXIT_...).
absl::Status EndOf(int wait_status, const std::string& said) {
  constexpr int kDamaged = 65;
  if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0) return absl::OkStatus();
  if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == kDamaged) return DataLoss(said);
  const std::string how =
      WIFSIGNALED(wait_status) ? Cat("Python was ended by signal ", WTERMSIG(wait_status)) : said;
  return FailedPrecondition(how.empty() ? "Python failed" : how, kWayOut);
}

}  // namespace

absl::StatusOr<io::Descriptor> ConvertByPython(const std::string& path, const std::string& python) {
  const char* const of_environment = std::getenv("XPLANE_TIME_PYTHON");
  const std::string otherwise =
      of_environment != nullptr && *of_environment != '\0' ? of_environment : "python3";
  const std::string& program = python.empty() ? otherwise : python;
  io::Descriptor lines(OpenScratchFile()), said(OpenScratchFile());
  std::array<int, 2> ends = {};
  if (!lines.open() || !said.open() || pipe2(ends.data(), O_CLOEXEC) != 0) {
    return Internal(path, ": cannot create a scratch file: ", std::strerror(errno), " (TMPDIR is ",
                    ScratchFolder(), ")");
  }
  io::Descriptor from(ends[0]), to(ends[1]);
  pid_t pid = 0;
  if (const int error = Spawn(program, path, to.get(), said.get(), &pid); error != 0) {
    return FailedPrecondition(path, ": ", program, ": ", std::strerror(error), kWayOut);
  }
  to.Close();
  const absl::Status copied = Copy(from.get(), lines.get());
  if (!copied.ok()) kill(pid, SIGKILL);
  int wait_status = 0;
  while (waitpid(pid, &wait_status, 0) < 0 && errno == EINTR) {
  }
  const absl::Status ended = copied.ok() ? EndOf(wait_status, LastLineOf(said.get())) : copied;
  if (!ended.ok()) return absl::Status(ended.code(), Cat(path, ": ", ended.message()));
  lseek(lines.get(), 0, SEEK_SET);
  return lines;
}

}  // namespace xplane_time
