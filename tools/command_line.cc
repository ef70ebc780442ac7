// Parses the command line with CLI11 and runs the chosen command.
//
// Commands are registered by name and constructed on demand, because one run needs the options of a
// single command. Before parsing, Parse rewrites the arguments: a first argument that is not a
// command means `report`; `help` becomes --help; arguments after -- are removed if the command
// takes a program. Errors of CLI11 get hints: similar names, and commands that have the unknown
// option (AboutError).
#include <absl/base/config.h>
#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#if defined(XPLANE_TIME_REFERENCE_READER)
#include <google/protobuf/stubs/common.h>
#endif

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "command.h"
#include "insight/brief_words.h"
#include "near_names.h"
#include "output/output.h"
#include "output/page/page.h"
#include "output/text.h"
#include "process.h"
#include "sqlite/result_database.h"
#include "status.h"
#include "xplane_time/version.h"

namespace xplane_time::tools {
namespace {

constexpr std::string_view kDashes = "--";
constexpr char kMainGroup[] = "Subcommands";

std::string VersionText() {
  std::string readers = "wire";
#if defined(XPLANE_TIME_REFERENCE_READER)
  constexpr int kProtobuf = GOOGLE_PROTOBUF_VERSION;
  absl::StrAppend(&readers, ", protobuf ", kProtobuf / 1000000, ".", kProtobuf / 1000 % 1000, ".",
                  kProtobuf % 1000);
#endif
  return absl::StrCat("xplane-time ", XPLANE_TIME_VERSION_STRING, "\nreaders: ", readers,
                      "\ninputs: XSpace, gzip (zlib ", ZLIB_VERSION, ")\nabseil ",
                      ABSL_LTS_RELEASE_VERSION, ", re2, compiled by ", __VERSION__, "\n");
}

// Help that fits into 80 columns.
class NarrowFormatter : public CLI::Formatter {
 public:
  NarrowFormatter() { column_width(kColumn); }

  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    std::string text = absl::StrCat("  ", make_option_name(option, is_positional));
    if (!is_positional && !option->get_type_name().empty()) {
      absl::StrAppend(&text, " ", Value(option));
    }
    return InColumns(text, option->get_description());
  }

  std::string make_subcommand(const CLI::App* command) const override {
    return InColumns("  " + command->get_name(), command->get_description());
  }

 private:
  static constexpr size_t kWidth = 80, kColumn = 22;

  static std::string InColumns(const std::string& text, const std::string& description) {
    const std::string margin(kColumn, ' ');
    const bool fits = text.size() + 1 < kColumn;
    return absl::StrCat(text, fits ? margin.substr(text.size()) : "\n" + margin,
                        absl::StrReplaceAll(output::Wrap(description, kWidth - kColumn, 0),
                                            {{"\n", "\n" + margin}}),
                        "\n");
  }

  // "NS" from "NS:NONNEGATIVE"; the description already covers the checks.
  static std::string Value(const CLI::Option* option) {
    const std::string name = option->get_type_name();
    return name.substr(0, name.find(':'));
  }
};

// The chosen command: the innermost one.
const CLI::App* Chosen(const CLI::App* app) {
  while (!app->get_subcommands().empty()) app = app->get_subcommands()[0];
  return app;
}

std::vector<const CLI::App*> MainCommands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* each) { return each->get_group() == kMainGroup; });
}

// Suggestions for a misspelt option.
std::string AboutOption(const CLI::App& app, const CLI::App& chosen, const std::string& option) {
  std::vector<std::string> takers, own;
  for (const CLI::App* each : MainCommands(app)) {
    if (each->get_option_no_throw(option) != nullptr) takers.push_back(each->get_name());
  }
  if (!takers.empty()) {
    return absl::StrCat("; ", chosen.get_name(), " has no such option, but ",
                        absl::StrJoin(takers, ", "), takers.size() == 1 ? " has" : " have");
  }
  for (const CLI::Option* each : chosen.get_options()) {
    own.insert(own.end(), each->get_lnames().begin(), each->get_lnames().end());
  }
  const std::string given = option.substr(kDashes.size());
  const std::string near = DidYouMean(given, own, kDashes);
  const auto longer = std::ranges::find_if(
      own, [&](const std::string& each) { return each.ends_with("-" + given); });
  if (!near.empty() || longer == own.end()) return near;
  return "; did you mean " + std::string(kDashes) + *longer + "?";
}

