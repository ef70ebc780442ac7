// compare: compares two sides; the exit code reports whether the head is slower. pick: chooses the
// fastest variant, or reports that the data do not decide.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compare/inputs.h"
#include "output/results.h"
#include "process.h"
#include "status.h"
#include "trace_command.h"
#include "xplane_time/compare.h"
#include "xplane_time/diff.h"
#include "xplane_time/pick.h"
#include "xplane_time/space.h"

namespace xplane_time::tools {
namespace {

// The common part of both: they take traces and results of several kinds.
class DecisionCommand : public TraceCommand {
 protected:
  explicit DecisionCommand(CLI::App* app, bool traces)
      : TraceCommand(app, {.traces = traces, .executions = true, .runs = true, .decides = true}) {
    Heading(app, kDecision)
        .OneOf("--objective", &objective_, {"time", "energy"},
               "Objective: time, or energy (of files written by xplane-time energy --format json) "
               "(default time)");
  }

  absl::Status CheckPrinting() const {
    if (objective_ == Objective::kEnergy && printing_.how.format == output::Format::kBenchmark) {
      return UsageError(
          "--format benchmark supports only times, not --objective energy; use json, csv, "
          "markdown, junit or bmf");
    }
    if (printing_.json_schema || printing_.how.for_people()) return absl::OkStatus();
    return Refuse({"--top"}, "applies only to tables and Markdown; this format contains all rows");
  }

  MeasureOptions Measuring() const {
    return {.objective = objective_,
            .report = report_,
            .find = find_,
            .read = read_,
            .by_variant = report_.by_variant};
  }

  Objective objective_ = Objective::kTime;
};

class CompareCommand : public DecisionCommand {
 public:
  explicit CompareCommand(CLI::App* app) : DecisionCommand(app, /*traces=*/false) {
    sides_.AddTo(app,
                 "each a trace (file, run or log directory), a summary of a fleet (.xts), Google "
                 "Benchmark JSON, JSON of xplane-time written with --samples, or JSON of energies "
                 "(--objective energy)");
    const Heading own(app, kOwn), decision(app, kDecision);
    own.Flag("--why", &why_,
             "After the verdict, show which kernels changed, like xplane-time diff; for traces");
    decision.Share("--min-effect", &compare_.min_effect,
                   "Ignore slowdowns up to this share (default 1%)");
    decision.Share(
        "--max-mde", &compare_.max_mde,
        "Exit with too little data (12) if a larger slowdown could go undetected (default 5%)");
    decision.Share("--alpha", &compare_.alpha,
                   "Maximum probability, over all functions together, of calling an unchanged "
                   "program faster or slower (default 0.1%)");
    TwoSides::AddCaptures(decision, &compare_);
    decision.Flag("--allow-mismatch", &compare_.allow_mismatch,
                  "Allow a comparison of different devices or methods, with a note");
    decision.Flag("--by-id", &report_.by_variant, "Print one row per variant id");
    decision.OneOf("--benchmark-time", &benchmark_time_, {"real", "cpu"},
                   "Time of Google Benchmark: real or cpu (default real)");
  }

  absl::Status Check() override {
    sides_.NameFiles(find_, &files_);
    files_.PrintsOutput(printing_.path);
    if (!printing_.json_schema) RETURN_IF_ERROR(sides_.Check("compare", find_));
    if (why_) RETURN_IF_ERROR(CheckWhy());
    if (!report_.by_variant) {
      RETURN_IF_ERROR(Refuse({"--id-pattern"}, "has no effect without --by-id"));
    }
    RETURN_IF_ERROR(CheckLayout());
    return CheckPrinting();
  }

  absl::StatusOr<int> Run() override {
    RETURN_IF_ERROR(CheckFilters());
    MeasureOptions measure = Measuring();
    measure.benchmark_time = benchmark_time_;
    compare_.objective = objective_;
    ASSIGN_OR_RETURN(Comparison comparison,
                     CompareFiles(sides_.base(), sides_.head(), measure, compare_));
    std::optional<DiffReport> why;
    if (why_) {
      absl::StatusOr<DiffReport> found = Why();
      if (found.ok()) why = *std::move(found);
      // The verdict is valid without the explanation.
      if (!found.ok()) comparison.notes.push_back(absl::StrCat("why: ", found.status().message()));
    }
    RETURN_IF_ERROR(
        Print(output::CompareOutput(comparison, why.has_value() ? &*why : nullptr)).status());
    return static_cast<int>(comparison.outcome);
  }

