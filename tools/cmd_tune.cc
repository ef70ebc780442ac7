// tune: measures variants in rounds until the decision stands; subcommands read the store.
//
// - Race: Check validates the options; FitTo derives the session's identity; Measure stacks the
//   harnesses (process or fleet, then sensors, then GPU settings) and calls Tune; Report prints the
//   outcome.
// - show, export, replay: read a session from the store. A replay decides again with another rule.
// - decide: serves a decider on standard input and output (docs/deciding.md).
//
// `action_` is the chosen subcommand. The exit code is that of the claim (ExitOf).
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>
#include <set>

#include <poll.h>
#include <re2/re2.h>
#include <sys/resource.h>
#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "command.h"
#include "decide/protocol.h"
#include "evidence/provenance.h"
#include "evidence/session.h"
#include "json/json.h"
#include "output/text.h"
#include "output/tuning.h"
#include "power/sources.h"
#include "process.h"
#include "progress.h"
#include "scratch.h"
#include "status.h"
#include "tune/device_settings.h"
#include "tune/energy_harness.h"
#include "tune/harness_fleet.h"
#include "tune/outcome_json.h"
#include "tune/process_harness.h"
#include "tune/search_run.h"
#include "tuning.h"
#include "xplane_time/store.h"
#include "xplane_time/tune.h"

namespace xplane_time::tools {
namespace {

const std::vector<std::string> kShownFormats = {"table",
                                                "json"};  // formats of sessions and verdicts
constexpr char kMeasuring[] = "Measuring", kStoring[] = "Store";

int ExitOf(const TuneOutcome& outcome) {
  if (outcome.interrupted) return kExitStopped;
  const Claim claim = outcome.verdict.claim;
  const bool is_divided = outcome.devices.has_value() && outcome.devices->classes.size() > 1;
  if (claim == Claim::kUndecided && !outcome.verdict.mde.has_value() && !is_divided) {
    return kExitTooLittle;
  }
  // It is unknown whether a lost device agrees with the others.
  const bool has_lost = outcome.devices.has_value() && !outcome.devices->lost.empty();
  if (has_lost && IsDecided(claim)) return ExitCode(Claim::kUndecided);
  if (claim != Claim::kAllFailed) return ExitCode(claim);
  size_t wrong = 0, uncompiled = 0;
  for (const TunedVariant& each : outcome.variants) {
    wrong += each.state.status == "wrong_result" ? 1 : 0;
    uncompiled += each.state.status == "compile_error" ? 1 : 0;
  }
  return wrong > 0 && wrong + uncompiled == outcome.variants.size() ? kExitWrong : kExitAllFailed;
}

absl::StatusOr<int64_t> ParseBudgetTime(const std::string& text) {
  constexpr double kPsPerSecond = 1e12, kMostSeconds = 9e6;
  const auto seconds = NumberOf(text);
  if (!seconds.has_value() || !(*seconds > 0) || *seconds > kMostSeconds) {
    return InvalidArgument("'", text, "' is not a number of seconds above 0 and at most 9000000");
  }
  return std::max<int64_t>(1, static_cast<int64_t>(*seconds * kPsPerSecond));
}

// Opens the store for reading, and reports damage instead of skipping it.
absl::StatusOr<TuneStore> OpenSound(const std::string& path) {
  ASSIGN_OR_RETURN(TuneStore store, WithExits(TuneStore::OpenReadOnly(path), kStoreExits));
  RETURN_IF_ERROR(store.CheckFile());
  return store;
}

// Input that arrives within a few milliseconds counts as available.
bool InputWaiting() {
  constexpr int kMilliseconds = 5;
  pollfd input = {STDIN_FILENO, POLLIN, 0};
  return std::cin.rdbuf()->in_avail() > 0 || poll(&input, 1, kMilliseconds) > 0;
}

// Called after the first failure; errno does not have its reason any more.
absl::StatusOr<int> CannotReply() {
  pollfd output = {STDOUT_FILENO, POLLOUT, 0};
  // the reader closed the pipe
  if (poll(&output, 1, 0) > 0 && (output.revents & POLLERR) != 0) return 0;
  return WithExit(absl::InternalError("standard output: cannot write"), kExitCannotWrite);
}

class TuneCommand : public Command {
 public:
  TuneCommand(CLI::App* app, CommandLine* line) : Command(app) {
    app->require_subcommand(0, 1);
    app->add_option("SPACE", space_path_,
                    "Search space of variants (docs/space.md); the harness and its arguments "
                    "follow -- (docs/harness.md)");
    options_.resume = Resume::kNever;
    options_.stopped = harness_.process.stopped = ask_.stopped = IsStopped;
    harness_.process.tell = tools::Tell;
    AddDecision(app);
    AddMeasuring();
    AddStore(app);
    const Heading storing(app, kStoring), out(app, kOut);
    storing.Flag(
        "--resume", &resume_,
        "Continue the last session with the same space, harness, device and options after an "
        "interruption or error");
    storing.Value("--workload", &options_.workload, "NAME",
                  "Name of the workload in the store (default: the name of the space)");
    out.Flag("--list", &list_,
             "List the variants to race or search and the runs of the search; do not start a "
             "harness or open a store");
    printing_.AddFormat(app, kShownFormats);
    printing_.AddPath(app);
    printing_.AddProgress(
        app,
        "Show progress: auto (live on a terminal, else a log), always or never (default auto)");
    printing_.AddMessages(app);
    AddActions(line);
  }

