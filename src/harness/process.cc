#include "harness/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

extern char** environ;

namespace xplane_time {
namespace {

using std::chrono::milliseconds;

constexpr size_t kMostLineBytes = size_t{64} << 20;
constexpr size_t kTailBytes = 2000;
constexpr milliseconds kSlice(50);  // how often `stopped` is asked

struct Pipe {
  int read = -1, write = -1;
};

absl::StatusOr<Pipe> MakePipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return absl::UnavailableError(absl::StrCat("no pipe for the harness: ", strerror(errno)));
  }
  return Pipe{ends[0], ends[1]};
}

void CloseIfOpen(int* fd) {
  if (*fd >= 0) close(*fd);
  *fd = -1;
}

// The environment of the child: ours, and the numbers of its pipes.
std::vector<std::string> ChildEnvironment(std::string_view role, int in, int out) {
  const std::string prefix = absl::StrCat(
      "XPLANE_TIME_", absl::AsciiStrToUpper(absl::string_view(role.data(), role.size())), "_");
  std::vector<std::string> variables;
  for (char** each = environ; *each != nullptr; ++each) {
    if (!std::string_view(*each).starts_with(prefix)) variables.emplace_back(*each);
  }
  variables.push_back(absl::StrCat(prefix, "IN=", in));
  variables.push_back(absl::StrCat(prefix, "OUT=", out));
  return variables;
}

