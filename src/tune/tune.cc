// A tuning from its space to its verdict, and the same decision from stored rounds.
//
// Tuning::Run, in stages:
// 1. Begin: the harness says hello; the store resumes or begins the session.
// 2. PrepareAll: compiles and verifies the variants, or takes their stored states. Variants with
//    the same fingerprint become aliases.
// 3. Search (search_run.h): adds proposed variants and drops all but the finalists.
// 4. OpenDecider, Decide: the race. The decider asks for batches of rounds until it has a verdict;
//    stored rounds are folded first. A budget limits how much is measured.
// 5. CheckDevices (device_check.h): with several devices, whether they agree on the verdict.
// 6. Confirm: rounds of pick and baseline alone estimate the speed-up without selection bias.
// 7. Conclude: adds tails and stores the verdict, also after an interruption.
//
// A decision on a recorded session does the same with stored rounds only, possibly with another
// rule.
#include "xplane_time/tune.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/str_join.h"
#include "decide/protocol.h"
#include "json/json.h"
#include "stats/distributions.h"
#include "stats/location.h"
#include "status.h"
#include "tune/device_check.h"
#include "tune/harness_fleet.h"
#include "tune/measuring.h"
#include "tune/outcome_json.h"
#include "tune/search_run.h"

namespace xplane_time {
namespace {

using json::Json;

// A search after which no variant is raced, on purpose.
constexpr char kNothingRaced[] = "nothing_raced";
// With several devices: they disagree, or the tuning stopped before they were compared.
constexpr char kDeviceClasses[] = "device_classes", kDevicesUnchecked[] = "devices_unchecked";

// The quantities that budgets limit.
struct Spent {
  int64_t runs = 0;
  double time_ps = 0;

  void Add(const RoundResult& round) {
    runs += static_cast<int64_t>(round.samples.size());
    for (const Sample& sample : round.samples) time_ps += static_cast<double>(sample.t_ps);
  }
};

// For a Pareto front, the time is confirmed, because it is the easiest to check.
Objective ConfirmedBy(Objective objective) {
  return objective == Objective::kPareto ? Objective::kTime : objective;
}

std::optional<double> LogSpeedup(const RoundRecord& record, Objective metric,
                                 const std::string& pick) {
  std::optional<double> of_pick, of_other;
  for (const SampleRecord& sample : record.samples) {
    const auto value = ObjectiveValue(metric, sample);
    if (record.discarded || !value.has_value() || *value <= 0) continue;
    (sample.variant == pick ? of_pick : of_other) = std::log(*value);
  }
  if (!of_pick.has_value() || !of_other.has_value()) return std::nullopt;
  return *of_other - *of_pick;
}

std::optional<Confirmation> ConfirmationOf(const std::vector<double>& log_ratios, Objective metric,
                                           const std::string& baseline) {
  if (log_ratios.empty()) return std::nullopt;
  const stats::Centre centre = stats::HuberCentre(log_ratios);
  Confirmation confirmation = {.baseline = baseline,
                               .rounds = log_ratios.size(),
                               .metric = metric,
                               .speedup = std::exp(centre.value)};
  if (centre.df > 0) {
    constexpr double kTail = 0.025;
    const double half = stats::StudentQuantile(kTail, centre.df) * std::sqrt(centre.variance);
    confirmation.speedup_ci95 = {std::exp(centre.value - half), std::exp(centre.value + half)};
  }
  return confirmation;
}

// Set if there are several devices.
std::string DeviceOf(const RoundRecord& record) {
  return json::TextOf(json::Parse(record.notes_json), "device").value_or("");
}

// Another pick or other rivals need their own rounds: FNV-1a of the ids.
int64_t DeviceBatchOf(std::span<const uint32_t> variants,
                      std::span<const Configuration* const> measured) {
  uint32_t hash = 2166136261;
  for (const uint32_t variant : variants) {
    for (const char each : measured[variant]->id + '\n') {
      hash = (hash ^ static_cast<unsigned char>(each)) * 16777619;
    }
  }
  return kFirstDeviceBatch + hash;
}

// A decision on all devices together does not hold if they disagree, or may disagree.
void HoldToDevices(TuneOutcome* outcome) {
  Verdict& verdict = outcome->verdict;
  const bool is_one = outcome->decide.rounds_at_once == 1;
  const bool agree = outcome->devices.has_value() && outcome->devices->classes.size() == 1;
  if (is_one || agree || !IsDecided(verdict.claim)) return;
  verdict.claim = Claim::kUndecided;
  const bool are_divided = outcome->devices.has_value() && !outcome->devices->classes.empty();
  verdict.stop_reason = are_divided ? kDeviceClasses : kDevicesUnchecked;
}

class Tuning {
 public:
  Tuning(const TuneOptions& options, Harness* harness, TuneStore* store, TuneWatcher* watcher)
      : options_(options), measuring_{options, harness, store, watcher} {}

