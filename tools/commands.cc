#include "commands.h"

#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "file_conflicts.h"
#include "near_names.h"
#include "output/schema.h"
#include "output/text.h"
#include "terminal.h"
#include "timing/filters.h"

namespace xplane_time::tools {
namespace {

constexpr int kExitUsage = 64, kExitBadTrace = 65, kExitNoInput = 66, kExitBug = 70,
              kExitCannotWrite = 73, kExitIo = 74;

int ExitCode(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return 0;
    case absl::StatusCode::kInvalidArgument:
      return kExitUsage;
    case absl::StatusCode::kNotFound:
      return kExitNoInput;
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kResourceExhausted:
      return kExitBadTrace;
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnavailable:
      return kExitIo;
    default:
      return kExitBug;
  }
}

int Fail(const absl::Status& status, int exit_code) {
  const std::string message(status.message());
  // A harness's traceback is told as it was printed.
  const bool traceback = absl::StrContains(message, "Traceback (most recent call last)");
  const std::string shown =
      traceback ? output::PrintableLines(message, 2) : output::Printable(message);
  std::fprintf(stderr, "xplane-time: %s\n", shown.c_str());
  return exit_code;
}

// What changes a number, or which rows there are, beside the trace itself.
std::vector<GivenOption> Given(const Options& options) {
  std::vector<GivenOption> given = GivenOptions(options.report);
  if (!options.line.empty()) given.push_back({"line", options.line});
  if (!options.name.empty()) given.push_back({"name", options.name});
  if (options.depth != 0) given.push_back({"depth", int64_t{options.depth}});
  if (!options.output.sort.empty()) given.push_back({"sort", options.output.sort});
  if (const auto top = options.output.top; top.has_value()) {
    given.push_back({"top", static_cast<int64_t>(*top)});
  }
  return given;
}

// A mistyped command reads as the trace of `report`.
bool MayBeACommand(const Options& options) {
  return options.command == Command::kReport &&
         options.traces[0].find_first_of("./") == std::string::npos &&
         !std::filesystem::exists(options.traces[0]);
}

int StreamEvents(const Options& options, const Opened& opened) {
  auto out = OutputFile::Open(options.output_path);
  if (!out.ok()) return Fail(out.status(), kExitCannotWrite);
  const absl::Status status = RunEvents(options, opened, &*out);
  if (out->failed()) return FinishWriting(status);
  if (!status.ok()) {
    // Rows that were streamed before the damage showed stay on standard output, labelled
    // by the exit code; a file is left absent.
    return Fail(status, ExitCode(status));
  }
  return FinishWriting(out->Commit());
}

absl::StatusOr<std::string> RunForText(const Options& options, const Opened& opened) {
  if (options.compat.has_value()) return RunCompat(options, opened);
  switch (options.command) {
    case Command::kReport:
      return RunReport(options, opened);
    case Command::kPlanes:
      return RunPlanes(options, opened);
    case Command::kFunctions:
      return RunFunctions(options, opened);
    case Command::kKernels:
      return RunKernels(options, opened);
    case Command::kTree:
      return RunTree(options, opened);
    case Command::kEvents:
    case Command::kCompare:
    case Command::kPick:
    case Command::kTune:
    case Command::kPower:
      break;
  }
  return absl::InternalError("a command without text");
}

}  // namespace

int Fail(const absl::Status& status) { return Fail(status, ExitCode(status)); }

int FinishWriting(const absl::Status& status) {
  if (status.ok() || absl::IsAborted(status)) return 0;
  return Fail(status, kExitCannotWrite);
}

int CheckOutput(const std::string& path) { return FinishWriting(OutputFile::Check(path)); }

int WriteText(const std::string& path, std::string_view text) {
  auto out = OutputFile::Open(path);
  if (!out.ok()) return Fail(out.status(), kExitCannotWrite);
  absl::Status status = out->Write(text);
  if (status.ok()) status = out->Commit();
  return FinishWriting(status);
}

void Warn(const DiagnosticRow& row) {
  std::fprintf(stderr, "xplane-time: %llu x %s\n", static_cast<unsigned long long>(row.count),
               output::Printable(row.message).c_str());
}

void WarnOfLeftOut(const Options& options, const std::vector<DiagnosticRow>& rows) {
  for (const DiagnosticRow& row : rows) {
    const bool left_out = row.code == DiagnosticName(DiagnosticCode::kHostLeftOut);
    if (left_out && !options.quiet) Warn(row);
  }
}

absl::StatusOr<Report> MakeReport(const Options& options, const Opened& opened) {
  auto report = BuildReport(opened.trace, options.report, opened.diagnostics);
  if (!report.ok()) return report;
  WarnOfLeftOut(options, report->diagnostics);
  const ReportOptions& r = options.report;
  const bool filtered = !r.function.empty() || !r.exclude.empty() || !r.prefix.empty() ||
                        !r.kernel.empty() || !r.scope.empty();
  if (filtered && report->functions.empty() && report->kernels.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        report->inputs[0].path,
        ": no execution matches the filters; run without --function, --within, --exclude, "
        "--prefix, --kernel and --scope to see what is there"));
  }
  return report;
}

absl::StatusOr<Opened> OpenInputs(const Options& options) {
  auto inputs = FindInputs(options.traces, options.find);
  if (absl::IsNotFound(inputs.status()) && MayBeACommand(options)) {
    const std::vector<std::string> commands = CommandNames(),
                                   near = NearNames(options.traces[0], commands, 1);
    return absl::NotFoundError(
        near.empty()
            ? absl::StrCat(inputs.status().message(),
                           "; if a command is meant: ", absl::StrJoin(commands, ", "))
            : absl::StrCat(inputs.status().message(), "; did you mean the command ", near[0], "?"));
  }
  if (!inputs.ok()) return inputs.status();
  Diagnostics diagnostics;
  ReadOptions read = options.read;
  read.leave_out_damaged_hosts = true;
  auto trace = OpenTrace(*inputs, read, &diagnostics);
  if (!trace.ok()) return trace.status();
  return Opened{*std::move(trace), std::move(diagnostics)};
}

int RunCommand(Options options) {
  if (absl::Status status = CheckFileConflicts(options); !status.ok()) return Fail(status);
  if (options.json_schema) {
    const std::string_view of =
        options.compat.has_value() ? "compat" : CommandName(options.command);
    return WriteText(options.output_path, output::JsonSchema(of));
  }
  for (const std::string& path : {options.output_path, options.tune.output_path,
                                  options.power.output_path, options.power.svg_path}) {
    if (const int refused = CheckOutput(path); refused != 0) return refused;
  }
  AdaptToTerminal(options, &options.output);
  options.output.given = Given(options);
  if (options.command == Command::kTune) return RunTune(options);
  if (options.command == Command::kPower) return RunPower(options);
  const auto filters = Filters::Compile(options.report);  // a bad one needs no reading
  if (!filters.ok()) return Fail(filters.status());
  if (options.command == Command::kCompare) return RunCompare(options);
  if (options.command == Command::kPick) return RunPick(options);
  const auto opened = OpenInputs(options);
  if (!opened.ok()) return Fail(opened.status());
  std::atomic<uint64_t> events_done{0};
  options.report.events_done = &events_done;
  if (options.command == Command::kEvents) return StreamEvents(options, *opened);
  absl::StatusOr<std::string> text;
  {
    const ProgressLine progress(WantsProgress(options), opened->trace.event_count, &events_done);
    text = RunForText(options, *opened);
  }
  if (!text.ok()) return Fail(text.status());
  return WriteText(options.output_path, *text);
}

}  // namespace xplane_time::tools
