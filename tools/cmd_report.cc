// report (the default command) and its parts as separate commands: planes, functions, kernels,
// tree. Also compat: the numbers of an earlier tool, by its own definition.
//
// Each command derives from TextCommand, which opens the trace, builds a text and prints it.
// Commands with --compat derive from CompatibleCommand; it refuses the options that the chosen tool
// does not have and then calculates with src/compat. A trace is closed on another thread while its
// text is written.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "insight/timeline.h"
#include "near_names.h"
#include "no_match.h"
#include "output/page/timeline_data.h"
#include "output/results.h"
#include "output/view.h"
#include "parallel.h"
#include "status.h"
#include "timing/filters.h"
#include "trace_command.h"
#include "xplane_time/compat.h"
#include "xplane_time/headroom.h"
#include "xplane_time/report.h"

namespace xplane_time::tools {
namespace {

// Closes a trace on another thread while its results are written.
class TraceClosing {
 public:
  explicit TraceClosing(Trace trace) : trace_(std::move(trace)) {}

 private:
  Trace trace_;
  const std::function<void()> close_ = [this] { trace_ = Trace(); };
  HelperThread thread_{0, close_};
};

// A command that reads a trace and prints one text.
class TextCommand : public TraceCommand {
 public:
  absl::StatusOr<int> Run() override {
    ASSIGN_OR_RETURN(Opened opened, Open());
    if (prints_perfetto()) {
      WarnOfLeftOut(DescribeDiagnostics(opened.trace, opened.diagnostics));
      return PrintPerfetto(opened, nullptr);
    }
    output::OutputOptions& how = printing_.how;
    const std::vector<GivenOption> given = GivenOptions(report_);
    how.given.insert(how.given.begin(), given.begin(), given.end());  // before those of the command
    if (!how.sort.empty()) how.given.push_back({"sort", how.sort});
    if (how.top.has_value()) how.given.push_back({"top", static_cast<int64_t>(*how.top)});
    ASSIGN_OR_RETURN(const std::string text,
                     WithProgress(opened, [&](std::atomic<uint64_t>* events_done) {
                       report_.events_done = events_done;
                       return Text(&opened);
                     }));
    return Print(text);
  }

 protected:
  using TraceCommand::TraceCommand;
  virtual absl::StatusOr<std::string> Text(Opened* opened) = 0;

  using BuildsReport = absl::FunctionRef<decltype(BuildReport)>;
  // It is an error if the filters leave no executions.
  absl::StatusOr<Report> MakeReport(Opened* opened, BuildsReport build = BuildReport) {
    ASSIGN_OR_RETURN(Report report, build(opened->trace, report_, opened->diagnostics));
    WarnOfLeftOut(report.diagnostics);
    if (!GivenFilters().empty() && report.functions.empty() && report.kernels.empty()) {
      return NothingMatches(opened->trace, opened->diagnostics, report_, GivenFilters());
    }
    if (report_.threads > 1) closing_.emplace(std::move(opened->trace));
    return report;
  }

 private:
  std::optional<TraceClosing> closing_;
};

class Planes : public TextCommand {
 public:
  explicit Planes(CLI::App* app) : TextCommand(app, {}) {
    Own().Flag("--stats", &with_stats_, "List the names, types and counts of stats");
  }

 protected:
  absl::StatusOr<std::string> Text(Opened* opened) override {
    ASSIGN_OR_RETURN(
        PlanesReport report,
        DescribePlanes(opened->trace, {report_.device, with_stats_}, opened->diagnostics));
    WarnOfLeftOut(report.diagnostics);
    const size_t all = report.planes.size();
    report.planes.resize(output::Top(report.planes, printing_.how.top).size());
    return Rendered(output::PlanesOutput(report, printing_.how, all));
  }

 private:
  bool with_stats_ = false;
};

class Kernels : public TextCommand {
 public:
  explicit Kernels(CLI::App* app)
      : TextCommand(app, {.executions = true,
                          .categories = true,
                          .tolerance = true,
                          .sort = "total, name, mean, median, max, self, count or share "
                                  "(default: self)"}) {
    Own().Value("--within", &within_, "RE", "Include only kernels of functions that match");
  }

  absl::Status Check() override {
    if (!within_.empty()) {
      if (!report_.function.empty()) {
        return UsageError("--within and --function have the same effect; give only one");
      }
      RETURN_IF_ERROR(NameFilter::Compile("--within", within_).status());
      report_.function = within_;
    }
    return TextCommand::Check();
  }