  absl::StatusOr<TuneOutcome> Run(std::span<const Configuration> configurations) {
    for (const Configuration& each : configurations) {
      outcome_.variants.push_back({.configuration = each});
    }
    const absl::Status status = Race();
    outcome_.interrupted = absl::IsCancelled(status);
    if (!outcome_.interrupted) RETURN_IF_ERROR(status);
    RETURN_IF_ERROR(Conclude());
    return std::move(outcome_);
  }

 private:
  absl::Status Race() {
    RETURN_IF_ERROR(Begin());
    RETURN_IF_ERROR(PrepareAll());
    RETURN_IF_ERROR(Search());
    RETURN_IF_ERROR(OpenDecider());
    RETURN_IF_ERROR(Decide());
    RETURN_IF_ERROR(CheckDevices());
    return Confirm();
  }

  absl::Status Begin() {
    RETURN_IF_ERROR(measuring_.Begin());
    outcome_.harness = measuring_.info;
    outcome_.session = measuring_.session.id;
    outcome_.resumed = measuring_.session.resumed;
    outcome_.decide = options_.decide;
    return measuring_.Register(outcome_.variants);
  }

  absl::Status PrepareAll() {
    if (const RoundRecord* known = measuring_.Stored(kOwnBatch, kPreparation)) {
      RETURN_IF_ERROR(TakeStates(known->notes_json));
    } else {
      RETURN_IF_ERROR(measuring_.Prepare(outcome_.variants));
      RETURN_IF_ERROR(
          measuring_.Append({.batch = kOwnBatch,
                             .round = kPreparation,
                             .notes_json = PreparationJson(outcome_.harness, outcome_.variants)}));
    }
    prepared_ = true;
    AssignAliases(&outcome_.variants);
    return absl::OkStatus();
  }

  absl::Status TakeStates(const std::string& notes_json) {
    ASSIGN_OR_RETURN(auto states, PreparationFromJson(notes_json));
    for (TunedVariant& variant : outcome_.variants) {
      const auto known = states.find(variant.configuration.id);
      if (known == states.end()) {
        return DataLoss("the session has no state of the variant ", variant.configuration.id,
                        " of its space; run tune without --resume");
      }
      variant.state = std::move(known->second);
    }
    return absl::OkStatus();
  }

  absl::Status Search() {
    if (options_.searcher != nullptr) {
      RETURN_IF_ERROR(RunSearch(&measuring_, &outcome_.variants, &outcome_.search.emplace()));
    }
    AssignPlaces(&outcome_.variants);
    return absl::OkStatus();
  }

  absl::Status OpenDecider() {
    places_ = PlacesOf(outcome_.variants);
    for (const TunedVariant& variant : outcome_.variants) {
      if (variant.measured.has_value()) measured_.push_back(&variant.configuration);
    }
    if (outcome_.search.has_value()) outcome_.search->raced = measured_.size();
    if (measured_.empty()) return absl::OkStatus();
    for (const auto& [number, record] : measuring_.stored) {
      if (IsRaceBatch(record.batch)) TakeRace(record);
    }
    outcome_.rounds_before = results_.size();
    DecideConfig config = options_.decide;
    spent_ = SpentBudget();
    if (spent_ == nullptr) {
      absl::Status resumed = Resume(config);
      if (!absl::IsInvalidArgument(resumed)) return resumed;
      // A smaller budget than before may have ended the race earlier.
      spent_ = config.budget_runs.has_value()      ? "budget_runs"
               : config.budget_time_ps.has_value() ? "budget_time"
                                                   : nullptr;
      if (spent_ == nullptr) return resumed;
    }
    // The stored rounds were requested under other budgets, so they are judged without a budget.
    config.budget_runs = config.budget_time_ps = std::nullopt;
    return Resume(config);
  }

