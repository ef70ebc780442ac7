#include "options.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <thread>

#include <CLI/CLI.hpp>

#include "absl/strings/str_cat.h"
#include "options_parts.h"
#include "output/columns.h"
#include "output/text.h"
#include "timing/filters.h"
#include "version_text.h"

namespace xplane_time::tools {
namespace {

using output::Format;
using output::Unit;

struct CommandInfo {
  Command command;
  const char* name;
  const char* help;
  const char* examples;
};

constexpr std::array<CommandInfo, 10> kCommands = {{
    {Command::kReport, "report", "Capture, devices, functions, kernels, problems (default)",
     "  xplane-time trace.xplane.pb\n"
     "  xplane-time logdir --device gpu:0 --format json -o report.json\n"
     "  xplane-time run1.xplane.pb run2.xplane.pb\n"},
    {Command::kPlanes, "planes", "Planes, lines, event counts, time ranges",
     "  xplane-time planes trace.xplane.pb\n"
     "  xplane-time planes trace.xplane.pb --stats\n"},
    {Command::kFunctions, "functions", "One row a compiled function and device",
     "  xplane-time functions trace.xplane.pb --device gpu\n"
     "  xplane-time functions trace.xplane.pb --by-id --format csv\n"
     "  xplane-time functions trace.xplane.pb --function '^jit_step$' --samples\n"},
    {Command::kKernels, "kernels", "One row a kernel or op and device",
     "  xplane-time kernels trace.xplane.pb --top 20\n"
     "  xplane-time kernels trace.xplane.pb --within jit_train --sort self\n"
     "  xplane-time kernels trace.xplane.pb --exclude jit_init --format markdown\n"},
    {Command::kTree, "tree", "Nesting of functions or lines: total, self, child time",
     "  xplane-time tree trace.xplane.pb --function jit_train --depth 2\n"
     "  xplane-time tree trace.xplane.pb --device cpu --line python --name Execute\n"},
    {Command::kEvents, "events", "The raw events, streamed in file order",
     "  xplane-time events trace.xplane.pb --device all --format csv\n"
     "  xplane-time events trace.xplane.pb --line 'Stream #' --stat hlo_op\n"},
    {Command::kCompare, "compare", "Two sides: same, faster or slower, by exit code",
     "  xplane-time compare --base base*.xplane.pb --head head*.xplane.pb\n"
     "  xplane-time compare base.json head.json --offset-std 1% --format markdown\n"},
    {Command::kPick, "pick", "The fastest variant, or that nobody can tell",
     "  xplane-time pick trace.xplane.pb\n"
     "  xplane-time pick run1.xplane.pb run2.xplane.pb --space space.json\n"},
    {Command::kTune, "tune", "Runs variants in rounds until the decision stands",
     "  xplane-time tune space.json -- python harness.py\n"
     "  xplane-time tune space.json --resume --incumbent v3f0c... -- ./harness\n"
     "  xplane-time tune show\n"
     "  xplane-time tune export --format t4 -o results.json\n"},
    {Command::kPower, "power", "Watts and joules of a command, a machine or a log",
     "  xplane-time power sources\n"
     "  xplane-time power record -- python train.py\n"
     "  xplane-time power record --idle 10 -r 5 --log power.jsonl -- ./bench\n"
     "  xplane-time power replay power.jsonl --format json\n"
     "  xplane-time power run problems.jsonl -- python answer.py\n"},
}};

// Help that fits 80 columns.
class NarrowFormatter : public CLI::Formatter {
 public:
  NarrowFormatter() { column_width(kColumn); }

  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    std::string text = absl::StrCat("  ", make_option_name(option, is_positional));
    if (!is_positional && !option->get_type_name().empty()) {
      absl::StrAppend(&text, " ", Value(option));
    }
    return InColumns(std::move(text), option->get_description());
  }

  std::string make_subcommand(const CLI::App* command) const override {
    return InColumns("  " + command->get_name(), command->get_description());
  }

 private:
  static constexpr size_t kWidth = 80, kColumn = 22;

