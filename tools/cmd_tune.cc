#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <memory>

#include <poll.h>
#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "commands.h"
#include "decide/protocol.h"
#include "output/schema.h"
#include "output/text.h"
#include "output/tuning.h"
#include "stop_signals.h"
#include "tune/energy_harness.h"
#include "tune/export.h"
#include "tune/outcome_json.h"
#include "tune/process_harness.h"
#include "tune/search_run.h"
#include "tune_progress.h"
#include "xplane_time/store.h"
#include "xplane_time/tune.h"

namespace xplane_time::tools {
namespace {

constexpr int kExitTooLittle = 12, kExitAllFailed = 20, kExitWrong = 21, kExitNoHarness = 69,
              kExitCannotWrite = 73, kExitIo = 74, kExitStopped = 75;

volatile std::sig_atomic_t stop_signal = 0;

void OnStopSignal(int signal) { stop_signal = signal; }

int ExitOf(const TuneOutcome& outcome) {
  if (outcome.interrupted) return kExitStopped;
  const Claim claim = outcome.verdict.claim;
  if (claim == Claim::kUndecided && !outcome.verdict.mde.has_value()) return kExitTooLittle;
  if (claim != Claim::kAllFailed) return ExitCode(claim);
  const bool wrong =
      std::any_of(outcome.variants.begin(), outcome.variants.end(),
                  [](const TunedVariant& each) { return each.state.status == "wrong_result"; });
  const bool only_wrong =
      std::all_of(outcome.variants.begin(), outcome.variants.end(), [](const TunedVariant& each) {
        return each.state.status == "wrong_result" || each.state.status == "compile_error";
      });
  return wrong && only_wrong ? kExitWrong : kExitAllFailed;
}

// One file of locks a user, where nothing needs to be cleaned up.
std::string DeviceLocks() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  // It is named in environments that outlive it: after a sudo, or a log-out.
  if (runtime != nullptr && *runtime != '\0' && access(runtime, W_OK | X_OK) == 0) {
    return absl::StrCat(runtime, "/xplane-time.locks");
  }
  const char* temporary = std::getenv("TMPDIR");
  return absl::StrCat(temporary != nullptr && *temporary != '\0' ? temporary : "/tmp",
                      "/xplane-time-", getuid(), ".locks");
}

std::chrono::milliseconds Milliseconds(double seconds) {
  return std::chrono::milliseconds(std::max<int64_t>(1, static_cast<int64_t>(seconds * 1000)));
}

// An incumbent or a baseline may be given by its parameters.
absl::StatusOr<std::string> IdOf(const std::string& given) {
  if (!given.starts_with('{')) return given;
  auto params = CanonicalParams(given);
  if (!params.ok()) return params.status();
  return VariantId(*params);
}

absl::StatusOr<TuneOptions> OptionsOf(const TuneCommand& command, const SearchSpace& space) {
  TuneOptions options;
  options.decide = command.decide;
  auto incumbent = IdOf(command.incumbent);
  if (!incumbent.ok()) return incumbent.status();
  auto baseline = IdOf(command.baseline);
  if (!baseline.ok()) return baseline.status();
  options.incumbent = *incumbent;
  options.baseline = *baseline;
  options.confirmation_rounds = command.confirmation_rounds;
  options.workload = !command.workload.empty() ? command.workload
                     : !space.name.empty()     ? space.name
                                               : space.source;
  options.space_hash = SpaceHash(space);
  options.workloads = space.workloads;
  // Energies of earlier versions, with the untimed run in them, are no samples of these.
  const bool with_energy = command.decide.objective != Objective::kTime;
  options.protocol = absl::StrCat("v1 calls=", command.calls, with_energy ? " energy=timed" : "");
  options.resume = command.resume ? Resume::kIfThere : Resume::kNever;
  options.now_unix_s = std::time(nullptr);
  options.device_locks = DeviceLocks();
  options.stopped = [] { return stop_signal != 0; };
  return options;
}

int Print(const TuneCommand& command, const TuneOutcome& outcome,
          const output::OutputOptions& how) {
  return WriteText(command.output_path, command.format == "json"
                                            ? OutcomeJson(outcome) + "\n"
                                            : output::TuningText(ResultOf(outcome), how));
}

// A full disk is no bad trace.
int FailStore(const absl::Status& status) {
  const int exit_code = Fail(status);
  return absl::IsResourceExhausted(status) ? kExitIo : exit_code;
}

int FailHarness(const absl::Status& status) {
  const int exit_code = Fail(status);
  if (absl::IsPermissionDenied(status)) return kExitCannotWrite;  // a log, a lock
  return absl::IsUnavailable(status) || absl::IsNotFound(status) ? kExitNoHarness : exit_code;
}

// Of the harness, or of the store: its errors begin with its path.
int FailLoop(const absl::Status& status, const TuneStore& store) {
  if (absl::StartsWith(status.message(), store.path() + ": ")) return FailStore(status);
  return FailHarness(status);
}

std::unique_ptr<Searcher> SearcherOf(const TuneCommand& command, const SearchSpace& space,
                                     const TuneOptions& options) {
  if (command.halve_to > 0) return std::make_unique<HalvingSearcher>(command.halve_to);
  if (command.ask_for == 0) return nullptr;
  return std::make_unique<AskSearcher>(AskSearcher::Options{.command = command.proposer,
                                                            .count = command.ask_for,
                                                            .seed = command.decide.seed,
                                                            .stopped = options.stopped},
                                       space);
}

// All that there is to choose from at the start. A proposer brings its own: besides these
// only listed variants, and an incumbent or a baseline that is a grid point.
absl::StatusOr<std::vector<Configuration>> KnownOf(const TuneCommand& command,
                                                   const SearchSpace& space) {
  if (command.ask_for == 0) return ChooseConfigurations(space, command.choice);
  std::vector<Configuration> known;
  if (!space.variants.empty()) {
    auto listed = ChooseConfigurations(space, {.strategy = Strategy::kList});
    if (!listed.ok()) return listed;
    known = *std::move(listed);
  }
  for (const std::string& given : {command.incumbent, command.baseline}) {
    if (!given.starts_with('{')) continue;
    auto point = FindPoint(space, given);
    if (!point.ok()) continue;  // a listed one, or it will be missed
    const bool is_known = std::any_of(known.begin(), known.end(), [&](const Configuration& each) {
      return each.id == point->id;
    });
    if (!is_known) known.push_back(*std::move(point));
  }
  return known;
}

// What is no JSON may be the harness, in the place of SPACE.
absl::Status BadSpace(const TuneCommand& command, const absl::Status& status) {
  const bool may_be_harness =
      absl::IsInvalidArgument(status) && !command.space_path.ends_with(".json");
  if (!may_be_harness) return status;
  return absl::InvalidArgumentError(absl::StrCat(
      status.message(), "; the first argument of tune is SPACE, the harness comes after --"));
}

// Runs of a search that are known before it starts.
uint64_t SearchRuns(const TuneCommand& command, uint64_t known) {
  if (command.ask_for > 0) return (known + command.ask_for) * AskSearcher::kRounds;
  uint64_t runs = 0, rounds = 1;
  for (uint64_t left = known; command.halve_to > 0 && left > command.halve_to;) {
    runs += left * rounds;
    left = std::max(left - left / 2, command.halve_to);
    rounds = std::min<uint64_t>(rounds * 2, HalvingSearcher::kMostRounds);
  }
  return runs;
}

// What would be run.
int RunList(const TuneCommand& command, const TuneOptions& options,
            std::span<const Configuration> configurations, const output::OutputOptions& how) {
  constexpr uint64_t kTypicalRounds = 4;  // of all: from then on variants leave
  const uint64_t known = configurations.size();
  output::TunePlan plan = {.workload = options.workload,
                           .strategy = command.strategy,
                           .configurations = configurations,
                           .workloads = std::max<uint64_t>(1, options.workloads.size()),
                           .calls = static_cast<uint64_t>(command.calls),
                           .raced = known,
                           .search_runs = SearchRuns(command, known),
                           .budget_runs = command.decide.budget_runs};
  if (command.halve_to > 0) plan.raced = std::min(known, command.halve_to);
  if (command.ask_for > 0) plan.raced = std::min(known + command.ask_for, AskSearcher::kFinalists);
  plan.race_runs = plan.raced * kTypicalRounds;
  if (command.format == "json") return WriteText(command.output_path, output::PlanJson(plan));
  return WriteText(command.output_path, output::PlanText(plan, how));
}

int RunLoop(const TuneCommand& command, const output::OutputOptions& how) {
  auto space = ReadSpace(command.space_path);
  if (!space.ok()) return Fail(BadSpace(command, space.status()));
  auto configurations = KnownOf(command, *space);
  if (!configurations.ok()) return Fail(configurations.status());
  auto options = OptionsOf(command, *space);
  if (!options.ok()) return Fail(options.status());
  const std::unique_ptr<Searcher> searcher = SearcherOf(command, *space, *options);
  options->searcher = searcher.get();
  if (auto status = CheckTuneOptions(*configurations, *options); !status.ok()) return Fail(status);
  if (command.list) return RunList(command, *options, *configurations, how);
  ProcessHarness harness({.process = {.command = command.harness,
                                      .log_path = command.harness_log,
                                      .stopped = options->stopped},
                          .session = options->workload,
                          .workloads = space->workloads,
                          .calls = command.calls,
                          .run_limit = command.run_limit,
                          .prepare_timeout = Milliseconds(command.prepare_timeout_s),
                          .slot_timeout = Milliseconds(command.slot_timeout_s)});
  PowerSourceOptions power = command.power;
  power.environment = EnvironmentOfDevices();
  EnergyHarness with_energy(&harness, power, command.calls, [&](const std::string& text) {
    if (!command.quiet) std::fprintf(stderr, "%s\n", output::Printable(text).c_str());
  });
  Harness* used = &harness;
  if (command.decide.objective != Objective::kTime) used = &with_energy;
  OnStopSignals(OnStopSignal);
  // A harness that does not start leaves no store behind.
  const absl::Status hello = harness.Hello().status();
  if (!hello.ok() && !absl::IsCancelled(hello)) return FailHarness(hello);
  auto store = TuneStore::Open(command.store_path, {});
  if (!store.ok()) return FailStore(store.status());
  absl::StatusOr<TuneOutcome> outcome;
  {
    TuneProgress progress(TuneProgress::Chosen(command), static_cast<size_t>(how.width),
                          command.decide.budget_runs);
    outcome = Tune(*configurations, *options, used, &*store, &progress);
  }
  harness.Finish();
  if (!outcome.ok()) return FailLoop(outcome.status(), *store);
  const bool from_store = outcome->resumed && outcome->verdict.rounds == outcome->rounds_before;
  if (from_store && !outcome->interrupted && !command.quiet) {
    std::fprintf(stderr, "nothing was left to measure: session %s answers from the store\n",
                 absl::StrCat(outcome->session).c_str());
  }
  const int written = Print(command, *outcome, how);
  if (outcome->interrupted && !command.quiet) {
    std::fputs("xplane-time: interrupted; --resume goes on\n", stderr);
  }
  return written != 0 ? written : ExitOf(*outcome);
}

absl::StatusOr<int64_t> SessionOf(const TuneCommand& command, const TuneStore& store) {
  if (command.session != 0) return command.session;
  auto sessions = store.Sessions();
  if (!sessions.ok()) return sessions.status();
  if (sessions->empty()) {
    return absl::NotFoundError(absl::StrCat(store.path(), ": no session yet"));
  }
  return sessions->back().id;
}

// For reading, where damage is to show rather than to be left out.
absl::StatusOr<TuneStore> OpenSound(const std::string& path) {
  auto store = TuneStore::OpenReadOnly(path);
  if (!store.ok()) return store;
  if (absl::Status status = store->CheckFile(); !status.ok()) return status;
  return store;
}

std::optional<int64_t> OnlySession(const TuneCommand& command) {
  return command.session != 0 ? std::optional(command.session) : std::nullopt;
}

int RunShow(const TuneCommand& command, const output::OutputOptions& how) {
  auto store = OpenSound(command.store_path);
  if (!store.ok()) return Fail(store.status());
  if (auto rows = store->CheckRows(OnlySession(command)); !rows.ok()) return Fail(rows);
  if (command.session == 0) {
    auto sessions = store->Sessions();
    if (!sessions.ok()) return Fail(sessions.status());
    return WriteText(command.output_path, command.format == "json"
                                              ? output::SessionsJson(*sessions)
                                              : output::SessionsText(*sessions, how));
  }
  auto session = store->Session(command.session);
  if (!session.ok()) return Fail(session.status());
  if (!session->verdict_json.has_value()) {
    return Fail(absl::FailedPreconditionError(absl::StrCat(
        store->path(), ": session ", session->id, " has no verdict yet, after ", session->rounds,
        session->rounds == 1 ? " round" : " rounds", "; tune --resume goes on")));
  }
  const std::string& json = *session->verdict_json;
  return WriteText(command.output_path, command.format == "json"
                                            ? json + "\n"
                                            : output::TuningText(ReadTuneResult(json), how));
}

int RunExport(const TuneCommand& command) {
  auto store = OpenSound(command.store_path);
  if (!store.ok()) return Fail(store.status());
  if (command.format == "tuned") {
    const auto only = OnlySession(command);
    if (auto rows = store->CheckRows(only); !rows.ok()) return Fail(rows);
    auto table = store->Tuned(DefaultFallbacks(), only);
    if (!table.ok()) return Fail(table.status());
    if (table->entries().empty()) {
      return Fail(absl::FailedPreconditionError(
          absl::StrCat(store->path(), ": no session has decided anything yet")));
    }
    return WriteText(command.output_path, table->ToJson());
  }
  auto session = SessionOf(command, *store);
  if (!session.ok()) return Fail(session.status());
  auto out = OutputFile::Open(command.output_path);
  if (!out.ok()) return FinishWriting(out.status());
  const auto sink = [&](std::string_view piece) { return out->Write(piece); };
  absl::Status status = command.format == "json" ? tune::ExportJson(*store, *session, sink)
                        : command.format == "t4" ? tune::ExportT4(*store, *session, sink)
                                                 : tune::ExportCsv(*store, *session, sink);
  if (status.ok()) status = out->Commit();
  return out->failed() ? FinishWriting(status) : status.ok() ? 0 : Fail(status);
}

int RunReplay(const TuneCommand& command, const output::OutputOptions& how) {
  auto store = OpenSound(command.store_path);
  if (!store.ok()) return Fail(store.status());
  auto session = SessionOf(command, *store);
  if (!session.ok()) return Fail(session.status());
  auto outcome = Replay(*store, *session, command.changes_json);
  if (!outcome.ok()) return Fail(outcome.status());
  const int written = Print(command, *outcome, how);
  return written != 0 ? written : ExitOf(*outcome);
}

// More input that is on its way within a few milliseconds counts as there.
bool InputWaiting() {
  constexpr int kMilliseconds = 5;
  pollfd input = {STDIN_FILENO, POLLIN, 0};
  return std::cin.rdbuf()->in_avail() > 0 || poll(&input, 1, kMilliseconds) > 0;
}

// After the first failure; which is not told by errno any more.
int CannotReply() {
  pollfd output = {STDOUT_FILENO, POLLOUT, 0};
  if (poll(&output, 1, 0) > 0 && (output.revents & POLLERR) != 0) return 0;  // the reader left
  return FinishWriting(absl::InternalError("standard output: cannot write"));
}

int RunDecide(const TuneCommand& command) {
  decide::ServeOptions options;
  options.input_waiting = InputWaiting;
  if (!command.space_path.empty()) {
    auto space = ReadSpace(command.space_path);
    if (!space.ok()) return Fail(space.status());
    auto configurations = ChooseConfigurations(*space, {});
    if (!configurations.ok()) return Fail(configurations.status());
    options.space_json = DecideSpaceJson(*configurations);
  }
  std::ios::sync_with_stdio(false);
  try {
    return decide::Serve(std::cin, std::cout, options) ? 0 : CannotReply();
  } catch (const std::ios_base::failure& error) {  // closed, or a directory
    return Fail(
        absl::UnavailableError(absl::StrCat("standard input: cannot read: ", error.code().message(),
                                            "; it takes JSON Lines, see docs/deciding.md")));
  }
}

}  // namespace

int RunTune(const Options& options) {
  const TuneCommand& command = options.tune;
  if (command.json_schema) return WriteText(command.output_path, output::JsonSchema("tune"));
  switch (command.action) {
    case TuneAction::kRun:
      return RunLoop(command, options.output);
    case TuneAction::kShow:
      return RunShow(command, options.output);
    case TuneAction::kExport:
      return RunExport(command);
    case TuneAction::kReplay:
      return RunReplay(command, options.output);
    case TuneAction::kDecide:
      break;
  }
  return RunDecide(command);
}

}  // namespace xplane_time::tools