  absl::Status Check() override {
    const bool decides = action_ == &TuneCommand::Decide;
    files_.Reads(decides ? "--space" : "SPACE", space_path_);
    files_.PrintsOutput(printing_.path);
    files_.Prints("--bundle", bundle_path_);
    files_.Writes("--harness-log", harness_.process.log_path);
    // The files that SQLite and the store keep beside the store.
    for (const char* end : kStoreEnds) {
      if (!decides) files_.Writes("--store", store_path_ + end);
    }
    choice_.seed = ask_.seed = options_.decide.seed;
    if (action_ != &TuneCommand::Race || printing_.json_schema) return absl::OkStatus();
    if (space_path_.empty()) return UsageError("no SPACE given; see xplane-time tune --help");
    if (program_.empty() && !list_) return NoHarness();
    RETURN_IF_ERROR(CheckUsed());
    return TakeStrategy();
  }

  absl::StatusOr<int> Run() override { return (this->*action_)(); }

 private:
  using Action = absl::StatusOr<int> (TuneCommand::*)();

  // ---- Options

  void AddDecision(CLI::App* app) {
    const Heading decision(app, kDecision);
    DecideConfig& by = options_.decide;
    decision.OneOf(
        "--stop", &by.stop, NamesOf(by.stop),
        "Stop rule: pick (when no variant can be more than delta faster than the pick) or claim "
        "(when a winner or a tie is proved, with several times the runs) (default pick)",
        "WHEN");
    decision.OneOf("--objective", &by.objective, NamesOf(by.objective),
                   "Objective: time, energy, edp (energy times time), ed2p (energy times time "
                   "squared) or pareto (default time)");
    decision.Share("--delta", &by.delta, "Differences below this share are ties (default 0.5%)");
    decision.Share("--alpha", &by.alpha,
                   "Maximum probability of dropping a faster variant (default 1%)");
    decision.Share("--tie-alpha", &by.tie_alpha,
                   "Maximum probability of claiming a tie wrongly (default 5%)");
    decision.Value(
        "--incumbent", &options_.incumbent, "ID",
        "Variant to keep unless another one is proved faster: its id, or its parameters as JSON");
    decision.Value("--budget-runs", &by.budget_runs, "N",
                   "Maximum number of timed runs in the race", CLI::Range(int64_t{1}, kMaxRuns));
    decision.Parsed("--budget-time", &by.budget_time_ps, "S", "Maximum measured time, in seconds",
                    ParseBudgetTime);
    decision.Count("--seed", &by.seed, "Seed of the orders and of the bootstrap");
  }