  static std::string InColumns(std::string text, const std::string& description) {
    if (text.size() + 1 < kColumn) {
      text.append(kColumn - text.size(), ' ');
    } else {
      text.append(1, '\n').append(kColumn, ' ');
    }
    for (char c : output::Wrap(description, kWidth - kColumn, 0)) {
      text.append(1, c);
      if (c == '\n') text.append(kColumn, ' ');
    }
    return text + "\n";
  }

  // "NS" of "NS:NONNEGATIVE": the checks are told in the description.
  static std::string Value(const CLI::Option* option) {
    const std::string name = option->get_type_name();
    return name.substr(0, name.find(':'));
  }
};

void AddTraces(Command command, CLI::App* app, Options* o) {
  if (command == Command::kCompare) return AddCompareInputs(app, o);
  app->add_option(
      "TRACE", o->traces,
      ".xplane.pb or .xspace.pb file (also .gz), run directory, log directory, or - for "
      "standard input; several are repeated captures of the same thing");
}

void AddFormat(Command command, CLI::App* app, Texts* t) {
  std::vector<std::string> names = {"table", "json", "csv", "markdown"};
  std::string help =
      "table, json, csv or markdown [table, or by the suffix of -o]; report --format csv writes "
      "its functions";
  if (Decides(command)) {
    names.insert(names.end(), {"junit", "benchmark", "bmf"});
    help =
        "table, json, csv, markdown, junit (XML), benchmark (Google Benchmark JSON) or bmf "
        "(Bencher Metric Format) [table, or by the suffix of -o]";
  }
  app->add_option("--format", t->format, help)
      ->check(CLI::IsMember(names))
      ->type_name("NAME")
      ->group(kOut);
}

void AddOutput(Command command, CLI::App* app, Options* o, Texts* t) {
  AddOutputFile(app, &o->output_path);
  app->add_option("--top", o->output.top, "Only the first N rows")
      ->check(CountValidator())
      ->type_name("N")
      ->group(kOut);
  app->add_flag("--wide", o->output.wide,
                "Tables: every column, no name shortened, however wide the lines get")
      ->group(kOut);
  if (command != Command::kEvents) {
    app->add_option("--columns", t->columns,
                    "Tables: only these columns after the first, as median,runs; a wrong name "
                    "lists them")
        ->type_name("NAMES")
        ->group(kOut);
  }
  app->add_option("--color", t->color, "auto, always or never; NO_COLOR is honoured")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->type_name("WHEN")
      ->group(kOut);
  if (!Decides(command)) {
    app->add_option("--progress", t->progress, "auto (long work on a terminal), always or never")
        ->check(CLI::IsMember({"auto", "always", "never"}))
        ->type_name("WHEN")
        ->group(kOut);
  }
  app->add_flag("--quiet", o->quiet, "Errors only on standard error")->group(kOut);
  app->add_flag("--json-schema", o->json_schema, "Print the JSON Schema of this command's output")
      ->group(kOut);
}

void AddSort(CLI::App* app, Options* o) {
  app->add_option(
         "--sort", o->output.sort,
         "Sort rows by: total, name, mean, median, max; functions also runs, std, min; "
         "kernels also self, count, share; a tree by total only [functions: total; kernels: self]")
      ->type_name("KEY")
      ->group(kOut);
}

void AddUnit(CLI::App* app, Texts* t) {
  app->add_option("--unit", t->unit, "Of times in tables: auto, ns, us, ms or s")
      ->check(CLI::IsMember({"auto", "ns", "us", "ms", "s"}))
      ->type_name("UNIT")
      ->group(kOut);
}

void AddOwnOptions(Command command, CLI::App* app, Options* o, Texts* t) {
  switch (command) {
    case Command::kPlanes:
      app->add_flag("--stats", o->with_stats, "List names, types and counts of stats");
      break;
    case Command::kReport:
      AddCompat(app, t);
      app->add_flag("--samples", o->samples, "In JSON: one row a run as well");
      break;
    case Command::kFunctions:
      AddCompat(app, t);
      app->add_flag("--samples", o->samples, "One row a run");
      app->add_flag("--by-id", o->by_id, "One row a variant id");
      break;
    case Command::kKernels:
      app->add_option("--within", t->within, "Only kernels of functions that match")
          ->type_name("RE");
      break;
    case Command::kTree:
      app->add_option("--line", o->line, "Nest the lines that match instead of functions")
          ->type_name("RE");
      app->add_option("--name", o->name, "Only events that match")->type_name("RE");
      app->add_option("--depth", o->depth, "Levels to show [all]")
          ->check(CLI::Range(1, 1000000))
          ->type_name("N");
      break;
    case Command::kEvents:
      app->add_option("--stat", o->stats, "Show this stat as a column (repeat for more)")
          ->type_name("NAME")
          ->allow_extra_args(false);
      app->add_option("--line", o->line, "Only lines that match")->type_name("RE");
      app->add_option("--name", o->name, "Only events whose name matches")->type_name("RE");
      app->add_option("--min-duration", t->min_duration_ns, "Leave out shorter events")
          ->check(DecimalValidator())
          ->type_name("NS");
      app->add_option("--max-events", o->report.max_events, "Stop after N events")
          ->check(CountValidator())
          ->type_name("N");
      break;
    case Command::kCompare:
      AddCompareOptions(app, o, t);
      break;
    case Command::kPick:
      AddPickOptions(app, o, t);
      break;
    case Command::kTune:
    case Command::kPower:
      break;
  }
}

bool Times(Command command) { return command != Command::kPlanes && command != Command::kEvents; }

void BuildApp(CLI::App* app, Options* options, Texts* texts) {
  app->name("xplane-time");
  app->formatter(std::make_shared<NarrowFormatter>());
  app->description("Kernel and function times from XPlane traces (.xplane.pb).");
  app->footer(
      "TRACE without a command means report. Every command: xplane-time help COMMAND.\n"
      "Exit codes: 0 done; decisions: 10 slower, 11 cannot tell, 12 too little data,\n"
      "20 everything failed, 21 wrong result; 64 usage, 65 bad or unusable trace, 66 no\n"
      "such input, 69 no harness, 70 our own bug, 73 cannot write output, 74 I/O error,\n"
      "75 stopped early, can be resumed.");
  app->set_version_flag("--version", VersionText());
  app->require_subcommand(1);
  for (const CommandInfo& info : kCommands) {
    CLI::App* sub = app->add_subcommand(info.name, info.help);
    sub->footer(absl::StrCat("Examples:\n", info.examples));
    sub->callback([options, &info] { options->command = info.command; });
    if (info.command == Command::kTune) {
      AddTune(sub, &options->tune, &texts->tune);
      continue;
    }
    if (info.command == Command::kPower) {
      AddPower(sub, &options->power, &texts->power);
      continue;
    }
    AddTraces(info.command, sub, options);
    AddTraceOptions(sub, options, texts);
    if (Times(info.command)) {
      AddFilters(info.command, sub, options, texts);
      AddTiming(info.command, sub, options, texts);
      if (!Decides(info.command)) AddSort(sub, options);
      AddUnit(sub, texts);
    }
    AddFormat(info.command, sub, texts);
    AddOutput(info.command, sub, options, texts);
    AddOwnOptions(info.command, sub, options, texts);
  }
}

When ParseWhen(const std::string& text) {
  return text == "always" ? When::kAlways : text == "never" ? When::kNever : When::kAuto;
}

// --columns, which only tables have.
std::string ConvertColumns(const Texts& t, const CLI::App& app, Options* o) {
  const CLI::Option* given = app.get_subcommands()[0]->get_option_no_throw("--columns");
  if (given == nullptr || given->count() == 0) return "";
  const bool table =
      Decides(o->command)
          ? o->decide.format == Format::kTable || o->decide.format == Format::kMarkdown
          : o->output.format == Format::kTable || o->output.format == Format::kMarkdown;
  if (!table) return "--columns is for tables and Markdown; the other formats have every field";
  const bool samples = o->command == Command::kFunctions && o->samples;
  auto columns = output::ParseColumns(samples ? "samples" : CommandName(o->command), t.columns);
  if (!columns.ok()) return std::string(columns.status().message());
  o->output.columns = *std::move(columns);
  return "";
}

// Turns texts into values. An error message where they do not fit.
std::string Convert(const Texts& t, Options* o) {
  if (o->command == Command::kTune) return ConvertTune(t.tune, &o->tune);
  if (o->command == Command::kPower) return ConvertPower(t.power, &o->power);
  const std::map<std::string, Format> formats = {{"table", Format::kTable},
                                                 {"json", Format::kJson},
                                                 {"csv", Format::kCsv},
                                                 {"markdown", Format::kMarkdown}};
  const std::map<std::string, Unit> units = {{"auto", Unit::kAuto},
                                             {"ns", Unit::kNs},
                                             {"us", Unit::kUs},
                                             {"ms", Unit::kMs},
                                             {"s", Unit::kS}};
  std::string format = t.format.empty() ? FormatOfSuffix(o->output_path) : t.format;
  if (format.empty() || (format == "junit" && !Decides(o->command))) format = "table";
  if (Decides(o->command)) {
    const std::map<std::string, Format> decisions = {
        {"table", Format::kTable}, {"json", Format::kJson},
        {"csv", Format::kCsv},     {"markdown", Format::kMarkdown},
        {"junit", Format::kJunit}, {"benchmark", Format::kBenchmark},
        {"bmf", Format::kBmf}};
    o->decide.format = decisions.at(format);
    if (const std::string error = ConvertDecide(t, o); !error.empty()) return error;
  } else {
    o->output.format = formats.at(format);
  }
  o->output.unit = units.at(t.unit);
  const auto metric = ParseMetric(t.metric);
  if (!metric.ok()) return std::string(metric.status().message());
  o->report.metric = *metric;
  o->output.metric = o->report.metric;
  const auto clock = ParseClockChoice(t.clock);
  if (!clock.ok()) return std::string(clock.status().message());
  o->report.clock = *clock;
  o->read.reader = t.reader == "protobuf" ? Reader::kProtobuf : Reader::kWire;
  o->read.threads = o->report.threads;
  o->color = ParseWhen(t.color);
  o->progress = ParseWhen(t.progress);
  if (t.min_duration_ns.has_value()) {
    o->report.min_duration_ps = static_cast<int64_t>(*t.min_duration_ns * 1000);
  }
  if (!t.within.empty()) {
    if (!o->report.function.empty()) return "--within and --function are the same: give one";
    const auto within = NameFilter::Compile("--within", t.within);
    if (!within.ok()) return std::string(within.status().message());
    o->report.function = t.within;
  }
  if (o->command == Command::kEvents && o->output.top.value_or(0) > 0) {  // both limits hold
    const uint64_t top = *o->output.top;
    o->report.max_events = std::min(o->report.max_events.value_or(top), top);
  }
  if (o->samples && o->by_id) return "--samples and --by-id exclude each other";
  o->report.samples = o->samples;
  o->report.by_variant = o->by_id;
  const auto trim = ParseTrim(t.trim);
  if (!trim.ok()) return absl::StrCat("--trim: ", trim.status().message());
  o->report.trim = *trim;
  if (o->command == Command::kCompare) return "";
  if (o->traces.empty() && !o->json_schema) {
    return absl::StrCat("no TRACE given; see xplane-time ",
                        kCommands[static_cast<size_t>(o->command)].name, " --help");
  }
  return "";
}

// What is after -- of tune and of power is a command, and none of our options. False: nothing is.
bool TakeCommand(std::vector<std::string>* arguments, Options* options) {
  const bool tune = arguments->front() == "tune", power = arguments->front() == "power";
  const auto dashes = std::find(arguments->begin(), arguments->end(), "--");
  if ((!tune && !power) || dashes == arguments->end()) return true;
  std::vector<std::string> command(dashes + 1, arguments->end());
  arguments->erase(dashes, arguments->end());
  const bool some = !command.empty();
  (tune ? options->tune.harness : options->power.command) = std::move(command);
  return some;
}

// What CLI11 says, and what is meant most often.
std::string ParseError(const CLI::App& app, const CLI::ParseError& error, const Options& options) {
  const bool is_extra = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError);
  std::string text = error.what();
  if (is_extra) text += AboutUnknown(app);
  if (is_extra && app.got_subcommand("tune") && options.tune.harness.empty()) {
    text += "; the harness and its arguments come after --";
  }
  if (is_extra && app.got_subcommand("power") && options.power.command.empty()) {
    const CLI::App* const power = app.get_subcommand("power");
    if (power->got_subcommand("record") || power->got_subcommand("run")) {
      text += "; the command and its arguments come after --";
    } else if (power->got_subcommand("replay")) {
      text += "; one LOG at a time";
    }
  }
  return text;
}