  absl::Status Resume(DecideConfig config) {
    config.incumbent = PlaceOf(places_, options_.incumbent);
    ASSIGN_OR_RETURN(decider_, Decider::Open(SpaceOf(outcome_.variants), config));
    return decider_->Resume(results_);
  }

  // The budget that the stored rounds have used up: the present one, or a smaller one.
  const char* SpentBudget() const {
    Spent spent;
    for (const RoundResult& round : results_) spent.Add(round);
    const DecideConfig& of = options_.decide;
    if (spent.runs > 0 && spent.runs >= of.budget_runs.value_or(spent.runs + 1)) {
      return "budget_runs";
    }
    const bool is_late =
        of.budget_time_ps.has_value() && spent.time_ps >= static_cast<double>(*of.budget_time_ps);
    return is_late ? "budget_time" : nullptr;
  }

  absl::Status Decide() {
    if (!decider_.has_value()) return absl::OkStatus();
    if (spent_ != nullptr && decider_->Next() != nullptr) {
      outcome_.verdict = decider_->Judge(spent_);
      return absl::OkStatus();
    }
    while (const Batch* next = decider_->Next()) {
      const Batch batch = *next;
      const auto number = static_cast<int64_t>(batch.batch);
      std::vector<WantedRound> wanted;
      for (size_t i = 0; i < batch.rounds.size(); ++i) {
        const auto round = static_cast<int64_t>(i);
        if (measuring_.Stored(number, round) == nullptr) {
          wanted.push_back(Wanted(round, batch.rounds[i]));
        }
      }
      RETURN_IF_ERROR(measuring_.Rounds(number, wanted, [&](const RoundRecord& record) {
        TakeRace(record);
        RETURN_IF_ERROR(decider_->Fold(results_.back()).status());
        measuring_.watcher->OnRound(*decider_, outcome_.variants);
        return absl::OkStatus();
      }));
    }
    outcome_.verdict = decider_->verdict();
    return absl::OkStatus();
  }

  void TakeRace(const RoundRecord& record) {
    results_.push_back(ResultOf(places_, record));
    if (measuring_.harness->Fleet() == nullptr) return;
    race_.push_back({DeviceOf(record), LogTimesOf(record)});
  }

  DevicePlan::LogTimes LogTimesOf(const RoundRecord& record) const {
    DevicePlan::LogTimes log_times;
    for (const SampleRecord& sample : record.samples) {
      const auto place = PlaceOf(places_, sample.variant);
      const auto value = ObjectiveValue(ConfirmedBy(options_.decide.objective), sample);
      if (record.discarded || !place.has_value() || !value.has_value()) continue;
      log_times.emplace(*place, std::log(*value));
    }
    return log_times;
  }

  WantedRound Wanted(int64_t round, std::span<const uint32_t> variants) const {
    WantedRound wanted = {.round = round};
    for (const uint32_t variant : variants) wanted.order.push_back(measured_[variant]);
    return wanted;
  }

  // Checks whether all devices would have chosen the same variant.
  absl::Status CheckDevices() {
    HarnessFleet* const fleet = measuring_.harness->Fleet();
    // A race that a budget ended has no decision to check.
    if (fleet == nullptr || !IsDecided(outcome_.verdict.claim)) return absl::OkStatus();
    DevicePlan plan(fleet->names(), options_.decide, *outcome_.verdict.pick, race_);
    const int64_t batch = DeviceBatchOf(plan.variants(), measured_);
    uint64_t done = 0, all = 0;
    for (auto next = plan.Next(); !next.empty(); next = plan.Next()) {
      all += next.size();
      std::vector<WantedRound> wanted;
      for (const DevicePlan::Round& each : next) {
        wanted.push_back(Wanted(each.round, each.order));
        wanted.back().device = each.device;
      }
      RETURN_IF_ERROR(measuring_.Rounds(batch, wanted, [&](const RoundRecord& record) {
        if (!record.discarded) plan.Take(DeviceOf(record), LogTimesOf(record));
        measuring_.watcher->OnCheckingDevices(++done, all);
        return absl::OkStatus();
      }));
    }
    outcome_.devices = plan.Found([&](uint32_t place) { return measured_[place]->id; });
    outcome_.devices->lost = fleet->lost();
    return absl::OkStatus();
  }

