#include "tune/session_variants.h"

#include <map>
#include <set>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>
#include "absl/strings/str_cat.h"
#include "tune/outcome_json.h"

namespace xplane_time {

absl::Status TakeStates(std::string_view preparation_json, std::vector<TunedVariant>* variants) {
  auto states = PreparationFromJson(preparation_json);
  if (!states.ok()) return states.status();
  for (TunedVariant& variant : *variants) {
    const auto known = states->find(variant.configuration.id);
    if (known == states->end()) {
      return absl::DataLossError(absl::StrCat("the session does not know the variant ",
                                              variant.configuration.id,
                                              " that its space has; tune without --resume"));
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

std::optional<size_t> FindVariant(std::span<const TunedVariant> variants, std::string_view id) {
  for (size_t i = 0; i < variants.size(); ++i) {
    if (variants[i].configuration.id == id) return i;
  }
  return std::nullopt;
}

std::optional<uint32_t> PlaceOf(std::span<const TunedVariant> variants, std::string_view id) {
  const auto at = FindVariant(variants, id);
  if (!at.has_value()) return std::nullopt;
  const TunedVariant& variant = variants[*at];
  return variant.alias_of.has_value() ? variants[*variant.alias_of].measured : variant.measured;
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
    const auto& place =
        variant.alias_of.has_value() ? variants[*variant.alias_of].measured : variant.measured;
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

using Json = nlohmann::json;

Json Parsed(const std::string& text) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return json.is_object() ? json : Json::object();
}

std::set<std::string> DifferentFields(const std::string& first, const std::string& second) {
  const Json a = Parsed(first), b = Parsed(second);
  std::set<std::string> names;
  for (const auto& [name, value] : a.items()) {
    if (!b.contains(name) || b[name] != value) names.insert(name);
  }
  for (const auto& [name, unused] : b.items()) {
    if (!a.contains(name)) names.insert(name);
  }
  return names;
}

}  // namespace

bool HasDecided(const SessionInfo& session) {
  const Json verdict = Parsed(session.verdict_json.value_or("{}"));
  const std::string claim = verdict.value("claim", "");
  return claim == "winner" || claim == "pick" || claim == "tie";
}

std::vector<std::string> Differences(const SessionInfo& session, const SessionSpec& asked) {
  const TuneKey &a = session.key, &b = asked.key;
  std::vector<std::string> names;
  const auto add = [&](const char* name, const std::string& first, const std::string& second) {
    if (first != second) names.emplace_back(name);
  };
  add("workload", a.workload, b.workload);
  add("device_class", a.device_class, b.device_class);
  add("device", session.device, asked.device);
  add("driver", a.driver, b.driver);
  add("framework", a.framework, b.framework);
  add("flags", a.flags, b.flags);
  add("code_hash", a.code_hash, b.code_hash);
  add("how rounds are measured (--calls)", a.protocol_hash, b.protocol_hash);
  add("space", session.space_hash, asked.space_hash);
  for (const std::string& name : DifferentFields(session.config_json, asked.config_json)) {
    names.push_back(name);
  }
  return names;
}

}  // namespace xplane_time
