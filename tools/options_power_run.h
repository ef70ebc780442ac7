// The command line of power run.
#ifndef XPLANE_TIME_TOOLS_OPTIONS_POWER_RUN_H_
#define XPLANE_TIME_TOOLS_OPTIONS_POWER_RUN_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "xplane_time/power.h"

namespace CLI {
class App;
}

namespace xplane_time::tools {

struct PowerRunCommand {
  std::string records_path;
  std::vector<std::string> command;  // what is after --
  std::string model, dataset;        // empty: the command's name, the file's
  std::string output_root = "runs";
  std::optional<uint64_t> max_queries;
  bool overwrite = false, resume = false, retry_failed = false;
  double timeout_s = 600;
  int most_failures = 3;
  PowerSourceOptions from;  // the source "none" alone: no telemetry
  std::string format = "table";
  std::string progress = "auto";
  bool quiet = false;
};

// Adds `run` to `power`; `chosen` is called where it was given. Sensors are the caller's.
CLI::App* AddPowerRun(CLI::App* power, PowerRunCommand* command, std::function<void()> chosen);
// An error message where options do not fit.
std::string ConvertPowerRun(PowerRunCommand* command);

}  // namespace xplane_time::tools

#endif  // XPLANE_TIME_TOOLS_OPTIONS_POWER_RUN_H_
