#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "decide/messages.h"
#include "json/json.h"
#include "status.h"
#include "tune/measuring.h"
#include "tune/outcome_json.h"
#include "tune/search_run.h"
#include "tune/session_variants.h"
#include "xplane_time/tune.h"

namespace xplane_time {
namespace {

using json::Json;

absl::Status NotMeasured(const std::string& id, const Space& space) {
  constexpr size_t kListed = 8;
  std::string ids;
  for (size_t i = 0; i < std::min(space.variants.size(), kListed); ++i) {
    absl::StrAppend(&ids, i > 0 ? ", " : "", space.variants[i].id);
  }
  if (space.variants.size() > kListed) absl::StrAppend(&ids, ", ...");
  return InvalidArgument("the incumbent \"", id,
                         "\" was not measured in this session; there are: ", ids);
}

// The first rounds, as many as the budget pays for.
std::vector<RoundResult> WithinBudget(const DecideConfig& config,
                                      std::vector<RoundResult> results) {
  int64_t runs = 0;
  double time_ps = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    runs += static_cast<int64_t>(results[i].samples.size());
    for (const Sample& sample : results[i].samples) time_ps += static_cast<double>(sample.t_ps);
    const bool fits = runs <= config.budget_runs.value_or(kMaxRuns) &&
                      (!config.budget_time_ps.has_value() ||
                       time_ps <= static_cast<double>(*config.budget_time_ps));
    if (fits) continue;
    results.resize(i);
    break;
  }
  return results;
}

// What the session's harness said of itself, where its preparation is stored.
HarnessInfo HarnessOf(const SessionInfo& info, const std::vector<RoundRecord>& rounds) {
  HarnessInfo harness = {.name = {},
                         .device = info.device,
                         .device_class = info.key.device_class,
                         .driver = info.key.driver,
                         .framework = info.key.framework,
                         .flags = info.key.flags,
                         .code_hash = info.key.code_hash};
  for (const RoundRecord& record : rounds) {
    if (record.batch != kOwnBatch || record.round != kPreparation) continue;
    const Json notes = json::Parse(record.notes_json);
    const Json* said = json::Find(notes, "harness");
    if (said == nullptr) break;
    harness.name = json::TextOf(*said, "name").value_or(harness.name);
    harness.clock = json::TextOf(*said, "clock").value_or(harness.clock);
    break;
  }
  return harness;
}

// The session's rule with some fields replaced.
absl::StatusOr<DecideConfig> ConfigOf(const SessionInfo& session, std::string_view changes_json,
                                      const std::vector<TunedVariant>& variants) {
  Json config = json::Parse(session.config_json);
  const Json changes = json::Parse(changes_json);
  if (!config.is_object() || !changes.is_object()) {
    return DataLoss("the rule of session ", session.id, " is damaged");
  }
  config.update(changes);
  config.erase("search");  // how it was searched, not how it is decided
  const Space space = SpaceOf(variants);
  if (const auto incumbent = json::TextOf(config, "incumbent"); incumbent.has_value()) {
    const auto at = PlaceOf(variants, *incumbent);
    if (!at.has_value()) return NotMeasured(*incumbent, space);
    config["incumbent"] = space.variants[*at].id;  // what it is an alias of
  }
  Json ids = Json::array();
  for (const Variant& variant : space.variants) ids.push_back({{"id", variant.id}});
  const Json open = {{"space", {{"variants", std::move(ids)}}}, {"config", std::move(config)}};
  ASSIGN_OR_RETURN(auto parsed, decide::ParseOpen(open));
  return parsed.config;
}

// How much was searched; not what was found.
void CountSearch(const RoundRecord& record, std::set<std::string>* seen, SearchReport* report) {
  ++report->rounds;
  report->runs += record.samples.size();
  for (const SampleRecord& sample : record.samples) seen->insert(sample.variant);
  report->searched = seen->size();
}

// The variants as preparing and searching left them, in the same order. One that was proposed
// when the run was killed has no state, and was never measured.
class StoredVariants {
 public:
  StoredVariants(std::vector<Configuration> configurations, TuneOutcome* outcome)
      : configurations_(std::move(configurations)), outcome_(outcome) {
    for (const Configuration& each : configurations_) by_id_.emplace(each.id, &each);
  }

