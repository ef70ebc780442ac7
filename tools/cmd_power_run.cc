// power run: asks a file of problems through a client, and records the energy of each answer.
//
// Run opens the data set, starts the client and the telemetry, opens or resumes the directory of
// the run, and calls RunPower, which asks the records and stores the answers. Finish prints a
// summary. The run can be resumed at any time: stored records are not asked again.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "command.h"
#include "earlier_tools/power_run_result_json.h"
#include "json/json.h"
#include "json/json_cursor.h"
#include "near_names.h"
#include "output/text.h"
#include "process.h"
#include "progress.h"
#include "status.h"
#include "workload/chat_json.h"
#include "workload/clients.h"
#include "workload/datasets.h"

namespace xplane_time::tools {
namespace {

constexpr std::pair<absl::StatusCode, int> kRunExits[] = {
    {absl::StatusCode::kInternal, kExitCannotWrite},
    {absl::StatusCode::kUnavailable, kExitNotThere}};
constexpr std::pair<absl::StatusCode, int> kClientExits[] = {
    {absl::StatusCode::kInvalidArgument, kExitUsage},
    {absl::StatusCode::kUnavailable, kExitNotThere}};
// Formats and states that are not accepted; see --dataset-format. Unavailable includes an
// unreadable file.
constexpr std::pair<absl::StatusCode, int> kDatasetExits[] = {
    {absl::StatusCode::kFailedPrecondition, kExitNotThere},
    {absl::StatusCode::kInternal, kExitCannotWrite}};
constexpr std::pair<absl::StatusCode, int> kTelemetryExits[] = {
    {absl::StatusCode::kFailedPrecondition, kExitNotThere}};

// Returns "about 2 min left".
std::string LeftText(double seconds) {
  const auto [unit_s, unit] = seconds < 100       ? std::pair(1.0, "s")
                              : seconds < 6'000   ? std::pair(60.0, "min")
                              : seconds < 360'000 ? std::pair(3'600.0, "h")
                                                  : std::pair(86'400.0, "days");
  return absl::StrFormat("about %.0f %s left", std::max(1.0, seconds / unit_s), unit);
}

// A bar on a terminal, otherwise lines; failures are always lines.
class RunProgress {
 public:
  explicit RunProgress(const Printing& printing) : display_(printing) {}

  void OnRecord(const RunResult& result, uint64_t done, uint64_t of) {
    if (result.answer.status != "ok") {
      const std::string message = output::Printable(power::BriefMessage(result.answer.message));
      display_.Log(absl::StrCat("index ", result.record.index, ": ", result.answer.status, ": ",
                                output::ShortenMiddle(message, 300, "...")));
    }
    ++asked_;
    if (!display_.IsDue(std::chrono::milliseconds(100)) && done < of) return;
    std::string text = absl::StrCat(done, " of ", of, " queries");
    if (done < of) {  // resumed records took no time
      const std::chrono::duration<double> each =
          (std::chrono::steady_clock::now() - begun_) / asked_;
      absl::StrAppend(&text, ", ", LeftText(each.count() * static_cast<double>(of - done)));
    }
    if (!display_.live()) return display_.Log(text);
    constexpr uint64_t kWidth = 30;
    const auto filled = static_cast<size_t>(done * kWidth / of);
    display_.Draw(
        absl::StrCat("|", std::string(filled, '#'), std::string(kWidth - filled, ' '), "| ", text));
  }

