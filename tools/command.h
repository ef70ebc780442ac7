// Command: a room of the house. Its options, what it does and its help are together in a file
// cmd_NAME.cc, which adds it to the line.
//
//   class Planes : public Command {
//    public:
//     explicit Planes(CLI::App* app) : Command(app) { ... }   // adds its options
//     absl::Status Check() override;                          // do they fit together? which files?
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

  // Of a line that is parsed: names its files in files_. Errors: InvalidArgument, where options do
  // not fit together.
  virtual absl::Status Check() = 0;
  // Returns the exit code.
  virtual absl::StatusOr<int> Run() = 0;
  // Of what --json-schema prints.
  virtual std::string schema() const { return app_->get_name(); }

  // All of it. `line`: the arguments; `program`: what is after --.
  absl::StatusOr<int> Execute(const std::vector<std::string>& line,
                              std::vector<std::string> program);

 protected:
  // To where -o says; returns exit code 0.
  absl::StatusOr<int> Print(std::string_view text) const;
  absl::StatusOr<int> Print(const output::Output& output) const;
  // In the format that is asked for.
  absl::StatusOr<std::string> Rendered(const output::Output& output) const;
  // InvalidArgument where one of them is on the line: "OPTION WHY".
  absl::Status Refuse(std::initializer_list<const char*> options, std::string_view why) const;

  CLI::App* const app_;
  Printing printing_;
  FileRoles files_;
  std::vector<std::string> program_;
};

struct CommandText {
  std::string name, help;
  std::string examples;       // a line each
  bool runs_program = false;  // what is after -- is a command of the user's
  // Of arguments that are too many, where nothing is after --.
  std::string about_extra = {};
  std::string group = "Subcommands";  // the main one
  CLI::App* parent = nullptr;         // none: xplane-time itself
};

// Commands in the order of the help, and the line that chooses one of them.
class CommandLine {
 public:
  CommandLine();

  CLI::App* app() { return &app_; }
  // A command that is an object of type T, made of its app and `arguments` when it is needed:
  // where the line chooses it, or to tell of its options.
  template <typename T, typename... Arguments>
  void Add(const CommandText& text, Arguments... arguments) {
    CLI::App* const app = AddApp(text);
    makers_[app] = [=] { return std::make_unique<T>(app, arguments...); };
    app->preparse_callback([this, app](size_t /*left*/) { Make(app); });
  }
  // For a command without an object of its own: `chosen` tells its parent.
  CLI::App* AddApp(const CommandText& text, std::function<void()> chosen = {});

  // Runs the command that the line names; returns the exit code.
  int Main(int argc, char** argv);

 private:
  absl::StatusOr<int> Parse(std::vector<std::string> arguments);
  // With its options and subcommands, from now on.
  void Make(const CLI::App* app);
  // None: there is no such command below `app`.
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

// Telemetry of sources for a command with their process id. Errors: FailedPrecondition: no sensor.
using TelemetryFactory =
    absl::StatusOr<std::unique_ptr<Telemetry>> (*)(const PowerSourceOptions& from, bool quiet);
// power run, below power. Without a factory, which is for tests: a recorder of the sources.
void AddPowerRun(CommandLine* line, CLI::App* parent, TelemetryFactory telemetry_of = nullptr);

// Below power, too.
void AddPowerCalibrate(CommandLine* line, CLI::App* parent);
void AddPowerPlan(CommandLine* line, CLI::App* parent);
void AddPowerClients(CommandLine* line, CLI::App* parent);
void AddPowerDatasets(CommandLine* line, CLI::App* parent);

// Those of the main group.
std::vector<std::string> CommandNames(const CLI::App& app);
// Of a line that cannot be meant so.
inline constexpr const auto& UsageError = InvalidArgument;

}  // namespace xplane_time::tools
