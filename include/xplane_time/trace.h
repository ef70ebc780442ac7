// The trace as plain structs. The readers fill them, and every later stage reads them.
//
// A Trace is an index. It has planes, lines and metadata, but no events. VisitEvents (read.h)
// decodes the events of a line on demand. Structs refer to each other by index. Every string_view
// points into bytes that the Trace keeps alive. A Trace is movable but not copyable, and const
// access is thread-safe.
//
//   files    one per host; hosts of one run share a `capture`
//   planes   in file order over all files; a plane is a device or an aspect of a host
//   lines    in file order; lines of a plane with equal ids form one timeline
//
// Names are the producer's bytes. They may be invalid UTF-8; the outputs escape them.
//
// Example:
//
//   Diagnostics diagnostics;  // read.h opens traces
//   const std::vector<std::string> paths = {"trace.xplane.pb"};
//   auto trace = OpenTrace(*FindInputs(paths, {}), {}, &diagnostics);
//   if (!trace.ok()) return trace.status();
//   for (const Line& line : trace->lines) {
//     std::cout << trace->planes[line.plane].name << ' ' << line.shown_name() << ' '
//               << line.event_count << " events\n";
//   }
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

// A half-open range of bytes in the decompressed file.
struct ByteRange {
  uint64_t offset = 0;
  uint64_t size = 0;
};

enum class StatType : uint8_t {
  kAbsent,  // no value; 0 and "" are values
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

// The value of a stat: numbers in `bits` (a double by its bit pattern), text in `text`.
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
  std::string_view display_name;  // empty: `name` is shown instead
  uint32_t first_stat = 0;        // into Plane::metadata_stats
  uint32_t stat_count = 0;

  std::string_view shown_name() const { return display_name.empty() ? name : display_name; }
};

struct StatMetadata {
  int64_t id = 0;
  std::string_view name;
};

inline constexpr uint32_t kNoMetadata = ~uint32_t{0};

// A table of entries by id, which is the key of the map in the file. If several entries have the
// same id, the last one replaces the first one at its position. Ids are small and dense in
// practice, so an array finds those; a hash map finds the others.
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
  // The results of Find() for small ids. If the value is kNoMetadata, ask Find().
  std::span<const uint32_t> array() const { return dense_; }

 private:
  // The array holds ids up to 1024 plus eight times the number of entries.
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

// The text of a kRef stat. Empty if the plane has no stat metadata with this id.
inline std::string_view ReferencedName(const MetadataTable<StatMetadata>& stats,
                                       uint64_t reference) {
  const uint32_t at = stats.Find(static_cast<int64_t>(reference));
  return at == kNoMetadata ? std::string_view() : stats.entries[at].name;
}

// A range of consecutive events of a line.
struct LinePart {
  ByteRange bytes;
  uint64_t first_event = 0;
};

struct Line {
  int64_t id = 0;
  int64_t display_id = 0;  // 0: `id` is shown instead
  int64_t timestamp_ns = 0;
  std::string_view name;
  std::string_view display_name;  // empty: `name` is shown instead
  uint32_t plane = 0;
  uint64_t event_count = 0;
  ByteRange bytes;  // of the XLine message
  // Consecutive parts that make up the message. The number of threads does not affect them.
  std::vector<LinePart> parts;

  uint32_t timeline = 0;  // index into Trace::lines of the plane's first line with this id

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

  // The stat of the plane itself with this name, or an absent value.
  StatValue FindStat(std::string_view stat_name) const;
};

struct TraceFile {
  std::string path;  // as given or found; "-" for standard input
  uint64_t bytes = 0;
  uint32_t capture = 0;  // files of one run directory share this number
  // The origin of time of the file's capture. It is subtracted from the timestamp of every line. 0
  // for normalized captures (normalize.h).
  int64_t base_ns = 0;
  std::vector<std::string_view> hostnames, errors, warnings;
  // From the `Task Environment` plane, as Unix time.
  std::optional<uint64_t> profile_start_unix_ns = {}, profile_stop_unix_ns = {};
};

// The bytes behind a Trace, and the decoder of their events (src/read).
class EventSource;

struct Trace {
  std::vector<TraceFile> files;
  std::vector<Plane> planes;
  std::vector<Line> lines;
  uint64_t event_count = 0;
  uint32_t capture_count = 0;
  bool leave_out_damaged_hosts = false;  // from ReadOptions
  std::shared_ptr<const EventSource> source;

  Trace() = default;
  Trace(Trace&&) = default;
  Trace& operator=(Trace&&) = default;
};

}  // namespace xplane_time