 private:
  ProgressDisplay display_;
  int64_t asked_ = 0;  // by this run
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

bool ConfirmOverwrite(const std::string& directory) {
  if (isatty(STDIN_FILENO) == 0 || isatty(STDERR_FILENO) == 0) return false;
  std::fprintf(stderr, "%s already exists. Delete it? [y/N] ", directory.c_str());
  std::string line;
  std::getline(std::cin, line);
  return line == "y" || line == "Y" || line == "yes";
}

// `of` is the counted unit: queries or spans.
std::string EnergyText(const char* name, const PowerRunTotals::Energy& energy, const char* of) {
  if (energy.known == 0) return absl::StrCat(name, " energy  unknown\n");
  std::string text = absl::StrFormat("%s energy  %.3f J", name, energy.joules);
  if (energy.unbounded == 0) {
    absl::StrAppendFormat(&text, " (%.3f to %.3f)", energy.lo_joules, energy.hi_joules);
  }
  if (energy.unknown > 0) absl::StrAppend(&text, ", unknown for ", energy.unknown, " ", of);
  if (energy.partial > 0) {
    absl::StrAppend(
        &text, ", for ", energy.partial, " ", of,
        " without the sensors that lack read permission (see xplane-time power sources)");
  }
  if (energy.incomplete > 0) {
    absl::StrAppend(&text, ", a lower bound: ", energy.incomplete, " ", of,
                    " were measured only part of the time");
  }
  if (energy.useless > 0) {
    absl::StrAppend(&text, ", too uncertain for ", energy.useless,
                    " (the bounds are further apart than the energy)");
  }
  return text + "\n";
}

// Includes the sum over all devices, unless it equals that of the GPUs or of the processors.
std::string EnergiesText(const PowerRunTotals::Energy& gpu, const PowerRunTotals::Energy& cpu,
                         const PowerRunTotals::Energy& all, const char* of) {
  const std::string text = EnergyText("GPU", gpu, of) + EnergyText("CPU", cpu, of);
  const bool one = all.joules == gpu.joules || all.joules == cpu.joules;
  return one ? text : text + EnergyText("all", all, of);
}

// `before` is the number of records from earlier runs.
std::string SummaryText(const RunDirectory& directory, const PowerRunOutcome& outcome,
                        uint64_t before) {
  const PowerRunTotals& totals = directory.totals();
  std::string text = absl::StrCat(output::Printable(directory.path()), "\n", totals.records,
                                  " queries saved, ", totals.failed, " failed");
  if (before > 0) absl::StrAppend(&text, "; ", before, " were saved earlier");
  if (!outcome.stop_reason.empty()) absl::StrAppend(&text, "; ended early");
  if (totals.failed > 0)
    absl::StrAppend(&text, "\nretry failed queries with --resume --retry-failed");
  text += "\n";
  const SharedWindowTotals& shared = directory.shared_windows();
  if (shared.records < totals.records) {
    text += EnergiesText(totals.gpu, totals.cpu, totals.all, "queries");
  }
  if (shared.spans == 0) return text;
  absl::StrAppendFormat(&text, "concurrent queries: %d queries in %.3f s, measured together\n",
                        shared.records, shared.seconds);
  return text + EnergiesText(shared.gpu, shared.cpu, shared.all, "spans");
}

// Reports missing sensors, unless `quiet`.
absl::StatusOr<std::unique_ptr<Telemetry>> RecordedTelemetry(const PowerSourceOptions& from,
                                                             bool quiet) {
  return StartTelemetry(from, [quiet](const std::string& message) {
    if (!quiet) Tell(message);
  });
}

// The file's name without its suffix, or the folder's name.
std::string DatasetName(std::filesystem::path path) {
  if (!path.has_filename()) path = path.parent_path();
  std::error_code error;
  return std::filesystem::is_directory(path, error) ? path.filename() : path.stem();
}

// Replaces bytes that are not UTF-8. File names may have them, and JSON must not.
std::string AsUtf8(const std::string& text) {
  return json::Parse(json::Dump(json::Json(text))).get<std::string>();
}

class PowerRun : public Command {
 public:
  PowerRun(CLI::App* app, TelemetryFactory telemetry_of)
      : Command(app), telemetry_of_(telemetry_of) {
    app->add_option(
        "RECORDS", records_path_,
        "Data set of records with a \"problem\" each: JSON Lines, CSV, ... (xplane-time power "
        "datasets); the command and its arguments follow -- (docs/power-run.md)");
    AddDataset();
    AddClient();
    AddAsking();
    AddKeeping();
    AddSensors(app, /*of_energy=*/false, "; none: use no sensors, every energy is null", &from_);
    Heading(app, kSensors)
        .Flag("--no-gpm", &no_gpm_,
              "Do not use the utilization counters of NVIDIA GPUs (Hopper and later); other "
              "profilers can then use them");
    Heading(app, kOwn).Flag("--json-schema", &printing_.json_schema,
                            "Print the JSON Schema of summary and records");
  }