  void AddMeasuring() {
    const Heading measuring(app_, kMeasuring);
    measuring.Value(
        "--canary", &options_.decide.canary, "N",
        "Run the leader twice in each N-th round, to check the measurement; 0: never (default 25)",
        Counts());
    measuring.Value("--strategy", &strategy_, "NAME",
                    "Configurations to race: all, list (explicit variants only), random:N grid "
                    "points, halving:N (the best N of a search) or ask:N (the best 8 of N that "
                    "--proposer proposes) (default all)");
    measuring.Value(
        "--proposer", &ask_.command, "COMMAND",
        "Command of an optimizer, such as python -m xplane_time.propose_optuna (docs/space.md)");
    measuring.List("--devices", &devices_, "NAMES",
                   "Start the harness once per device, with XPLANE_TIME_DEVICE in its environment, "
                   "and CUDA_VISIBLE_DEVICES if the name is a number; rounds run on all devices at "
                   "once, and a check at the end compares the devices. Example: 0,1,2,3");
    AddHarnessLimits(measuring, &harness_);
    measuring.Value("--baseline", &options_.baseline, "ID",
                    "Variant to compare with the pick in fresh rounds at the end; given like "
                    "--incumbent (default: the incumbent)");
    measuring.Count("--confirm", &options_.confirmation_rounds,
                    "Fresh rounds for the comparison with the baseline (default 10)");
    AddAxis("--clock-mhz", &axes_.clock_mhz, "MHZ",
            "SM clocks to lock on the NVIDIA GPU, separated by commas: the axis clock_mhz of the "
            "space; restored at the end; requires root");
    AddAxis("--power-cap-w", &axes_.power_cap_w, "W",
            "Power caps of the NVIDIA GPU, separated by commas: the axis power_cap_w; restored at "
            "the end; requires root");
    measuring.List("--power-source", &power_.sources, "NAME",
                   "Sensors for objectives with energy: " +
                       power::SourcesHelp(/*of_energy=*/true, "; separated by commas"));
    AddSensorPlaces(measuring, &power_);
    measuring.Value("--harness-log", &harness_.process.log_path, "FILE",
                    "Write the output of the harness to FILE");
  }

  void AddAxis(const char* name, std::vector<int64_t>* values, const char* what,
               const std::string& help) const {
    constexpr int64_t kMost = 1'000'000;
    Heading(app_, kMeasuring)
        .Value(name, values, what, help, CLI::Range(int64_t{1}, kMost))
        ->delimiter(',')
        ->allow_extra_args(false);
  }

  void AddStore(CLI::App* app) {
    Heading(app, kStoring)
        .Value("--store", &store_path_, "FILE", "File of sessions (default tune.db)");
  }

  // With `formats`: an action on a stored session, which is printed in one of these formats.
  CLI::App* AddAction(CommandLine* line, Action action, CommandText text,
                      const std::vector<std::string>& formats = {}) {
    text.parent = app_;
    CLI::App* const app = line->AddApp(text, [this, action] { action_ = action; });
    if (formats.empty()) return app;
    AddStore(app);
    app->add_option("SESSION", session_, "Number of the session (default: the latest)")
        ->check(CLI::Range(int64_t{1}, std::numeric_limits<int64_t>::max()));
    if (action == &TuneCommand::ReplaySession) AddDecision(app);
    if (action == &TuneCommand::Export) {
      Heading(app, kOut).Value("--bundle", &bundle_path_, "FILE.zip",
                               "Write the session and its verdict as a certificate for xplane-time "
                               "verify, and print its SHA-256");
    }
    printing_.AddFormat(app, formats);
    printing_.AddPath(app);
    return app;
  }

  void AddActions(CommandLine* line) {
    CLI::App* const decide = AddAction(line, &TuneCommand::Decide,
                                       {"decide", "Run only the decision: JSON Lines in and out",
                                        "  xplane-time tune decide < requests.jsonl\n"
                                        "  xplane-time tune decide --space space.json\n"});
    Heading(decide, kOwn)
        .Value("--space", &space_path_, "FILE", "Search space for open messages that contain none");
    replay_ = AddAction(line, &TuneCommand::ReplaySession,
                        {"replay", "Decide a recorded session again with other rules",
                         "  xplane-time tune replay --delta 1%\n"
                         "  xplane-time tune replay 3 --stop claim --budget-runs 200\n"},
                        kShownFormats);
    AddAction(line, &TuneCommand::Show,
              {"show", "Show the sessions of a store, or one session",
               "  xplane-time tune show\n"
               "  xplane-time tune show 3 --store other.db -o result.json\n"
               "  xplane-time tune show 3 -o race.html\n"},
              {"table", "json", "markdown", "html"});
    AddAction(line, &TuneCommand::Export,
              {"export", "Export a session's samples, or the tuned table",
               "  xplane-time tune export 3 -o samples.csv\n"
               "  xplane-time tune export --format tuned -o tuned.json\n"
               "  xplane-time tune export --bundle certificate.zip\n"},
              {"csv", "json", "t4", "tuned"});
  }