  std::optional<uint32_t> Baseline() const {
    return PlaceOf(places_, options_.baseline.empty() ? options_.incumbent : options_.baseline);
  }

  // Pick and baseline take turns at being first.
  absl::Status Confirm() {
    const auto baseline = Baseline(), pick = outcome_.verdict.pick;
    if (!baseline.has_value() || !pick.has_value() || *baseline == *pick) return absl::OkStatus();
    const Objective metric = ConfirmedBy(options_.decide.objective);
    std::vector<double> log_ratios;
    std::vector<WantedRound> wanted;
    for (uint64_t i = 0; i < options_.confirmation_rounds; ++i) {
      const std::vector<uint32_t> order =
          i % 2 == 0 ? std::vector{*pick, *baseline} : std::vector{*baseline, *pick};
      wanted.push_back(Wanted(kFirstConfirmation + static_cast<int64_t>(i), order));
    }
    uint64_t done = 0;
    RETURN_IF_ERROR(measuring_.Rounds(kOwnBatch, wanted, [&](const RoundRecord& record) {
      if (const auto ratio = LogSpeedup(record, metric, measured_[*pick]->id); ratio) {
        log_ratios.push_back(*ratio);
      }
      measuring_.watcher->OnConfirming(++done, options_.confirmation_rounds);
      return absl::OkStatus();
    }));
    outcome_.confirmation = ConfirmationOf(log_ratios, metric, measured_[*baseline]->id);
    return absl::OkStatus();
  }

  absl::Status Conclude() {
    for (TunedVariant& each : outcome_.variants) {
      const auto failed = measuring_.failures.find(each.configuration.id);
      if (failed != measuring_.failures.end()) each.state.message = failed->second;
    }
    if (!decider_.has_value()) {
      outcome_.verdict = {};
      const bool measured = std::ranges::any_of(
          outcome_.variants, [](const TunedVariant& each) { return each.searched.has_value(); });
      const bool failed = !outcome_.interrupted && !measured && !outcome_.variants.empty();
      outcome_.verdict.claim = failed ? Claim::kAllFailed : Claim::kUndecided;
      outcome_.verdict.stop_reason = outcome_.interrupted ? "interrupted"
                                     : failed             ? "all_failed"
                                     : measured           ? kNothingRaced
                                                          : "nothing_proposed";
    } else if (outcome_.interrupted) {
      outcome_.verdict = decider_->Judge("interrupted");
    }
    HoldToDevices(&outcome_);
    outcome_.rounds_measured = measuring_.rounds_measured;
    outcome_.energy_kinds = measuring_.energy_kinds;
    AddTails(results_, Baseline(), &outcome_);
    if (outcome_.interrupted && !prepared_) {
      return absl::OkStatus();  // nothing was measured, so there is no verdict to store
    }
    return measuring_.store->RecordVerdict(measuring_.session, OutcomeJson(outcome_),
                                           options_.now_unix_s);
  }