  absl::Status Check() override {
    files_.ReadsReplayed(from_.sources);
    files_.Reads("RECORDS", records_path_);
    files_.PrintsOutput("");
    if (Given(*app_->get_parent(), "--json-schema")) printing_.json_schema = true;
    if (printing_.json_schema) return absl::OkStatus();
    if (records_path_.empty()) {
      return UsageError("no RECORDS given; see xplane-time power run --help");
    }
    RETURN_IF_ERROR(CheckText());
    RETURN_IF_ERROR(CheckClient());
    using std::filesystem::path;
    if (run_.model.empty()) run_.model = AsUtf8(path(program_[0]).stem());
    if (run_.dataset.empty()) run_.dataset = AsUtf8(DatasetName(records_path_));
    run_.problem_field = dataset_.problem_field;
    run_.shuffle_seed = dataset_.shuffle_seed;
    return absl::OkStatus();
  }

  std::string schema() const override { return "power-run"; }

  absl::StatusOr<int> Run() override {
    ASSIGN_OR_RETURN(const auto source,
                     WithExits(OpenDataset(records_path_, dataset_), kDatasetExits));
    run_.input_records = source->size();
    run_.confirm_overwrite = ConfirmOverwrite;
    run_.stopped = IsStopped;
    run_.config_json = ConfigJson();
    WarnOfMisspelled();
    RememberStopSignals();
    client_.command = program_;
    client_.model = run_.model;
    client_.stopped = run_.stopped;
    ASSIGN_OR_RETURN(const auto client, WithExits(kind_->make(client_), kClientExits));
    const absl::Status started = client->Start();
    if (absl::IsCancelled(started)) return kExitStopped;
    RETURN_IF_ERROR(WithExit(started, kExitNotThere));
    run_.model_server_json = client->versions_json();
    from_.pid = client->pid();
    from_.children_only = from_.pid == 0;  // the server does not include this process
    from_.gpm = !no_gpm_;
    ASSIGN_OR_RETURN(const auto telemetry,
                     WithExits(telemetry_of_(from_, printing_.quiet), kTelemetryExits));
    const RunHardware hardware = PrimeHardware(telemetry.get(), run_.stopped);
    ASSIGN_OR_RETURN(const auto directory,
                     WithExits(RunDirectory::Open(run_, source->sha256(), hardware), kRunExits));
    const uint64_t before = directory->totals().records;
    absl::StatusOr<PowerRunOutcome> outcome;
    {
      RunProgress progress(printing_);
      outcome = RunPower(run_, source.get(), client.get(), telemetry.get(), directory.get(),
                         std::bind_front(&RunProgress::OnRecord, &progress));
    }
    client->Finish();
    RETURN_IF_ERROR(WithExits(outcome.status(), kRunExits));
    return Finish(*directory, *outcome, before);
  }

 private:
  void AddDataset() {
    const Heading data(app_, "Data set");
    std::vector<std::string> formats;
    for (const DatasetFormat& each : DatasetFormats()) formats.emplace_back(each.name);
    data.Value("--dataset-format", &dataset_.format, "NAME",
               absl::StrCat("Format of RECORDS: ", absl::StrJoin(formats, ", "),
                            " (default: by content and suffix)"),
               CLI::IsMember(formats));
    data.Value("--problem-field", &dataset_.problem_field, "NAME",
               "Field or column with the question (default problem)");
    data.Value("--answer-field", &dataset_.answer_field, "NAME",
               "Field or column with the correct answer (default answer)");
    data.Value("--subject-field", &dataset_.subject_field, "NAME",
               "Field or column with the subject (default subject)");
    data.Value("--limit,--max-queries", &run_.max_queries, "N", "Ask only the first N records",
               CLI::Range(uint64_t{1}, uint64_t{1} << 53));
    data.Value(
        "--shuffle", &dataset_.shuffle_seed, "SEED",
        "Shuffle the records by SEED, identically on every machine; --limit applies after it",
        Counts());
  }

