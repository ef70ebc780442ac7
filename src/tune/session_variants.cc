#include "tune/session_variants.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "json/json.h"
#include "status.h"
#include "tune/outcome_json.h"

namespace xplane_time {

absl::Status TakeStates(std::string_view preparation_json, std::vector<TunedVariant>* variants) {
  ASSIGN_OR_RETURN(auto states, PreparationFromJson(preparation_json));
  for (TunedVariant& variant : *variants) {
    const auto known = states.find(variant.configuration.id);
    if (known == states.end()) {
      return DataLoss("the session does not know the variant ", variant.configuration.id,
                      " that its space has; tune without --resume");
    }
    variant.state = std::move(known->second);
  }
  return absl::OkStatus();
}

void AssignAliases(std::vector<TunedVariant>* variants) {
  std::map<std::string, size_t> first_with;
  for (size_t i = 0; i < variants->size(); ++i) {
    TunedVariant& variant = (*variants)[i];
    if (variant.state.status != "ok" || variant.state.fingerprint.empty()) continue;
    const auto [at, is_new] = first_with.emplace(variant.state.fingerprint, i);
    if (!is_new) variant.alias_of = at->second;
  }
}

void AssignPlaces(std::vector<TunedVariant>* variants) {
  uint32_t next = 0;
  for (TunedVariant& variant : *variants) {
    if (variant.state.status != "ok" || variant.alias_of.has_value() || variant.dropped) continue;
    variant.measured = next++;
  }
}

namespace {

const std::optional<uint32_t>& PlaceOf(std::span<const TunedVariant> variants,
                                       const TunedVariant& of) {
  return of.alias_of.has_value() ? variants[*of.alias_of].measured : of.measured;
}

}  // namespace

std::optional<uint32_t> PlaceOf(std::span<const TunedVariant> variants, std::string_view id) {
  const auto at = std::find_if(variants.begin(), variants.end(), [&](const TunedVariant& each) {
    return each.configuration.id == id;
  });
  return at == variants.end() ? std::nullopt : PlaceOf(variants, *at);
}

Space SpaceOf(std::span<const TunedVariant> variants) {
  Space space;
  for (const TunedVariant& variant : variants) {
    if (!variant.measured.has_value()) continue;
    const Configuration& of = variant.configuration;
    const auto& known = variant.state.mem_bytes;
    space.variants.push_back({of.id, of.params_json, known.has_value() ? known : of.mem_bytes});
  }
  return space;
}

Places PlacesOf(std::span<const TunedVariant> variants) {
  Places places;
  for (const TunedVariant& variant : variants) {
    const auto& place = PlaceOf(variants, variant);
    if (place.has_value()) places.emplace(variant.configuration.id, *place);
  }
  return places;
}

RoundResult ResultOf(const Places& places, const RoundRecord& record) {
  RoundResult result = {.batch = static_cast<uint64_t>(record.batch),
                        .round = static_cast<uint64_t>(record.round),
                        .discarded = record.discarded};
  for (const SampleRecord& sample : record.samples) {
    const auto place = places.find(sample.variant);
    if (place == places.end()) continue;
    Sample converted = {.variant = place->second,
                        .slot = static_cast<uint32_t>(sample.slot),
                        .status = ParseSampleStatus(sample.status).value_or(SampleStatus::kInfra),
                        .t_ps = sample.t_ps.value_or(0)};
    if (sample.energy_uj.value_or(0) > 0) {  // 0: below what the meter can tell
      converted.energy_uj = static_cast<double>(*sample.energy_uj);
    }
    result.samples.push_back(converted);
  }
  return result;
}

namespace {

using json::Json;

std::set<std::string> DifferentFields(const std::string& first, const std::string& second) {
  const Json a = json::Parse(first), b = json::Parse(second);
  std::set<std::string> names;
  for (const auto& [of, other] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    if (!of->is_object()) continue;
    for (const auto& [name, value] : of->items()) {
      const auto found = other->find(name);
      if (found == other->end() || *found != value) names.insert(name);
    }
  }
  return names;
}

}  // namespace

bool HasDecided(const SessionInfo& session) {
  return session.claim == "winner" || session.claim == "pick" || session.claim == "tie";
}

std::vector<std::string> Differences(const SessionInfo& session, const SessionSpec& asked) {
  const TuneKey &a = session.key, &b = asked.key;
  const std::tuple<const char*, const std::string&, const std::string&> parts[] = {
      {"workload", a.workload, b.workload},
      {"device_class", a.device_class, b.device_class},
      {"device", session.device, asked.device},
      {"driver", a.driver, b.driver},
      {"framework", a.framework, b.framework},
      {"flags", a.flags, b.flags},
      {"code_hash", a.code_hash, b.code_hash},
      {"how rounds are measured (--calls)", a.protocol_hash, b.protocol_hash},
      {"space", session.space_hash, asked.space_hash}};
  std::vector<std::string> names;
  for (const auto& [name, first, second] : parts) {
    if (first != second) names.emplace_back(name);
  }
  const std::set<std::string> fields = DifferentFields(session.config_json, asked.config_json);
  names.insert(names.end(), fields.begin(), fields.end());
  return names;
}

}  // namespace xplane_time