  const TuneOptions& options_;
  Measuring measuring_;
  TuneOutcome outcome_;
  bool prepared_ = false;                       // the states of the variants are stored
  const char* spent_ = nullptr;                 // the budget that is used up
  std::optional<Decider> decider_;              // empty: no variant can be measured
  std::vector<RoundResult> results_;            // rounds of the race
  std::vector<DevicePlan::RaceRound> race_;     // the same, with several devices
  Places places_;                               // places in the decider's space, by id
  std::vector<const Configuration*> measured_;  // by place in the decider's space
};

absl::Status NotMeasured(const std::string& id, const Space& space) {
  constexpr size_t kListed = 8;
  std::vector<std::string> ids;
  for (const Variant& each : space.variants) ids.push_back(each.id);
  if (ids.size() > kListed) {
    ids.resize(kListed);
    ids.push_back("...");
  }
  return InvalidArgument(
      "the incumbent \"", id,
      "\" was not measured in this session; measured variants: ", absl::StrJoin(ids, ", "));
}

// Keeps the first rounds, as many as the budget allows.
void KeepWithinBudget(const DecideConfig& config, std::vector<RoundResult>* results) {
  Spent spent;
  const auto is_over = [&](const RoundResult& round) {
    spent.Add(round);
    return spent.runs > config.budget_runs.value_or(kMaxRuns) ||
           (config.budget_time_ps.has_value() &&
            spent.time_ps > static_cast<double>(*config.budget_time_ps));
  };
  results->erase(std::find_if(results->begin(), results->end(), is_over), results->end());
}

// The harness's description, if the session stored its preparation.
HarnessInfo HarnessOf(const SessionInfo& info, std::span<const RoundRecord> rounds) {
  Json said = {{"device", info.device}};
  for (const auto& [name, member] : kKeyParts) said[name] = info.key.*member;
  for (const RoundRecord& record : rounds) {
    if (record.batch != kOwnBatch || record.round != kPreparation) continue;
    const Json notes = json::Parse(record.notes_json);
    const Json* harness = json::Find(notes, "harness");
    if (harness != nullptr && harness->is_object()) said.update(*harness);
  }
  HarnessInfo harness;
  json::FromJson(said, &harness);
  return harness;
}

// The session's rule with some fields replaced.
absl::StatusOr<DecideConfig> ConfigOf(const RecordedSession& session, std::string_view changes_json,
                                      const std::vector<TunedVariant>& variants,
                                      const Places& places) {
  const auto damaged = [&](absl::string_view what) {
    return DataLoss(session.source, ": session ", session.info.id, ": its decision rule is damaged",
                    what);
  };
  Json config = json::Parse(session.info.config_json);
  const Json changes = json::Parse(changes_json);
  if (!config.is_object() || !changes.is_object()) return damaged("");
  config.erase("search");  // the kind of search, which is not part of the rule
  const auto check = [](Json stored) -> absl::Status {
    stored.erase("incumbent");
    ASSIGN_OR_RETURN(const DecideConfig own, decide::ParseConfig(stored));
    return Decider::Open({.variants = {{.id = "any"}}}, own).status();
  };
  if (const absl::Status status = check(config); !status.ok()) {
    return damaged(Cat(": ", status.message()));
  }
  config.update(changes);
  std::optional<uint32_t> place;
  if (const auto incumbent = json::TextOf(config, "incumbent"); incumbent.has_value()) {
    place = PlaceOf(places, *incumbent);
    if (!place.has_value()) return NotMeasured(*incumbent, SpaceOf(variants));
    config.erase("incumbent");
  }
  ASSIGN_OR_RETURN(DecideConfig parsed, decide::ParseConfig(config));
  parsed.incumbent = place;
  return parsed;
}

// The variants with their states after preparing and searching, in the same order. A variant that
// was proposed just before a kill has no state and was never measured.
absl::Status TakeVariants(std::span<const RoundRecord> rounds,
                          std::span<const Configuration> configurations, TuneOutcome* outcome) {
  std::set<std::string> added, searched;
  std::vector<std::string> finalists;
  std::optional<SearchReport>& search = outcome->search;
  for (const RoundRecord& record : rounds) {
    const bool is_start = record.batch == kOwnBatch && record.round == kPreparation;
    if (!is_start && !IsSearchBatch(record.batch)) continue;
    if (!is_start && !search.has_value()) search.emplace();
    if (!is_start && record.round != kStageHead) {
      // Counts the effort of the search, not its results.
      ++search->rounds;
      search->runs += record.samples.size();
      for (const SampleRecord& sample : record.samples) searched.insert(sample.variant);
      continue;
    }
    ASSIGN_OR_RETURN(const auto prepared, PreparedIn(record.notes_json, configurations));
    StageHead head;
    if (is_start) {
      for (const Configuration& each : configurations) head.ids.push_back(each.id);
    } else {
      ASSIGN_OR_RETURN(head, StageHeadFromJson(record.notes_json));
      CountStage(head, &*search);
      if (head.ids.empty()) finalists = head.finalists;
    }
    for (const std::string& id : head.ids) {
      const auto found = prepared.find(id);
      if (found == prepared.end() || !added.insert(id).second) continue;
      outcome->variants.push_back(found->second);
    }
  }
  AssignAliases(&outcome->variants);
  if (search.has_value()) DropAllBut(finalists, &outcome->variants);
  AssignPlaces(&outcome->variants);
  if (!search.has_value()) return absl::OkStatus();
  search->searched = searched.size();
  search->raced = SpaceOf(outcome->variants).variants.size();
  return absl::OkStatus();
}

}  // namespace

std::optional<size_t> TuneOutcome::VariantOf(std::optional<uint32_t> measured) const {
  for (size_t i = 0; measured.has_value() && i < variants.size(); ++i) {
    if (variants[i].measured == measured) return i;
  }
  return std::nullopt;
}

absl::Status CheckTuneOptions(std::span<const Configuration> configurations,
                              const TuneOptions& options) {
  if (configurations.empty() && options.searcher == nullptr) {
    return absl::InvalidArgumentError(
        "the space has no configurations; give each parameter a value, or list variants");
  }
  for (const auto& [what, id] :
       {std::pair("incumbent", options.incumbent), std::pair("baseline", options.baseline)}) {
    const bool is_there =
        std::any_of(configurations.begin(), configurations.end(),
                    [&id = id](const Configuration& each) { return each.id == id; });
    if (id.empty() || is_there) continue;
    return InvalidArgument("the ", what, " \"", id,
                           "\" is not a configuration of the space; list the ids with tune --list");
  }
  return Decider::Open({.variants = {{.id = "any"}}}, options.decide).status();
}

absl::StatusOr<TuneOutcome> Tune(std::span<const Configuration> configurations,
                                 const TuneOptions& options, Harness* harness, TuneStore* store,
                                 TuneWatcher* watcher) {
  RETURN_IF_ERROR(CheckTuneOptions(configurations, options));
  return Tuning(options, harness, store, watcher).Run(configurations);
}

absl::StatusOr<RecordedSession> ReadSession(const TuneStore& store, int64_t session) {
  RecordedSession recorded = {.source = store.path()};
  ASSIGN_OR_RETURN(recorded.info, store.Session(session));
  ASSIGN_OR_RETURN(recorded.variants, store.ReadVariants(session));
  ASSIGN_OR_RETURN(recorded.rounds, store.ReadRounds(session));
  return recorded;
}

std::optional<Confirmation> RecordedConfirmation(const RecordedSession& session,
                                                 const std::string& pick, Objective objective) {
  std::string baseline;
  std::vector<double> log_ratios;
  for (const RoundRecord& record : session.rounds) {
    if (record.batch != kOwnBatch || record.round < kFirstConfirmation) continue;
    for (const SampleRecord& sample : record.samples) {
      if (sample.variant != pick) baseline = sample.variant;
    }
    const auto ratio = LogSpeedup(record, ConfirmedBy(objective), pick);
    if (ratio.has_value()) log_ratios.push_back(*ratio);
  }
  return ConfirmationOf(log_ratios, ConfirmedBy(objective), baseline);
}

absl::StatusOr<TuneOutcome> Replay(const RecordedSession& session, std::string_view changes_json) {
  const auto& [source, info, configurations, rounds] = session;
  TuneOutcome outcome;
  outcome.session = info.id;
  outcome.harness = HarnessOf(info, rounds);
  if (const absl::Status taken = TakeVariants(rounds, configurations, &outcome); !taken.ok()) {
    return DataLoss(source, ": session ", info.id, ": ", taken.message());
  }
  if (outcome.search.has_value()) {
    outcome.search->strategy = json::TextOf(json::Parse(info.config_json), "search").value_or("");
  }
  const Places places = PlacesOf(outcome.variants);
  std::vector<RoundResult> results;
  for (const RoundRecord& record : rounds) {
    if (IsRaceBatch(record.batch)) results.push_back(ResultOf(places, record));
    outcome.energy_kinds.merge(EnergyKindsOf(record.notes_json));
  }
  if (results.empty()) {
    return FailedPrecondition(source, ": session ", info.id, " has no rounds to decide on");
  }
  ASSIGN_OR_RETURN(auto config, ConfigOf(session, changes_json, outcome.variants, places));
  outcome.decide = config;
  const size_t recorded = results.size();
  KeepWithinBudget(config, &results);
  ASSIGN_OR_RETURN(outcome.verdict, JudgeRecorded(SpaceOf(outcome.variants), config, results));
  if (outcome.verdict.stop_reason == "interrupted") {
    outcome.verdict.stop_reason = results.size() == recorded       ? "recorded_rounds"
                                  : config.budget_runs.has_value() ? "budget_runs"
                                                                   : "budget_time";
  }
  // The agreement of devices does not depend on the rule.
  if (const auto stored = ReadTuneResult(info.verdict_json.value_or(""))) {
    outcome.devices = stored->devices;
  }
  HoldToDevices(&outcome);
  AddTails(results, config.incumbent, &outcome);
  return outcome;
}

}  // namespace xplane_time