  // ---- Checks

  // A mistyped subcommand is parsed as SPACE, and so is a harness before which -- is missing.
  absl::Status NoHarness() const {
    std::error_code ignored;
    const bool is_word = space_path_.find_first_of("./") == std::string::npos;
    if (is_word && !std::filesystem::exists(space_path_, ignored)) {
      return UsageError("tune ", space_path_,
                        ": neither a command (show, export, replay, decide) nor an existing SPACE");
    }
    return UsageError("no harness given: xplane-time tune SPACE -- HARNESS...");
  }

  // Refuses options that have no effect with the others.
  absl::Status CheckUsed() const {
    constexpr std::string_view kListed[] = {
        "SPACE",      "--list",        "--strategy",  "--proposer",   "--objective", "--incumbent",
        "--baseline", "--budget-runs", "--seed",      "--calls",      "--workload",  "--format",
        "--output",   "--quiet",       "--clock-mhz", "--power-cap-w"};
    for (const CLI::Option* option : app_->get_options()) {
      const bool is_used = std::ranges::find(kListed, option->get_name()) != std::end(kListed);
      if (list_ && option->count() > 0 && !is_used) {
        return UsageError(option->get_name(),
                          " has no effect with --list, which starts no harness");
      }
    }
    if (!devices_.empty()) {
      const std::set<std::string> names(devices_.begin(), devices_.end());
      if (names.size() < devices_.size()) {
        return UsageError("--devices: the names must differ");
      }
      if (devices_.size() > kMaxRoundsAtOnce) {
        return UsageError("--devices: too many devices; the maximum is ", kMaxRoundsAtOnce);
      }
      RETURN_IF_ERROR(
          Refuse({"--power-source", "--clock-mhz", "--power-cap-w"},
                 "supports only one device; with --devices, the harness must report energies"));
    }
    const bool has_baseline = !options_.baseline.empty() || !options_.incumbent.empty();
    if (!has_baseline && options_.confirmation_rounds > 0) {
      RETURN_IF_ERROR(
          Refuse({"--confirm"}, "requires --baseline or --incumbent to compare the pick with"));
    }
    if (!with_energy()) {
      constexpr char kOfEnergy[] =
          "requires an objective with energy: --objective energy, edp, ed2p or pareto";
      if (!axes_.any()) {
        RETURN_IF_ERROR(Refuse({"--map", "--nvml-library"},
                               Cat(kOfEnergy, "; or --clock-mhz or --power-cap-w")));
      }
      return Refuse({"--power-source", "--sysfs-root"}, kOfEnergy);
    }
    for (const PowerAbsence& each : ListPowerSources(power_).absences) {
      if (each.source.empty()) return UsageError("--power-source: ", each.message);  // unknown name
    }
    return absl::OkStatus();
  }

  absl::Status TakeStrategy() {
    std::string way;
    uint64_t count = 0;
    const bool counts =
        RE2::FullMatch(strategy_, "(random|halving|ask):([0-9]{1,18})", &way, &count);
    const bool searches = counts && way != "random";
    if (counts ? count == 0 : strategy_ != "all" && strategy_ != "list") {
      return UsageError("--strategy: expected all, list, random:N, halving:N or ask:N, not '",
                        strategy_, "'");
    }
    if (strategy_ == "list") choice_.strategy = Strategy::kList;
    if (way == "random") choice_ = {Strategy::kRandom, count, choice_.seed};
    if (way == "halving") halve_to_ = count;
    if (way == "ask") ask_.count = count;
    if ((ask_.count > 0) == ask_.command.empty()) {
      return UsageError("--strategy ask:N and --proposer COMMAND require each other");
    }
    if (searches && options_.decide.objective == Objective::kPareto) {
      return UsageError(
          "--strategy: a search requires a single objective, not pareto; use all or random:N");
    }
    return absl::OkStatus();
  }

  // ---- The race

