// grid: measures every setting of a space the same number of times; writes tables, figures and a
// witness of every sample.
//
// 1. Check and FitTo read the options and the space and name the settings.
// 2. PrepareFolder creates the folder; it refuses a folder with another run's files.
// 3. Measure runs a tuning whose searcher only counts samples. The store makes it resumable; the
//    watcher appends each sample to its witness.
// 4. Conclude computes the tables from the samples and, after a complete run, writes the bundle.
//
// If the run fails before any sample counts, LeaveNothingEmpty removes the files, so that the
// command can be repeated.
#include <algorithm>
#include <ctime>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "command.h"
#include "evidence/grid_bundle.h"
#include "evidence/provenance.h"
#include "io/whole_file.h"
#include "output/evidence.h"
#include "output/text.h"
#include "progress.h"
#include "status.h"
#include "tune/energy_harness.h"
#include "tune/search_run.h"
#include "tuning.h"
#include "xplane_time/store.h"

namespace xplane_time::tools {
namespace {

using evidence::GridConfiguration, evidence::GridRun, evidence::GridSetting;
using output::Printable;

constexpr std::string_view kFolders[] = {"csv", "figs", "witness"};
constexpr char kStore[] = "grid.db", kBundle[] = "witness.zip", kResults[] = "results.json";

// Writes the witness and shows the progress.
class GridWatcher : public TuneWatcher {
 public:
  GridWatcher(const Printing& printing, std::string folder, std::vector<GridSetting> settings,
              GridConfiguration configuration)
      : display_(printing),
        folder_(std::move(folder)),
        settings_(std::move(settings)),
        configuration_(std::move(configuration)) {
    for (const GridSetting& each : settings_) names_.emplace(each.id, each.name);
  }

  void OnHello(const HarnessInfo& harness, const TuneSession& session) override {
    configuration_.harness = harness;
    is_new_ = !session.resumed;
    opened_ = witness_.Open(folder_, configuration_, settings_);
    display_.Log(absl::StrCat(session.resumed ? "resumes" : "starts", " on ",
                              Printable(harness.device_class), " (", Printable(harness.device),
                              "), using the ", harness.clock, " clock"));
  }

  void OnPrepared(const TunedVariant& variant, size_t done, size_t of) override {
    if (variant.state.status != "ok") {
      ++failed_;
      display_.Log(absl::StrCat("setting ", names_[variant.configuration.id], ": ",
                                variant.state.status, " ",
                                output::BriefLine(variant.state.message)));
    }
    if (done < of) return;
    const std::string failed = failed_ == 0 ? "" : absl::StrCat(", ", failed_, " failed");
    display_.Show(absl::StrCat("prepared ", done - failed_, " of ", of, failed));
  }

  absl::Status OnRecord(const RoundRecord& round) override {
    RETURN_IF_ERROR(opened_);
    return witness_.Add(round);
  }

  void OnSearching(const SearchReport& search, size_t in_stage) override {
    constexpr std::chrono::milliseconds kPeriod(100);
    if (!display_.IsDue(kPeriod)) return;
    display_.Show(absl::StrCat(search.runs, " of about ", settings_.size() * configuration_.samples,
                               " samples, ", in_stage, " settings"));
  }

  const GridConfiguration& configuration() const { return configuration_; }
  const evidence::GridSamples& samples() const { return witness_.samples(); }
  // The session was begun by this run, and no sample counts.
  bool is_new_and_empty() const {
    return is_new_ && std::ranges::none_of(samples(), [](const auto& of_setting) {
             return std::ranges::any_of(of_setting, &evidence::GridSample::counts);
           });
  }
  absl::Status Finish() {
    RETURN_IF_ERROR(opened_);
    return witness_.Finish();
  }

