// The options of power's subcommands.
#include "options_power.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/numbers.h"

#include "options_parts.h"

namespace xplane_time::tools {
namespace {

constexpr char kSensors[] = "Sensors", kWhat[] = "Recording", kEnergy[] = "Energy";

void AddSensors(CLI::App* app, PowerCommand* o, PowerTexts* t) {
  PowerSourceOptions* from = &o->record.from;
  app->add_option("--source", from->sources,
                  "nvml, rapl, hwmon, process, constant:WATTS or replay:LOG, several with commas "
                  "[the first four]")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAME")
      ->group(kSensors);
  app->add_option("--map", t->ordinals,
                  "The device that the program sees as ORDINAL, where its order is not known")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("ORDINAL=ID")
      ->group(kSensors);
  app->add_option("--nvml-library", from->roots.nvml_library, "[libnvidia-ml.so.1]")
      ->type_name("FILE")
      ->group(kSensors);
  app->add_option("--sysfs-root", from->roots.sysfs, "[/sys]")->type_name("DIR")->group(kSensors);
  app->add_option("--procfs-root", from->roots.procfs, "[/proc]")
      ->type_name("DIR")
      ->group(kSensors);
}

void AddPowerOutput(CLI::App* app, PowerCommand* o, PowerTexts* t,
                    const std::vector<std::string>& formats) {
  app->add_option("--format", t->format, absl::StrCat("One of ", CLI::detail::join(formats, ", ")))
      ->check(CLI::IsMember(formats))
      ->type_name("NAME")
      ->group(kOut);
  app->add_option("-o,--output", o->output_path, "Write there; complete or not at all")
      ->type_name("FILE")
      ->group(kOut);
}

void AddSummary(CLI::App* app, PowerCommand* o, PowerTexts* t) {
  app->add_option("--estimator", t->estimator,
                  "best (the counter, else held), counter, held, trapezoid or endpoint-mean [best]")
      ->check(CLI::IsMember({"best", "counter", "held", "trapezoid", "endpoint-mean"}))
      ->type_name("NAME")
      ->group(kEnergy);
  app->add_option("--co2", o->grams_co2e_per_kwh,
                  "Grams of CO2e a kWh where it ran: adds kWh and CO2e, as modelled")
      ->check(CLI::NonNegativeNumber)
      ->type_name("G")
      ->group(kEnergy);
  app->add_option("--pue", o->pue, "The building's energy over the machines', for --co2 [1]")
      ->check(CLI::Range(1.0, 100.0))
      ->type_name("RATIO")
      ->group(kEnergy);
  app->add_flag("--plot", o->plot, "With power over time")->group(kOut);
  app->add_option("--svg", o->svg_path, "The same as a picture")->type_name("FILE")->group(kOut);
  AddPowerOutput(app, o, t, {"table", "json", "csv", "markdown", "openmetrics"});
}

void AddRecording(CLI::App* app, PowerCommand* o, PowerTexts* t) {
  app->add_option("--log", o->log_path, "Keep the readings there (docs/power-log.md)")
      ->type_name("FILE")
      ->group(kWhat);
  app->add_option("--duration", o->duration_s, "Without a command: so long [until Ctrl-C]")
      ->check(CLI::Range(0.001, 1e8))
      ->type_name("S")
      ->group(kWhat);
  app->add_option("--idle", o->idle_s, "Before the command, measure so long what idle takes")
      ->check(CLI::Range(0.001, 1e6))
      ->type_name("S")
      ->group(kWhat);
  app->add_option("-r,--repeat", o->repeat, "Run the command so often, a window each [1]")
      ->check(CLI::Range(1, 1'000'000))
      ->type_name("N")
      ->group(kWhat);
  app->add_option("--period", t->period_ms,
                  "Between readings [50 for nvml and hwmon, 10 for rapl, 100 for process]")
      ->check(CLI::Range(1.0, 1e6))
      ->type_name("MS")
      ->group(kWhat);
}

// What a file's name asks for, where --format does not.
std::string FormatBySuffix(const std::string& path) {
  if (path.ends_with(".prom")) return "openmetrics";
  const std::string format = FormatOfSuffix(path);
  return format.empty() || format == "junit" ? "table" : format;
}

CLI::App* AddAction(CLI::App* power, const char* name, const char* help, PowerAction action,
                    PowerCommand* command) {
  CLI::App* app = power->add_subcommand(name, help);
  app->callback([command, action] { command->action = action; });
  return app;
}

}  // namespace

void AddPower(CLI::App* power, PowerCommand* o, PowerTexts* t) {
  power->require_subcommand(0, 1);
  power->add_flag("--json-schema", o->json_schema, "Print the JSON Schema of summaries");
  CLI::App* sources =
      AddAction(power, "sources", "Which sensors there are, which not, and how to get them",
                PowerAction::kSources, o);
  AddSensors(sources, o, t);
  AddPowerOutput(sources, o, t, {"table", "json"});
  CLI::App* record = AddAction(power, "record", "Readings while a command runs, after --",
                               PowerAction::kRecord, o);
  AddSensors(record, o, t);
  AddRecording(record, o, t);
  AddSummary(record, o, t);
  record->add_flag("--quiet", o->quiet, "Errors only on standard error")->group(kOut);
  CLI::App* replay =
      AddAction(power, "replay", "What a log says; nvidia-smi's CSV too", PowerAction::kReplay, o);
  replay->add_option("LOG", o->log_path, "What power record --log kept")->required();
  AddSummary(replay, o, t);
  AddSensors(AddPowerRun(power, &o->run, [o] { o->action = PowerAction::kRun; }), o, t);
}

std::string ConvertPower(const PowerTexts& t, PowerCommand* o) {
  constexpr double kNsPerMs = 1e6;
  o->record.period_ns = std::llround(t.period_ms * kNsPerMs);
  o->record.log_path = o->action == PowerAction::kRecord ? o->log_path : "";
  for (const std::string& each : t.ordinals) {
    const size_t equals = each.find('=');
    int32_t ordinal = 0;
    if (equals == std::string::npos || equals + 1 == each.size() ||
        !absl::SimpleAtoi(each.substr(0, equals), &ordinal) || ordinal < 0) {
      return absl::StrCat("--map: ORDINAL=ID, as 0=GPU-1234, not '", each, "'");
    }
    o->record.from.ordinals[ordinal] = each.substr(equals + 1);
  }
  if (o->action == PowerAction::kNone && !o->json_schema) {
    return "power: which? sources, record, replay or run; see xplane-time power --help";
  }
  for (const double time : {o->duration_s, o->idle_s, t.period_ms}) {
    if (!std::isfinite(time)) return "--duration, --idle and --period: nan is no time";
  }
  if (!t.estimator.empty()) o->summary.estimator = *EnergyEstimatorOf(t.estimator);
  if (o->action == PowerAction::kRun) {
    o->run.from = o->record.from;
    o->run.command = o->command;
    return ConvertPowerRun(&o->run);
  }
  o->format = t.format.empty() ? FormatBySuffix(o->output_path) : t.format;
  if (o->plot && o->format != "table") return "--plot is for the table; --svg for a picture";
  if (o->action != PowerAction::kRecord) return "";
  const bool runs = !o->command.empty();
  if (runs && o->duration_s > 0) return "--duration is for recording without a command";
  if (!runs && (o->repeat > 1 || o->idle_s > 0)) {
    return "--repeat and --idle need a command: xplane-time power record -- COMMAND...";
  }
  return "";
}

}  // namespace xplane_time::tools