  absl::Status FitTo(const SearchSpace& space) {
    ASSIGN_OR_RETURN(options_.incumbent, IdOf("--incumbent", options_.incumbent));
    ASSIGN_OR_RETURN(options_.baseline, IdOf("--baseline", options_.baseline));
    if (options_.workload.empty()) {
      options_.workload = space.name.empty() ? space.source : space.name;
    }
    options_.space_hash = SpaceHash(space);
    harness_.session = options_.workload;
    harness_.workloads = options_.workloads = space.workloads;
    harness_.process.command = program_;
    // Samples with energies of earlier versions (which include the untimed run) and of other power
    // sources are not comparable, so the protocol distinguishes them.
    const std::set<std::string> sources(power_.sources.begin(), power_.sources.end());
    options_.protocol =
        absl::StrCat("v1 calls=", harness_.calls, with_energy() ? " energy=timed" : "",
                     sources.empty() ? "" : " sources=", absl::StrJoin(sources, ","));
    if (resume_) options_.resume = Resume::kIfThere;
    options_.now_unix_s = std::time(nullptr);
    options_.device_locks = DeviceLocks();
    std::ranges::sort(devices_);  // the order of devices does not matter
    if (!devices_.empty()) options_.decide.rounds_at_once = static_cast<uint32_t>(devices_.size());
    return absl::OkStatus();
  }

  std::unique_ptr<Searcher> SearcherFor(const SearchSpace& space) const {
    if (halve_to_ > 0) return NewHalvingSearcher(halve_to_);
    return ask_.count > 0 ? NewAskSearcher(ask_, space) : nullptr;
  }

  // The configurations that are known at the start. A proposer adds its own, so with a proposer
  // only listed variants, and an incumbent or baseline that is a grid point, are known.
  absl::StatusOr<std::vector<Configuration>> KnownOf(const SearchSpace& space) const {
    if (ask_.count == 0) return ChooseConfigurations(space, choice_);
    std::vector<Configuration> known;
    if (!space.variants.empty()) {
      ASSIGN_OR_RETURN(known, ChooseConfigurations(space, {.strategy = Strategy::kList}));
    }
    for (const std::string& given : {options_.incumbent, options_.baseline}) {
      if (!given.starts_with('{')) continue;
      auto point = FindPoint(space, given);
      if (!point.ok()) continue;  // a listed variant; otherwise it is reported as missing later
      if (std::ranges::find(known, point->id, &Configuration::id) != known.end()) continue;
      known.push_back(*std::move(point));
    }
    return known;
  }

  // If the file is not JSON, the user may have given the harness instead of SPACE.
  absl::StatusOr<SearchSpace> SpaceToRace() const {
    auto space = ReadSpace(space_path_);
    const bool may_be_harness =
        absl::IsInvalidArgument(space.status()) && !space_path_.ends_with(".json");
    if (!may_be_harness) return space;
    return UsageError(space.status().message(),
                      "; the first argument of tune is SPACE, the harness follows --");
  }

  // The number of runs of a search, as far as it is known before the start.
  uint64_t SearchRuns(uint64_t known) const {
    if (ask_.count > 0) return (known + ask_.count) * kAskRounds;
    uint64_t runs = 0, rounds = 1;
    for (uint64_t left = known; halve_to_ > 0 && left > halve_to_;) {
      runs += left * rounds;
      left = std::max(left - left / 2, halve_to_);
      rounds = std::min<uint64_t>(rounds * 2, kMostHalvingRounds);
    }
    return runs;
  }

  // Lists the configurations that would be run.
  absl::StatusOr<int> List(std::span<const Configuration> configurations) const {
    const uint64_t known = configurations.size();
    output::TunePlan plan = {.workload = options_.workload,
                             .strategy = strategy_,
                             .configurations = configurations,
                             .workloads = std::max<uint64_t>(1, options_.workloads.size()),
                             .calls = static_cast<uint64_t>(harness_.calls),
                             .raced = known,
                             .search_runs = SearchRuns(known),
                             .budget_runs = options_.decide.budget_runs};
    if (halve_to_ > 0) plan.raced = std::min(known, halve_to_);
    if (ask_.count > 0) plan.raced = std::min(known + ask_.count, kAskFinalists);
    return Print(output::PlanOutput(plan));
  }

