// The options of all commands that read traces.
#include "options_parts.h"

namespace xplane_time::tools {

bool Decides(Command command) { return command == Command::kCompare || command == Command::kPick; }

namespace {

// Functions and their runs, beside or without kernels.
bool TimesRuns(Command command) {
  return command == Command::kReport || command == Command::kFunctions || Decides(command);
}

}  // namespace

void AddTraceOptions(CLI::App* app, Options* o, Texts* t) {
  app->add_option("--run", o->find.run, "With a log directory: this run instead of the latest")
      ->type_name("NAME")
      ->group(kInput);
  app->add_option("--reader", t->reader, "How to decode: wire (fast) or protobuf (cross-check)")
      ->check(CLI::IsMember({"wire", "protobuf"}))
      ->type_name("NAME")
      ->group(kInput);
  app->add_option("--threads", o->report.threads, "Threads for reading [number of processors]")
      ->check(CLI::Range(1, 1024))
      ->type_name("N")
      ->group(kInput);
  app->add_option("--device", o->report.device,
                  "gpu, tpu, cpu, custom, all, gpu:0,2, a plane's name or re:REGEX on names [the "
                  "accelerators; "
                  "the CPU only where there is no accelerator plane]")
      ->type_name("SEL")
      ->group(kSelect);
}

void AddFilters(Command command, CLI::App* app, Options* o, Texts* t) {
  ReportOptions& r = o->report;
  app->add_option("--function", r.function, "Only functions that match (RE2, search)")
      ->type_name("RE")
      ->group(kSelect);
  app->add_option("--exclude", r.exclude, "Not functions that match")
      ->type_name("RE")
      ->group(kSelect);
  app->add_option("--kernel", r.kernel, "Only matching kernels count as a function's time")
      ->type_name("RE")
      ->group(kSelect);
  app->add_option("--scope", r.scope, "The same by name scope, tf_op or source")
      ->type_name("RE")
      ->group(kSelect);
  app->add_option("--prefix", r.prefix, "Only functions whose name starts so")
      ->type_name("TEXT")
      ->group(kSelect);
  app->add_option("--min-duration", t->min_duration_ns, "Leave out shorter executions (counted)")
      ->check(DecimalValidator())
      ->type_name("NS")
      ->group(kSelect);
  app->add_option("--max-events", r.max_events,
                  "Only a device's first N executions (counted); the last run may be cut short")
      ->check(CountValidator())
      ->type_name("N")
      ->group(kSelect);
  if (!TimesRuns(command)) return;
  app->add_option(
         "--id-pattern", r.id_pattern,
         "A function that matches is a variant, its id the first group [jit_autotune_fn_N and "
         "jit_tune_jax_fn_N]")
      ->type_name("RE")
      ->group(kSelect);
}

void AddTiming(Command command, CLI::App* app, Options* o, Texts* t) {
  app->add_option("--clock", t->clock, "auto (the device's where it exists), device or profile")
      ->check(CLI::IsMember({"auto", "device", "profile"}))
      ->type_name("NAME")
      ->group(kTime);
  if (command == Command::kReport || !TimesRuns(command)) {
    app->add_option("--tolerance", o->report.tolerance_ps,
                    "How far a nested event may stick out of its parent")
        ->check(CountValidator())
        ->type_name("PS")
        ->group(kTime);
  }
  if (!TimesRuns(command)) return;
  app->add_option("--metric", t->metric,
                  "A run's time: active (union of its kernels), span (first start to last end) or "
                  "sum (of durations): what tables show, --sort and --trim look at; JSON and CSV "
                  "have all three")
      ->check(CLI::IsMember({"active", "span", "sum"}))
      ->type_name("NAME")
      ->group(kTime);
  app->add_option("--trim", t->trim,
                  "Runs to leave out: none, drop-extremes, iqr, mad or percent:P [none]")
      ->type_name("POLICY")
      ->group(kTime);
  app->add_option("--skip-runs", o->report.skip_runs,
                  "Leave out the first N runs of each function and device (warm-up)")
      ->check(CountValidator())
      ->type_name("N")
      ->group(kTime);
}

namespace {

struct Rule {
  bool applies;
  std::vector<const char*> ignored;
  const char* reason;
};

}  // namespace

std::string IgnoredOption(const CLI::App& command, const Options& o) {
  if (o.json_schema) return "";
  const bool functions = o.command == Command::kFunctions;
  const bool json = !Decides(o.command) && o.output.format == output::Format::kJson;
  const bool for_people =
      o.decide.format == output::Format::kTable || o.decide.format == output::Format::kMarkdown;
  const Rule rules[] = {
      {o.command == Command::kTree && !o.line.empty(),
       {"--function", "--exclude", "--prefix", "--kernel", "--scope", "--min-duration",
        "--max-events", "--clock"},
       "means nothing with --line, which shows the events of lines as they are; --name chooses"},
      {functions && o.samples && !json,
       {"--sort"},
       "means nothing with --samples, whose rows are in the order of their starts"},
      {functions && o.samples && !json && o.report.trim.policy == Trim::Policy::kKeepAll,
       {"--metric"},
       "means nothing with --samples, whose rows have all three; --trim would look at it"},
      {!Decides(o.command) && o.output.format == output::Format::kCsv && !o.by_id &&
           o.report.trim.policy == Trim::Policy::kKeepAll && o.output.sort.empty() &&
           !o.output.top.has_value(),
       {"--metric"},
       "changes nothing in CSV, which has all three; --sort, --top and --trim would look at it"},
      {o.command == Command::kReport && !json,
       {"--samples"},
       "is for --format json; xplane-time functions --samples shows runs as a table or CSV"},
      {Decides(o.command) && !for_people,
       {"--top"},
       "is for the table and Markdown; this format has all rows"}};
  for (const Rule& rule : rules) {
    for (const char* name : rule.ignored) {
      const CLI::Option* given = command.get_option_no_throw(name);
      if (!rule.applies || given == nullptr || given->count() == 0) continue;
      return absl::StrCat(name, " ", rule.reason);
    }
  }
  return "";
}

}  // namespace xplane_time::tools
