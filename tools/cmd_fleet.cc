// Many captures: summarize writes a small file for each, merge combines such files, and fleet
// reports the sums and the hosts that are slower than the others.
#include <unistd.h>

#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "fleet/rows.h"
#include "io/whole_file.h"
#include "output/results.h"
#include "process.h"
#include "status.h"
#include "trace_command.h"
#include "xplane_time/fleet.h"

namespace xplane_time::tools {
namespace {

constexpr const char* kSuffix = ".xts";

// Takes traces, or summaries of them. Reports inputs that cannot be read, and continues with the
// others.
class Summaries : public TraceCommand {
 protected:
  Summaries(CLI::App* app, const Takes& takes) : TraceCommand(app, takes) {
    app->get_option("TRACE")->description(
        "Trace (file, run or log directory) or summary (.xts); each trace is one capture");
    AddCategories();
    Own().Parsed("--by", &by_, "WHAT",
                 "Separate rows by host, device, host,device or none (default: as in the "
                 "summaries; host,device for traces)",
                 [](const std::string& text) -> absl::StatusOr<std::optional<FleetBy>> {
                   return ParseFleetBy(text);
                 });
  }

  // Errors: if no input can be read, that of the first; summaries that were measured with different
  // options.
  absl::StatusOr<FleetSummary> Merged() const {
    FleetMerger merger(by_.has_value() ? *by_ : KnownOfAll());
    absl::Status first;
    bool any = false;
    for (const std::string& path : traces_) {
      absl::StatusOr<FleetSummary> summary = SummaryOf(path);
      if (!summary.ok()) {
        // an error in an option
        if (absl::IsInvalidArgument(summary.status())) return summary.status();
        if (first.ok()) first = summary.status();
        const std::string why(summary.status().message());
        if (!printing_.quiet && traces_.size() > 1) Tell(absl::StrCat("skipped: ", why));
        merger.AddFailure({path, why});
        continue;
      }
      any = true;
      if (!printing_.quiet) {
        for (const FleetFailure& each : summary->failures) {
          Tell(absl::StrCat("skipped: ", each.message));
        }
      }
      if (const absl::Status status = merger.Add(*summary); !status.ok()) {
        return FailedPrecondition(path, ": ", status.message());
      }
    }
    if (!any) return first;
    FleetSummary merged = merger.Take();
    WarnOfRepeats(merged);
    return merged;
  }

  std::string host_;

 private:
  // The keys that all summaries distinguish.
  FleetBy KnownOfAll() const {
    FleetBy by;
    for (const std::string& path : traces_) {
      const std::string head = fleet::HeadOfSummary(path);
      if (head.empty()) continue;
      const FleetBy of_one = FleetByOf(head);
      by = {.host = by.host && of_one.host, .device = by.device && of_one.device};
    }
    return by;
  }

  absl::StatusOr<FleetSummary> Decoded(std::string_view bytes, const std::string& path) const {
    for (const char* option : {"--device", "--collective-re", "--copy-re"}) {
      if (!Given(*app_, option)) continue;
      return InvalidArgument(path, ": ", option, " requires a trace, but this is a summary; pass ",
                             option, " to xplane-time summarize");
    }
    return DecodeFleetSummary(bytes, path);
  }

  absl::StatusOr<FleetSummary> SummaryOf(const std::string& path) const {
    Diagnostics diagnostics;
    ReadOptions read = read_;
    read.leave_out_damaged_hosts = true;
    std::error_code error;
    const bool is_pipe = path == "-" || std::filesystem::is_fifo(path, error);
    if (is_pipe || !fleet::HeadOfSummary(path).empty()) {
      constexpr size_t kMaxBytes = size_t{16} << 30;
      ASSIGN_OR_RETURN(const std::string bytes,
                       io::ReadWholeFile(path == "-" ? "/dev/stdin" : path, kMaxBytes));
      if (IsFleetSummary(bytes)) return Decoded(bytes, path);
      ASSIGN_OR_RETURN(const Trace trace, OpenTraceFromMemory(bytes, path, read, &diagnostics));
      return SummarizeTrace(trace, report_, diagnostics, host_);
    }
    ASSIGN_OR_RETURN(const std::vector<Input> inputs, FindInputs(std::span(&path, 1), find_));
    ASSIGN_OR_RETURN(const Trace trace, OpenTrace(inputs, read, &diagnostics));
    NameOtherRuns(path, trace, diagnostics);
    return SummarizeTrace(trace, report_, diagnostics, host_);
  }

  // A summary counts diagnostics, but has no room for names of runs.
  void NameOtherRuns(const std::string& path, const Trace& trace,
                     const Diagnostics& diagnostics) const {
    if (printing_.quiet || diagnostics.count(DiagnosticCode::kOtherRuns) == 0) return;
    for (const DiagnosticRow& row : DescribeDiagnostics(trace, diagnostics)) {
      if (row.code != DiagnosticName(DiagnosticCode::kOtherRuns)) continue;
      Tell(absl::StrCat(path, ": ", row.count, " x ", row.message));
    }
  }