 protected:
  absl::StatusOr<std::string> Text(Opened* opened) override {
    const output::OutputOptions& how = printing_.how;
    const bool is_text =
        how.format == output::Format::kTable || how.format == output::Format::kMarkdown;
    report_.launches = !is_text || how.wide || !how.columns.empty();
    ASSIGN_OR_RETURN(Report report, MakeReport(opened, BuildReportWithRates));
    RETURN_IF_ERROR(output::OrderReport(printing_.how, output::SortKeys::kKernels, &report));
    return Rendered(output::KernelsOutput(report, printing_.how));
  }

 private:
  std::string within_;
};

// The nesting of events.
class Tree : public TextCommand {
 public:
  explicit Tree(CLI::App* app)
      : TextCommand(
            app,
            {.executions = true, .tolerance = true, .sort = "total, the only order of a tree"}) {
    const Heading own = Own();
    own.Value("--line", &tree_.line, "RE", "Nest events of matching lines instead of functions");
    own.Value("--name", &tree_.name, "RE", "Include only events that match");
    own.OneOf(
        "--by", &tree_.by, {"nesting", "scope", "source", "module"},
        "Grouping: nesting (of events), scope (self time of ops by name scope), source (by file "
        "and line, under their callers) or module (PyTorch: by nn.Module) (default nesting)",
        "WHAT");
    own.Flag("--fold", &tree_.fold,
             "With --by scope: add up the forward and the backward pass of a layer, jvp(layer) and "
             "transpose(jvp(layer)), including vmap and checkpoint");
    own.Value("--depth", &tree_.max_depth, "N", "Number of levels to show (default: all)",
              CLI::Range(1, 1000000));
  }

  absl::Status Check() override {
    RETURN_IF_ERROR(TextCommand::Check());
    std::vector<GivenOption>& given = printing_.how.given;
    if (!tree_.line.empty()) given.push_back({"line", tree_.line});
    if (!tree_.name.empty()) given.push_back({"name", tree_.name});
    if (tree_.max_depth != 0) given.push_back({"depth", int64_t{tree_.max_depth}});
    if (tree_.by == TreeBy::kScope) given.push_back({"by", "scope"});
    if (tree_.by == TreeBy::kSource) given.push_back({"by", "source"});
    if (tree_.by == TreeBy::kModule) given.push_back({"by", "module"});
    if (tree_.fold) given.push_back({"fold", int64_t{1}});
    if (tree_.fold && tree_.by != TreeBy::kScope && !printing_.json_schema) {
      return UsageError("--fold is for name scopes: give it with --by scope");
    }
    if (tree_.by != TreeBy::kNesting && !printing_.json_schema) {
      RETURN_IF_ERROR(Refuse(
          {"--line", "--name"},
          "has no effect with --by: its rows are ops; select them with --kernel and --scope"));
    }
    if (tree_.line.empty() || printing_.json_schema) return absl::OkStatus();
    return Refuse(
        {"--function", "--exclude", "--prefix", "--kernel", "--exclude-kernel", "--scope",
         "--min-duration", "--max-events", "--clock"},
        "has no effect with --line, which shows all events of lines; select them with --name");
  }

 protected:
  absl::StatusOr<std::string> Text(Opened* opened) override {
    const std::string& sort = printing_.how.sort;
    if (!sort.empty() && sort != "total") {
      return UsageError("--sort " + sort + ": a tree can only be sorted by total");
    }
    tree_.select = report_;
    const auto tree = BuildTree(opened->trace, tree_, opened->diagnostics);
    if (absl::IsFailedPrecondition(tree.status()) && !report_.function.empty()) {
      RETURN_IF_ERROR(CheckAnyMatches(*opened));
    }
    ASSIGN_OR_RETURN(const TreeReport report, tree);
    WarnOfLeftOut(report.diagnostics);
    return Rendered(output::TreeOutput(report, printing_.how));
  }

 private:
  // It is an error if the filters leave no executions, whether the others nest or not.
  absl::Status CheckAnyMatches(const Opened& opened) const {
    ASSIGN_OR_RETURN(const Report report, BuildReport(opened.trace, report_, opened.diagnostics));
    if (!report.functions.empty() || !report.kernels.empty()) return absl::OkStatus();
    return NothingMatches(opened.trace, opened.diagnostics, report_, GivenFilters());
  }

