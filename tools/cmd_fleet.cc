// Many captures: summarize makes a small file of each, merge one of them all, and fleet says what
// they took and who is slower than the others.
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "io/whole_file.h"
#include "output/results.h"
#include "process.h"
#include "status.h"
#include "trace_command.h"
#include "xplane_time/fleet.h"

namespace xplane_time::tools {
namespace {

constexpr const char* kByHelp =
    "Keep rows apart by host, device, both (host,device) or none [host,device]";

// Traces, or summaries of them. What cannot be read is told, and the rest goes on.
class Summaries : public TraceCommand {
 public:
 protected:
  Summaries(CLI::App* app, const Takes& takes) : TraceCommand(app, takes) {
    app->get_option("TRACE")->description(
        "A trace, as other commands take it (file, run or log directory), or a summary (.xts): "
        "each "
        "trace is a capture");
    Own().Parsed("--by", &by_, "WHAT", kByHelp,
                 [](const std::string& text) { return ParseFleetBy(text); });
  }

  // Errors: where none can be read, that of the first.
  absl::StatusOr<FleetSummary> Merged() const {
    FleetMerger merger(by_);
    absl::Status first;
    bool any = false;
    for (const std::string& path : traces_) {
      absl::Status status = AddTo(&merger, path);
      any |= status.ok();
      if (status.ok()) continue;
      if (absl::IsInvalidArgument(status)) return status;  // an option is wrong, not the file
      if (first.ok()) first = status;
      if (!printing_.quiet && traces_.size() > 1)
        Tell(absl::StrCat("left out: ", status.message()));
      merger.AddFailure({path, std::string(status.message())});
    }
    if (!any) return first;
    FleetSummary merged = merger.Take();
    WarnOfRepeats(merged);
    return merged;
  }

  std::string host_;

 private:
  absl::Status AddTo(FleetMerger* merger, const std::string& path) const {
    absl::StatusOr<FleetSummary> summary = SummaryOf(path);
    RETURN_IF_ERROR(summary.status());
    const absl::Status status = merger->Add(*summary);
    if (status.ok()) return status;
    return FailedPrecondition(path, ": ", status.message());
  }

  absl::StatusOr<FleetSummary> SummaryOf(const std::string& path) const {
    constexpr size_t kHeadBytes = 64;
    if (std::filesystem::is_regular_file(path)) {
      const std::optional<std::string> head = io::ReadFile(path, kHeadBytes);
      if (head.has_value() && IsFleetSummary(*head)) {
        const std::optional<std::string> bytes = io::ReadFile(path);
        if (!bytes.has_value()) return io::IoError(path, "cannot read");
        return DecodeFleetSummary(*bytes, path);
      }
    }
    Diagnostics diagnostics;
    ASSIGN_OR_RETURN(const std::vector<Input> inputs, FindInputs(std::span(&path, 1), find_));
    ReadOptions read = read_;
    read.leave_out_damaged_hosts = true;
    ASSIGN_OR_RETURN(const Trace trace, OpenTrace(inputs, read, &diagnostics));
    return SummarizeTrace(trace, report_, diagnostics, host_);
  }

  // What is there twice counts twice.
  void WarnOfRepeats(const FleetSummary& merged) const {
    size_t repeats = 0;
    const FleetCapture* example = nullptr;
    for (size_t i = 1; i < merged.captures.size(); ++i) {
      if (merged.captures[i] != merged.captures[i - 1]) continue;
      ++repeats;
      example = &merged.captures[i];
    }
    if (repeats == 0 || printing_.quiet) return;
    Tell(absl::StrCat(repeats,
                      " captures are there more than once, and count as often: ", example->path));
  }

  FleetBy by_;
};

// Writes one.
class Merge : public Summaries {
 public:
  explicit Merge(CLI::App* app)
      : Summaries(app, {.rows = false, .columns = false, .progress = false, .formats = false}) {}

  absl::Status Check() override {
    if (StreamOf(printing_.path) == STDOUT_FILENO && isatty(STDOUT_FILENO) == 1) {
      return UsageError("a summary is not for a terminal; give -o FILE.xts");
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
    own.Value(
        "--host", &host_, "NAME",
        "Call the host so, as where several processes are on one [what the trace tells, else what "
        "is before the first dot of its file]");
    own.Count("--skip-runs", &report_.skip_runs,
              "Leave out the first N runs of each function and device (warm-up)");
  }
};

class Fleet : public Summaries {
 public:
  explicit Fleet(CLI::App* app)
      : Summaries(app, {.unit = true, .columns = false, .progress = false}) {
    const Heading decision(app, kDecision);
    decision.Share("--alpha", &options_.alpha,
                   "How often some host may be called slow or fast where all are alike [1%]");
    decision.Share("--min-effect", &options_.min_effect,
                   "Smaller differences do not matter [0.5%]");
    Own().Value("--table", &table_, "NAME",
                "What --format csv writes: hosts, functions, kernels, steps, collectives, "
                "waits, clocks, outliers, captures or failures [hosts]",
                CLI::IsMember({"hosts", "functions", "kernels", "steps", "collectives", "waits",
                               "clocks", "outliers", "captures", "failures"}));
  }

  absl::Status Check() override {
    RETURN_IF_ERROR(Summaries::Check());
    if (printing_.how.format == output::Format::kCsv) return absl::OkStatus();
    return Refuse({"--table"}, "is for --format csv; the other formats have all");
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
  line->Add<Fleet>({"fleet", "Many captures: who is slow, where time went, what all took",
                    R"(  xplane-time fleet all.xts
  xplane-time fleet host*.xplane.pb --format json -o fleet.json
  xplane-time fleet all.xts --format csv --table outliers
)"});
  line->Add<Summarize>({"summarize", "A small file of what traces took, which merges with others",
                        R"(  xplane-time summarize host7.xplane.pb -o host7.xts
  xplane-time summarize logdir --host node7 -o node7.xts
)"});
  line->Add<Merge>({"merge", "One summary of many; their order makes no difference",
                    R"(  xplane-time merge host*.xts -o all.xts
  xplane-time merge all.xts --by none -o total.xts
)"});
}

}  // namespace xplane_time::tools
