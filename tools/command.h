// Command: one subcommand of the program. The file cmd_NAME.cc has its options, its help and its
// code, and adds it to the command line.
//
//   class Planes : public Command {
//    public:
//     explicit Planes(CLI::App* app) : Command(app) { ... }   // adds its options
//     absl::Status Check() override;                          // checks options, names files
//     absl::StatusOr<int> Run() override;                     // the exit code
//   };
//
//   line->Add<Planes>({"planes", "Planes, lines, event counts", "  xplane-time planes t.pb\n"});
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "files.h"
#include "options.h"
#include "status.h"
#include "xplane_time/power_run.h"

namespace xplane_time::tools {

class Command {
 public:
  explicit Command(CLI::App* app) : app_(app) {}
  virtual ~Command() = default;
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  // Called after parsing: adds the command's files to files_. Errors: InvalidArgument if options
  // contradict each other.
  virtual absl::Status Check() = 0;
  // Returns the exit code.
  virtual absl::StatusOr<int> Run() = 0;
  // The name of the schema that --json-schema prints.
  virtual std::string schema() const { return app_->get_name(); }

  // Runs the whole command. `line` are the arguments; `program` are those after --.
  absl::StatusOr<int> Execute(const std::vector<std::string>& line,
                              std::vector<std::string> program);

 protected:
  // Writes to the file of -o; returns exit code 0.
  absl::StatusOr<int> Print(std::string_view text) const;
  absl::StatusOr<int> Print(const output::Output& output) const;
  // In the requested format.
  absl::StatusOr<std::string> Rendered(const output::Output& output) const;
  // InvalidArgument "OPTION WHY" if one of the options was given.
  absl::Status Refuse(std::initializer_list<const char*> options, std::string_view why) const;

  CLI::App* const app_;
  Printing printing_;
  FileRoles files_;
  std::vector<std::string> program_;
};

struct CommandText {
  std::string name, help;
  std::string examples;       // one for each line
  bool runs_program = false;  // the arguments after -- are a command of the user
  // Hint for surplus arguments without a preceding --.
  std::string about_extra = {};
  std::string group = "Subcommands";  // the main group
  CLI::App* parent = nullptr;         // null: xplane-time itself
};

// All commands in the order of the help, and parsing of the command line.
class CommandLine {
 public:
  CommandLine();

  CLI::App* app() { return &app_; }
  // Adds a command of type T. The object is constructed from its app and `arguments` when it is
  // needed: when the command line chooses it, or to list its options.
  template <typename T, typename... Arguments>
  void Add(const CommandText& text, Arguments... arguments) {
    CLI::App* const app = AddApp(text);
    makers_[app] = [=] { return std::make_unique<T>(app, arguments...); };
    app->preparse_callback([this, app](size_t /*left*/) { Make(app); });
  }
  // For a command without its own object: `chosen` informs its parent.
  CLI::App* AddApp(const CommandText& text, std::function<void()> chosen = {});

  // Parses the command line and runs the command; returns the exit code.
  int Main(int argc, char** argv);

 private:
  absl::StatusOr<int> Parse(std::vector<std::string> arguments);
  // Constructs the command, which adds its options and subcommands.
  void Make(const CLI::App* app);
  // Null if there is no such command below `app`.
  const CLI::App* CommandOf(const CLI::App& app, const std::string& name);
  absl::Status TakeHelp(std::vector<std::string>* arguments);
  absl::Status CheckCommandIsFirst(const std::vector<std::string>& arguments);
  absl::Status AboutError(const CLI::ParseError& error, bool has_program);

  CLI::App app_;
  std::map<const CLI::App*, CommandText> texts_;
  std::map<const CLI::App*, std::function<std::unique_ptr<Command>()>> makers_;
  std::map<const CLI::App*, std::unique_ptr<Command>> commands_;
};

// The commands, by file: cmd_NAME.cc.
void AddReport(CommandLine* line);
void AddEvents(CommandLine* line);
void AddBrief(CommandLine* line);
void AddWhere(CommandLine* line);
void AddHeadroom(CommandLine* line);
void AddEnergy(CommandLine* line);
void AddDecisions(CommandLine* line);
void AddDiff(CommandLine* line);
void AddFleet(CommandLine* line);
void AddTune(CommandLine* line);
void AddGrid(CommandLine* line);
void AddPower(CommandLine* line);
void AddVerify(CommandLine* line);

// Starts the telemetry for a command with its process id. Errors: FailedPrecondition (no sensor).
using TelemetryFactory =
    absl::StatusOr<std::unique_ptr<Telemetry>> (*)(const PowerSourceOptions& from, bool quiet);
// power run, below power. The factory is for tests; by default, a recorder of the sources is used.
void AddPowerRun(CommandLine* line, CLI::App* parent, TelemetryFactory telemetry_of = nullptr);

// Also below power.
void AddPowerCalibrate(CommandLine* line, CLI::App* parent);
void AddPowerPlan(CommandLine* line, CLI::App* parent);
void AddPowerClients(CommandLine* line, CLI::App* parent);
void AddPowerDatasets(CommandLine* line, CLI::App* parent);

// The names of commands in the main group.
std::vector<std::string> CommandNames(const CLI::App& app);
// For invalid command lines.
inline constexpr const auto& UsageError = InvalidArgument;

}  // namespace xplane_time::tools
