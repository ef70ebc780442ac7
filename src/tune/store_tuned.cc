// Tables of tuned configurations: reading, writing and look-ups with fallbacks.
//
// A fallback level is a set of key parts that may differ. For each level, the table has a hash map
// from the remaining parts to the latest entry. A look-up tries the levels in order, from exact to
// the weakest, and at each level the entry for the device before the entry for all devices.
// O(levels) for a look-up, O(levels x entries) for building the table.
#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "status.h"
#include "tune/space_json.h"
#include "xplane_time/tuned_table.h"

namespace xplane_time {
namespace {

constexpr char kTunedSchema[] = "xplane-time.tuned.v1";

// The parts that must be equal; lengths keep "a" + "bc" apart from "ab" + "c".
std::string LevelKey(const TuneKey& key, const Fallback& fallback) {
  std::string out;
  const auto& any = fallback.may_differ;
  for (const auto& [name, member] : kKeyParts) {
    if (std::find(any.begin(), any.end(), member) != any.end()) continue;
    const std::string& text = key.*member;
    absl::StrAppend(&out, text.size(), ":", text);
  }
  return out;
}

std::string OnDevice(std::string level_key, std::string_view device) {
  return level_key.append("@").append(device);
}

void ReadEntry(const tune::Field& field, TunedEntry* entry) {
  if (!field->is_object()) return tune::BadValue(field, "is not an object");
  for (const char* key : {"workload", "device_class", "params"}) {
    if (!field.Has(key)) field.Error("has no \"", key, "\"");
  }
  for (const auto& [name, member] : kKeyParts) field.Read(name, &(entry->key.*member));
  Configuration& configuration = entry->configuration;
  configuration.params_json = tune::ReadParams(field.At("params"));
  field.Read("id", &configuration.id);
  field.Read("claim", &entry->claim);
  if (configuration.id.empty()) configuration.id = VariantId(configuration.params_json);
  if (field.Has("evidence")) {
    entry->evidence_json = tune::CanonicalJson(field.At("evidence").value());
  }
  field.Read("recorded_unix_s", &entry->recorded_unix_s);
  if (!field.Has("devices")) return;
  field.At("devices").Each(
      [&](const tune::Field& item) { item.Read(&entry->devices.emplace_back()); });
}

tune::Json EntryJson(const TunedEntry& entry) {
  tune::Json json = {{"id", entry.configuration.id},
                     {"params", tune::Stored(entry.configuration.params_json)},
                     {"claim", entry.claim},
                     {"evidence", tune::Stored(entry.evidence_json)},
                     {"recorded_unix_s", entry.recorded_unix_s}};
  for (const auto& [name, member] : kKeyParts) json[name] = entry.key.*member;
  if (!entry.devices.empty()) json["devices"] = entry.devices;
  return json;
}

}  // namespace

std::vector<Fallback> DefaultFallbacks() {
  std::vector<Fallback> levels = {{"exact", {}}};
  for (const auto& [name, too] : {std::pair("any_protocol", &TuneKey::protocol_hash),
                                  {"any_driver", &TuneKey::driver},
                                  {"any_version", &TuneKey::framework},
                                  {"any_flags", &TuneKey::flags},
                                  {"any_code", &TuneKey::code_hash}}) {
    levels.push_back({name, levels.back().may_differ});
    levels.back().may_differ.push_back(too);
  }
  return levels;
}

TunedTable::TunedTable(std::vector<TunedEntry> entries, std::vector<Fallback> fallbacks)
    : entries_(std::move(entries)), fallbacks_(std::move(fallbacks)) {
  std::stable_sort(entries_.begin(), entries_.end(), [](const auto& a, const auto& b) {
    return a.recorded_unix_s < b.recorded_unix_s;
  });
  for (const Fallback& fallback : fallbacks_) {
    auto& level = by_level_.emplace_back();
    for (uint32_t i = 0; i < entries_.size(); ++i) {
      const std::string key = LevelKey(entries_[i].key, fallback);
      if (entries_[i].devices.empty()) level[key] = i;  // the last entry wins
      for (const std::string& each : entries_[i].devices) level[OnDevice(key, each)] = i;
    }
  }
}

std::optional<TunedMatch> TunedTable::Find(const TuneKey& key, std::string_view device) const {
  for (size_t i = 0; i < by_level_.size(); ++i) {
    const std::string level_key = LevelKey(key, fallbacks_[i]);
    for (const std::string& each : {OnDevice(level_key, device), level_key}) {
      const auto found = by_level_[i].find(each);
      if (found == by_level_[i].end()) continue;
      return TunedMatch{&entries_[found->second], &fallbacks_[i]};
    }
  }
  return std::nullopt;
}

absl::StatusOr<TunedTable> TunedTable::FromJson(std::string_view text, std::string_view source,
                                                std::vector<Fallback> fallbacks) {
  ASSIGN_OR_RETURN(const auto document, tune::ParseJson(text, source));
  std::string wrong;
  const tune::Field root(document, &wrong, Cat(source, ": $"));
  if (root.At("schema").value() != kTunedSchema || !root.Has("entries")) {
    root.Error("not a tuned table; expected \"schema\": \"", kTunedSchema, "\" and \"entries\"");
  }
  std::vector<TunedEntry> entries;
  root.At("entries").Each(
      [&](const tune::Field& item) { ReadEntry(item, &entries.emplace_back()); });
  if (!wrong.empty()) return InvalidArgument(wrong);
  return TunedTable(std::move(entries), std::move(fallbacks));
}

std::string TunedTable::ToJson() const {
  std::set<uint32_t> reachable;
  for (const auto& level : by_level_) {
    for (const auto& [unused, entry] : level) reachable.insert(entry);
  }
  tune::Json entries = tune::Json::array();
  for (uint32_t i : reachable) entries.push_back(EntryJson(entries_[i]));
  const tune::Json document = {{"schema", kTunedSchema}, {"entries", std::move(entries)}};
  return document.dump(1, ' ', false, tune::Json::error_handler_t::replace) + "\n";
}

}  // namespace xplane_time
