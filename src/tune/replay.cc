#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "decide/messages.h"
#include "tune/session_variants.h"
#include "xplane_time/tune.h"

namespace xplane_time {
namespace {

using Json = nlohmann::json;

// The session's rule with some fields replaced.
absl::StatusOr<DecideConfig> ConfigOf(const SessionInfo& session, std::string_view changes_json,
                                      const std::vector<TunedVariant>& variants) {
  Json config = Json::parse(session.config_json, nullptr, /*allow_exceptions=*/false);
  const Json changes = Json::parse(changes_json, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object() || !changes.is_object()) {
    return absl::DataLossError(absl::StrCat("the rule of session ", session.id, " is damaged"));
  }
  config.update(changes);
  if (config.contains("incumbent") && config["incumbent"].is_string()) {
    const auto at = PlaceOf(variants, config["incumbent"].get<std::string>());
    if (!at.has_value()) return absl::InvalidArgumentError("the incumbent was not measured");
    config["incumbent"] = SpaceOf(variants).variants[*at].id;  // what it is an alias of
  }
  Json open = {{"space", {{"variants", Json::array()}}}, {"config", std::move(config)}};
  for (const Variant& variant : SpaceOf(variants).variants) {
    open["space"]["variants"].push_back({{"id", variant.id}});
  }
  auto parsed = decide::ParseOpen(open);
  if (!parsed.ok()) return parsed.status();
  return parsed->config;
}

}  // namespace

absl::StatusOr<TuneOutcome> Replay(const TuneStore& store, int64_t session,
                                   std::string_view changes_json) {
  auto info = store.Session(session);
  if (!info.ok()) return info.status();
  auto configurations = store.ReadVariants(session);
  if (!configurations.ok()) return configurations.status();
  auto rounds = store.ReadRounds(session);
  if (!rounds.ok()) return rounds.status();
  TuneOutcome outcome;
  outcome.session = session;
  outcome.harness.device = info->device;
  outcome.harness.device_class = info->key.device_class;
  for (const Configuration& each : *configurations) {
    outcome.variants.push_back({.configuration = each});
  }
  Places places;
  std::vector<RoundResult> results;
  for (const RoundRecord& record : *rounds) {
    if (record.batch == kOwnBatch && record.round == kPreparation) {
      absl::Status status = TakeStates(record.notes_json, &outcome.variants);
      if (!status.ok()) return status;
      AssignPlaces(&outcome.variants);
      places = PlacesOf(outcome.variants);
    } else if (record.batch != kOwnBatch) {
      results.push_back(ResultOf(places, record));
    }
  }
  if (results.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(store.path(), ": session ", session, " has no rounds to decide on"));
  }
  auto config = ConfigOf(*info, changes_json, outcome.variants);
  if (!config.ok()) return config.status();
  auto verdict = JudgeRecorded(SpaceOf(outcome.variants), *config, results);
  if (!verdict.ok()) return verdict.status();
  outcome.verdict = *std::move(verdict);
  return outcome;
}

}  // namespace xplane_time
