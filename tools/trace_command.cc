#include "trace_command.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "output/results.h"
#include "perfetto/timeline_trace.h"
#include "process.h"
#include "status.h"
#include "timing/filters.h"

namespace xplane_time::tools {

void Warn(const DiagnosticRow& row) { Tell(absl::StrCat(row.count, " x ", row.message)); }

void TwoSides::AddTo(CLI::App* app, const std::string& what) {
  app->add_option("SIDE", both_, "BASE and HEAD: " + what);
  const Heading own(app, kOwn);
  own.Value("--base", &base_, "PATH...",
            "Captures of the old program, each from a separate process");
  own.Value("--head", &head_, "PATH...",
            "Captures of the new program, each from a separate process");
}

void TwoSides::NameFiles(const FindOptions& find, FileRoles* files) const {
  files->ReadsTraces("SIDE", both_, find);
  files->ReadsTraces("--base", base_, find);
  files->ReadsTraces("--head", head_, find);
}

void TwoSides::AddCaptures(const Heading& decision, CompareOptions* options) {
  decision.Share("--offset-std", &options->offset_std,
                 "Standard deviation between processes, if known; then one capture per side is "
                 "enough for a decision");
  decision.Flag("--paired", &options->paired,
                "The i-th captures of both sides were recorded together; compare them in pairs");
}

namespace {

// FindInputs names the subfolders that are captures: "; write base/*". Several captures of a side
// need its option, too.
absl::Status CheckFolders(const char* option, const std::vector<std::string>& paths,
                          const FindOptions& find) {
  constexpr char kAdvice[] = "; write ";
  for (const std::string& path : paths) {
    const absl::Status found =
        path == "-" ? absl::OkStatus() : FindInputs(std::span(&path, 1), find).status();
    const std::string advice = absl::StrCat(kAdvice, path);
    const size_t at = found.message().rfind(advice);
    if (!absl::IsNotFound(found) || at == absl::string_view::npos) continue;
    return absl::NotFoundError(absl::StrCat(found.message().substr(0, at), kAdvice, option, " ",
                                            found.message().substr(at + sizeof kAdvice - 1)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status TwoSides::Check(std::string_view command, const FindOptions& find) const {
  const bool by_name = !base_.empty() || !head_.empty();
  if (by_name && !both_.empty()) {
    return UsageError("give either BASE HEAD or --base and --head, not both");
  }
  if (by_name ? !base_.empty() && !head_.empty() : both_.size() == 2) {
    RETURN_IF_ERROR(CheckFolders("--base", base(), find));
    return CheckFolders("--head", head(), find);
  }
  return UsageError(
      command, " requires BASE and HEAD",
      both_.size() > 2 ? "; for several captures per side: --base P... --head P..." : "",
      "; see xplane-time ", command, " --help");
}

TraceCommand::TraceCommand(CLI::App* app, const Takes& takes) : Command(app) {
  report_.threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  if (takes.traces) AddTraces();
  AddReading();
  if (takes.executions) AddFilters();
  if (takes.categories) AddCategories();
  if (takes.executions) AddTime(takes);
  AddPrinting(takes);
}

void TraceCommand::AddTraces() {
  app_->add_option(
      "TRACE", traces_,
      "File (.xplane.pb, .xspace.pb or PyTorch .pt.trace.json, also .gz), run directory, log "
      "directory, or - for standard input; several are repeated captures of the same program");
}

void TraceCommand::AddStepNames() {
  Heading(app_, kSelect)
      .Value("--step-re", &report_.step, "RE",
             "Use host events (PyTorch: annotations) with matching names as steps, instead of the "
             "line Steps and events with a step_num");
}

void TraceCommand::AddReading() {
  const Heading input(app_, kInput), select(app_, kSelect);
  input.Value("--run", &find_.run, "NAME", "Run of a log directory (default: the latest)");
  input.OneOf("--reader", &read_.reader, {"wire", "protobuf"},
              "Decoder: wire (fast) or protobuf (for cross-checks) (default wire)");
  input.Value("--threads", &report_.threads, "N",
              "Threads for reading (default: number of processors)", CLI::Range(1, 1024));
  select.Value("--device", &report_.device, "SEL",
               "Devices: gpu, tpu, cpu, custom, all, gpu:0,2, the name of a plane, or re:REGEX for "
               "names (default: accelerators, or the CPU if the trace has no accelerator plane)");
}

void TraceCommand::AddFilters() {
  ReportOptions& r = report_;
  const Heading select(app_, kSelect);
  select.Value("--function", &r.function, "RE",
               "Include only functions that match (RE2, unanchored)");
  select.Value("--exclude", &r.exclude, "RE", "Exclude functions that match");
  select.Value("--kernel", &r.kernel, "RE", "Count only matching kernels as a function's time");
  select.Value("--exclude-kernel", &r.exclude_kernel, "RE",
               "Do not count matching kernels, such as an L2 flush in the timed range");
  select.Value("--scope", &r.scope, "RE",
               "Count only kernels with a matching name scope, tf_op or source line");
  select.Value("--prefix", &r.prefix, "TEXT",
               "Include only functions with names that start with TEXT");
  select.Parsed("--min-duration", &r.min_duration_ps, "NS",
                "Exclude shorter executions, in nanoseconds; a note counts them", ParseNs);
  select.Count("--max-events", &r.max_events,
               "Include only the first N executions of each device; a note counts the rest, and "
               "the last run may be incomplete");
}

void TraceCommand::AddCategories() {
  const Heading select(app_, kSelect);
  CategoryPatterns& categories = report_.categories;
  select.Value("--collective-re", &categories.collective, "RE",
               "Treat matching kernels as collectives, whatever their names");
  select.Value("--copy-re", &categories.copy, "RE", "Treat matching kernels as copies");
}

void TraceCommand::AddTime(const Takes& takes) {
  const Heading select(app_, kSelect), time(app_, kTime);
  time.OneOf("--clock", &report_.clock, {"auto", "device", "profile"},
             "Clock of times: device, profile or auto (the device's clock if the trace has it) "
             "(default auto)");
  if (takes.tolerance) {
    time.Count(
        "--tolerance", &report_.tolerance_ps,
        "Maximum time by which a nested event may exceed its parent, in picoseconds (default 0)",
        "PS");
  }
  if (!takes.runs) return;
  select.Value("--id-pattern", &report_.id_pattern, "RE",
               "Treat matching functions as variants; the first group is the id (default: "
               "jit_autotune_fn_N and jit_tune_jax_fn_N)");
  time.OneOf(
      "--metric", &report_.metric, {"active", "span", "sum"},
      takes.decides
          ? "Time of a run that the verdict compares: active (union of its kernels), span (first "
            "start to last end) or sum (of durations) (default active)"
          : "Time of a run in tables, --sort and --trim: active (union of its kernels), span "
            "(first start to last end) or sum (of durations); JSON and CSV have all three "
            "(default active)");
  time.Parsed("--trim", &report_.trim, "POLICY",
              "Runs to exclude: none, drop-extremes, iqr, mad or percent:P (default none)",
              [](const std::string& text) { return ParseTrim(text); });
  time.Count("--skip-runs", &report_.skip_runs,
             "Exclude the first N runs of each function and device (warm-up)");
}

void TraceCommand::AddPrinting(const Takes& takes) {
  const Heading out(app_, kOut);
  output::OutputOptions& how = printing_.how;
  if (!takes.sort.empty()) {
    out.Value("--sort", &how.sort, "KEY", "Sort rows by " + std::string(takes.sort));
  }
  if (takes.executions || takes.unit) {
    out.OneOf("--unit", &how.unit, {"auto", "ns", "us", "ms", "s"},
              "Unit of times in tables: auto, ns, us, ms or s (default auto)", "UNIT");
  }
  if (!takes.formats) {
    // it writes its own kind of file
  } else if (takes.decides) {
    printing_.AddFormat(
        app_, {"table", "json", "csv", "markdown", "html", "sqlite", "junit", "benchmark", "bmf"},
        "Output format: table, json, csv, markdown, html, sqlite, junit (XML), benchmark (Google "
        "Benchmark JSON) or bmf (Bencher Metric Format) (default table, or by the suffix of -o)");
  } else if (takes.streams) {
    printing_.AddFormat(
        app_, {"table", "json", "csv", "markdown"},
        "Output format: table, json, csv or markdown (default table, or by the suffix of -o)");
  } else {
    std::vector<std::string> formats = kResultFormats;
    if (takes.perfetto) formats.emplace_back("perfetto");
    printing_.AddFormat(
        app_, formats,
        absl::StrCat("Output format: table, json, csv, markdown, html",
                     takes.perfetto ? ", sqlite or perfetto (every event, as a Perfetto trace)"
                                    : " or sqlite",
                     " (default table, or by the suffix of -o)",
                     app_->get_name() == "report" ? "; csv contains the functions" : ""));
  }
  printing_.AddPath(app_);
  if (takes.rows) {
    out.Count("--top", &how.top, "Print only the first N rows");
    out.Flag("--wide", &how.wide,
             "Tables: print all columns and full names, regardless of the line length");
  }
  if (takes.columns) {
    out.Value("--columns", &columns_, "NAMES",
              "Tables: print only these columns after the first, such as median,runs; an unknown "
              "name lists all columns");
  }
  if (takes.formats) printing_.AddColor(app_);
  if (!takes.decides && takes.progress) {
    printing_.AddProgress(
        app_, "Show progress: auto (long work on a terminal), always or never (default auto)");
  }
  takes.formats ? printing_.AddMessages(app_) : printing_.AddQuiet(app_);
}

// ---- Checks

absl::Status TraceCommand::Check() {
  files_.ReadsTraces("TRACE", traces_, find_);
  files_.PrintsOutput(printing_.path);
  if (traces_.empty() && !printing_.json_schema) {
    const std::string above =
        app_->get_parent()->get_parent() != nullptr ? app_->get_parent()->get_name() + " " : "";
    return UsageError("no TRACE given; see xplane-time ", above, app_->get_name(), " --help");
  }
  return CheckLayout();
}

absl::Status TraceCommand::CheckLayout() {
  read_.threads = report_.threads;
  printing_.how.metric = report_.metric;
  if (!printing_.how.for_people()) {
    RETURN_IF_ERROR(
        Refuse({"--columns", "--wide"},
               "applies only to tables and Markdown; the other formats have all fields"));
    RETURN_IF_ERROR(Refuse(
        {"--unit"}, "applies only to tables and Markdown; the other formats use picoseconds"));
  }
  if (prints_perfetto()) {
    RETURN_IF_ERROR(Refuse(
        {"--function", "--exclude", "--kernel", "--exclude-kernel", "--scope", "--collective-re",
         "--copy-re", "--prefix", "--min-duration", "--max-events", "--id-pattern", "--clock",
         "--tolerance", "--metric", "--trim", "--skip-runs", "--sort", "--top", "--layer-re"},
        "has no effect with --format perfetto, which contains every event unchanged"));
  }
  if (!Given(*app_, "--columns")) return absl::OkStatus();
  ASSIGN_OR_RETURN(printing_.how.columns, output::ParseColumns(columns_of(), columns_));
  return absl::OkStatus();
}

absl::Status TraceCommand::CheckFilters() const { return Filters::Compile(report_).status(); }

std::string TraceCommand::GivenFilters() const {
  std::vector<std::string> given;
  for (const char* option : {"--function", "--within", "--exclude", "--prefix", "--kernel",
                             "--exclude-kernel", "--scope"}) {
    if (Given(*app_, option)) given.emplace_back(option);
  }
  return absl::StrJoin(given, ", ");
}

// ---- Reading

absl::StatusOr<Opened> TraceCommand::Open() const {
  RETURN_IF_ERROR(CheckFilters());
  ASSIGN_OR_RETURN(const std::vector<Input> inputs, FindInputs(traces_, find_));
  Diagnostics diagnostics;
  ReadOptions read = read_;
  read.leave_out_damaged_hosts = true;
  ASSIGN_OR_RETURN(Trace trace, OpenTrace(inputs, read, &diagnostics));
  return Opened{std::move(trace), std::move(diagnostics)};
}

absl::StatusOr<int> TraceCommand::PrintPerfetto(const Opened& opened,
                                                const EnergyReport* energy) const {
  ASSIGN_OR_RETURN(insight::Timeline timeline,
                   WithProgress(opened, [&](std::atomic<uint64_t>* events_done) {
                     ReportOptions options;
                     options.device = report_.device;
                     options.threads = report_.threads;
                     options.events_done = events_done;
                     return insight::BuildTimeline(opened.trace, options, opened.diagnostics);
                   }));
  return PrintPerfetto(std::move(timeline), energy, DescribeInputs(opened.trace));
}

absl::StatusOr<int> TraceCommand::PrintPerfetto(insight::Timeline timeline,
                                                const EnergyReport* energy,
                                                std::span<const InputRow> inputs) const {
  ASSIGN_OR_RETURN(OutputFile out, OutputFile::Open(printing_.path));
  absl::Status status =
      perfetto::WriteTrace(std::move(timeline), energy, inputs,
                           [&](std::string_view bytes) { return out.Write(bytes); });
  if (status.ok()) status = out.Commit();
  if (absl::IsAborted(status)) return 0;  // a closed pipe
  RETURN_IF_ERROR(status);
  return 0;
}

void TraceCommand::WarnOfLeftOut(const std::vector<DiagnosticRow>& rows) const {
  for (const DiagnosticRow& row : rows) {
    const bool left_out = row.code == DiagnosticName(DiagnosticCode::kHostLeftOut);
    if (left_out && !printing_.quiet) Warn(row);
  }
}

}  // namespace xplane_time::tools
