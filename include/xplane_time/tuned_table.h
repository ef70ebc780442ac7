// Tuned table: look-up of the best configuration for a key, in memory.
//
// Input: entries from a store (store.h), or from a JSON file (xplane-time.tuned.v1, docs/store.md)
// that a kernel library ships. Output: a match and its quality.
//
// Example:
//
//   const std::string text = R"({"schema": "xplane-time.tuned.v1", "entries": [
//       {"workload": "matmul[64]", "device_class": "NVIDIA H100", "driver": "550.54",
//        "framework": "", "flags": "", "code_hash": "c0de", "protocol_hash": "p1",
//        "objective": "time", "id": "v1", "params": {"block_m": 64}, "claim": "winner",
//        "evidence": {}, "recorded_unix_s": 1700000000}]})";
//   auto table = TunedTable::FromJson(text, "tuned.json");
//   if (!table.ok()) return table.status();
//   auto match = table->Find({.workload = "matmul[64]", .device_class = "NVIDIA H100"});
//   assert(match && match->entry->configuration.params_json == R"({"block_m":64})");
//   std::cout << match->fallback->name << '\n';       // "exact", "any_driver", ...
//   assert(!table->Find({.workload = "matmul[65]"}));  // nullopt: use the default
//
// Levels of fallback are tried in order. Each level names the parts of the key that may differ. The
// levels of DefaultFallbacks never include the objective, so a configuration that was picked for
// energy is not returned for time. If several entries match at a level, the one recorded last wins.
// Find costs one hash look-up per level, about a microsecond, and allocates. A const table may be
// shared between threads.
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

// The conditions for which a measurement is valid. The fields are free text and are compared byte
// for byte.
struct TuneKey {
  std::string workload = {};      // kernel and shapes
  std::string device_class = {};  // "NVIDIA H100 80GB HBM3", not a single board
  std::string driver = {};
  std::string framework = {};  // versions
  std::string flags = {};
  std::string code_hash = {};
  std::string protocol_hash = {};  // how it was measured
  // Objective of the decision: time, energy, edp, ed2p or pareto.
  std::string objective = "time";
  friend bool operator==(const TuneKey&, const TuneKey&) = default;
};

// The parts of the key, with their names in JSON and in stores.
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
  std::vector<std::string TuneKey::*> may_differ;  // such as {&TuneKey::driver}
};

// The levels exact; any_protocol; any_driver (and protocol); any_version (and framework); any_flags
// (and those); any_code (and those). Workload, device class and objective never differ.
std::vector<Fallback> DefaultFallbacks();

struct TunedEntry {
  TuneKey key;
  Configuration configuration;
  std::string claim;                 // from the verdict: winner, pick or tie
  std::string evidence_json = "{}";  // the verdict without its lists
  int64_t recorded_unix_s = 0;
  // If devices of one class need different answers: the names of the devices to which this entry
  // applies.
  std::vector<std::string> devices = {};
};

struct TunedMatch {
  const TunedEntry* entry = nullptr;   // points into the table
  const Fallback* fallback = nullptr;  // the level that matched
};

class TunedTable {
 public:
  // If entries were recorded at the same time, the later one in the list wins.
  TunedTable(std::vector<TunedEntry> entries, std::vector<Fallback> fallbacks);
  // Parses a table. Errors: InvalidArgument with the file, the JSON path, the value and a remedy.
  static absl::StatusOr<TunedTable> FromJson(std::string_view text, std::string_view source,
                                             std::vector<Fallback> fallbacks = DefaultFallbacks());

  // Looks up a key. Entries for particular devices match only `device`, and precede the entries for
  // all devices at each level. The result stays valid when the table is moved.
  std::optional<TunedMatch> Find(const TuneKey& key, std::string_view device = {}) const;
  const std::vector<TunedEntry>& entries() const { return entries_; }
  // All entries that Find can return, in a fixed order.
  std::string ToJson() const;

 private:
  std::vector<TunedEntry> entries_;
  std::vector<Fallback> fallbacks_;
  std::vector<absl::flat_hash_map<std::string, uint32_t>> by_level_;
};

}  // namespace xplane_time