 private:
  ProgressDisplay display_;
  std::string folder_;
  std::vector<GridSetting> settings_;
  std::map<std::string, std::string> names_;  // by id
  size_t failed_ = 0;
  GridConfiguration configuration_;
  evidence::GridWitness witness_;
  absl::Status opened_;
  bool is_new_ = false;
};

class GridCommand : public Command {
 public:
  explicit GridCommand(CLI::App* app) : Command(app) {
    app->add_option("SPACE", space_path_,
                    "Search space with the settings (docs/space.md); the harness and its arguments "
                    "follow -- (docs/harness.md)");
    const Heading own(app, kOwn), measuring(app, "Measuring"), out(app, kOut);
    own.Value("--samples", &samples_, "N", "Samples per setting (default 1000)",
              CLI::Range(uint32_t{1}, uint32_t{1'000'000}));
    own.Value("--baseline", &baseline_, "NAME",
              "Setting to compare the others with: its name, its id, or its parameters as JSON "
              "(default: the first)");
    own.Count("--seed", &options_.decide.seed, "Seed of the order in each round");
    AddHarnessLimits(measuring, &harness_);
    measuring.Flag("--energy", &energy_,
                   "Measure energy with the machine's sensors if the harness reports no energy "
                   "(docs/tuning.md)");
    measuring.List("--power-source", &power_.sources, "NAME",
                   "Sensors for --energy (default: all)");
    AddSensorPlaces(measuring, &power_);
    measuring.Value("--harness-log", &harness_.process.log_path, "FILE",
                    "Write the output of the harness to FILE");
    out.Value("-o,--output", &folder_, "DIR",
              "Output folder for csv/, figs/, witness/, results.json and witness.zip; created if "
              "missing");
    out.Flag("--resume", &resume_, "Continue the interrupted run of this folder");
    printing_.AddFormat(app, kResultFormats);
    printing_.AddProgress(
        app,
        "Show progress: auto (live on a terminal, else a log), always or never (default auto)");
    printing_.AddMessages(app);
    options_.stopped = harness_.process.stopped = IsStopped;
    harness_.process.tell = [this](const std::string& text) { tools::Tell(Named(text)); };
  }