  TreeOptions tree_;
};

const std::vector<std::string> kTools = {"ejkernel", "tune-jax", "xprof"};

// Uses the definition of an earlier tool if `compat` or --compat names one.
class CompatibleCommand : public TextCommand {
 public:
  std::string schema() const override { return tool_.empty() ? app_->get_name() : "compat"; }

  absl::Status Check() override {
    RETURN_IF_ERROR(TextCommand::Check());
    if (tool_.empty()) return printing_.json_schema ? absl::OkStatus() : CheckOwn();
    if (prints_perfetto()) {
      return Refuse(
          {"--compat"},
          "cannot be used with --format perfetto, which contains events instead of numbers");
    }
    read_.keep_identical_planes = true;
    // Options that the tools, or some of them, do not have.
    const std::string why =
        absl::StrCat("has no effect with ", Given(*app_, "--compat") ? "--" : "", "compat ", tool_);
    RETURN_IF_ERROR(
        Refuse({"--function", "--exclude", "--exclude-kernel", "--scope", "--collective-re",
                "--copy-re", "--id-pattern", "--metric", "--clock", "--trim", "--skip-runs",
                "--tolerance", "--sort", "--samples", "--by-id", "--plot", "--reader"},
               why));
    if (tool_ != "ejkernel") RETURN_IF_ERROR(Refuse({"--min-duration", "--max-events"}, why));
    return Refuse({tool_ == "xprof" ? "--prefix" : "--top", "--columns"}, why);
  }

 protected:
  using TextCommand::TextCommand;

  void AddCompat() {
    Heading(app_, kTime)
        .Value(
            "--compat", &tool_, "TOOL",
            "Print the numbers of an earlier tool, by its definition: ejkernel, tune-jax or xprof. "
            "With --compat, --device is a word in the names of planes, --kernel selects the nested "
            "events that count, and --prefix, --min-duration and --max-events work as in that tool",
            CLI::IsMember(kTools));
  }

  // Without a tool: refuses options that would have no effect.
  virtual absl::Status CheckOwn() const { return absl::OkStatus(); }

  // Refuses --metric if it would have no effect.
  absl::Status CheckMetricOfCsv() const {
    const bool looked_at = report_.trim.policy != Trim::Policy::kKeepAll ||
                           !printing_.how.sort.empty() || printing_.how.top.has_value();
    if (printing_.how.format != output::Format::kCsv || report_.by_variant || looked_at) {
      return absl::OkStatus();
    }
    return Refuse({"--metric"},
                  "has no effect in CSV, which contains all three metrics, unless --sort, --top or "
                  "--trim is given");
  }

  // The output of the tool.
  absl::StatusOr<std::string> Text(Opened* opened) override {
    compat::AnswerOptions ask = {.tool = tool_ == "ejkernel"   ? compat::Tool::kEjkernel
                                         : tool_ == "tune-jax" ? compat::Tool::kTuneJax
                                                               : compat::Tool::kXprof,
                                 .device = report_.device};
    if (!report_.prefix.empty()) ask.ejkernel.prefix = report_.prefix;
    ask.tune_jax.prefix = ask.ejkernel.prefix;
    if (report_.min_duration_ps.has_value()) {
      ask.ejkernel.min_duration_ns = static_cast<double>(*report_.min_duration_ps) / 1000;
    }
    if (report_.max_events.has_value()) ask.ejkernel.max_events = report_.max_events;
    if (printing_.how.top.has_value()) ask.xprof.limit = *printing_.how.top;
    ASSIGN_OR_RETURN(const NameFilter kernel, NameFilter::Compile("--kernel", report_.kernel));
    if (!report_.kernel.empty()) {
      const compat::NameTest test = [&](std::string_view name) { return kernel.Matches(name); };
      ask.ejkernel.children = ask.tune_jax.children = ask.xprof.names = test;
    }
    WarnOfLeftOut(DescribeDiagnostics(opened->trace, opened->diagnostics));
    ASSIGN_OR_RETURN(const compat::Answer answer, compat::AnswerAs(opened->trace, ask));
    return Rendered(output::CompatOutput(answer, printing_.how));
  }