  absl::StatusOr<int> Race() {
    ASSIGN_OR_RETURN(SearchSpace space, SpaceToRace());
    RETURN_IF_ERROR(AddSettings(axes_, &space));
    ASSIGN_OR_RETURN(const std::vector<Configuration> configurations, KnownOf(space));
    RETURN_IF_ERROR(FitTo(space));
    const std::unique_ptr<Searcher> searcher = SearcherFor(space);
    options_.searcher = searcher.get();
    RETURN_IF_ERROR(CheckTuneOptions(configurations, options_));
    if (list_) return List(configurations);
    std::unique_ptr<power::SettingsGuard> guard;
    if (axes_.any()) {
      ASSIGN_OR_RETURN(guard, power::SettingsGuard::Start(power_.roots.nvml_library, tools::Tell));
    }
    return Measure(configurations, guard.get());
  }

  std::unique_ptr<Harness> NewHarness() const {
    if (devices_.empty()) return NewProcessHarness(harness_);
    rlimit files = {};  // each harness needs some descriptors
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
      files.rlim_cur = files.rlim_max;
      setrlimit(RLIMIT_NOFILE, &files);
    }
    std::vector<HarnessFleet::Member> members;
    for (const std::string& device : devices_) {
      ProcessHarnessOptions own = harness_;
      own.process.environment.push_back("XPLANE_TIME_DEVICE=" + device);
      if (RE2::FullMatch(device, "[0-9]+")) {
        for (const char* variable : {"CUDA_VISIBLE_DEVICES=", "ROCR_VISIBLE_DEVICES="}) {
          own.process.environment.push_back(variable + device);
        }
      }
      members.push_back({device, NewProcessHarness(std::move(own))});
    }
    return std::make_unique<HarnessFleet>(
        std::move(members), [](const std::string& line) { tools::Tell(output::Printable(line)); });
  }

  // `guard` is null if the tuning has no device settings.
  absl::StatusOr<int> Measure(std::span<const Configuration> configurations,
                              power::SettingsGuard* guard) {
    const auto harness = NewHarness();
    const auto with_sensors =
        NewEnergyHarness(harness.get(), power_, harness_.calls,
                         [this](const std::string& text) { Tell(output::Printable(text)); });
    const bool senses = with_energy() && devices_.empty();
    Harness* const measures = senses ? with_sensors.get() : harness.get();
    SettingsHarness with_settings({measures, harness.get(), axes_, power_, guard});
    RememberStopSignals();
    // A harness that does not start leaves no store behind.
    const auto hello = harness->Hello();
    if (!absl::IsCancelled(hello.status())) {
      RETURN_IF_ERROR(WithExits(hello.status(), kHarnessExits));
      if (guard != nullptr) {
        RETURN_IF_ERROR(WithExits(with_settings.Open(hello->device), kHarnessExits));
      }
    }
    ASSIGN_OR_RETURN(TuneStore store, WithExits(TuneStore::Open(store_path_, {}), kStoreExits));
    absl::StatusOr<TuneOutcome> outcome;
    {
      const auto progress = NewTuneProgress(printing_, options_.decide.budget_runs);
      Harness* const used = guard != nullptr ? &with_settings : measures;
      outcome = Tune(configurations, options_, used, &store, progress.get());
    }
    // while the device is still locked
    const bool is_as_it_was = guard == nullptr || guard->PutBack();
    // Errors of the store begin with its path.
    const bool of_store = absl::StartsWith(outcome.status().message(), store.path() + ": ");
    RETURN_IF_ERROR(
        WithExits(outcome.status(), of_store ? Exits(kStoreExits) : Exits(kHarnessExits)));
    ASSIGN_OR_RETURN(const int exit_code, Report(*outcome));
    return is_as_it_was ? exit_code : kExitIo;
  }

  // Prints the outcome. Returns the exit code.
  absl::StatusOr<int> Report(const TuneOutcome& outcome) const {
    const bool from_store = outcome.resumed && outcome.rounds_measured == 0;
    if (from_store && !outcome.interrupted) {
      Tell(absl::StrCat("no runs were left to measure: session ", outcome.session,
                        " was read from the store"));
    }
    const absl::Status printed = PrintOutcome(outcome).status();
    if (outcome.interrupted) Tell("interrupted; continue with --resume");
    RETURN_IF_ERROR(printed);
    return ExitOf(outcome);
  }

  // ---- The store