// A hint for the first unknown argument that has one.
std::string AboutUnknown(const CLI::App& app) {
  const CLI::App& chosen = *Chosen(&app);
  for (const std::string& unknown : app.remaining(/*recurse=*/true)) {
    const std::string name = unknown.substr(0, unknown.find('='));
    std::string text = name.starts_with(kDashes) ? AboutOption(app, chosen, name)
                                                 : DidYouMean(name, CommandNames(chosen));
    if (!text.empty()) return text;
  }
  return "";
}

// "xplane-time power run": the command with those above it.
std::string FullName(const CLI::App* app) {
  const CLI::App* const above = app->get_parent();
  return above == nullptr ? app->get_name() : absl::StrCat(FullName(above), " ", app->get_name());
}

// The error for an option that was given more often than once; empty: the error is another one.
std::string AboutRepeated(const CLI::App& chosen) {
  for (const CLI::Option* option : chosen.get_options()) {
    const size_t given = option->count();
    if (option->get_positional() || given < 2 || option->get_expected_max() != 1) continue;
    const bool is_output = option->check_lname("output");
    return absl::StrCat(is_output ? "-o" : option->get_name(), " was given ",
                        given == 2 ? "twice" : absl::StrCat(given, " times"), "; ",
                        is_output ? "run the command once for each file" : "give it once");
  }
  return "";
}

// Checks that each given option has an effect: it is not empty, and it does not come before a
// subcommand that ignores it.
absl::Status CheckOptions(const CLI::App& chosen) {
  for (const CLI::App* app = &chosen; app->get_parent() != nullptr; app = app->get_parent()) {
    for (const CLI::Option* option : app->get_options()) {
      const std::vector<std::string>& given = option->results();
      if (app != &chosen && !given.empty()) {
        return UsageError(option->get_name(), " must come after ", chosen.get_name(),
                          ": options of ", chosen.get_name(), " follow its name");
      }
      if (std::ranges::find(given, "") != given.end()) {
        return UsageError(option->get_name(),
                          ": its value is empty; give a value or omit the option");
      }
    }
  }
  return absl::OkStatus();
}

// The number of threads changes no result, so results do not show it.
std::vector<std::string> WithoutThreads(const std::vector<std::string>& line) {
  constexpr std::string_view kThreads = "--threads";
  std::vector<std::string> words;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == "--") {
      words.insert(words.end(), line.begin() + static_cast<ptrdiff_t>(i), line.end());
      break;
    }
    if (line[i] == kThreads) {
      ++i;  // its value
    } else if (!line[i].starts_with(absl::StrCat(std::string(kThreads), "="))) {
      words.push_back(line[i]);
    }
  }
  return words;
}

}  // namespace

std::vector<std::string> CommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* each : MainCommands(app)) names.push_back(each->get_name());
  return names;
}

absl::StatusOr<int> Command::Execute(const std::vector<std::string>& line,
                                     std::vector<std::string> program) {
  printing_.how.command = insight::CommandText(WithoutThreads(line));
  program_ = std::move(program);
  const absl::Status chosen = printing_.ChooseFormat();
  RETURN_IF_ERROR(Check());
  RETURN_IF_ERROR(files_.CheckConflicts());
  RETURN_IF_ERROR(chosen);
  if (printing_.json_schema) return Print(output::JsonSchema(schema()));
  RETURN_IF_ERROR(files_.CheckResults());
  printing_.AdaptToTerminal();
  return Run();
}

