// The command line of power: its subcommands share nothing with those that read traces.
#ifndef XPLANE_TIME_TOOLS_OPTIONS_POWER_H_
#define XPLANE_TIME_TOOLS_OPTIONS_POWER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "options_power_run.h"
#include "xplane_time/power.h"

namespace CLI {
class App;
}

namespace xplane_time::tools {

enum class PowerAction : uint8_t { kNone, kSources, kRecord, kReplay, kRun };

struct PowerCommand {
  PowerAction action = PowerAction::kNone;
  std::vector<std::string> command;  // record, run: what is after --
  std::string log_path;              // record: empty: none is kept; replay: what is read
  PowerRecordOptions record;
  PowerSummaryOptions summary;
  double duration_s = 0;  // record without a command; 0: until it is interrupted
  double idle_s = 0;      // record: before the command
  uint32_t repeat = 1;    // record

  std::optional<double> grams_co2e_per_kwh = {};  // adds modelled figures
  double pue = 1;
  PowerRunCommand run;

  bool plot = false;
  std::string svg_path;
  std::string format = "table";
  std::string output_path;
  bool quiet = false, json_schema = false;
};

// Options read as text and converted after parsing.
struct PowerTexts {
  double period_ms = 0;
  std::vector<std::string> ordinals;
  std::string estimator, format;
};
// Adds the subcommands of `power`.
void AddPower(CLI::App* power, PowerCommand* command, PowerTexts* texts);
// An error message where texts do not fit.
std::string ConvertPower(const PowerTexts& texts, PowerCommand* command);

}  // namespace xplane_time::tools

#endif  // XPLANE_TIME_TOOLS_OPTIONS_POWER_H_
