// The wire reader: decodes XSpace straight from the mapping. Planes and their metadata
// here, lines and events in wire_line.cc.
#include <string>
#include <utility>
#include <vector>

#include "read/event_source.h"
#include "read/wire_index.h"
#include "read/wire_message.h"

namespace xplane_time {
namespace {

bool AreVarints(std::string_view bytes, uint64_t offset, Damage* damage) {
  WireCursor cursor(bytes, offset, 4);
  uint64_t ignored;
  while (!cursor.done()) {
    if (!cursor.ReadVarint(&ignored)) return damage->From(cursor);
  }
  return true;
}

// Decodes the map entries of one plane. Sub-messages of an entry merge; of equal keys
// the last entry wins.
class MetadataDecoder {
 public:
  explicit MetadataDecoder(Plane* plane) : plane_(plane) {}

  bool Event(std::string_view bytes, uint64_t offset, Damage* damage) {
    EventMetadata entry;
    std::vector<Stat> stats;
    const bool ok =
        Entry(bytes, offset, &entry.id, damage, [&](std::string_view value, uint64_t value_offset) {
          return EventValue(value, value_offset, &entry, &stats, damage);
        });
    if (!ok) return false;
    entry.first_stat = static_cast<uint32_t>(plane_->metadata_stats.size());
    entry.stat_count = static_cast<uint32_t>(stats.size());
    plane_->metadata_stats.insert(plane_->metadata_stats.end(), stats.begin(), stats.end());
    plane_->event_metadata.Set(entry);
    return true;
  }

  bool StatName(std::string_view bytes, uint64_t offset, Damage* damage) {
    StatMetadata entry;
    const bool ok =
        Entry(bytes, offset, &entry.id, damage, [&](std::string_view value, uint64_t value_offset) {
          WireCursor cursor(value, value_offset, 3);
          const bool value_ok = ForEachField(&cursor, [&](uint32_t field, WireType type) {
            if (type == WireType::kLength && field == 2) return cursor.ReadBytes(&entry.name);
            return cursor.Skip(field, type);
          });
          return value_ok || damage->From(cursor);
        });
    if (ok) plane_->stat_metadata.Set(entry);
    return ok;
  }

 private:
  template <typename OnValue>
  static bool Entry(std::string_view bytes, uint64_t offset, int64_t* key, Damage* damage,
                    OnValue on_value) {
    WireCursor cursor(bytes, offset, 2);
    bool value_ok = true;
    const bool ok = ForEachField(&cursor, [&](uint32_t field, WireType type) {
      if (field == 1 && type == WireType::kVarint) return cursor.ReadInt64(key);
      if (field != 2 || type != WireType::kLength) return cursor.Skip(field, type);
      std::string_view value;
      uint64_t at = 0;
      if (!cursor.ReadBytes(&value, &at)) return false;
      value_ok = on_value(value, at);
      return value_ok;
    });
    if (!value_ok) return false;  // `damage` is already told
    return ok || damage->From(cursor);
  }

  static bool EventValue(std::string_view bytes, uint64_t offset, EventMetadata* entry,
                         std::vector<Stat>* stats, Damage* damage) {
    WireCursor cursor(bytes, offset, 3);
    bool stat_ok = true;
    const bool ok = ForEachField(&cursor, [&](uint32_t field, WireType type) {
      if (type != WireType::kLength) return cursor.Skip(field, type);
      if (field == 2) return cursor.ReadBytes(&entry->name);
      if (field == 4) return cursor.ReadBytes(&entry->display_name);
      if (field != 5 && field != 6) return cursor.Skip(field, type);
      std::string_view value;
      uint64_t at = 0;
      if (!cursor.ReadBytes(&value, &at)) return false;
      if (field == 6) {  // packed child_id: not needed, but it must be numbers
        stat_ok = AreVarints(value, at, damage);
        return stat_ok;
      }
      stat_ok = DecodeStat(value, at, 4, &stats->emplace_back(), damage);
      return stat_ok;
    });
    if (!stat_ok) return false;
    return ok || damage->From(cursor);
  }

  Plane* plane_;
};

class WireReader : public EventSource {
 public:
  absl::Status AddFile(std::shared_ptr<const Source> source, const std::string& /*path*/) override {
    Keep(std::move(source));
    return absl::OkStatus();
  }

  absl::Status IndexPlane(uint32_t file, size_t /*message*/, Plane* plane, Trace* trace) override {
    const std::string_view bytes = FileBytes(file).substr(plane->bytes.offset, plane->bytes.size);
    WireCursor cursor(bytes, plane->bytes.offset, 1);
    MetadataDecoder metadata(plane);
    Damage damage;
    const bool ok = ForEachField(&cursor, [&](uint32_t field, WireType type) {
      if (field == 1 && type == WireType::kVarint) return cursor.ReadInt64(&plane->id);
      if (type != WireType::kLength || field < 2 || field > 6) return cursor.Skip(field, type);
      std::string_view value;
      uint64_t at = 0;
      if (!cursor.ReadBytes(&value, &at)) return false;
      switch (field) {
        case 2:
          plane->name = value;
          return true;
        case 3:
          trace->lines.emplace_back().bytes = {at, value.size()};
          return true;
        case 4:
          return metadata.Event(value, at, &damage);
        case 5:
          return metadata.StatName(value, at, &damage);
        default:
          return DecodeStat(value, at, 2, &plane->stats.emplace_back(), &damage);
      }
    });
    if (ok) return absl::OkStatus();
    if (damage.why == nullptr) damage.From(cursor);
    return DamageError(
        damage.why,
        {.file = trace->files[file].path, .plane = plane->name, .byte_offset = damage.byte_offset});
  }

  void IndexLines(const Trace& trace, int threads, std::span<Line> lines,
                  std::span<absl::Status> status) const override {
    IndexWireLines([&](uint32_t plane) { return FileBytes(trace.planes[plane].file); }, trace,
                   {.threads = threads}, lines, status);
  }

  std::unique_ptr<LineDecoder> Decode(const Trace& trace, uint32_t line) const override {
    const uint32_t file = trace.planes[trace.lines[line].plane].file;
    return MakeWireLineDecoder(FileBytes(file), trace, line);
  }
};

}  // namespace

std::unique_ptr<EventSource> MakeWireReader() { return std::make_unique<WireReader>(); }

}  // namespace xplane_time