bool IsCommand(const std::string& name) {
  return std::any_of(kCommands.begin(), kCommands.end(),
                     [&](const CommandInfo& info) { return name == info.name; });
}

// "xplane-time help power run" means "xplane-time power run --help". False: no such command.
bool TakeHelp(std::vector<std::string>* arguments) {
  if (arguments->empty() || arguments->front() != "help") return true;
  arguments->erase(arguments->begin());
  const bool general = arguments->empty() || arguments->front() == "help" ||
                       arguments->front() == "--help" || arguments->front() == "-h";
  if (general) *arguments = {"--help"};
  if (general) return true;
  arguments->push_back("--help");
  return IsCommand(arguments->front());
}

std::string UnknownCommand(const std::string& name) {
  const std::vector<std::string> names = CommandNames();
  return absl::StrCat("help ", name, ": no such command", DidYouMean(name, names), "; there are ",
                      CLI::detail::join(names, ", "));
}

// "xplane-time TRACE ..." means "xplane-time report TRACE ...".
std::vector<std::string> WithCommand(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  const bool top_level = arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h" ||
                         arguments[0] == "--version";
  if (!top_level && arguments[0] != "help" && !IsCommand(arguments[0]))
    arguments.insert(arguments.begin(), "report");
  return arguments;
}

}  // namespace

