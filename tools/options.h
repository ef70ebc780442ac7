// Options: the command line, parsed into plain structs. CLI11 stays in options.cc.
#ifndef XPLANE_TIME_TOOLS_OPTIONS_H_
#define XPLANE_TIME_TOOLS_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "options_power.h"
#include "options_tune.h"
#include "output/results.h"
#include "xplane_time/compare.h"
#include "xplane_time/compat.h"
#include "xplane_time/pick.h"
#include "xplane_time/read.h"
#include "xplane_time/report.h"

namespace CLI {
class App;
}

namespace xplane_time::tools {

enum class Command : uint8_t {
  kReport,
  kPlanes,
  kFunctions,
  kKernels,
  kTree,
  kEvents,
  kCompare,
  kPick,
  kTune,
  kPower
};
enum class When : uint8_t { kAuto, kAlways, kNever };

// Of compare and pick.
struct DecideOptions {
  std::vector<std::string> base, head;  // compare
  CompareOptions compare;
  PickOptions pick;
  std::string space_path;  // pick; empty: none
  BenchmarkTime benchmark_time = BenchmarkTime::kReal;
  output::Format format = output::Format::kTable;
};

struct Options {
  Command command = Command::kReport;
  std::vector<std::string> traces;
  FindOptions find;
  ReadOptions read;
  ReportOptions report;
  output::OutputOptions output;
  std::string output_path;  // -o; empty: standard output
  When color = When::kAuto, progress = When::kAuto;
  bool quiet = false;
  bool json_schema = false;

  bool samples = false, by_id = false;  // functions
  bool with_stats = false;              // planes
  std::string line, name;               // tree, events
  uint32_t depth = 0;                   // tree
  std::vector<std::string> stats;       // events
  std::optional<compat::Tool> compat;   // report, functions: by this tool's definition
  std::string compat_device;            // as given; empty: not given
  DecideOptions decide;
  TuneCommand tune;
  PowerCommand power;
};

std::string_view CommandName(Command command);
std::vector<std::string> CommandNames();

// What to do after parsing.
struct Parsed {
  std::optional<Options> options;  // else: print `text` and exit
  std::string text;                // help or version: for standard output
  std::string error;               // for standard error
  int exit_code = 0;
};
Parsed ParseCommandLine(int argc, char** argv);

// The parser itself, for generating shell completions from it.
void VisitCommandLine(void (*visit)(const CLI::App& app, void* context), void* context);

}  // namespace xplane_time::tools

#endif  // XPLANE_TIME_TOOLS_OPTIONS_H_
