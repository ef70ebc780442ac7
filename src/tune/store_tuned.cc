#include <algorithm>
#include <array>
#include <numeric>
#include <set>

#include "absl/strings/str_cat.h"
#include "status.h"
#include "tune/space_json.h"
#include "xplane_time/tuned_table.h"

namespace xplane_time {
namespace {

using tune::Absl;
using tune::Field;
using tune::Json;

constexpr std::string_view kSchema = "xplane-time.tuned.v1";

struct KeyPart {
  KeyField field;
  const char* name;
  std::string TuneKey::*member;
};
constexpr std::array<KeyPart, 7> kParts = {{
    {KeyField::kWorkload, "workload", &TuneKey::workload},
    {KeyField::kDeviceClass, "device_class", &TuneKey::device_class},
    {KeyField::kDriver, "driver", &TuneKey::driver},
    {KeyField::kFramework, "framework", &TuneKey::framework},
    {KeyField::kFlags, "flags", &TuneKey::flags},
    {KeyField::kCodeHash, "code_hash", &TuneKey::code_hash},
    {KeyField::kProtocolHash, "protocol_hash", &TuneKey::protocol_hash},
}};

// The parts that must agree, the objective always; lengths keep "a" + "bc" apart from
// "ab" + "c".
std::string LevelKey(const TuneKey& key, const Fallback& fallback) {
  std::string out = absl::StrCat(key.objective.size(), ":", key.objective);
  for (const KeyPart& part : kParts) {
    const auto& any = fallback.may_differ;
    if (std::find(any.begin(), any.end(), part.field) != any.end()) continue;
    const std::string& text = key.*part.member;
    absl::StrAppend(&out, text.size(), ":", text);
  }
  return out;
}

absl::Status ReadEntry(const Field& field, TunedEntry* entry) {
  if (!field.value().is_object()) return field.BadValue("is not an object");
  for (const char* key : {"workload", "device_class", "params"}) {
    if (!field.Has(key)) return field.Error(absl::StrCat("has no \"", key, "\""));
  }
  for (const KeyPart& part : kParts) {
    RETURN_IF_ERROR(field.Read(part.name, &(entry->key.*part.member)));
  }
  Configuration& configuration = entry->configuration;
  RETURN_IF_ERROR(field.Read("objective", &entry->key.objective));
  ASSIGN_OR_RETURN(configuration.params_json, tune::ReadParams(field.At("params")));
  RETURN_IF_ERROR(field.Read("id", &configuration.id));
  RETURN_IF_ERROR(field.Read("claim", &entry->claim));
  if (configuration.id.empty()) configuration.id = VariantId(configuration.params_json);
  if (field.Has("evidence")) {
    entry->evidence_json = tune::CanonicalJson(field.At("evidence").value());
  }
  return field.Read("recorded_unix_s", &entry->recorded_unix_s);
}

Json EntryJson(const TunedEntry& entry) {
  Json json = {{"id", entry.configuration.id},
               {"params", tune::Stored(entry.configuration.params_json)},
               {"objective", entry.key.objective},
               {"claim", entry.claim},
               {"evidence", tune::Stored(entry.evidence_json)},
               {"recorded_unix_s", entry.recorded_unix_s}};
  for (const KeyPart& part : kParts) json[part.name] = entry.key.*part.member;
  return json;
}

}  // namespace

std::vector<Fallback> DefaultFallbacks() {
  std::vector<Fallback> out = {{"exact", {}}};
  std::vector<KeyField> any;
  constexpr std::pair<const char*, KeyField> kSteps[] = {{"any_protocol", KeyField::kProtocolHash},
                                                         {"any_driver", KeyField::kDriver},
                                                         {"any_version", KeyField::kFramework},
                                                         {"any_flags", KeyField::kFlags},
                                                         {"any_code", KeyField::kCodeHash}};
  for (const auto& [name, field] : kSteps) {
    any.push_back(field);
    out.push_back({name, any});
  }
  return out;
}

TunedTable::TunedTable(std::vector<TunedEntry> entries, std::vector<Fallback> fallbacks)
    : entries_(std::make_unique<std::vector<TunedEntry>>(std::move(entries))),
      fallbacks_(std::make_unique<std::vector<Fallback>>(std::move(fallbacks))) {
  std::stable_sort(entries_->begin(), entries_->end(), [](const auto& a, const auto& b) {
    return a.recorded_unix_s < b.recorded_unix_s;
  });
  for (const Fallback& fallback : *fallbacks_) {
    auto& level = by_level_.emplace_back();
    for (uint32_t i = 0; i < entries_->size(); ++i) {
      level[LevelKey((*entries_)[i].key, fallback)] = i;  // the last one stays
    }
  }
}

std::optional<TunedMatch> TunedTable::Find(const TuneKey& key) const {
  for (size_t i = 0; i < by_level_.size(); ++i) {
    const auto found = by_level_[i].find(LevelKey(key, (*fallbacks_)[i]));
    if (found == by_level_[i].end()) continue;
    return TunedMatch{&(*entries_)[found->second], &(*fallbacks_)[i]};
  }
  return std::nullopt;
}

absl::StatusOr<TunedTable> TunedTable::FromJson(std::string_view text, std::string_view source,
                                                std::vector<Fallback> fallbacks) {
  ASSIGN_OR_RETURN(const auto document, tune::ParseJson(text, source));
  const Field root(document, source, "$");
  if (!root.Has("schema") || root.At("schema").value() != kSchema || !root.Has("entries")) {
    return root.Error(absl::StrCat("no tuned table; expected \"schema\": \"", Absl(kSchema),
                                   "\" and \"entries\""));
  }
  std::vector<TunedEntry> entries;
  RETURN_IF_ERROR(root.At("entries").Each(
      [&](const Field& item) { return ReadEntry(item, &entries.emplace_back()); }));
  return TunedTable(std::move(entries), std::move(fallbacks));
}

std::string TunedTable::ToJson() const {
  std::set<uint32_t> reachable;
  for (const auto& level : by_level_) {
    for (const auto& [unused, entry] : level) reachable.insert(entry);
  }
  Json entries = Json::array();
  for (uint32_t i : reachable) entries.push_back(EntryJson((*entries_)[i]));
  const Json document = {{"schema", kSchema}, {"entries", std::move(entries)}};
  return document.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace xplane_time