  absl::Status Take(const RoundRecord& record) {
    const bool is_search = record.batch >= kFirstSearchBatch;
    const bool is_start = record.batch == kOwnBatch && record.round == kPreparation;
    if (is_search && record.round != kStageHead) {
      CountSearch(record, &seen_, &*outcome_->search);
      return absl::OkStatus();
    }
    if (!is_search && !is_start) return absl::OkStatus();
    ASSIGN_OR_RETURN(auto states, PreparationFromJson(record.notes_json));
    if (is_start) {
      for (const Configuration& each : configurations_) Add(each.id, states);
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(auto head, StageHeadFromJson(record.notes_json));
    for (const std::string& id : head.ids) Add(id, states);
    if (!outcome_->search.has_value()) outcome_->search.emplace();
    outcome_->search->stages += head.ids.empty() ? 0 : 1;
    outcome_->search->proposed += head.proposed;
    outcome_->search->refused += head.refused;
    outcome_->search->repeated += head.repeated;
    if (head.ids.empty()) finalists_ = std::move(head.finalists);
    return absl::OkStatus();
  }

  void Finish() {
    AssignAliases(&outcome_->variants);
    if (outcome_->search.has_value()) DropAllBut(finalists_, &outcome_->variants);
    AssignPlaces(&outcome_->variants);
    if (!outcome_->search.has_value()) return;
    outcome_->search->raced = SpaceOf(outcome_->variants).variants.size();
  }

 private:
  void Add(const std::string& id, const std::map<std::string, VariantState>& states) {
    const auto state = states.find(id);
    const auto configuration = by_id_.find(id);
    if (state == states.end() || configuration == by_id_.end() || !added_.insert(id).second) return;
    outcome_->variants.push_back({.configuration = *configuration->second, .state = state->second});
  }

  std::vector<Configuration> configurations_;
  std::map<std::string, const Configuration*> by_id_;
  std::set<std::string> added_, seen_;
  std::vector<std::string> finalists_;
  TuneOutcome* outcome_;
};

}  // namespace

absl::StatusOr<TuneOutcome> Replay(const TuneStore& store, int64_t session,
                                   std::string_view changes_json) {
  ASSIGN_OR_RETURN(auto info, store.Session(session));
  ASSIGN_OR_RETURN(auto configurations, store.ReadVariants(session));
  ASSIGN_OR_RETURN(auto rounds, store.ReadRounds(session));
  TuneOutcome outcome;
  outcome.session = session;
  outcome.harness = HarnessOf(info, rounds);
  StoredVariants variants(std::move(configurations), &outcome);
  for (const RoundRecord& record : rounds) {
    RETURN_IF_ERROR(variants.Take(record));
  }
  variants.Finish();
  if (outcome.search.has_value())
    outcome.search->strategy = json::TextOf(json::Parse(info.config_json), "search").value_or("");
  const Places places = PlacesOf(outcome.variants);
  std::vector<RoundResult> results;
  for (const RoundRecord& record : rounds) {
    if (IsRaceBatch(record.batch)) results.push_back(ResultOf(places, record));
  }
  if (results.empty()) {
    return FailedPrecondition(store.path(), ": session ", session, " has no rounds to decide on");
  }
  ASSIGN_OR_RETURN(auto config, ConfigOf(info, changes_json, outcome.variants));
  outcome.objective = config.objective;
  outcome.budget_runs = config.budget_runs;
  outcome.budget_time_ps = config.budget_time_ps;
  const size_t recorded = results.size();
  results = WithinBudget(config, std::move(results));
  ASSIGN_OR_RETURN(auto verdict, JudgeRecorded(SpaceOf(outcome.variants), config, results));
  outcome.verdict = std::move(verdict);
  if (outcome.verdict.stop_reason == "interrupted") {
    outcome.verdict.stop_reason = results.size() == recorded       ? "recorded_rounds"
                                  : config.budget_runs.has_value() ? "budget_runs"
                                                                   : "budget_time";
  }
  AddTails(results, config.incumbent, &outcome);
  return outcome;
}

}  // namespace xplane_time
