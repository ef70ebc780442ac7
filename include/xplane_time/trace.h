// The trace as plain structs: what the readers fill and every stage reads.
//
// A Trace is an index. It holds planes, lines and metadata, but no events: these
// are decoded line by line, on demand, by VisitEvents (read.h). Everything refers
// to everything by index. Every string_view points into bytes that the Trace keeps
// alive; a Trace is movable, not copyable, and const access is thread-safe.
//
//   files    one a host; hosts of one run share a `capture`
//   planes   in file order over all files; a device, or an aspect of a host
//   lines    in file order; lines of a plane with equal ids are one timeline
//
// Names are the producer's bytes: they may be invalid UTF-8 (output escapes them).
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace xplane_time {

// Half-open, in the decompressed file.
struct ByteRange {
  uint64_t offset = 0;
  uint64_t size = 0;
};

enum class StatType : uint8_t {
  kAbsent,  // not there; 0 and "" are values
  kDouble,
  kUint64,
  kInt64,
  kString,
  kBytes,
  kRef,               // `text` is the referenced name
  kCompressedString,  // gzip; `text` holds the compressed bytes
};

inline bool HasOwnText(StatType type) {
  return type == StatType::kString || type == StatType::kBytes ||
         type == StatType::kCompressedString;
}

// A stat's value. Numbers are in `bits` (a double by its bit pattern), text in `text`.
struct StatValue {
  StatType type = StatType::kAbsent;
  uint64_t bits = 0;
  std::string_view text;
};

struct Stat {
  int64_t metadata_id = 0;
  StatValue value;
};

struct EventMetadata {
  int64_t id = 0;
  std::string_view name;
  std::string_view display_name;  // empty: none, `name` is shown
  uint32_t first_stat = 0;        // into Plane::metadata_stats
  uint32_t stat_count = 0;

  std::string_view shown_name() const { return display_name.empty() ? name : display_name; }
};

struct StatMetadata {
  int64_t id = 0;
  std::string_view name;
};

inline constexpr uint32_t kNoMetadata = ~uint32_t{0};

// Entries by id, the map key. Of entries with equal ids the last wins, at the place of
// the first. Ids are small and dense in practice: those are found in an array.
template <typename Entry>
class MetadataTable {
 public:
  std::vector<Entry> entries;

  void Set(const Entry& entry) {
    const auto next = static_cast<uint32_t>(entries.size());
    uint32_t& slot = SlotOf(entry.id);
    if (slot == kNoMetadata) {
      slot = next;
      entries.push_back(entry);
    } else {
      entries[slot] = entry;
    }
  }

  // Index into `entries`, or kNoMetadata.
  uint32_t Find(int64_t id) const {
    const auto at = static_cast<uint64_t>(id);
    if (at < dense_.size() && dense_[at] != kNoMetadata) return dense_[at];
    if (sparse_.empty()) return kNoMetadata;
    const auto found = sparse_.find(id);
    return found == sparse_.end() ? kNoMetadata : found->second;
  }
  // What Find() answers for small ids, as far as it goes; kNoMetadata: Find() knows.
  std::span<const uint32_t> array() const { return dense_; }

 private:
  // The array has room for a few times as many ids as there are entries.
  uint32_t& SlotOf(int64_t id) {
    const auto at = static_cast<uint64_t>(id);
    const bool is_sparse = !sparse_.empty() && sparse_.contains(id);
    if (at >= 1024 + 8 * entries.size() || is_sparse) {
      return sparse_.try_emplace(id, kNoMetadata).first->second;
    }
    if (at >= dense_.size()) dense_.resize(std::max(at + 1, 2 * dense_.size()), kNoMetadata);
    return dense_[at];
  }

  std::vector<uint32_t> dense_;  // by id
  absl::flat_hash_map<int64_t, uint32_t> sparse_;
};

// What a kRef stat's text is; empty where the plane has no such stat metadata.
inline std::string_view ReferencedName(const MetadataTable<StatMetadata>& stats,
                                       uint64_t reference) {
  const uint32_t at = stats.Find(static_cast<int64_t>(reference));
  return at == kNoMetadata ? std::string_view() : stats.entries[at].name;
}

// Consecutive events of a line.
struct LinePart {
  ByteRange bytes;
  uint64_t first_event = 0;
};

struct Line {
  int64_t id = 0;
  int64_t display_id = 0;  // 0: none, `id` is shown
  int64_t timestamp_ns = 0;
  std::string_view name;
  std::string_view display_name;  // empty: none, `name` is shown
  uint32_t plane = 0;
  uint64_t event_count = 0;
  ByteRange bytes;  // of the XLine message
  // One after the other they are the message. Of the same number whatever the threads.
  std::vector<LinePart> parts;

  uint32_t timeline = 0;  // the plane's first line with this id, into Trace::lines

  std::string_view shown_name() const { return display_name.empty() ? name : display_name; }
};

struct Plane {
  int64_t id = 0;
  std::string_view name;
  uint32_t file = 0;
  std::string_view host;  // empty: unknown
  uint32_t first_line = 0;
  uint32_t line_count = 0;
  MetadataTable<EventMetadata> event_metadata;
  MetadataTable<StatMetadata> stat_metadata;
  std::vector<Stat> metadata_stats;  // of event_metadata
  std::vector<Stat> stats;
  ByteRange bytes;  // of the XPlane message

  // The plane's own stat with this name, or an absent value.
  StatValue FindStat(std::string_view stat_name) const;
};

struct TraceFile {
  std::string path;  // as given or found; "-" for standard input
  uint64_t bytes = 0;
  uint32_t capture = 0;  // files of one run directory share it
  // Of its capture: subtracted from every line's timestamp; 0 for normalized captures
  // (normalize.h).
  int64_t base_ns = 0;
  std::vector<std::string_view> hostnames, errors, warnings;
  // From the `Task Environment` plane; Unix epoch.
  std::optional<uint64_t> profile_start_unix_ns = {}, profile_stop_unix_ns = {};
};

// The bytes behind a Trace and how to decode events from them (src/read).
class EventSource;

struct Trace {
  std::vector<TraceFile> files;
  std::vector<Plane> planes;
  std::vector<Line> lines;
  uint64_t event_count = 0;
  uint32_t capture_count = 0;
  bool leave_out_damaged_hosts = false;  // ReadOptions
  std::shared_ptr<const EventSource> source;

  Trace() = default;
  Trace(Trace&&) = default;
  Trace& operator=(Trace&&) = default;
};

}  // namespace xplane_time