absl::StatusOr<int> Command::Print(std::string_view text) const {
  RETURN_IF_ERROR(WriteText(printing_.path, text));
  return 0;
}

absl::StatusOr<int> Command::Print(const output::Output& output) const {
  ASSIGN_OR_RETURN(const std::string text, Rendered(output));
  return Print(text);
}

absl::StatusOr<std::string> Command::Rendered(const output::Output& output) const {
  if (printing_.how.format == output::Format::kSqlite) return sqlite::DatabaseOf(output.result);
  if (printing_.how.format == output::Format::kHtml) {
    return output::PageOf(output, printing_.how);
  }
  return output::Render(output, printing_.how);
}

absl::Status Command::Refuse(std::initializer_list<const char*> options,
                             std::string_view why) const {
  for (const char* option : options) {
    if (Given(*app_, option)) return InvalidArgument(option, " ", why);
  }
  return absl::OkStatus();
}

CommandLine::CommandLine() {
  app_.name("xplane-time");
  app_.formatter(std::make_shared<NarrowFormatter>());
  app_.description("Kernel and function times from traces of JAX, TensorFlow and PyTorch.");
  app_.footer(
      "Without a command, TRACE means report TRACE. Help: xplane-time help COMMAND.\nExit "
      "codes: 0 success; decisions: 10 slower, 11 undecided, 12 too little data,\n20 all variants "
      "failed, 21 wrong result; 64 usage, 65 invalid or unusable trace,\n66 input not found, 69 no "
      "harness, 70 internal error, 73 cannot write output,\n74 I/O error, 75 stopped early, can be "
      "resumed.");
  app_.set_version_flag("--version", VersionText());
  app_.require_subcommand(1);
}

CLI::App* CommandLine::AddApp(const CommandText& text, std::function<void()> chosen) {
  CLI::App* const parent = text.parent == nullptr ? &app_ : text.parent;
  CLI::App* const app = parent->add_subcommand(text.name, text.help);
  app->footer(absl::StrCat("Examples:\n", text.examples));
  app->group(text.group);
  if (chosen) app->callback(std::move(chosen));
  texts_[app] = text;
  return app;
}

void CommandLine::Make(const CLI::App* app) {
  const auto maker = makers_.find(app);
  if (maker == makers_.end() || commands_.contains(app)) return;
  commands_[app] = maker->second();
}

const CLI::App* CommandLine::CommandOf(const CLI::App& app, const std::string& name) {
  const auto found =
      app.get_subcommands([&](const CLI::App* each) { return each->check_name(name); });
  if (found.empty()) return nullptr;
  Make(found[0]);
  return found[0];
}

// "xplane-time help power run" means "xplane-time power run --help".
absl::Status CommandLine::TakeHelp(std::vector<std::string>* arguments) {
  const CLI::App* at = &app_;
  std::vector<std::string> line;
  for (size_t i = 1; i < arguments->size(); ++i) {
    const std::string& name = arguments->at(i);
    if (name == "--help" || name == "-h" || (i == 1 && name == "help")) break;
    const CLI::App* const above = std::exchange(at, CommandOf(*at, name));
    line.push_back(name);
    if (at != nullptr) continue;
    const std::vector<std::string> names = CommandNames(*above);
    return UsageError("help ", absl::StrJoin(line, " "), ": unknown command",
                      DidYouMean(name, names),
                      names.empty() ? "" : "; commands: ", absl::StrJoin(names, ", "));
  }
  line.push_back("--help");
  *arguments = std::move(line);
  return absl::OkStatus();
}

