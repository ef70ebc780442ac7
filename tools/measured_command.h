// A command that is measured: its standard streams, its exit status and its signals are those
// of the user, as if we were not there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace xplane_time::tools {

struct CommandEnd {
  // Its own, 128 + N of a signal N, 127 where there is no such program, 126 where it cannot be run.
  int exit_code = 0;
  int signal = 0;              // that ended it; 0: none
  int start_errno = 0;         // not 0: it never ran
  bool left_behind = false;    // processes of it run on: it became a daemon
  int64_t peak_rss_bytes = 0;  // of the largest of its processes that ended; 0: it never ran
};

// From now on: SIGTERM, SIGHUP, SIGUSR1 and 2, and SIGINT and SIGQUIT where they were sent to us
// alone, go to the command; where none runs they are remembered, but for SIGUSR1 and 2. What is
// ignored stays ignored.
void PassSignalsOn();
// The first signal since PassSignalsOn; 0: none.
int SignalReceived();

// Where there is no such program (in PATH), or it may not be run: CommandEnd of trying.
std::optional<CommandEnd> CannotStart(const std::string& program);

// Runs it to its end. Not for two threads.
CommandEnd RunMeasured(const std::vector<std::string>& command);

// Sleeps; false where a signal ended it early.
bool SleepUnlessStopped(double seconds);

}  // namespace xplane_time::tools