  // Warns if the answer depends on rows without checksums. Errors are reported by the action.
  void WarnUnverified(const TuneStore& store) const {
    std::vector<SessionInfo> sessions;
    if (!session_.has_value()) {
      if (auto all = store.Sessions(); all.ok()) sessions = *std::move(all);
    } else if (auto one = store.Session(*session_); one.ok()) {
      sessions.push_back(*std::move(one));
    }
    for (const SessionInfo& each : sessions) {
      if (each.verified) continue;
      std::fprintf(stderr,
                   "xplane-time: warning: %s: session %lld is unverified: it has rows without a "
                   "checksum, which an earlier version wrote\n",
                   output::Printable(store.path()).c_str(), static_cast<long long>(each.id));
    }
  }

  absl::StatusOr<int> Show() {
    ASSIGN_OR_RETURN(const TuneStore store, OpenSound(store_path_));
    RETURN_IF_ERROR(store.CheckRows(session_));
    WarnUnverified(store);
    if (!session_.has_value()) {
      ASSIGN_OR_RETURN(const auto sessions, store.Sessions());
      return Print(output::SessionsOutput(sessions));
    }
    ASSIGN_OR_RETURN(const SessionInfo session, store.Session(*session_));
    if (!session.verdict_json.has_value()) {
      return FailedPrecondition(
          store.path(), ": session ", session.id, " has no verdict yet, after ", session.rounds,
          session.rounds == 1 ? " round" : " rounds", "; continue with tune --resume");
    }
    if (!ReadTuneResult(*session.verdict_json).has_value()) {
      return DataLoss(store.path(), ": session ", session.id,
                      ": its verdict cannot be read; the file was damaged after it was written");
    }
    std::vector<TuneResult> race;
    if (printing_.how.format == output::Format::kHtml) {
      ASSIGN_OR_RETURN(race, RaceOf(store, session.id));
    }
    return Print(output::TuningOutput(*session.verdict_json, race));
  }

  // The decisions after fewer runs, in steps of a fifth more; empty if no round decided.
  static absl::StatusOr<std::vector<TuneResult>> RaceOf(const TuneStore& store, int64_t session) {
    ASSIGN_OR_RETURN(const RecordedSession recorded, ReadSession(store, session));
    std::vector<TuneResult> race;
    const auto all = Replay(recorded, "{}");
    if (absl::IsFailedPrecondition(all.status())) return race;
    RETURN_IF_ERROR(all.status());
    const int64_t runs = all->verdict.runs;
    for (int64_t at = static_cast<int64_t>(all->variants.size()); at < runs;
         at = std::max(at + 1, at * 6 / 5)) {
      const std::string budget = absl::StrCat("{\"budget\":{\"runs\":", at, "}}");
      ASSIGN_OR_RETURN(const TuneOutcome outcome, Replay(recorded, budget));
      if (race.empty() || outcome.verdict.runs > race.back().runs) {
        race.push_back(ResultOf(outcome));
      }
    }
    race.push_back(ResultOf(*all));
    return race;
  }

  absl::StatusOr<int> ExportTuned(const TuneStore& store) const {
    RETURN_IF_ERROR(store.CheckRows(session_));
    ASSIGN_OR_RETURN(const TunedTable table, store.Tuned(DefaultFallbacks(), session_));
    if (table.entries().empty()) {
      return FailedPrecondition(store.path(), ": no session has reached a decision yet");
    }
    return Print(table.ToJson());
  }

  // Prints a line like sha256sum.
  absl::StatusOr<int> ExportBundle(const TuneStore& store) const {
    ASSIGN_OR_RETURN(const int64_t session, SessionOf(store));
    ASSIGN_OR_RETURN(const RecordedSession recorded, ReadSession(store, session));
    ASSIGN_OR_RETURN(evidence::BundleSpec spec, evidence::SessionBundle(recorded));
    spec.created_unix_s = std::time(nullptr);
    spec.provenance = evidence::ProvenanceOf(".");
    ASSIGN_OR_RETURN(const std::string sha256,
                     WithExits(evidence::WriteBundle(bundle_path_, spec), kWriteExits));
    return Print(Cat(sha256, "  ", bundle_path_, "\n"));
  }

  absl::StatusOr<int> Export() {
    ASSIGN_OR_RETURN(const TuneStore store, OpenSound(store_path_));
    WarnUnverified(store);
    if (!bundle_path_.empty()) return ExportBundle(store);
    if (printing_.format == "tuned") return ExportTuned(store);
    ASSIGN_OR_RETURN(const int64_t session, SessionOf(store));
    ASSIGN_OR_RETURN(const std::string text, output::Export(store, session, printing_.format));
    return Print(text);
  }