std::vector<std::string> CommandNames() {
  std::vector<std::string> names;
  for (const CommandInfo& info : kCommands) names.emplace_back(info.name);
  return names;
}

std::string_view CommandName(Command command) {
  return kCommands[static_cast<size_t>(command)].name;
}

Parsed ParseCommandLine(int argc, char** argv) {
  Options options;
  Texts texts;
  options.report.threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  CLI::App app;
  BuildApp(&app, &options, &texts);
  Parsed parsed;
  std::vector<std::string> arguments = WithCommand(argc, argv);
  if (arguments.empty()) {
    parsed.error =
        "no TRACE given. Usage: xplane-time [COMMAND] TRACE... [OPTIONS]; see xplane-time --help";
    parsed.exit_code = 64;
    return parsed;
  }
  if (!TakeHelp(&arguments)) {
    parsed.error = UnknownCommand(arguments[0]);
    parsed.exit_code = 64;
    return parsed;
  }
  if (!TakeCommand(&arguments, &options)) {
    parsed.error = "no command after --";
    parsed.exit_code = 64;
    return parsed;
  }
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them so
  try {
    app.parse(arguments);
  } catch (const CLI::CallForVersion&) {
    parsed.text = VersionText();
    return parsed;
  } catch (const CLI::CallForHelp&) {
    const std::vector<CLI::App*> chosen = app.get_subcommands();
    const CLI::App* of = chosen.empty() ? &app : chosen[0];
    const bool nested = !chosen.empty() && !chosen[0]->get_subcommands().empty();
    if (nested) of = chosen[0]->get_subcommands()[0];
    const std::string parent =
        nested ? absl::StrCat("xplane-time ", chosen[0]->get_name()) : std::string("xplane-time");
    parsed.text = of->help(chosen.empty() ? "" : parent);
    return parsed;
  } catch (const CLI::ParseError& error) {
    parsed.error = ParseError(app, error, options);
    parsed.exit_code = 64;
    return parsed;
  }
  parsed.error = Convert(texts, &options);
  if (parsed.error.empty()) parsed.error = ConvertColumns(texts, app, &options);
  if (parsed.error.empty()) {
    parsed.error = ConvertCompat(*app.get_subcommands()[0], texts, &options);
  }
  if (parsed.error.empty()) {
    parsed.error = IgnoredOption(*app.get_subcommands()[0], options);
  }
  if (parsed.error.empty()) {
    parsed.options = std::move(options);
  } else {
    parsed.exit_code = 64;
  }
  return parsed;
}

void VisitCommandLine(void (*visit)(const CLI::App& app, void* context), void* context) {
  Options options;
  Texts texts;
  CLI::App app;
  BuildApp(&app, &options, &texts);
  visit(app, context);
}

}  // namespace xplane_time::tools
