// The process: how it ends, how it handles signals, and the commands that it runs.
//
// Exit codes are for scripts. Those of verdicts are in compare.h and pick.h.
//
//   return WithExits(TuneStore::Open(path, {}), kStoreExits);   // a full disk is not a bad trace
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

// Adds an exit code to an error, unless it already has one. 0: the program ends silently.
absl::Status WithExit(absl::Status error, int exit_code);

// Exit codes for the kinds of errors from one source.
using Exits = std::span<const std::pair<absl::StatusCode, int>>;
absl::Status WithExits(absl::Status status, Exits exits);
template <typename T>
absl::StatusOr<T> WithExits(absl::StatusOr<T> value, Exits exits) {
  if (value.ok()) return value;
  return WithExits(value.status(), exits);
}

// For PowerRecorder::Start.
inline constexpr std::pair<absl::StatusCode, int> kRecorderExits[] = {
    {absl::StatusCode::kInternal, kExitCannotWrite},
    {absl::StatusCode::kFailedPrecondition, kExitNotThere}};  // no sensor

// Prints a line on standard error.
void Tell(std::string_view message);
// Prints the error on standard error; returns its own exit code, or that of its kind.
int Fail(const absl::Status& error);

// ---- Signals. A signal that was ignored at the start (by nohup or a script's `&`) stays ignored,
// for this program and for its children.

// Handles the signals that stop the program; system calls are restarted.
void OnStopSignals(void (*handler)(int));
// From now on these signals do not end the program; IsStopped reports them.
void RememberStopSignals();
// Like RememberStopSignals, but SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2, and a SIGINT or SIGQUIT that
// was only sent to us, are passed on to the measured command. If no command runs, they are
// remembered, except for SIGUSR1 and SIGUSR2.
void PassSignalsOn();
bool IsStopped();

// ---- A measured command. Its standard streams, exit status and signals are those of the user, as
// if this program did not exist.

struct CommandEnd {
  // Its own exit code; 128 + N for a signal N; 127 if there is no such program; 126 if it cannot be
  // run.
  int exit_code = 0;
  int signal = 0;            // the signal that ended it, or 0
  int start_errno = 0;       // not 0: it was not started
  bool left_behind = false;  // some of its processes still run: it became a daemon
  // Of the largest of its ended processes. Empty if it is not clearly larger than this process,
  // because the kernel also counts this process's memory up to the start of the program.
  std::optional<int64_t> peak_rss_bytes = {};
};

// If there is no such program (in PATH), or it must not be run: the CommandEnd of an attempt.
std::optional<CommandEnd> CannotStart(const std::string& program);

// Runs the command to its end. Only one thread may call it.
CommandEnd RunMeasured(const std::vector<std::string>& command);

// A command whose processes are switched on and off (SIGCONT and SIGSTOP to their group). Its
// output goes to standard error. A command that needs time to get ready stops itself with SIGSTOP
// when it is ready; Start waits for that.
class SwitchedCommand {
 public:
  // Returns when it is ready or after `most_s`; it is off then. Errors: NotFound (no such program),
  // Unavailable; FailedPrecondition (it ended), Cancelled (a signal stops us).
  static absl::StatusOr<SwitchedCommand> Start(const std::vector<std::string>& command,
                                               double most_s);
  ~SwitchedCommand();  // kills them
  SwitchedCommand(SwitchedCommand&& other) noexcept : pid_(std::exchange(other.pid_, 0)) {}
  SwitchedCommand& operator=(SwitchedCommand&&) = delete;

  void Switch(bool on) const;
  // Whether the first process has ended; its descendants may still run.
  bool HasEnded() const;

 private:
  explicit SwitchedCommand(int pid) : pid_(pid) {}

  int pid_;  // also the id of the group; 0: moved from
};

// Sleeps; returns false if a signal ended the sleep.
bool SleepUnlessStopped(double seconds);

}  // namespace xplane_time::tools