  // The differences to the session's rule, by the names of the decider's config.
  std::string ChangesJson() const {
    const DecideConfig& by = options_.decide;
    const json::Json all = json::Parse(DecideConfigJson(by, options_.incumbent, ""));
    json::Json changes = json::Json::object(), budget;
    for (const auto& [name, value] : all.items()) {
      const std::string option = "--" + absl::StrReplaceAll(name, {{"_", "-"}});
      if (Given(*replay_, option.c_str())) changes[name] = value;
    }
    if (by.budget_runs.has_value()) budget["runs"] = *by.budget_runs;
    if (by.budget_time_ps.has_value()) budget["time_ps"] = *by.budget_time_ps;
    if (!budget.is_null()) changes["budget"] = budget;
    return json::Dump(changes);
  }

  absl::StatusOr<int> ReplaySession() {
    ASSIGN_OR_RETURN(const TuneStore store, OpenSound(store_path_));
    WarnUnverified(store);
    ASSIGN_OR_RETURN(const int64_t session, SessionOf(store));
    ASSIGN_OR_RETURN(const RecordedSession recorded, ReadSession(store, session));
    ASSIGN_OR_RETURN(const TuneOutcome outcome, Replay(recorded, ChangesJson()));
    RETURN_IF_ERROR(PrintOutcome(outcome).status());
    return ExitOf(outcome);
  }

  absl::StatusOr<int> Decide() {
    decide::ServeOptions options;
    options.input_waiting = InputWaiting;
    if (!space_path_.empty()) {
      ASSIGN_OR_RETURN(const SearchSpace space, ReadSpace(space_path_));
      SearchSpace chosen;
      ASSIGN_OR_RETURN(chosen.variants, ChooseConfigurations(space, {}));
      options.space_json = SpaceToJson(chosen);
    }
    std::ios::sync_with_stdio(false);
    try {
      return decide::Serve(std::cin, std::cout, options) ? 0 : CannotReply();
    } catch (const std::ios_base::failure& error) {  // closed, or a directory
      return Unavailable("standard input: cannot read: ", error.code().message(),
                         "; expected JSON Lines, see docs/deciding.md");
    }
  }

  // ---- Common parts

  bool with_energy() const { return options_.decide.objective != Objective::kTime; }

  absl::StatusOr<int64_t> SessionOf(const TuneStore& store) const {
    if (session_.has_value()) return *session_;
    ASSIGN_OR_RETURN(const auto sessions, store.Sessions());
    if (!sessions.empty()) return sessions.back().id;
    return NotFound(store.path(), ": the store contains no sessions yet");
  }

  absl::StatusOr<int> PrintOutcome(const TuneOutcome& outcome) const {
    return Print(output::TuningOutput(OutcomeJson(outcome)));
  }

  // Prints a line on standard error.
  void Tell(const std::string& text) const {
    if (!printing_.quiet) std::fprintf(stderr, "%s\n", text.c_str());
  }

  Action action_ = &TuneCommand::Race;
  CLI::App* replay_ = nullptr;
  std::string space_path_, store_path_ = "tune.db";
  std::string bundle_path_;         // of export; empty: another format
  std::optional<int64_t> session_;  // empty: the latest
  bool resume_ = false;
  bool list_ = false;  // a dry run

  TuneOptions options_;  // incumbent and baseline as given, until FitTo
  Choice choice_;
  std::string strategy_ = "all";
  uint64_t halve_to_ = 0;  // 0, like the count of ask_: no such search
  AskOptions ask_;
  ProcessHarnessOptions harness_;
  std::vector<std::string> devices_;  // empty: one device, chosen by the harness
  SettingAxes axes_;
  PowerSourceOptions power_;  // for objectives with energy, and for axes_
};

}  // namespace

void AddTune(CommandLine* line) {
  line->Add<TuneCommand>({.name = "tune",
                          .help = "Run variants in rounds until the fastest is proved",
                          .examples = R"(  xplane-time tune space.json -- python harness.py
  xplane-time tune space.json --resume --incumbent v3f0c... -- ./harness
  xplane-time tune show
  xplane-time tune export --format t4 -o results.json
)",
                          .runs_program = true,
                          .about_extra = "the harness and its arguments follow --"},
                         line);
}

}  // namespace xplane_time::tools