  std::string tool_;  // may be empty
};

class Compat : public CompatibleCommand {
 public:
  explicit Compat(CLI::App* app) : CompatibleCommand(app, {.traces = false, .columns = false}) {
    app->add_option("TOOL", tool_, "Earlier tool: ejkernel, tune-jax or xprof")
        ->check(CLI::IsMember(kTools));
    AddTraces();
    app->remove_option(app->get_option("--reader"));  // the tools have their own readers
    app->get_option("--device")
        ->type_name("WORD")
        ->description(
            "Word in the names of planes (default: gpu, tpu or cpu, the first that the trace has)");
    const Heading select(app, kSelect);
    select.Value("--kernel", &report_.kernel, "RE", "Count only nested events that match");
    select.Value("--prefix", &report_.prefix, "TEXT",
                 "ejkernel and tune-jax: include only events with names that start with TEXT "
                 "(default jit_)");
    select.Parsed("--min-duration", &report_.min_duration_ps, "NS",
                  "ejkernel: exclude shorter events, in nanoseconds (default 1000)", ParseNs);
    select.Count("--max-events", &report_.max_events,
                 "ejkernel: include only the first N events (default 10000)");
  }

  absl::Status Check() override {
    if (tool_.empty() && !printing_.json_schema) {
      return UsageError("no TOOL given; see xplane-time compat --help");
    }
    return CompatibleCommand::Check();
  }
};

// One row for each compiled function and device, for each run, or for each variant.
class Functions : public CompatibleCommand {
 public:
  explicit Functions(CLI::App* app)
      : CompatibleCommand(
            app, {.executions = true,
                  .runs = true,
                  .sort = "total, name, mean, median, max, runs, std or min (default: total)"}) {
    AddCompat();
    const Heading own = Own();
    own.Flag("--samples", &report_.samples, "Print one row per run");
    own.Flag("--by-id", &report_.by_variant, "Print one row per variant id");
    own.Flag("--plot", &plot_, "Tables: add a histogram of each function's runs");
  }

  absl::Status Check() override {
    if (report_.samples && report_.by_variant) {
      return UsageError("--samples and --by-id exclude each other");
    }
    if (plot_) {
      RETURN_IF_ERROR(Refuse({"--samples", "--by-id"}, "has no effect with --plot"));
    }
    return CompatibleCommand::Check();
  }

 protected:
  std::string columns_of() const override { return report_.samples ? "samples" : "functions"; }

  absl::Status CheckOwn() const override {
    if (printing_.how.format == output::Format::kHtml) {
      RETURN_IF_ERROR(Refuse(
          {"--plot"}, "applies only to tables and Markdown; a page contains a chart of runs"));
    } else if (!printing_.how.for_people()) {
      RETURN_IF_ERROR(
          Refuse({"--plot"}, "applies only to tables and Markdown; --samples prints every run"));
    }
    if (report_.samples && printing_.how.for_people()) {
      RETURN_IF_ERROR(Refuse(
          {"--id-pattern"},
          "has no effect with --samples: its table shows no variants; JSON and CSV contain them"));
    }
    if (report_.samples && !printing_.how.has_all()) {
      RETURN_IF_ERROR(
          Refuse({"--sort"}, "has no effect with --samples: its rows are ordered by start time"));
      if (report_.trim.policy == Trim::Policy::kKeepAll) {
        RETURN_IF_ERROR(Refuse({"--metric"},
                               "has no effect with --samples unless --trim is given, because its "
                               "rows contain all three metrics"));
      }
    }
    return CheckMetricOfCsv();
  }

  absl::StatusOr<std::string> Text(Opened* opened) override {
    if (!tool_.empty()) return CompatibleCommand::Text(opened);
    const bool samples = report_.samples;
    report_.samples |= plot_;
    ASSIGN_OR_RETURN(Report report, MakeReport(opened));
    RETURN_IF_ERROR(output::OrderReport(printing_.how, output::SortKeys::kFunctions, &report));
    output::Output output =
        output::FunctionsOutput(report, printing_.how, report_.by_variant, samples);
    if (plot_) output::AddDistributions(report, &output);
    return Rendered(output);
  }

 private:
  bool plot_ = false;
};

// The report of a whole trace.
class ReportCommand : public CompatibleCommand {
 public:
  explicit ReportCommand(CLI::App* app)
      : CompatibleCommand(app, {.executions = true,
                                .categories = true,
                                .tolerance = true,
                                .runs = true,
                                .sort = "total, name, mean, median, max; functions also runs, std, "
                                        "min; kernels also self, count, share [functions: total; "
                                        "kernels: self]",
                                .perfetto = true}) {
    AddCompat();
    Own().Flag("--samples", &report_.samples, "In JSON and SQLite: also write one row per run");
    AddStepNames();
  }