std::vector<char*> Pointers(std::vector<std::string>* texts) {
  std::vector<char*> pointers;
  for (std::string& text : *texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// After fork: only what is safe there. `failed` gets errno where the program cannot start.
[[noreturn]] void BecomeHarness(char* const* argv, char* const* environment, int in, int out,
                                int printed, int failed, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  for (const int signal : {SIGPIPE, SIGXFSZ, SIGBUS, SIGINT, SIGTERM, SIGHUP}) {
    std::signal(signal, SIG_DFL);
  }
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  dup2(printed, STDOUT_FILENO);
  dup2(printed, STDERR_FILENO);
  fcntl(in, F_SETFD, 0);
  fcntl(out, F_SETFD, 0);
  execvpe(argv[0], argv, environment);
  const int error = errno;
  const ssize_t ignored = write(failed, &error, sizeof error);
  static_cast<void>(ignored);
  _exit(127);
}

std::string HowItEnded(int wait_status) {
  if (WIFEXITED(wait_status)) return absl::StrCat("exit ", WEXITSTATUS(wait_status));
  const int signal = WTERMSIG(wait_status);
  return absl::StrCat("signal ", signal, " (", strsignal(signal), ")");
}

}  // namespace

absl::StatusOr<HarnessProcess> HarnessProcess::Start(const Options& options) {
  HarnessProcess harness;
  harness.stopped_ = options.stopped;
  harness.role_ = options.role;
  if (!options.log_path.empty()) {
    harness.log_ = open(options.log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (harness.log_ < 0) {
      return absl::UnavailableError(absl::StrCat(options.log_path, ": cannot write the ",
                                                 options.role, "'s log: ", strerror(errno)));
    }
  }
  std::array<Pipe, 4> pipes;  // to it, from it, printed, failed
  for (Pipe& each : pipes) {
    auto made = MakePipe();
    if (!made.ok()) return made.status();
    each = *made;
  }
  auto& [to, from, printed, failed] = pipes;
  std::vector<std::string> command = options.command;
  std::vector<std::string> variables = ChildEnvironment(options.role, to.read, from.write);
  const std::vector<char*> argv = Pointers(&command), environment = Pointers(&variables);
  const pid_t parent = getpid();
  harness.pid_ = fork();
  if (harness.pid_ == 0) {
    BecomeHarness(argv.data(), environment.data(), to.read, from.write, printed.write, failed.write,
                  parent);
  }
  for (int* fd : {&to.read, &from.write, &printed.write, &failed.write}) CloseIfOpen(fd);
  harness.to_ = to.write;
  harness.from_ = from.read;
  harness.printed_ = printed.read;
  int error = 0;
  const bool started = harness.pid_ > 0 && read(failed.read, &error, sizeof error) == 0;
  CloseIfOpen(&failed.read);
  if (harness.pid_ < 0) {
    return absl::UnavailableError(
        absl::StrCat("no process for the ", options.role, ": ", strerror(errno)));
  }
  if (!started) {
    return absl::NotFoundError(absl::StrCat(options.command[0], ": the ", options.role,
                                            " cannot be started: ", strerror(error)));
  }
  for (const int fd : {harness.to_, harness.from_, harness.printed_}) {
    fcntl(fd, F_SETFL, O_NONBLOCK);
  }
  return harness;
}

HarnessProcess::HarnessProcess(HarnessProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      to_(std::exchange(other.to_, -1)),
      from_(std::exchange(other.from_, -1)),
      printed_(std::exchange(other.printed_, -1)),
      log_(std::exchange(other.log_, -1)),
      wait_status_(other.wait_status_),
      role_(std::move(other.role_)),
      received_(std::move(other.received_)),
      tail_(std::move(other.tail_)),
      searched_(other.searched_),
      stopped_(std::move(other.stopped_)) {}

HarnessProcess::~HarnessProcess() {
  Kill();
  Close();
}

void HarnessProcess::Close() {
  for (int* fd : {&to_, &from_, &printed_, &log_}) CloseIfOpen(fd);
}

// True: `events` are there on the pipe to it (POLLOUT) or from it (POLLIN).
bool HarnessProcess::WaitFor(Deadline deadline, short events, absl::Status* status) {
  const int wanted = events == POLLOUT ? to_ : from_;
  for (;;) {
    if (stopped_()) {
      *status = absl::CancelledError("stopped");
      return false;
    }
    const auto left = std::chrono::ceil<milliseconds>(deadline - MonotonicClock::now());
    if (left <= milliseconds(0)) {
      *status = absl::DeadlineExceededError("no answer in time");
      return false;
    }
    std::array<pollfd, 2> fds = {pollfd{wanted, events, 0}, pollfd{printed_, POLLIN, 0}};
    const int ready =
        poll(fds.data(), fds.size(), static_cast<int>(std::min(left, kSlice).count()));
    if (ready <= 0) continue;
    if (fds[1].revents != 0) TakePrinted();
    if (fds[0].revents != 0) return true;
  }
}

void HarnessProcess::TakePrinted() {
  std::array<char, 1 << 14> bytes;
  for (;;) {
    const ssize_t got = read(printed_, bytes.data(), bytes.size());
    if (got < 0) return;
    if (got == 0) return CloseIfOpen(&printed_);
    const std::string_view text(bytes.data(), static_cast<size_t>(got));
    if (log_ >= 0 && write(log_, text.data(), text.size()) < 0) CloseIfOpen(&log_);
    tail_ += text;
    if (tail_.size() > 2 * kTailBytes) tail_.erase(0, tail_.size() - kTailBytes);
  }
}

absl::Status HarnessProcess::Send(std::string_view line, Deadline deadline) {
  const std::string message = absl::StrCat(absl::string_view(line.data(), line.size()), "\n");
  absl::Status status;
  for (size_t sent = 0; sent < message.size();) {
    if (!WaitFor(deadline, POLLOUT, &status)) return status;
    const ssize_t now = write(to_, message.data() + sent, message.size() - sent);
    if (now < 0 && errno == EAGAIN) continue;
    if (now < 0) return absl::UnavailableError(absl::StrCat("the ", role_, " went away"));
    sent += static_cast<size_t>(now);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> HarnessProcess::Receive(Deadline deadline) {
  std::array<char, 1 << 16> bytes;
  absl::Status status;
  for (;;) {
    const size_t end = received_.find('\n', searched_);
    if (end != std::string::npos) {
      std::string line = received_.substr(0, end);
      received_.erase(0, end + 1);
      searched_ = 0;
      return line;
    }
    searched_ = received_.size();
    if (received_.size() > kMostLineBytes) {
      return absl::InvalidArgumentError("an answer of over 64 MiB without an end of line");
    }
    if (!WaitFor(deadline, POLLIN, &status)) return status;
    const ssize_t got = read(from_, bytes.data(), bytes.size());
    if (got < 0 && errno == EAGAIN) continue;
    if (got <= 0) return absl::UnavailableError(absl::StrCat("the ", role_, " went away"));
    received_.append(bytes.data(), static_cast<size_t>(got));
  }
}

// The group goes before its leader is reaped: until then its number is not another's.
void HarnessProcess::Kill() {
  if (pid_ <= 0) return;
  kill(-pid_, SIGKILL);
  kill(pid_, SIGKILL);
  while (waitpid(pid_, &wait_status_, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

void HarnessProcess::End(Deadline deadline) {
  CloseIfOpen(&to_);
  siginfo_t ended = {};
  while (pid_ > 0 && MonotonicClock::now() < deadline) {
    const int found = waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT);
    if (found != 0 || ended.si_pid == pid_) break;
    if (printed_ >= 0) TakePrinted();
    std::this_thread::sleep_for(milliseconds(5));
  }
  Kill();
}

std::string HarnessProcess::Ending() {
  // One that closed its pipe is about to end by itself: how, is worth a moment.
  End(MonotonicClock::now() + milliseconds(200));
  return HowItEnded(wait_status_);
}

std::string HarnessProcess::Printed() {
  if (printed_ >= 0) TakePrinted();
  return tail_.size() <= kTailBytes ? tail_ : tail_.substr(tail_.size() - kTailBytes);
}

std::string StatusOfEnding(const std::string& ending) {
  if (ending == "exit 137" || ending.starts_with("signal 9 ")) return "oom";
  if (!ending.starts_with("signal ")) return "crash";
  return absl::StrCat("crash(", ending.substr(7, ending.find(' ', 7) - 7), ")");
}

}  // namespace xplane_time