  absl::Status Check() override {
    files_.Reads("SPACE", space_path_);
    files_.PrintsOutput("");
    files_.Writes("--harness-log", harness_.process.log_path);
    if (printing_.json_schema) return absl::OkStatus();
    if (space_path_.empty()) return UsageError("no SPACE given; see xplane-time grid --help");
    if (program_.empty()) {
      return UsageError("no harness given: xplane-time grid SPACE -o DIR -- HARNESS...");
    }
    if (folder_.ends_with(".html")) {
      return UsageError("-o ", folder_,
                        ": -o requires a folder; for the page: -o DIR --format html > ", folder_);
    }
    if (folder_.empty() || folder_ == "-") {
      return UsageError(
          "no folder given; -o DIR sets the folder for tables, figures and the witness");
    }
    for (const char* end : kStoreEnds) files_.Writes("--output", Cat(In(kStore), end));
    for (const char* name : {kBundle, kResults}) files_.Writes("--output", In(name));
    for (const std::string_view name : kFolders) files_.WritesBelow("--output", In(name));
    if (!energy_) {
      return Refuse({"--power-source", "--sysfs-root", "--nvml-library", "--map"},
                    "requires --energy");
    }
    for (const PowerAbsence& each : ListPowerSources(power_).absences) {
      if (each.source.empty()) return UsageError("--power-source: ", each.message);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<int> Run() override {
    ASSIGN_OR_RETURN(const SearchSpace space, ReadSpace(space_path_));
    if (!space.workloads.empty()) {
      return InvalidArgument(space_path_,
                             ": a grid does not support `workloads`; make the shape a parameter");
    }
    ASSIGN_OR_RETURN(configurations_, ChooseConfigurations(space, {}));
    RETURN_IF_ERROR(FitTo(space));
    ASSIGN_OR_RETURN(const auto names,
                     evidence::SettingNames(run_.workload, configurations_, baseline_));
    for (size_t i = 0; i < names.size(); ++i) {
      const Configuration& each = configurations_[i];
      run_.settings.push_back({names[i], each.id, json::Parse(each.params_json)});
      if (each.id == baseline_) run_.baseline = names[i];
    }
    RETURN_IF_ERROR(PrepareFolder());
    // A link that was dangling before may lead into the folder now.
    const absl::Status conflicts = files_.CheckConflicts();
    auto code = conflicts.ok() ? Measure(space) : absl::StatusOr<int>(conflicts);
    if (!code.ok()) LeaveNothingEmpty();
    return code;
  }

 private:
  absl::Status FitTo(const SearchSpace& space) {
    ASSIGN_OR_RETURN(baseline_, IdOf("--baseline", baseline_));
    if (configurations_.empty()) {
      return InvalidArgument(space_path_, ": the space has no configurations");
    }
    if (baseline_.empty()) baseline_ = configurations_[0].id;
    run_.workload = space.name.empty() ? space.source : space.name;
    RETURN_IF_ERROR(FindBaseline());
    run_.samples = samples_;
    run_.calls = harness_.calls;
    options_.workload = harness_.session = run_.workload;
    options_.space_hash = SpaceHash(space);
    options_.protocol = absl::StrCat("v1 calls=", harness_.calls, energy_ ? " energy=timed" : "",
                                     " baseline=", baseline_);
    options_.now_unix_s = std::time(nullptr);
    options_.device_locks = DeviceLocks();
    harness_.process.command = program_;
    return absl::OkStatus();
  }

  // By its id, or by the name of its files.
  absl::Status FindBaseline() {
    if (std::ranges::find(configurations_, baseline_, &Configuration::id) !=
        configurations_.end()) {
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(auto names, evidence::SettingNames(run_.workload, configurations_, ""));
    const auto found = std::ranges::find(names, baseline_);
    if (found != names.end()) {
      baseline_ = configurations_[static_cast<size_t>(found - names.begin())].id;
      return absl::OkStatus();
    }
    constexpr size_t kListed = 8;
    const size_t more = names.size() - std::min(names.size(), kListed);
    names.resize(names.size() - more);
    return UsageError("--baseline: unknown setting \"", baseline_,
                      "\"; settings: ", absl::StrJoin(names, ", "),
                      more == 0 ? "" : Cat(" and ", more, " more"));
  }

  // Replaces the ids of settings in a text by the names of their files.
  std::string Named(std::string text) const {
    for (const GridSetting& each : run_.settings) {
      if (each.id != each.name) absl::StrReplaceAll({{each.id, each.name}}, &text);
    }
    return text;
  }

  std::string In(std::string_view name) const { return Cat(folder_, "/", name); }

  // Does not overwrite files of another run.
  absl::Status PrepareFolder() {
    std::error_code error;
    had_folder_ = std::filesystem::exists(folder_, error);
    had_store_ = std::filesystem::exists(In(kStore), error);
    if (had_store_ && !resume_) {
      return UsageError(folder_,
                        ": the folder already contains a grid; continue it with --resume, or give "
                        "another folder");
    }
    for (const auto& each : std::filesystem::directory_iterator(folder_, error)) {
      const std::string name = each.path().filename();
      if (had_store_ || std::ranges::find(kFolders, name) != std::end(kFolders)) continue;
      return UsageError(folder_, ": the folder contains ", name,
                        " but no grid; give another folder");
    }
    for (const std::string_view name : kFolders) {
      std::filesystem::create_directories(In(name), error);
      if (!error) continue;
      return WithExit(Internal(In(name), ": cannot create the folder: ", error.message()),
                      kExitCannotWrite);
    }
    return absl::OkStatus();
  }

  // Removes the files of a run that failed before any sample counted, so that the command can be
  // repeated.
  void LeaveNothingEmpty() const {
    if (had_store_) return;
    std::error_code ignored;
    for (const char* end : kStoreEnds) {
      if (is_new_and_empty_) std::filesystem::remove(Cat(In(kStore), end), ignored);
    }
    for (const GridSetting& each : run_.settings) {
      if (is_new_and_empty_) std::filesystem::remove(In(evidence::WitnessFile(each)), ignored);
    }
    for (const std::string_view name : kFolders) std::filesystem::remove(In(name), ignored);
    if (!had_folder_) std::filesystem::remove(folder_, ignored);  // only succeeds if it is empty
  }

  // Resumes an existing session; a kill before its begin leaves no session. `harness` has the
  // harness's hello, if it answered.
  absl::Status ChooseSession(const TuneStore& store, const absl::StatusOr<HarnessInfo>& harness) {
    ASSIGN_OR_RETURN(const auto sessions, store.Sessions());
    options_.resume = sessions.empty() ? Resume::kNever : Resume::kRequired;
    if (sessions.empty() || !harness.ok()) return absl::OkStatus();
    const auto changes = ChangesSince(sessions.back(), *harness);
    if (changes.empty()) return absl::OkStatus();
    return WithExit(InvalidArgument(folder_, ": the grid was started with different inputs: ",
                                    absl::StrJoin(changes, "; "),
                                    "; --resume requires the same options, harness and space (see "
                                    "xplane-time tune show --store ",
                                    In(kStore), "); otherwise give another folder"),
                    kExitUsage);
  }

  // Returns {"samples: 50 then, 80 now"}.
  std::vector<std::string> ChangesSince(const SessionInfo& then, const HarnessInfo& harness) const {
    std::vector<std::string> changes;
    const auto compare = [&](std::string_view what, std::string was, std::string is) {
      if (was == is) return;
      changes.push_back(Named(Cat(what, ": ", was.empty() ? "none" : was, " then, ",
                                  is.empty() ? "none" : is, " now")));
    };
    const auto search = json::TextOf(json::Parse(then.config_json), "search").value_or("");
    compare("samples", search.substr(search.find(':') + 1), absl::StrCat(samples_));
    compare("seed", absl::StrCat(then.seed), absl::StrCat(options_.decide.seed));
    auto was = PartsOf(then.key.protocol_hash), is = PartsOf(options_.protocol);
    for (const char* part : {"calls", "baseline", "energy"}) compare(part, was[part], is[part]);
    compare("the space's name", then.key.workload, run_.workload);
    if (then.space_hash != options_.space_hash) changes.push_back("the settings of the space");
    compare("device", then.device, harness.device);
    compare("device_class", then.key.device_class, harness.device_class);
    compare("driver", then.key.driver, harness.driver);
    compare("versions", then.key.framework, harness.framework);
    compare("flags", then.key.flags, harness.flags);
    compare("code_hash of the harness", then.key.code_hash, harness.code_hash);
    return changes;
  }

  // Splits "v1 calls=1 baseline=softmax".
  static std::map<std::string, std::string> PartsOf(const std::string& protocol) {
    std::map<std::string, std::string> parts;
    for (const absl::string_view each : absl::StrSplit(protocol, ' ')) {
      parts.insert(absl::StrSplit(each, absl::MaxSplits('=', 1)));
    }
    return parts;
  }

  absl::StatusOr<int> Measure(const SearchSpace& space) {
    const auto harness = NewProcessHarness(harness_);
    std::string no_sensor;
    const auto with_sensors = NewEnergyHarness(
        harness.get(), power_, harness_.calls,
        [&no_sensor](const std::string& text) { no_sensor = text; },
        EnergyNeed::kWhereThereIsASensor);
    Harness* const measures = energy_ ? with_sensors.get() : harness.get();
    RememberStopSignals();
    const auto hello = harness->Hello();
    if (!absl::IsCancelled(hello.status())) {
      RETURN_IF_ERROR(WithExits(hello.status(), kHarnessExits));
    }
    ASSIGN_OR_RETURN(TuneStore store, WithExits(TuneStore::Open(In(kStore), {}), kStoreExits));
    RETURN_IF_ERROR(ChooseSession(store, hello));
    const auto searcher = NewCountingSearcher(samples_);
    options_.searcher = searcher.get();
    GridWatcher watcher(printing_, folder_, run_.settings,
                        {.workload = run_.workload,
                         .space_hash = options_.space_hash,
                         .baseline = run_.baseline,
                         .samples = samples_,
                         .seed = options_.decide.seed,
                         .calls = harness_.calls});
    const auto outcome = Tune(configurations_, options_, measures, &store, &watcher);
    const bool of_harness = !absl::StartsWith(outcome.status().message(), Absl(folder_));
    if (!outcome.ok()) {
      is_new_and_empty_ = watcher.is_new_and_empty();
      const absl::Status named(outcome.status().code(),
                               Named(std::string(outcome.status().message())));
      return WithExits(named, of_harness ? Exits(kHarnessExits) : Exits(kStoreExits));
    }
    if (!outcome->interrupted) RETURN_IF_ERROR(watcher.Finish());
    TakeOutcome(*outcome, no_sensor);
    return Conclude(*outcome, watcher, SpaceToJson(space));
  }

  void TakeOutcome(const TuneOutcome& outcome, const std::string& no_sensor) {
    run_.harness = outcome.harness;
    run_.complete = !outcome.interrupted;
    for (size_t i = 0; i < run_.settings.size(); ++i) {
      const TunedVariant& variant = outcome.variants[i];
      GridSetting& setting = run_.settings[i];
      setting.status =
          variant.search_failure.empty() ? variant.state.status : variant.search_failure;
      setting.message = output::ValidUtf8(Named(variant.state.message));
    }
    if (!outcome.energy_kinds.empty()) {
      run_.energy_kind = absl::StrJoin(outcome.energy_kinds, " and ");
    }
    no_energy_ = !energy_            ? "the harness reported no energy, and --energy was not given"
                 : no_sensor.empty() ? "no sample has an energy"
                                     : "the harness reported no energy, and " + no_sensor;
  }

  absl::StatusOr<int> Conclude(const TuneOutcome& outcome, const GridWatcher& watcher,
                               const std::string& space_json) {
    const auto& samples = watcher.samples();
    evidence::GridResult result = evidence::MakeGridResult(
        run_, samples.empty() ? evidence::GridSamples(run_.settings.size()) : samples);
    const auto has_energy = [](const auto& row) { return row.energy_uj.has_value(); };
    if (std::ranges::none_of(result.rows, has_energy)) result.run.no_energy = no_energy_;
    std::vector<evidence::ZipFile> files = evidence::GridFiles(result);
    for (auto& each : output::GridFigures(result)) files.push_back(std::move(each));
    for (const evidence::ZipFile& each : files) {
      RETURN_IF_ERROR(WithExits(io::WriteWholeFile(In(each.name), each.content), kWriteExits));
    }
    if (run_.complete) RETURN_IF_ERROR(WriteBundle(result, watcher.configuration(), space_json));
    RETURN_IF_ERROR(Print(output::GridOutput(result)).status());
    if (!run_.complete) tools::Tell("interrupted; continue with --resume");
    return ExitOf(outcome, result);
  }

  absl::Status WriteBundle(const evidence::GridResult& result,
                           const GridConfiguration& configuration,
                           const std::string& space_json) const {
    evidence::BundleSpec spec = evidence::GridBundle(result, configuration, space_json);
    spec.created_unix_s = std::time(nullptr);
    spec.provenance = evidence::ProvenanceOf(".");
    ASSIGN_OR_RETURN(const std::string sha256,
                     WithExits(evidence::WriteBundle(In(kBundle), spec), kWriteExits));
    if (!printing_.quiet) tools::Tell(Cat(In(kBundle), ": SHA-256 ", sha256));
    return absl::OkStatus();
  }

  static int ExitOf(const TuneOutcome& outcome, const evidence::GridResult& result) {
    if (outcome.interrupted) return kExitStopped;
    size_t wrong = 0, without = 0;
    bool has_baseline = false;
    for (size_t i = 0; i < result.rows.size(); ++i) {
      const GridSetting& setting = result.run.settings[i];
      without += result.rows[i].n == 0 ? 1 : 0;
      wrong += setting.status == "wrong_result" ? 1 : 0;
      has_baseline |= setting.name == result.run.baseline && result.rows[i].n > 0;
    }
    if (without == result.rows.size()) return wrong == without ? kExitWrong : kExitAllFailed;
    return has_baseline ? 0 : kExitTooLittle;
  }

  std::string space_path_, folder_, baseline_;  // baseline_: as given, until FitTo
  uint32_t samples_ = 1000;
  bool energy_ = false, resume_ = false;
  TuneOptions options_;
  ProcessHarnessOptions harness_;
  PowerSourceOptions power_;  // for --energy
  std::vector<Configuration> configurations_;
  GridRun run_;
  std::string no_energy_;
  bool had_folder_ = false, had_store_ = false, is_new_and_empty_ = false;
};

}  // namespace

void AddGrid(CommandLine* line) {
  line->Add<GridCommand>(
      {.name = "grid",
       .help = "Measure every setting of a space equally often, and write a verifiable bundle",
       .examples =
           R"(  xplane-time grid space.json --baseline softmax -o results -- python harness.py
  xplane-time grid space.json --samples 200 -o results --resume -- ./harness
  xplane-time verify results/witness.zip
)",
       .runs_program = true,
       .about_extra = "the harness and its arguments follow --"});
}

}  // namespace xplane_time::tools