  absl::StatusOr<int> Run() override {
    auto done = CompatibleCommand::Run();
    if (!absl::IsNotFound(done.status()) || !MayBeACommand()) return done;
    const std::vector<std::string> commands = CommandNames(*app_->get_parent()),
                                   near = NearNames(traces_[0], commands, 1);
    return NotFound(
        done.status().message(), near.empty() ? "; commands: " : "; did you mean the ",
        near.empty() ? absl::StrJoin(commands, ", ") : absl::StrCat("command ", near[0], "?"));
  }

 protected:
  absl::Status CheckOwn() const override {
    RETURN_IF_ERROR(CheckMetricOfCsv());
    if (printing_.how.has_all()) return absl::OkStatus();
    return Refuse({"--samples"},
                  "applies only to --format json or sqlite; xplane-time functions --samples prints "
                  "runs as a table or CSV");
  }

  absl::StatusOr<std::string> Text(Opened* opened) override {
    if (!tool_.empty()) return CompatibleCommand::Text(opened);
    report_.parts = report_.sources = true;
    const bool is_page = printing_.how.format == output::Format::kHtml;
    insight::Timeline timeline;
    const auto with_timeline = [&](const Trace& trace, const ReportOptions& options,
                                   const Diagnostics& reading) -> absl::StatusOr<Report> {
      ASSIGN_OR_RETURN(insight::ReportAndTimeline both,
                       insight::BuildReportAndTimeline(trace, options, reading));
      timeline = std::move(both.timeline);
      return std::move(both.report);
    };
    ASSIGN_OR_RETURN(Report report,
                     is_page ? MakeReport(opened, with_timeline) : MakeReport(opened));
    RETURN_IF_ERROR(output::OrderReport(printing_.how, output::SortKeys::kReport, &report));
    output::Output output = output::ReportOutput(report, printing_.how);
    if (is_page) output.timeline = output::TimelineData(std::move(timeline));
    return Rendered(output);
  }

 private:
  // A mistyped command is parsed as a trace.
  bool MayBeACommand() const {
    return traces_[0].find_first_of("./") == std::string::npos &&
           !std::filesystem::exists(traces_[0]);
  }
};

}  // namespace

void AddReport(CommandLine* line) {
  line->Add<ReportCommand>({"report",
                            "Report captures, devices, functions, kernels and problems (default)",
                            R"(  xplane-time trace.xplane.pb
  xplane-time logdir --device gpu:0 --format json -o report.json
  xplane-time run1.xplane.pb run2.xplane.pb
)"});
  line->Add<Planes>({"planes", "List planes and lines with event counts and time ranges",
                     R"(  xplane-time planes trace.xplane.pb
  xplane-time planes trace.xplane.pb --stats
)"});
  line->Add<Functions>({"functions", "Print one row per compiled function and device",
                        R"(  xplane-time functions trace.xplane.pb --device gpu
  xplane-time functions trace.xplane.pb --by-id --format csv
  xplane-time functions trace.xplane.pb --function '^jit_step$' --samples
  xplane-time functions trace.xplane.pb --plot
)"});
  line->Add<Kernels>({"kernels", "Print one row per kernel or op and device",
                      R"(  xplane-time kernels trace.xplane.pb --top 20
  xplane-time kernels trace.xplane.pb --within jit_train --sort self
  xplane-time kernels trace.xplane.pb --exclude jit_init --format markdown
)"});
  line->Add<Tree>({"tree", "Show the nesting of functions or lines with total, self and child time",
                   R"(  xplane-time tree trace.xplane.pb --function jit_train --depth 2
  xplane-time tree trace.xplane.pb --by scope --fold --depth 3
  xplane-time tree trace.xplane.pb --by source --function jit_train
  xplane-time tree trace.xplane.pb --device cpu --line python --name Execute
)"});
  line->Add<Compat>({.name = "compat",
                     .help = "Print the numbers of an earlier tool, by its definition",
                     .examples = R"(  xplane-time compat ejkernel trace.xplane.pb
  xplane-time compat tune-jax run1.xplane.pb run2.xplane.pb
  xplane-time compat xprof trace.xplane.pb --top 5
)",
                     .group = "Earlier tools"});
}

}  // namespace xplane_time::tools