  void AddClient() {
    const Heading client(app_, "Client");
    client.Value("--client", &client_name_, "NAME",
                 "Client that answers: " + ClientNames() +
                     " (see xplane-time power clients) (default command)");
    client.Value("--base-url", &client_.base_url, "URL",
                 "URL of the server for HTTP clients, such as http://127.0.0.1:8000/v1");
    client
        .Value("--client-param", &parameters_, "NAME=VALUE",
               "Set a parameter of the client (listed by power clients); parameters that are "
               "not in the list are passed to the server unchanged, with VALUE as JSON or text; "
               "repeatable")
        ->allow_extra_args(false);
    client.Value(
        "--concurrency", &run_.concurrency, "N",
        "Concurrent queries of HTTP clients; their energies are measured together (default 1)",
        CLI::Range(1, 1'000));
  }

  static std::string ClientNames() {
    std::string names;
    for (const ClientKind& each : Clients()) {
      Append(&names, names.empty() ? "" : ", ", each.name);
    }
    return names;
  }

  // Warns of names that are passed on and resemble a known one.
  void WarnOfMisspelled() const {
    std::vector<std::string> known;
    for (const ClientParameter& each : kind_->parameters) known.emplace_back(each.name);
    for (const auto& [name, value] : client_.parameters) {
      if (!std::holds_alternative<PassedOn>(value) || printing_.quiet) continue;
      const std::vector<std::string> near = NearNames(name, known, 1);
      if (near.empty()) continue;
      Tell(Cat("--client-param: unknown parameter ", name,
               " is passed to the server unchanged; did you mean ", near[0], "?"));
    }
  }

  absl::Status CheckText() const {
    const std::pair<const char*, const std::string*> texts[] = {
        {"--model", &run_.model},
        {"--dataset", &run_.dataset},
        {"--base-url", &client_.base_url},
        {"--problem-field", &dataset_.problem_field},
        {"--answer-field", &dataset_.answer_field},
        {"--subject-field", &dataset_.subject_field}};
    for (const auto& [option, text] : texts) {
      if (json::IsUtf8(*text)) continue;
      return UsageError(option, ": \"", *text, "\" is not UTF-8");
    }
    return absl::OkStatus();
  }

  absl::Status CheckClient() {
    ASSIGN_OR_RETURN(kind_, FindClient(client_name_));
    ASSIGN_OR_RETURN(client_.parameters, ParseParameters(*kind_, parameters_));
    if (!kind_->over_http) {
      RETURN_IF_ERROR(Refuse({"--base-url", "--concurrency"},
                             Cat("requires an HTTP client, which ", kind_->name, " is not")));
      if (!program_.empty()) return absl::OkStatus();
      return UsageError(
          "no command given: xplane-time power run RECORDS -- COMMAND..., or --client openai");
    }
    if (!program_.empty()) {
      return UsageError("--client ", kind_->name,
                        " queries a server; no command is allowed after --");
    }
    if (client_.base_url.empty()) client_.base_url = kind_->default_base_url;
    if (client_.base_url.empty()) {
      return UsageError("--client ", kind_->name,
                        " requires --base-url, such as http://127.0.0.1:8000/v1");
    }
    if (run_.model.empty()) {
      return UsageError("--client ", kind_->name,
                        " requires --model, the name of the model at the server");
    }
    return absl::OkStatus();
  }

  void AddAsking() {
    const Heading asking(app_, "Asking");
    asking.Value(
        "--model", &run_.model, "NAME",
        "Name of the model in the results and at the server (default: the name of the command)");
    asking.Value("--dataset", &run_.dataset, "NAME",
                 "Name of the data set (default: the name of the file)");
    asking.Seconds("--timeout", &client_.timeout,
                   "Time limit of an answer, in seconds; after it, the command is restarted or the "
                   "connection closed (default 600)");
    asking.Value("--most-failures", &client_.most_failures, "N",
                 "Maximum consecutive failures of the command or the server (default 3)",
                 CLI::Range(1, 1'000'000));
  }

  void AddKeeping() {
    const Heading keeping(app_, kOut);
    keeping.Value("--output-dir", &run_.output_root, "DIR",
                  "Directory in which to create profile_HARDWARE_MODEL_DATASET (default runs)");
    CLI::Option* const resume = keeping.Flag(
        "--resume", &run_.resume, "Continue the last run after an interruption or error");
    keeping.Flag("--retry-failed", &run_.retry_failed, "With --resume: ask failed records again")
        ->needs(resume);
    keeping.Flag("--overwrite", &run_.overwrite, "Delete the existing directory")->excludes(resume);
    printing_.AddFormat(app_, {"table", "json"},
                        "Format of the final summary: table or json (default table)");
    printing_.AddProgress(
        app_,
        "Show progress: auto (live on a terminal, else a log), always or never (default auto)");
    keeping.Flag("--quiet", &printing_.quiet, "Print only errors: no progress, no final table");
  }

  std::string ConfigJson() const {
    json::Json parameters = json::Json::object();
    for (const auto& [name, value] : client_.parameters) {
      parameters[name] = ParameterJson(value);
    }
    const json::Json config = {{"records", records_path_},
                               {"client", kind_->name},
                               {"client_parameters", parameters},
                               {"base_url", json::TextOrNull(client_.base_url)},
                               {"concurrency", run_.concurrency},
                               {"command", program_},
                               {"model", run_.model},
                               {"dataset", run_.dataset},
                               {"timeout_s", static_cast<double>(client_.timeout.count()) / 1000},
                               {"most_failures", client_.most_failures},
                               {"sources", from_.sources},
                               {"dataset_format", json::TextOrNull(dataset_.format)},
                               {"problem_field", dataset_.problem_field},
                               {"answer_field", dataset_.answer_field},
                               {"subject_field", dataset_.subject_field},
                               {"shuffle", json::OrNull(dataset_.shuffle_seed)},
                               {"gpm", !no_gpm_},
                               {"output_dir", run_.output_root},
                               {"max_queries", json::OrNull(run_.max_queries)}};
    return json::Dump(config);
  }

  absl::StatusOr<int> Finish(const RunDirectory& directory, const PowerRunOutcome& outcome,
                             uint64_t before) const {
    absl::Status written;
    if (printing_.format == "json") {
      written = WriteText("", directory.SummaryJson(outcome.stop_reason) + "\n");
    } else if (!printing_.quiet) {
      written = WriteText("", SummaryText(directory, outcome, before));
    }
    if (!outcome.stopped_by.ok() && !written.ok()) Fail(written);
    if (absl::IsCancelled(outcome.stopped_by)) {
      Tell("interrupted; continue with --resume");
      return kExitStopped;
    }
    RETURN_IF_ERROR(WithExit(outcome.stopped_by, kExitNotThere));
    RETURN_IF_ERROR(written);
    const PowerRunTotals& totals = directory.totals();
    return totals.records > 0 && totals.failed == totals.records ? kExitAllFailed : 0;
  }

  const TelemetryFactory telemetry_of_;
  std::string records_path_;
  DatasetOptions dataset_;
  PowerRunOptions run_;
  std::string client_name_ = "command";
  const ClientKind* kind_ = nullptr;
  std::vector<std::string> parameters_;  // NAME=VALUE
  ClientOptions client_;
  bool no_gpm_ = false;
  PowerSourceOptions from_;  // the source "none" alone means no telemetry
};

}  // namespace

void AddPowerRun(CommandLine* line, CLI::App* parent, TelemetryFactory telemetry_of) {
  line->Add<PowerRun>(
      {.name = "run",
       .help = "Send the records of a file to a model, with the energy of each answer",
       .examples = R"(  xplane-time power run problems.jsonl -- python answer.py
  xplane-time power run test.parquet --problem-field question --limit 100
      -- python answer.py
  xplane-time power run problems.jsonl --client openai
      --base-url http://127.0.0.1:8000/v1 --model llama-3-8b
  xplane-time power run problems.jsonl --resume -- python answer.py
  xplane-time power run problems.jsonl --source none -- ./answer

The command refuses to start without a power or energy sensor. With
--source none, it runs without sensors, and every energy is null.
)",
       .runs_program = true,
       .about_extra = "the command and its arguments follow --",
       .parent = parent},
      telemetry_of != nullptr ? telemetry_of : RecordedTelemetry);
}

}  // namespace xplane_time::tools
