// The options of power run.
#include "options_power_run.h"

#include <filesystem>
#include <utility>

#include "options_parts.h"

namespace xplane_time::tools {
namespace {

constexpr char kAsking[] = "Asking", kKeeping[] = "Output";

void AddAsking(CLI::App* app, PowerRunCommand* o) {
  app->add_option("--model", o->model, "What it is called in the results [the command's name]")
      ->type_name("NAME")
      ->group(kAsking);
  app->add_option("--dataset", o->dataset, "What RECORDS is called [the file's name]")
      ->type_name("NAME")
      ->group(kAsking);
  app->add_option("--max-queries", o->max_queries, "Only the first N records")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 53))
      ->type_name("N")
      ->group(kAsking);
  app->add_option("--timeout", o->timeout_s,
                  "An answer that takes longer ends the command, which is started anew, in "
                  "seconds [600]")
      ->check(NumberValidator(0.001, 1'000'000))
      ->type_name("S")
      ->group(kAsking);
  app->add_option("--most-failures", o->most_failures,
                  "The command may be lost so often in a row [3]")
      ->check(CLI::Range(1, 1'000'000))
      ->type_name("N")
      ->group(kAsking);
}

void AddKeeping(CLI::App* app, PowerRunCommand* o) {
  app->add_option("--output-dir", o->output_root,
                  "The directory profile_HARDWARE_MODEL_DATASET is made there [runs]")
      ->type_name("DIR")
      ->group(kKeeping);
  CLI::Option* resume =
      app->add_flag("--resume", o->resume, "Go on where the last run ended, whatever ended it")
          ->group(kKeeping);
  app->add_flag("--retry-failed", o->retry_failed,
                "With --resume: records that failed are asked again")
      ->needs(resume)
      ->group(kKeeping);
  app->add_flag("--overwrite", o->overwrite, "Throw away what is there")
      ->excludes(resume)
      ->group(kKeeping);
  app->add_option("--format", o->format, "Of what is printed at the end: table, json [table]")
      ->check(CLI::IsMember({"table", "json"}))
      ->type_name("NAME")
      ->group(kKeeping);
  app->add_option("--progress", o->progress, "auto (a terminal: live, else a log), always, never")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->type_name("WHEN")
      ->group(kKeeping);
  app->add_flag("--quiet", o->quiet, "Errors only: no progress, no table at the end")
      ->group(kKeeping);
}

}  // namespace

CLI::App* AddPowerRun(CLI::App* power, PowerRunCommand* o, std::function<void()> chosen) {
  CLI::App* app = AddAction(
      power, "run", "Each record of a file through a command, with the energy of its answer",
      "  xplane-time power run problems.jsonl -- python answer.py\n"
      "  xplane-time power run problems.jsonl --resume -- python answer.py\n"
      "  xplane-time power run problems.jsonl --source none -- ./answer\n\n"
      "Without a sensor of power or energy it does not start: --source none runs\n"
      "without, every energy null.\n",
      std::move(chosen));
  app->add_option("RECORDS", o->records_path,
                  "JSON Lines with a \"problem\" each; the command and its arguments come after "
                  "-- (docs/power-run.md)");
  AddAsking(app, o);
  AddKeeping(app, o);
  return app;
}

std::string ConvertPowerRun(PowerRunCommand* o) {
  if (o->records_path.empty()) return "no RECORDS given; see xplane-time power run --help";
  if (o->command.empty()) return "no command given: xplane-time power run RECORDS -- COMMAND...";
  const auto stem = [](const std::string& path) {
    return std::filesystem::path(path).stem().string();
  };
  if (o->model.empty()) o->model = stem(o->command[0]);
  if (o->dataset.empty()) o->dataset = stem(o->records_path);
  return "";
}

}  // namespace xplane_time::tools
