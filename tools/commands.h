// Commands: one file each (cmd_*.cc). A command reads its traces and returns the text
// to print; RunCommand prints it and maps statuses to exit codes.
#ifndef XPLANE_TIME_TOOLS_COMMANDS_H_
#define XPLANE_TIME_TOOLS_COMMANDS_H_

#include <atomic>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "options.h"
#include "output_file.h"
#include "xplane_time/diagnostics.h"
#include "xplane_time/report.h"
#include "xplane_time/trace.h"

namespace xplane_time::tools {

// An opened trace, and what was counted while opening it.
struct Opened {
  Trace trace;
  Diagnostics diagnostics;
};
absl::StatusOr<Opened> OpenInputs(const Options& options);

// A line on standard error.
void Warn(const DiagnosticRow& row);
// Tells what formats without diagnostics do not: hosts that were left out.
void WarnOfLeftOut(const Options& options, const std::vector<DiagnosticRow>& rows);

// BuildReport; filters that leave nothing are an error here.
absl::StatusOr<Report> MakeReport(const Options& options, const Opened& opened);

absl::StatusOr<std::string> RunReport(const Options& options, const Opened& opened);
absl::StatusOr<std::string> RunPlanes(const Options& options, const Opened& opened);
absl::StatusOr<std::string> RunFunctions(const Options& options, const Opened& opened);
absl::StatusOr<std::string> RunKernels(const Options& options, const Opened& opened);
absl::StatusOr<std::string> RunTree(const Options& options, const Opened& opened);
// By an earlier tool's definition: --compat.
absl::StatusOr<std::string> RunCompat(const Options& options, const Opened& opened);
// Streams instead of returning text.
absl::Status RunEvents(const Options& options, const Opened& opened, OutputFile* out);

// Decisions: these read their own inputs, print, and return the exit code.
int RunCompare(const Options& options);
int RunPick(const Options& options);
int RunTune(const Options& options);

// The sampling sidecar; also returns the exit code of what it ran.
int RunPower(const Options& options);
// What masks and orders devices for a program that is started: its environment is ours.
PowerEnvironment EnvironmentOfDevices();

// Prints why on standard error; returns the exit code.
int Fail(const absl::Status& status);

// After writing: a closed pipe ends quietly, any other error is 73.
int FinishWriting(const absl::Status& status);

// Refuses an output that cannot be written, before long work: 73; 0 where it can.
int CheckOutput(const std::string& path);

// Writes to a file or (empty path) standard output; returns the exit code.
int WriteText(const std::string& path, std::string_view text);

// Runs the command and returns the process's exit code.
int RunCommand(Options options);

}  // namespace xplane_time::tools

#endif  // XPLANE_TIME_TOOLS_COMMANDS_H_
