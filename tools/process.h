// The process: how it ends, what signals do to it, and a command that it runs.
//
// Exit codes are what a script sees of a command. Those of verdicts are in compare.h and pick.h.
//
//   return WithExits(TuneStore::Open(path, {}), kStoreExits);   // a full disk is no bad trace
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace xplane_time::tools {

inline constexpr int kExitTooLittle = 12, kExitAllFailed = 20, kExitWrong = 21, kExitUsage = 64,
                     kExitBadTrace = 65, kExitNoInput = 66,
                     kExitNotThere = 69,  // a harness, a command or a sensor
    kExitBug = 70, kExitCannotWrite = 73, kExitIo = 74, kExitStopped = 75, kExitInterrupted = 130;

// The same error with an exit code of its own, where it has none yet. 0: it ends quietly.
absl::Status WithExit(absl::Status error, int exit_code);

// What an error of a kind means where it comes from.
using Exits = std::span<const std::pair<absl::StatusCode, int>>;
absl::Status WithExits(absl::Status status, Exits exits);
template <typename T>
absl::StatusOr<T> WithExits(absl::StatusOr<T> value, Exits exits) {
  if (value.ok()) return value;
  return WithExits(value.status(), exits);
}

// A line on standard error.
void Tell(std::string_view message);
// Prints why on standard error; returns the exit code: its own, or that of its kind.
int Fail(const absl::Status& error);

// ---- Signals. What was ignored when we began, by nohup or a script's `&`, stays so, for us and
// for what we start.

// Of those that stop us; system calls go on after it.
void OnStopSignals(void (*handler)(int));
// From now on they end nothing: IsStopped says that one came.
void RememberStopSignals();
// The same; SIGTERM, SIGHUP, SIGUSR1 and 2, and SIGINT and SIGQUIT where they were sent to us
// alone, go to the measured command. Where none runs they are remembered, but for SIGUSR1 and 2.
void PassSignalsOn();
bool IsStopped();

// ---- A command that is measured: its standard streams, its exit status and its signals are those
// of the user, as if we were not there.

struct CommandEnd {
  // Its own, 128 + N of a signal N, 127 where there is no such program, 126 where it cannot be run.
  int exit_code = 0;
  int signal = 0;            // that ended it; 0: none
  int start_errno = 0;       // not 0: it never ran
  bool left_behind = false;  // processes of it run on: it became a daemon
  // Of the largest of its processes that ended. Empty: the kernel counts what this process took up
  // until the program began, too, and it did not take clearly more.
  std::optional<int64_t> peak_rss_bytes = {};
};

// Where there is no such program (in PATH), or it may not be run: CommandEnd of trying.
std::optional<CommandEnd> CannotStart(const std::string& program);

// Runs it to its end. Not for two threads.
CommandEnd RunMeasured(const std::vector<std::string>& command);

// A command that is switched on and off, all of its processes (SIGCONT and SIGSTOP to their group);
// what it prints goes to standard error. One that takes time to get ready stops itself then
// (SIGSTOP), and is waited for.
class SwitchedCommand {
 public:
  // Returns when it is ready, or `most_s` have passed, and it is off. Errors: NotFound (no such
  // program), Unavailable; FailedPrecondition (it ended), Cancelled (a signal stops us).
  static absl::StatusOr<SwitchedCommand> Start(const std::vector<std::string>& command,
                                               double most_s);
  ~SwitchedCommand();  // kills them
  SwitchedCommand(SwitchedCommand&& other) noexcept : pid_(std::exchange(other.pid_, 0)) {}
  SwitchedCommand& operator=(SwitchedCommand&&) = delete;

  void Switch(bool on) const;
  // The first process; the others may run on.
  bool HasEnded() const;

 private:
  explicit SwitchedCommand(int pid) : pid_(pid) {}

  int pid_;  // and the group; 0: moved from
};

// Sleeps; false where a signal ended it early.
bool SleepUnlessStopped(double seconds);

}  // namespace xplane_time::tools
