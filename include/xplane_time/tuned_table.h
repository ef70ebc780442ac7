// Tuned table: the best configuration for a key, in memory.
//
// Enters: entries from a store (store.h) or from a JSON file (xplane-time.tuned.v1,
// docs/store.md) that a kernel library ships. Leaves: a match, and how good it is.
//
//   auto table = TunedTable::FromJson(text, "tuned.json");
//   std::optional<TunedMatch> match = table->Find(key);
//   match->entry->configuration.params_json   // {"block_m":64}
//   match->fallback->name                     // "exact", or "any_driver", ...
//   table->Find(a key of an unknown workload) // nothing: take the default
//
// Levels of fallback are tried in order; each names the parts of the key that may differ. Those of
// DefaultFallbacks never name the objective: what was picked for its energy does not answer who
// asks for time. Among several entries of a level the one recorded last wins. Find costs one hash
// look-up a level, about a microsecond; it allocates. A const table is safe to share.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "xplane_time/space.h"

namespace xplane_time {

// What a measurement holds for. Free text, compared byte for byte.
struct TuneKey {
  std::string workload = {};      // kernel and shapes
  std::string device_class = {};  // "NVIDIA H100 80GB HBM3", not one board
  std::string driver = {};
  std::string framework = {};  // versions
  std::string flags = {};
  std::string code_hash = {};
  std::string protocol_hash = {};  // how it was measured
  // What was decided by: time, energy, edp, ed2p or pareto.
  std::string objective = "time";
  friend bool operator==(const TuneKey&, const TuneKey&) = default;
};

// Its parts, and their names in JSON and in stores.
struct KeyPart {
  const char* name;
  std::string TuneKey::*member;
};
inline constexpr std::array<KeyPart, 8> kKeyParts = {{{"workload", &TuneKey::workload},
                                                      {"device_class", &TuneKey::device_class},
                                                      {"driver", &TuneKey::driver},
                                                      {"framework", &TuneKey::framework},
                                                      {"flags", &TuneKey::flags},
                                                      {"code_hash", &TuneKey::code_hash},
                                                      {"protocol_hash", &TuneKey::protocol_hash},
                                                      {"objective", &TuneKey::objective}}};

struct Fallback {
  std::string name;
  std::vector<std::string TuneKey::*> may_differ;  // {&TuneKey::driver}
};

// exact; any_protocol; any_driver (and protocol); any_version (and framework); any_flags
// (and those); any_code (and those). Workload, device class and objective never differ.
std::vector<Fallback> DefaultFallbacks();

struct TunedEntry {
  TuneKey key;
  Configuration configuration;
  std::string claim;                 // of the verdict: winner, pick or tie
  std::string evidence_json = "{}";  // the verdict without its lists
  int64_t recorded_unix_s = 0;
  // Where devices of one class need answers of their own: by name, those that this one is for.
  std::vector<std::string> devices = {};
};

struct TunedMatch {
  const TunedEntry* entry = nullptr;   // of the table
  const Fallback* fallback = nullptr;  // the level that matched
};

class TunedTable {
 public:
  // Entries recorded at the same time: the later one in the list wins.
  TunedTable(std::vector<TunedEntry> entries, std::vector<Fallback> fallbacks);
  // Errors: InvalidArgument with file, JSON path, value and way out.
  static absl::StatusOr<TunedTable> FromJson(std::string_view text, std::string_view source,
                                             std::vector<Fallback> fallbacks = DefaultFallbacks());

  // Of entries for some devices only the one for `device`; before those for all, level by level.
  // Stays valid when the table is moved.
  std::optional<TunedMatch> Find(const TuneKey& key, std::string_view device = {}) const;
  const std::vector<TunedEntry>& entries() const { return entries_; }
  // Only entries that Find can return, in a fixed order.
  std::string ToJson() const;

 private:
  std::vector<TunedEntry> entries_;
  std::vector<Fallback> fallbacks_;
  std::vector<absl::flat_hash_map<std::string, uint32_t>> by_level_;
};

}  // namespace xplane_time
