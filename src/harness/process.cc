// Runs a harness or proposer as a child process.
//
//   driver -- forks --> guard    leads the process group and reads the pipe `alive_`
//          -- forks --> child    joins the group, then executes the program
//
// Only the driver holds the writing end of `alive_`. When the driver ends, the pipe ends too, and
// the guard kills the group. The kernel itself would only kill the direct child of a dead driver
// (PR_SET_PDEATHSIG), not the child's descendants. Until the guard is reaped, the group's id cannot
// be reused. Wait polls the pipes in slices of 50 ms and checks the stop flag and the child's end
// in between. LossBy and Ending derive the status of a failed process from its exit status or
// signal.
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
#include "harness/messages.h"
#include "status.h"

namespace xplane_time {
namespace {

using std::chrono::milliseconds;

constexpr size_t kMostLineBytes = size_t{64} << 20;
constexpr size_t kTailBytes = 2000;
constexpr milliseconds kSlice(50);  // interval of `stopped` checks

struct Pipe {
  io::Descriptor read, write;

  bool Open() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    read = io::Descriptor(ends[0]);
    write = io::Descriptor(ends[1]);
    return true;
  }
};

// The environment of the child: ours, plus the numbers of its pipes.
std::vector<std::string> ChildEnvironment(const HarnessProcess::Options& options, int in, int out) {
  const std::string prefix = absl::StrCat("XPLANE_TIME_", absl::AsciiStrToUpper(options.role), "_");
  const auto is_replaced = [&](std::string_view ours) {
    const std::string_view name = ours.substr(0, ours.find('=') + 1);
    return ours.starts_with(prefix) ||
           std::ranges::any_of(options.environment,
                               [&](std::string_view each) { return each.starts_with(name); });
  };
  std::vector<std::string> variables = options.environment;
  for (char** each = environ; *each != nullptr; ++each) {
    if (!is_replaced(*each)) variables.emplace_back(*each);
  }
  variables.push_back(absl::StrCat(prefix, "IN=", in));
  variables.push_back(absl::StrCat(prefix, "OUT=", out));
  return variables;
}

absl::Status WentAway() { return absl::UnavailableError("it closed its input"); }

std::vector<char*> Pointers(std::vector<std::string>* texts) {
  std::vector<char*> pointers;
  for (std::string& text : *texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Runs after fork, so only async-signal-safe calls are allowed. The guard kills descendants of the
// child, which the kernel does not. While the guard lives, its group's id is not reused.
[[noreturn]] void BecomeGuard(int alive) {
  setpgid(0, 0);
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, nullptr);  // signals that a harness sends to its group must not end
                                          // the guard
  dup2(alive, STDIN_FILENO);
  closefrom(STDIN_FILENO + 1);
  char nothing;
  while (read(STDIN_FILENO, &nothing, 1) < 0 && errno == EINTR) {
  }
  kill(0, SIGKILL);
  _exit(0);
}

// Runs after fork, so only async-signal-safe calls are allowed. `failed` receives errno if the
// program cannot start.
[[noreturn]] void BecomeHarness(char* const* argv, char* const* environment, int in, int out,
                                int printed, int failed, pid_t parent, pid_t group) {
  setpgid(0, group);
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

}  // namespace

absl::StatusOr<std::unique_ptr<HarnessProcess>> HarnessProcess::Start(const Options& options) {
  std::unique_ptr<HarnessProcess> started(new HarnessProcess(options));
  HarnessProcess& harness = *started;
  if (!options.log_path.empty()) {
    harness.log_ = io::Descriptor(
        open(options.log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
    if (!harness.log_.open()) {
      return PermissionDenied(options.log_path, ": cannot write the ", options.name,
                              "'s log: ", strerror(errno));
    }
  }
  Pipe alive, to, from, printed, failed;
  for (Pipe* each : {&alive, &to, &from, &printed, &failed}) {
    if (!each->Open())
      return Unavailable("cannot create a pipe for the ", options.name, ": ", strerror(errno));
  }
  std::vector<std::string> command = options.command;
  std::vector<std::string> variables = ChildEnvironment(options, to.read.get(), from.write.get());
  const std::vector<char*> argv = Pointers(&command), environment = Pointers(&variables);
  const pid_t parent = getpid();
  harness.guard_ = fork();
  if (harness.guard_ == 0) BecomeGuard(alive.read.get());
  if (harness.guard_ > 0) {
    setpgid(harness.guard_, harness.guard_);  // in both processes, so that the group exists before
                                              // the child joins
    harness.pid_ = fork();
    if (harness.pid_ == 0) {
      BecomeHarness(argv.data(), environment.data(), to.read.get(), from.write.get(),
                    printed.write.get(), failed.write.get(), parent, harness.guard_);
    }
  }
  if (harness.pid_ < 0) {
    return Unavailable("cannot create a process for the ", options.name, ": ", strerror(errno));
  }
  harness.alive_ = std::move(alive.write);
  harness.to_ = std::move(to.write);
  harness.from_ = std::move(from.read);
  harness.printed_ = std::move(printed.read);
  failed.write.Close();
  if (int error = 0; read(failed.read.get(), &error, sizeof error) != 0) {
    return NotFound(options.command[0], ": the ", options.name, " cannot start: ", strerror(error));
  }
  for (const io::Descriptor* each : {&harness.to_, &harness.from_, &harness.printed_}) {
    fcntl(each->get(), F_SETFL, O_NONBLOCK);
  }
  return started;
}

HarnessProcess::~HarnessProcess() { Kill(); }

// A process that ended counts as gone, even if its descendants still hold its pipes.
bool HarnessProcess::HasEnded() const {
  siginfo_t ended = {};
  const int found = waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT);
  return found != 0 || ended.si_pid == pid_;
}

// Waits until the process has sent bytes, which are taken, or, if `to_send`, until there is room to
// send; then returns true.
absl::StatusOr<bool> HarnessProcess::Wait(Deadline deadline, bool to_send) {
  for (;;) {
    if (options_.stopped()) return absl::CancelledError("stopped");
    const auto left = std::chrono::ceil<milliseconds>(deadline - MonotonicClock::now());
    if (left <= milliseconds(0)) return absl::DeadlineExceededError("no answer in time");
    const bool ended = HasEnded();  // checked first: all bytes that it sent before are in the pipe
                                    // then
    const bool has_room = !to_send || received_.size() < kMostLineBytes;
    std::array<pollfd, 3> fds = {pollfd{has_room ? from_.get() : -1, POLLIN, 0},
                                 pollfd{to_send ? to_.get() : -1, POLLOUT, 0},
                                 pollfd{printed_.get(), POLLIN, 0}};
    const auto slice = ended ? milliseconds(0) : std::min(left, kSlice);
    const int ready = poll(fds.data(), fds.size(), static_cast<int>(slice.count()));
    if (ready > 0 && fds[2].revents != 0) TakePrinted();
    if (ready > 0 && fds[0].revents != 0) {
      std::array<char, 1 << 16> bytes;
      const ssize_t got = read(from_.get(), bytes.data(), bytes.size());
      const bool later = got < 0 && (errno == EAGAIN || errno == EINTR);
      if (got <= 0 && !later) return WentAway();
      received_.append(bytes.data(), static_cast<size_t>(std::max<ssize_t>(got, 0)));
      return false;
    }
    if (ended) return WentAway();
    if (ready > 0 && fds[1].revents != 0) return true;
  }
}

void HarnessProcess::TakePrinted() {
  std::array<char, 1 << 14> bytes;
  constexpr int kAtOnce = 64;  // limits the time for a process that prints without end
  for (int i = 0; i < kAtOnce; ++i) {
    const ssize_t got = read(printed_.get(), bytes.data(), bytes.size());
    if (got < 0) return;
    if (got == 0) return printed_.Close();
    const std::string_view text(bytes.data(), static_cast<size_t>(got));
    Log(text);
    tail_ += text;
    if (tail_.size() > 2 * kTailBytes) tail_.erase(0, tail_.size() - kTailBytes);
  }
}

void HarnessProcess::Log(std::string_view text) {
  while (log_.open() && !text.empty()) {
    const ssize_t written = write(log_.get(), text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      options_.tell(absl::StrCat(options_.log_path, ": cannot write the ", options_.name,
                                 "'s log: ", strerror(errno),
                                 "; its further output is not logged"));
      return log_.Close();
    }
    text.remove_prefix(static_cast<size_t>(written));
  }
}

absl::Status HarnessProcess::Send(std::string_view line, Deadline deadline) {
  const std::string message = absl::StrCat(absl::string_view(line.data(), line.size()), "\n");
  for (size_t sent = 0; sent < message.size();) {
    ASSIGN_OR_RETURN(const bool has_room, Wait(deadline, /*to_send=*/true));
    if (!has_room) continue;
    const ssize_t now = write(to_.get(), message.data() + sent, message.size() - sent);
    if (now < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (now < 0) return WentAway();
    sent += static_cast<size_t>(now);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> HarnessProcess::Receive(Deadline deadline) {
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
      return absl::InvalidArgumentError("an answer of more than 64 MiB without a line end");
    }
    RETURN_IF_ERROR(Wait(deadline, /*to_send=*/false).status());
  }
}

// Kills the group before the guard is reaped: until then the group's id is not reused.
void HarnessProcess::Kill() {
  const auto reap = [](pid_t pid, int* wait_status) {
    while (waitpid(pid, wait_status, 0) < 0 && errno == EINTR) {
    }
  };
  if (guard_ > 0) kill(-guard_, SIGKILL);
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    reap(pid_, &wait_status_);
  }
  if (guard_ > 0) {
    kill(guard_, SIGKILL);
    reap(guard_, nullptr);
  }
  guard_ = pid_ = -1;
}

void HarnessProcess::SayBye(std::string_view before) {
  const Deadline deadline = MonotonicClock::now() + milliseconds(2000);
  options_.stopped = [] { return false; };  // the stop has already been handled
  if (!before.empty()) static_cast<void>(Send(before, deadline));
  static_cast<void>(Send(harness::Line("bye"), deadline));
  End(deadline);
}

// Waits until `deadline`, then kills the group. Returns whether the process had ended by itself.
bool HarnessProcess::End(Deadline deadline) {
  to_.Close();
  while (pid_ > 0 && !HasEnded() && MonotonicClock::now() < deadline) {
    TakePrinted();
    std::this_thread::sleep_for(milliseconds(5));
  }
  const bool by_itself = pid_ <= 0 || HasEnded();
  Kill();
  return by_itself;
}

// Describes how it ended; kills it first if it still runs.
HarnessProcess::Loss HarnessProcess::Ending() {
  // A process that closed its pipe is about to end; wait briefly to learn how.
  if (!End(MonotonicClock::now() + milliseconds(200))) {
    return {"crash", "it was killed because it closed its standard output"};
  }
  if (WIFEXITED(wait_status_)) {
    const int code = WEXITSTATUS(wait_status_);
    return {code == 128 + SIGKILL ? "oom" : "crash", absl::StrCat("it ended: exit ", code)};
  }
  const int signal = WTERMSIG(wait_status_);
  return {signal == SIGKILL ? "oom" : absl::StrCat("crash(", signal, ")"),
          absl::StrCat("it ended: signal ", signal, " (", strsignal(signal), ")")};
}

HarnessProcess::Loss HarnessProcess::LossBy(const absl::Status& error, const char* before_words) {
  Loss loss = {absl::IsDeadlineExceeded(error) ? "timeout" : "infra", std::string(error.message())};
  if (absl::IsUnavailable(error)) loss = Ending();
  TakePrinted();
  const std::string last = tail_.substr(tail_.size() - std::min(tail_.size(), kTailBytes));
  const absl::string_view shown = absl::StripAsciiWhitespace(last);
  if (!shown.empty()) absl::StrAppend(&loss.message, before_words, shown);
  return loss;
}

}  // namespace xplane_time
