// A harness, or a proposer, as a process: starting it, lines to and from it, ending it for sure.
//
// A child in a process group of its own, with a pipe each way on descriptors that its
// environment names (docs/harness.md); what it prints is kept for messages. It ends with its
// driver, whatever ends that, and so does what it started: a guard leads the group, and kills
// it when the driver is gone. Not handled: a process that leaves the group. One thread; no
// call blocks beyond its deadline.
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
    std::string role = "harness";               // or "proposer": in XPLANE_TIME_HARNESS_IN
    std::string name = role;                    // in messages
    std::vector<std::string> environment = {};  // "NAME=value", besides ours
    std::string log_path = {};                  // what it prints is appended there; empty: nowhere
    // Told once where the log takes no more: what is lost.
    std::function<void(const std::string&)> tell = [](const std::string&) {};
    // Asked several times a second while something is waited for: true ends the wait.
    std::function<bool()> stopped = [] { return false; };
  };

  // Errors: NotFound (no such program), PermissionDenied (the log cannot be written),
  // Unavailable (no process, no pipe).
  static absl::StatusOr<std::unique_ptr<HarnessProcess>> Start(const Options& options);
  ~HarnessProcess();  // kills what is left
  HarnessProcess(const HarnessProcess&) = delete;
  HarnessProcess& operator=(const HarnessProcess&) = delete;

  // Takes what it says meanwhile, so that it may answer before it reads on.
  // Errors: Unavailable (it went away), DeadlineExceeded, Cancelled (`stopped`).
  absl::Status Send(std::string_view line, Deadline deadline);
  // The next line. Errors: as of Send, and InvalidArgument (a line of over 64 MiB).
  absl::StatusOr<std::string> Receive(Deadline deadline);

  // And `before` it, where there is something; where it is stopped, too. Waits for its end, for
  // two seconds in all; then it kills the group.
  void SayBye(std::string_view before = {});
  // What is wrong with one that does not answer as it should, and is gone then.
  struct Loss {
    std::string status;   // timeout, crash(11), crash, oom (the kernel's way: signal 9) or infra
    std::string message;  // with at most 2000 bytes of what it printed last
  };
  Loss LossBy(const absl::Status& error, const char* before_words = "; it printed last: ");
  pid_t pid() const { return pid_; }  // -1: it ended

 private:
  explicit HarnessProcess(const Options& options) : options_(options) {}
  absl::StatusOr<bool> Wait(Deadline deadline, bool to_send);
  void TakePrinted();
  void Log(std::string_view text);
  bool HasEnded() const;
  void Kill();
  bool End(Deadline deadline);
  Loss Ending();

  pid_t guard_ = -1, pid_ = -1;  // guard_ is the group
  // `alive_`: nothing is written there; the guard reads it to its end.
  io::Descriptor alive_, to_, from_, printed_, log_;
  int wait_status_ = 0;
  std::string received_, tail_;
  size_t searched_ = 0;  // of received_: no line ends before
  Options options_;
};

}  // namespace xplane_time
