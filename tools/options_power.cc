// The options of power's subcommands.
#include "options_power.h"

#include <cmath>

#include "absl/strings/numbers.h"

#include "options_parts.h"

namespace xplane_time::tools {
namespace {

constexpr char kSensors[] = "Sensors", kWhat[] = "Recording", kEnergy[] = "Energy";

// `also`: what else a source may be.
void AddSensors(CLI::App* app, const char* also, PowerCommand* o, PowerTexts* t) {
  PowerSourceOptions* from = &o->record.from;
  app->add_option(
         "--source", from->sources,
         absl::StrCat(
             "nvml, rapl, hwmon, process, constant:WATTS or replay:LOG, several with commas", also,
             " [the first four]"))
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAME")
      ->group(kSensors);
  AddSensorPlaces(app, kSensors, from, &t->ordinals);
  app->add_option("--procfs-root", from->roots.procfs, "[/proc]")
      ->type_name("DIR")
      ->group(kSensors);
}

void AddSummary(CLI::App* app, PowerCommand* o, PowerTexts* t) {
  app->add_option("--estimator", t->estimator,
                  "best (the counter, else held), counter, held, trapezoid or endpoint-mean [best]")
      ->check(CLI::IsMember({"best", "counter", "held", "trapezoid", "endpoint-mean"}))
      ->type_name("NAME")
      ->group(kEnergy);
  CLI::Option* co2 =
      app->add_option("--co2", o->grams_co2e_per_kwh,
                      "Grams of CO2e a kWh where it ran: adds Wh and CO2e, as modelled")
          ->check(NumberValidator(0, 1'000'000'000))
          ->type_name("G")
          ->group(kEnergy);
  app->add_option("--pue", o->pue, "The building's energy over the machines', with --co2 [1]")
      ->needs(co2)
      ->check(NumberValidator(1, 100))
      ->type_name("RATIO")
      ->group(kEnergy);
  app->add_flag("--plot", o->plot, "With power over time")->group(kOut);
  app->add_option("--svg", o->svg_path, "The same as a picture")->type_name("FILE")->group(kOut);
  AddFormatAndOutput(app, {"table", "json", "csv", "markdown", "openmetrics"}, &t->format,
                     &o->output_path);
}

void AddRecording(CLI::App* app, PowerCommand* o, PowerTexts* t) {
  app->add_option("--log", o->log_path, "Keep the readings there (docs/power-log.md)")
      ->type_name("FILE")
      ->group(kWhat);
  app->add_option("--duration", o->duration_s, "Without a command: so long [until Ctrl-C]")
      ->check(NumberValidator(0.001, 100'000'000))
      ->type_name("S")
      ->group(kWhat);
  app->add_option("--idle", o->idle_s, "Before the command, measure so long what idle takes")
      ->check(NumberValidator(0.001, 1'000'000))
      ->type_name("S")
      ->group(kWhat);
  app->add_option("-r,--repeat", o->repeat, "Run the command so often, a window each [1]")
      ->check(CLI::Range(1, 1'000'000))
      ->type_name("N")
      ->group(kWhat);
  app->add_option("--period", t->period_ms,
                  "Between readings [50 for nvml and hwmon, 10 for rapl, 100 for process]")
      ->check(NumberValidator(1, 1'000'000))
      ->type_name("MS")
      ->group(kWhat);
}

// What a file's name asks for, where --format does not.
std::string FormatBySuffix(const std::string& path) {
  if (path.ends_with(".prom")) return "openmetrics";
  const std::string format = FormatOfSuffix(path);
  return format.empty() || format == "junit" ? "table" : format;
}

}  // namespace

void AddPower(CLI::App* power, PowerCommand* o, PowerTexts* t) {
  power->require_subcommand(0, 1);
  power->add_flag("--json-schema", o->json_schema, "Print the JSON Schema of summaries");
  CLI::App* sources =
      AddAction(power, "sources", "Which sensors there are, which not, and how to get them",
                "  xplane-time power sources\n"
                "  xplane-time power sources --source nvml,rapl --format json\n",
                [o] { o->action = PowerAction::kSources; });
  AddSensors(sources, "", o, t);
  AddFormatAndOutput(sources, {"table", "json"}, &t->format, &o->output_path);
  sources->add_flag("--json-schema", o->json_schema, "Print the JSON Schema of this list");
  CLI::App* record =
      AddAction(power, "record", "Readings while a command runs, after --",
                "  xplane-time power record -- python train.py\n"
                "  xplane-time power record --idle 10 -r 5 --log power.jsonl -- ./bench\n"
                "  xplane-time power record --source nvml --duration 60 --plot\n",
                [o] { o->action = PowerAction::kRecord; });
  AddSensors(record, "", o, t);
  AddRecording(record, o, t);
  AddSummary(record, o, t);
  record->add_flag("--quiet", o->quiet, "Errors only on standard error")->group(kOut);
  CLI::App* replay =
      AddAction(power, "replay", "What a log says; nvidia-smi's CSV too",
                "  xplane-time power replay power.jsonl --svg power.svg\n"
                "  xplane-time power replay power.jsonl --co2 400 --pue 1.2 --format json\n"
                "  xplane-time power replay nvidia-smi.csv --estimator trapezoid\n",
                [o] { o->action = PowerAction::kReplay; });
  replay->add_option("LOG", o->log_path, "What power record --log kept")->required();
  AddSummary(replay, o, t);
  CLI::App* run = AddPowerRun(power, &o->run, [o] { o->action = PowerAction::kRun; });
  AddSensors(run, "; or none: without, every energy null", o, t);
  run->add_flag("--json-schema", o->json_schema, "Print the JSON Schema of summary and records");
}

void AddSensorPlaces(CLI::App* app, const char* group, PowerSourceOptions* from,
                     std::vector<std::string>* ordinals) {
  app->add_option("--map", *ordinals,
                  "The device that the program sees as ORDINAL, where its order is not known")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("ORDINAL=ID")
      ->group(group);
  app->add_option("--nvml-library", from->roots.nvml_library, "[libnvidia-ml.so.1]")
      ->type_name("FILE")
      ->group(group);
  app->add_option("--sysfs-root", from->roots.sysfs, "[/sys]")->type_name("DIR")->group(group);
}

std::string ConvertOrdinals(const std::vector<std::string>& ordinals, PowerSourceOptions* from) {
  for (const std::string& each : ordinals) {
    const size_t equals = each.find('=');
    int32_t ordinal = 0;
    if (equals == std::string::npos || equals + 1 == each.size() ||
        !absl::SimpleAtoi(each.substr(0, equals), &ordinal) || ordinal < 0) {
      return absl::StrCat("--map: ORDINAL=ID, as 0=GPU-1234, not '", each, "'");
    }
    from->ordinals[ordinal] = each.substr(equals + 1);
  }
  return "";
}

std::string ConvertPower(const PowerTexts& t, PowerCommand* o) {
  constexpr double kNsPerMs = 1e6;
  o->record.period_ns = std::llround(t.period_ms * kNsPerMs);
  o->record.log_path = o->action == PowerAction::kRecord ? o->log_path : "";
  const std::string bad_map = ConvertOrdinals(t.ordinals, &o->record.from);
  if (!bad_map.empty()) return bad_map;
  if (o->action == PowerAction::kNone && !o->json_schema) {
    return "power: which? sources, record, replay or run; see xplane-time power --help";
  }
  if (!t.estimator.empty()) o->summary.estimator = *EnergyEstimatorOf(t.estimator);
  if (o->action == PowerAction::kRun) {
    o->run.from = o->record.from;
    o->run.command = o->command;
    return o->json_schema ? "" : ConvertPowerRun(&o->run);
  }
  o->format = t.format.empty() ? FormatBySuffix(o->output_path) : t.format;
  if (o->plot && o->format != "table") return "--plot is for the table; --svg for a picture";
  const bool runs = !o->command.empty();
  if (o->action != PowerAction::kRecord) {
    return runs ? "only power record and power run have a command after --" : "";
  }
  if (runs && o->duration_s > 0) return "--duration is for recording without a command";
  if (!runs && (o->repeat > 1 || o->idle_s > 0)) {
    return "--repeat and --idle need a command: xplane-time power record -- COMMAND...";
  }
  return "";
}

}  // namespace xplane_time::tools