  // Repeated captures count twice.
  void WarnOfRepeats(const FleetSummary& merged) const {
    std::map<std::pair<std::string, uint64_t>, const FleetCapture*> seen;
    size_t repeats = 0;
    const FleetCapture* example = nullptr;
    for (const FleetCapture& each : merged.captures) {
      const auto [found, is_new] = seen.try_emplace({each.host, each.content}, &each);
      if (is_new) continue;
      ++repeats;
      example = &each;
    }
    if (repeats == 0 || printing_.quiet) return;
    Tell(absl::StrCat(repeats == 1 ? "1 capture occurs" : absl::StrCat(repeats, " captures occur"),
                      " more than once and counted each time, for example ", example->path,
                      ", the same as ", seen[{example->host, example->content}]->path));
  }

  std::optional<FleetBy> by_;
};

// Writes one summary.
class Merge : public Summaries {
 public:
  explicit Merge(CLI::App* app)
      : Summaries(app, {.rows = false, .columns = false, .progress = false, .formats = false}) {}

  absl::Status Check() override {
    if (StreamOf(printing_.path) == STDOUT_FILENO && isatty(STDOUT_FILENO) == 1) {
      return UsageError("a summary cannot be written to a terminal; give -o FILE.xts");
    }
    const std::filesystem::path suffix = std::filesystem::path(printing_.path).extension();
    if (!suffix.empty() && suffix != kSuffix && !printing_.path.starts_with("/dev/")) {
      return UsageError(app_->get_name(), " writes a summary; use -o FILE.xts instead of ",
                        printing_.path);
    }
    return Summaries::Check();
  }

  absl::StatusOr<int> Run() override {
    ASSIGN_OR_RETURN(const FleetSummary merged, Merged());
    return Print(EncodeFleetSummary(merged));
  }
};

class Summarize : public Merge {
 public:
  explicit Summarize(CLI::App* app) : Merge(app) {
    const Heading own = Own();
    own.Value("--host", &host_, "NAME",
              "Name of the host, for example if a host has several processes (default: the name in "
              "the trace, else the name of the file)");
    own.Count("--skip-runs", &report_.skip_runs,
              "Exclude the first N runs of each function and device (warm-up)");
  }
};

class Fleet : public Summaries {
 public:
  explicit Fleet(CLI::App* app)
      : Summaries(app, {.unit = true, .columns = false, .progress = false}) {
    const Heading decision(app, kDecision);
    decision.Share("--alpha", &options_.alpha,
                   "False-alarm rate: probability that any host is called slow or fast if all "
                   "hosts are equal (default 1%)");
    decision.Share("--min-effect", &options_.min_effect,
                   "Ignore differences between hosts up to this share (default 0.5%)");
    Own().Value("--table", &table_, "NAME",
                "Table for --format csv: hosts, functions, kernels, steps, collectives, waits, "
                "clocks, outliers, captures or failures (default hosts)",
                CLI::IsMember({"hosts", "functions", "kernels", "steps", "collectives", "waits",
                               "clocks", "outliers", "captures", "failures"}));
  }

  absl::Status Check() override {
    RETURN_IF_ERROR(Summaries::Check());
    if (std::filesystem::path(printing_.path).extension() == kSuffix) {
      return UsageError("fleet prints a report; use xplane-time merge to write ", printing_.path);
    }
    if (!printing_.how.for_people()) {
      RETURN_IF_ERROR(Refuse(
          {"--top"}, "applies only to tables and Markdown; the other formats contain all rows"));
    }
    if (printing_.how.format == output::Format::kCsv) return absl::OkStatus();
    return Refuse({"--table"},
                  "applies only to --format csv; the other formats contain all tables");
  }

  absl::StatusOr<int> Run() override {
    ASSIGN_OR_RETURN(FleetSummary merged, Merged());
    const FleetReport report = BuildFleetReport(std::move(merged), options_);
    return Print(output::FleetOutput(report, table_));
  }

 private:
  FleetOutlierOptions options_;
  std::string table_;
};

}  // namespace

void AddFleet(CommandLine* line) {
  line->Add<Fleet>({"fleet",
                    "Report many captures: slow hosts, time of kernels and steps, outliers",
                    R"(  xplane-time fleet all.xts
  xplane-time fleet host*.xplane.pb --format json -o fleet.json
  xplane-time fleet all.xts --format csv --table outliers
)"});
  line->Add<Summarize>({"summarize", "Write a small, mergeable summary of each trace",
                        R"(  xplane-time summarize host7.xplane.pb -o host7.xts
  xplane-time summarize logdir --host node7 -o node7.xts
)"});
  line->Add<Merge>({"merge", "Merge summaries into one; their order has no effect",
                    R"(  xplane-time merge host*.xts -o all.xts
  xplane-time merge all.xts --by none -o total.xts
)"});
}

}  // namespace xplane_time::tools
