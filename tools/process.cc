// Exit codes, signals, and commands that the program runs.
//
// RunMeasured runs the user's command with our standard streams and signals. Signals to us are
// passed on, except for those from the terminal, which the kernel sends to the whole group. Signals
// are blocked while the command is started, so none is lost. As a subreaper, this process adopts
// processes that the command leaves behind, so that daemons are detected.
//
// SwitchedCommand stops and continues a whole process group with SIGSTOP and SIGCONT.
#include "process.h"

#include <spawn.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "output/text.h"
#include "power/sysfs.h"
#include "status.h"

namespace xplane_time::tools {
namespace {

constexpr char kPayload[] = "xplane-time/exit-code";

constexpr std::pair<absl::StatusCode, int> kUsual[] = {
    {absl::StatusCode::kInvalidArgument, kExitUsage},
    {absl::StatusCode::kNotFound, kExitNoInput},
    {absl::StatusCode::kDataLoss, kExitBadTrace},
    {absl::StatusCode::kFailedPrecondition, kExitBadTrace},
    {absl::StatusCode::kResourceExhausted, kExitBadTrace},
    {absl::StatusCode::kPermissionDenied, kExitIo},
    {absl::StatusCode::kUnavailable, kExitIo}};

constexpr int kNotFound = 127, kCannotRun = 126, kSignalBase = 128;

std::atomic<pid_t> running{0};
std::atomic<int> received{0};  // the first signal that stops this program

constexpr std::array kPassedOn = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

bool IsIgnored(int signal) {
  struct sigaction now = {};
  return sigaction(signal, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) == 0 &&
         now.sa_handler == SIG_IGN;
}

// A key of the terminal already reaches the command directly.
void OnSignal(int signal, siginfo_t* info, void* /*context*/) {
  const bool from_terminal = info->si_code == SI_KERNEL;
  const bool stops = signal != SIGUSR1 && signal != SIGUSR2;
  int none = 0;
  if (stops) received.compare_exchange_strong(none, signal);
  const pid_t pid = running.load();
  if (pid > 0 && !from_terminal) kill(pid, signal);
}

CommandEnd NeverRan(int why) {
  return {.exit_code = why == ENOENT ? kNotFound : kCannotRun, .start_errno = why};
}

// The file that execvp would run; an errno if there is none.
int Find(const std::string& program, std::string* file) {
  const char* path = std::getenv("PATH");
  if (path == nullptr) path = "/bin:/usr/bin";  // like execvp
  const bool searched = program.find('/') == std::string::npos;
  int why = ENOENT;
  if (program.empty()) return why;
  for (const absl::string_view folder : absl::StrSplit(searched ? path : "", ':')) {
    *file = folder.empty() ? program : absl::StrCat(folder, "/", program);
    if (access(file->c_str(), X_OK) == 0) {
      std::error_code ignored;
      if (std::filesystem::is_regular_file(*file, ignored)) return 0;
      errno = EACCES;
    }
    if (!searched || (errno != ENOENT && errno != ENOTDIR)) why = errno;
  }
  return why;
}

// Starts a command with the signal dispositions that it would have without this program. Returns an
// errno on failure. With `switched`, the command gets its own group, and its output goes to
// standard error.
int Spawn(const std::vector<std::string>& command, const sigset_t& mask, bool switched,
          pid_t* pid) {
  sigset_t by_default;
  sigemptyset(&by_default);
  for (const int signal : {SIGPIPE, SIGXFSZ, SIGBUS}) sigaddset(&by_default, signal);
  for (const int signal : kPassedOn) {
    if (!IsIgnored(signal)) sigaddset(&by_default, signal);
  }
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  const int group = switched ? POSIX_SPAWN_SETPGROUP : 0;
  posix_spawnattr_setflags(
      &attributes, static_cast<short>(POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | group));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (switched) posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  posix_spawnattr_setsigdefault(&attributes, &by_default);
  posix_spawnattr_setsigmask(&attributes, &mask);
  std::vector<std::string> words = command;
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  int error = posix_spawnp(pid, argv[0], &actions, &attributes, argv.data(), environ);
  if (error == ENOEXEC && Find(command[0], words.data()) == 0) {  // a script without #!
    std::string shell = "/bin/sh";
    argv[0] = words[0].data();
    argv.insert(argv.begin(), shell.data());
    error = posix_spawn(pid, argv[0], &actions, &attributes, argv.data(), environ);
  }
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  return error;
}

}  // namespace

absl::Status WithExit(absl::Status error, int exit_code) {
  if (!error.ok() && !error.GetPayload(kPayload).has_value()) {
    error.SetPayload(kPayload, absl::Cord(absl::StrCat(exit_code)));
  }
  return error;
}

absl::Status WithExits(absl::Status status, Exits exits) {
  for (const auto& [kind, exit_code] : exits) {
    if (status.code() == kind) return WithExit(std::move(status), exit_code);
  }
  return status;
}

void Tell(std::string_view message) {
  std::fprintf(stderr, "xplane-time: %s\n", output::Printable(message).c_str());
}

int Fail(const absl::Status& error) {
  int exit_code = kExitBug;
  const auto own = WithExits(error, kUsual).GetPayload(kPayload);
  if (own.has_value() && !absl::SimpleAtoi(std::string(*own), &exit_code)) return kExitBug;
  if (exit_code == 0) return 0;
  const std::string message(error.message());
  // A harness's traceback keeps its lines.
  const bool traceback = absl::StrContains(message, "Traceback (most recent call last)");
  if (!traceback) {
    Tell(message);
  } else {
    std::fprintf(stderr, "xplane-time: %s\n", output::PrintableLines(message, 2).c_str());
  }
  return exit_code;
}

void OnStopSignals(void (*handler)(int)) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    if (!IsIgnored(signal)) std::signal(signal, handler);
  }
}

