// A harness or a proposer as a process: starts it, exchanges lines with it, and ends it reliably.
//
// The child is in its own process group, with one pipe in each direction on descriptors that its
// environment names (docs/harness.md). Its output is kept for messages. The child and its
// descendants end with the driver, however the driver ends: a guard process leads the group and
// kills it when the driver is gone. Not handled: a process that leaves the group. For one thread;
// no call blocks beyond its deadline.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "io/descriptor.h"

namespace xplane_time {

using MonotonicClock = std::chrono::steady_clock;
using Deadline = MonotonicClock::time_point;

class HarnessProcess {
 public:
  struct Options {
    std::vector<std::string> command;
    std::string role = "harness";               // or "proposer"; part of the variable's name
                                                // XPLANE_TIME_HARNESS_IN
    std::string name = role;                    // used in messages
    std::vector<std::string> environment = {};  // "NAME=value", added to ours
    std::string log_path = {};                  // its output is appended there; may be empty
    // Called once with the reason when the log cannot be written any more.
    std::function<void(const std::string&)> tell = [](const std::string&) {};
    // Called several times a second during waits; true ends the wait.
    std::function<bool()> stopped = [] { return false; };
  };

  // Errors: NotFound (no such program), PermissionDenied (the log cannot be written), Unavailable
  // (no process, no pipe).
  static absl::StatusOr<std::unique_ptr<HarnessProcess>> Start(const Options& options);
  ~HarnessProcess();  // kills what is still running
  HarnessProcess(const HarnessProcess&) = delete;
  HarnessProcess& operator=(const HarnessProcess&) = delete;

  // Sends a line. Also collects the process's lines meanwhile, so that it may answer before it
  // reads on. Errors: Unavailable (it ended), DeadlineExceeded, Cancelled (`stopped`).
  absl::Status Send(std::string_view line, Deadline deadline);
  // Returns the next line. Errors: as of Send, and InvalidArgument (a line of over 64 MiB).
  absl::StatusOr<std::string> Receive(Deadline deadline);

  // Sends bye, and `before` first if it is not empty; ignores `stopped`. Waits two seconds for the
  // process to end, then kills the group.
  void SayBye(std::string_view before = {});
  // Describes the failure of a process that did not answer correctly; the process has ended then.
  struct Loss {
    std::string status;   // timeout, crash(11), crash, oom (signal 9, which the kernel uses) or
                          // infra
    std::string message;  // includes up to 2000 bytes of its last output
  };
  Loss LossBy(const absl::Status& error, const char* before_words = "; it printed last: ");
  pid_t pid() const { return pid_; }  // -1 after it ended

 private:
  explicit HarnessProcess(const Options& options) : options_(options) {}
  absl::StatusOr<bool> Wait(Deadline deadline, bool to_send);
  void TakePrinted();
  void Log(std::string_view text);
  bool HasEnded() const;
  void Kill();
  bool End(Deadline deadline);
  Loss Ending();

  pid_t guard_ = -1, pid_ = -1;  // guard_ is the id of the group
  // `alive_` stays empty; the guard waits for its end.
  io::Descriptor alive_, to_, from_, printed_, log_;
  int wait_status_ = 0;
  std::string received_, tail_;
  size_t searched_ = 0;  // received_ has no line end before this position
  Options options_;
};

}  // namespace xplane_time