 private:
  absl::Status CheckWhy() const {
    if (objective_ == Objective::kEnergy) {
      return UsageError("--why explains times, so it cannot be used with --objective energy");
    }
    const output::Format format = printing_.how.format;
    if (!printing_.how.for_people() && format != output::Format::kJson) {
      return UsageError("--why supports only tables, Markdown and JSON; omit --why or --format");
    }
    return Refuse({"--kernel", "--exclude-kernel", "--scope", "--min-duration", "--max-events",
                   "--clock", "--trim"},
                  "cannot be used with --why, which includes all executions; omit one of them");
  }

  absl::StatusOr<DiffReport> Why() const {
    return FindDiff(sides_.base(), sides_.head(),
                    {.select = report_, .find = find_, .read = read_, .decision = compare_});
  }

  TwoSides sides_;
  bool why_ = false;
  CompareOptions compare_;
  BenchmarkTime benchmark_time_ = BenchmarkTime::kReal;
};

// A space is an input, like a trace.
constexpr std::pair<absl::StatusCode, int> kSpaceExits[] = {
    {absl::StatusCode::kInvalidArgument, kExitBadTrace}};

absl::StatusOr<std::vector<Configuration>> KnownVariants(const std::string& path) {
  ASSIGN_OR_RETURN(const SearchSpace space, WithExits(ReadSpace(path), kSpaceExits));
  return ChooseConfigurations(space, {});
}

class PickCommand : public DecisionCommand {
 public:
  explicit PickCommand(CLI::App* app) : DecisionCommand(app, /*traces=*/true) {
    const Heading decision(app, kDecision);
    decision.Share(
        "--delta", &pick_.delta,
        "Tie margin: variants within this share of the best count as equal (default 0.5%)");
    decision.Share("--alpha", &pick_.alpha, "Maximum probability of a wrong claim (default 1%)");
    decision.Share("--drift-std", &pick_.drift_std,
                   "Allowance for drift if the variants of a single capture did not run in rounds "
                   "(default 2%)");
    decision.Count("--seed", &pick_.seed, "Seed of the simulation for P(best)");
    decision.Value(
        "--space", &space_path_, "FILE",
        "JSON {\"variants\": [{\"id\", \"params\"}]} with the parameters to show for each id");
  }

  absl::Status Check() override {
    files_.Reads("--space", space_path_);
    RETURN_IF_ERROR(DecisionCommand::Check());
    return CheckPrinting();
  }

  absl::StatusOr<int> Run() override {
    RETURN_IF_ERROR(CheckFilters());
    if (!space_path_.empty()) {
      ASSIGN_OR_RETURN(pick_.known, KnownVariants(space_path_));
    }
    pick_.objective = objective_;
    ASSIGN_OR_RETURN(const PickResult choice, PickFiles(traces_, Measuring(), pick_));
    RETURN_IF_ERROR(Print(output::PickOutput(choice)).status());
    return ExitCode(choice.claim);
  }

 private:
  PickOptions pick_;
  std::string space_path_;
};

}  // namespace

void AddDecisions(CommandLine* line) {
  line->Add<CompareCommand>({"compare", "Compare two sides: same, faster or slower, as exit code",
                             R"(  xplane-time compare --base base*.xplane.pb --head head*.xplane.pb
  xplane-time compare base.json head.json --offset-std 1% --format markdown
  xplane-time compare base.xplane.pb head.xplane.pb --why --format markdown
  xplane-time compare --objective energy --base base*.json --head head*.json
)"});
  line->Add<PickCommand>({"pick", "Find the fastest variant, a tie, or \"undecided\"",
                          R"(  xplane-time pick trace.xplane.pb
  xplane-time pick run1.xplane.pb run2.xplane.pb --space space.json
)"});
}

}  // namespace xplane_time::tools