void RememberStopSignals() {
  OnStopSignals([](int signal) { received = signal; });
}

void PassSignalsOn() {
  struct sigaction action = {};
  action.sa_sigaction = OnSignal;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  for (const int signal : kPassedOn) {
    if (!IsIgnored(signal)) sigaction(signal, &action, nullptr);
  }
}

bool IsStopped() { return received.load() != 0; }

std::optional<CommandEnd> CannotStart(const std::string& program) {
  std::string file;
  const int why = Find(program, &file);
  return why == 0 ? std::nullopt : std::optional(NeverRan(why));
}

CommandEnd RunMeasured(const std::vector<std::string>& command) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // this process adopts descendants of the command
  // Blocked until the receiver is known, so that no signal is lost.
  sigset_t held, before;
  sigemptyset(&held);
  for (const int signal : kPassedOn) sigaddset(&held, signal);
  pthread_sigmask(SIG_BLOCK, &held, &before);
  pid_t pid = 0;
  const int start_errno = Spawn(command, before, /*switched=*/false, &pid);
  if (start_errno == 0) {
    running = pid;
    if (received.load() != 0)
      kill(pid, received.load());  // it arrived before the command was
                                   // started
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (start_errno != 0) return NeverRan(start_errno);
  const auto own = power::FieldOf(power::ReadText("/proc/self/status", 1 << 14), "VmHWM");
  int status = 0;
  rusage used = {};
  while (wait4(pid, &status, 0, &used) < 0 && errno == EINTR) {
  }
  running = 0;
  CommandEnd end;
  constexpr int64_t kBytesPerUnit = 1024;
  const int64_t peak_bytes = int64_t{used.ru_maxrss} * kBytesPerUnit;
  // The kernel's counts are off by some pages for each processor.
  if (own.value && peak_bytes > *own.value + *own.value / 8) end.peak_rss_bytes = peak_bytes;
  end.exit_code = WIFSIGNALED(status) ? kSignalBase + WTERMSIG(status) : WEXITSTATUS(status);
  end.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  pid_t other = 0;
  do {
    other = waitpid(-1, nullptr, WNOHANG);  // reap those that have ended
  } while (other > 0);
  end.left_behind = other == 0;
  return end;
}

absl::StatusOr<SwitchedCommand> SwitchedCommand::Start(const std::vector<std::string>& command,
                                                       double most_s) {
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  pid_t pid = 0;
  if (const int why = Spawn(command, mask, /*switched=*/true, &pid); why != 0) {
    return NotFound(command[0], ": cannot start: ", std::strerror(why));
  }
  SwitchedCommand started(pid);
  constexpr double kLookS = 0.02;
  for (double waited_s = 0; waited_s < most_s; waited_s += kLookS) {
    int status = 0;
    if (waitpid(pid, &status, WNOHANG | WUNTRACED) == pid && WIFSTOPPED(status)) break;
    if (started.HasEnded()) {
      return FailedPrecondition(command[0], ": the command ended before it was measured");
    }
    if (!SleepUnlessStopped(kLookS)) return Cancelled("interrupted");
  }
  started.Switch(false);
  return started;
}

SwitchedCommand::~SwitchedCommand() {
  if (pid_ == 0) return;
  kill(-pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void SwitchedCommand::Switch(bool on) const { kill(-pid_, on ? SIGCONT : SIGSTOP); }

bool SwitchedCommand::HasEnded() const {
  siginfo_t info = {};
  return waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
         info.si_pid != 0;
}

bool SleepUnlessStopped(double seconds) {
  // A signal that another thread receives, or that arrives just before the sleep, does not end the
  // sleep, so each sleep is short.
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::nanoseconds kLongest = std::chrono::milliseconds(50);
  const auto end = Clock::now() + std::chrono::nanoseconds(std::llround(seconds * 1e9));
  while (!IsStopped()) {
    const std::chrono::nanoseconds left = end - Clock::now();
    if (left.count() <= 0) return true;
    std::this_thread::sleep_for(std::min(left, kLongest));
  }
  return false;
}

}  // namespace xplane_time::tools