// The message of CLI11, with hints.
absl::Status CommandLine::AboutError(const CLI::ParseError& error, bool has_program) {
  std::string text = error.what();
  const CLI::App& chosen = *Chosen(&app_);
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ArgumentMismatch)) {
    const std::string repeated = AboutRepeated(chosen);
    return UsageError(repeated.empty() ? text : repeated);
  }
  if (error.get_exit_code() != static_cast<int>(CLI::ExitCodes::ExtrasError)) {
    return UsageError(text);
  }
  for (const CLI::App* each : MainCommands(app_)) Make(each);
  absl::StrAppend(&text, AboutUnknown(app_));
  for (const CLI::App* each = Chosen(&app_); each != &app_ && !has_program;
       each = each->get_parent()) {
    const std::string& hint = texts_.at(each).about_extra;
    if (hint.empty()) continue;
    absl::StrAppend(&text, "; ", hint);
    break;
  }
  // A guess at the meant option needs no list of all options.
  if (text.ends_with('?')) return UsageError(text);
  return UsageError(text, "; see ", FullName(&chosen), " --help");
}

// Reports a command that is not the first argument: "xplane-time TRACE where". After an option, the
// word may be its value: "--function where".
absl::Status CommandLine::CheckCommandIsFirst(const std::vector<std::string>& arguments) {
  for (const std::string& each : arguments) {
    if (each.starts_with('-')) break;
    std::error_code ignored;
    if (CommandOf(app_, each) == nullptr || std::filesystem::exists(each, ignored)) continue;
    return UsageError(each, " is a command and must come first: xplane-time ", each, " ",
                      arguments[0]);
  }
  return absl::OkStatus();
}

absl::StatusOr<int> CommandLine::Parse(std::vector<std::string> arguments) {
  if (arguments.empty()) {
    return UsageError(
        "no TRACE given. Usage: xplane-time [COMMAND] TRACE... [OPTIONS]; see xplane-time --help");
  }
  const std::vector<std::string> line = arguments;
  if (arguments.size() > 1 && arguments[1] == "help") {  // "power help run"
    const CLI::App* const app = CommandOf(app_, arguments[0]);
    if (app != nullptr && !CommandNames(*app).empty()) std::swap(arguments[0], arguments[1]);
  }
  // "xplane-time TRACE ..." means "xplane-time report TRACE ...".
  const std::string first = arguments[0];
  if (first == "help") {
    RETURN_IF_ERROR(TakeHelp(&arguments));
  } else if (first != "--help" && first != "-h" && first != "--version" &&
             CommandOf(app_, first) == nullptr) {
    RETURN_IF_ERROR(CheckCommandIsFirst(arguments));
    arguments.insert(arguments.begin(), "report");
  }
  // Arguments after -- are a command of the user.
  std::vector<std::string> program;
  const auto dashes = std::find(arguments.begin(), arguments.end(), kDashes);
  const bool runs_program = std::ranges::any_of(texts_, [&](const auto& each) {
    return each.second.runs_program && each.second.name == arguments[0];
  });
  if (runs_program && dashes != arguments.end()) {
    program.assign(dashes + 1, arguments.end());
    arguments.erase(dashes, arguments.end());
    if (program.empty()) return UsageError("no command after --");
  }
  std::reverse(arguments.begin(), arguments.end());  // CLI11 requires the reverse order
  try {
    app_.parse(arguments);
  } catch (const CLI::CallForVersion& version) {
    RETURN_IF_ERROR(WriteText("", version.what()));
    return 0;
  } catch (const CLI::CallForHelp&) {
    RETURN_IF_ERROR(WriteText("", app_.help()));
    return 0;
  } catch (const CLI::ParseError& error) {
    return AboutError(error, !program.empty());
  }
  const CLI::App* app = Chosen(&app_);
  RETURN_IF_ERROR(CheckOptions(*app));
  while (!commands_.contains(app)) app = app->get_parent();
  return commands_.at(app)->Execute(line, std::move(program));
}

int CommandLine::Main(int argc, char** argv) {
  const absl::StatusOr<int> exit_code = Parse({argv + 1, argv + argc});
  return exit_code.ok() ? *exit_code : Fail(exit_code.status());
}

}  // namespace xplane_time::tools
