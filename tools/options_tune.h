// The command line of tune: its subcommands share nothing with those that read traces.
#ifndef XPLANE_TIME_TOOLS_OPTIONS_TUNE_H_
#define XPLANE_TIME_TOOLS_OPTIONS_TUNE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "xplane_time/decide.h"
#include "xplane_time/power.h"
#include "xplane_time/space.h"

namespace CLI {
class App;
}

namespace xplane_time::tools {

enum class TuneAction : uint8_t { kRun, kDecide, kReplay, kShow, kExport };

struct TuneCommand {
  TuneAction action = TuneAction::kRun;
  std::string space_path;            // run; decide: optional
  std::vector<std::string> harness;  // run: what is after --
  std::string store_path = "tune.db";
  int64_t session = 0;  // replay, show, export; 0: the latest
  bool resume = false;  // run

  DecideConfig decide;
  std::string changes_json = "{}";  // replay: what differs from the session's rule
  std::string incumbent, baseline;
  uint64_t confirmation_rounds = 10;
  Choice choice;
  std::string strategy = "all";
  uint64_t halve_to = 0, ask_for = 0;  // 0: no such search
  std::string proposer;
  int64_t calls = 1;
  double slot_timeout_s = 60, prepare_timeout_s = 600, run_limit = 10;
  std::string workload;  // empty: the space's name
  std::string harness_log;
  PowerSourceOptions power;  // of objectives with energy

  // run, show, replay: table, json; export: csv, json, t4, tuned. Empty: by the suffix of -o.
  std::string format;
  std::string output_path;
  std::string progress = "auto";
  bool quiet = false, json_schema = false;
  bool list = false;  // run: a dry one
};

// Options read as text and converted after parsing.
struct TuneTexts {
  std::string stop, objective, strategy = "all", alpha, tie_alpha, delta;
  std::string budget_time_s;
  std::vector<std::string> ordinals;
  std::optional<uint64_t> seed;
};
// Adds what `tune` takes, and its subcommands.
void AddTune(CLI::App* tune, TuneCommand* command, TuneTexts* texts);
// An error message where texts do not fit.
std::string ConvertTune(const TuneTexts& texts, TuneCommand* command);

}  // namespace xplane_time::tools

#endif  // XPLANE_TIME_TOOLS_OPTIONS_TUNE_H_
