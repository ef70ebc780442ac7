// The wire reader: decodes XSpace straight from the mapping.
//
// Opening indexes planes: metadata, stats and line headers are decoded, events are
// hopped over by length and counted. Decoding a line visits its events in file order;
// stats that nobody asked for are skipped by length.
#include <string>
#include <utility>
#include <vector>

#include "read/event_source.h"
#include "read/wire.h"

namespace xplane_time {
namespace {

// Fields of a message, handed to `on_field(field, type, cursor) -> bool`, which reads
// or skips the value. False at damage; the cursor tells where and why.
template <typename OnField>
bool ForEachField(WireCursor* cursor, OnField on_field) {
  while (!cursor->done()) {
    uint32_t field;
    WireType type;
    if (!cursor->ReadTag(&field, &type) || !on_field(field, type)) return false;
  }
  return true;
}

// A damaged sub-message: its own cursor tells where and why.
struct Damage {
  uint64_t byte_offset = 0;
  const char* why = nullptr;
  bool From(const WireCursor& cursor) {
    byte_offset = cursor.offset();
    why = cursor.error();
    return false;
  }
};

bool DecodeStat(std::string_view bytes, uint64_t offset, size_t depth, Stat* stat, Damage* damage) {
  WireCursor cursor(bytes, offset, depth);
  auto text = [&](StatType type) {
    stat->value = {type, 0, {}};
    return cursor.ReadBytes(&stat->value.text);
  };
  auto number = [&](StatType type) {
    stat->value = {type, 0, {}};
    return cursor.ReadVarint(&stat->value.bits);
  };
  const bool ok = ForEachField(&cursor, [&](uint32_t field, WireType type) {
    if (type == WireType::kVarint) {
      if (field == 1) return cursor.ReadInt64(&stat->metadata_id);
      if (field == 3) return number(StatType::kUint64);
      if (field == 4) return number(StatType::kInt64);
      if (field == 7) return number(StatType::kRef);
    } else if (type == WireType::kLength) {
      if (field == 5) return text(StatType::kString);
      if (field == 6) return text(StatType::kBytes);
      if (field == 8) return text(StatType::kCompressedString);
    } else if (type == WireType::kFixed64 && field == 2) {
      stat->value = {StatType::kDouble, 0, {}};
      return cursor.ReadFixed64(&stat->value.bits);
    }
    return cursor.Skip(field, type);
  });
  return ok || damage->From(cursor);
}

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
    Insert(&plane_->event_metadata, entry);
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
    if (ok) Insert(&plane_->stat_metadata, entry);
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

  template <typename EntryType>
  static void Insert(MetadataTable<EntryType>* table, const EntryType& entry) {
    const auto next = static_cast<uint32_t>(table->entries.size());
    const auto [found, inserted] = table->index_of_id.try_emplace(entry.id, next);
    if (inserted) {
      table->entries.push_back(entry);
    } else {
      table->entries[found->second] = entry;
    }
  }

  Plane* plane_;
};

// Reads a line's header and counts its events.
bool IndexLine(std::string_view bytes, uint64_t offset, Line* line, Damage* damage) {
  line->bytes = {offset, bytes.size()};
  WireCursor cursor(bytes, offset, 2);
  const bool ok = ForEachField(&cursor, [&](uint32_t field, WireType type) {
    std::string_view ignored;
    if (type == WireType::kLength) {
      if (field == 2) return cursor.ReadBytes(&line->name);
      if (field == 11) return cursor.ReadBytes(&line->display_name);
      if (field == 4) {
        ++line->event_count;
        return cursor.ReadBytes(&ignored);
      }
    } else if (type == WireType::kVarint) {
      if (field == 1) return cursor.ReadInt64(&line->id);
      if (field == 3) return cursor.ReadInt64(&line->timestamp_ns);
      if (field == 10) return cursor.ReadInt64(&line->display_id);
    }
    return cursor.Skip(field, type);
  });
  return ok || damage->From(cursor);
}

bool DecodeEvent(std::string_view bytes, uint64_t offset, RawEvent* event, BatchBuilder* builder,
                 Damage* damage) {
  WireCursor cursor(bytes, offset, 3);
  bool stat_ok = true;
  const bool ok = ForEachField(&cursor, [&](uint32_t field, WireType type) {
    if (type == WireType::kVarint) {
      if (field == 1) return cursor.ReadInt64(&event->metadata_id);
      if (field == 3) return cursor.ReadInt64(&event->duration_ps);
      if (field == 2 || field == 5) {  // a oneof: the last one counts
        event->aggregated = field == 5;
        return cursor.ReadInt64(&event->data);
      }
    } else if (type == WireType::kLength && field == 4 && builder->wants_stats()) {
      std::string_view value;
      uint64_t at = 0;
      if (!cursor.ReadBytes(&value, &at)) return false;
      Stat stat;
      stat_ok = DecodeStat(value, at, 4, &stat, damage);
      if (!stat_ok) return false;
      const uint32_t column = builder->ColumnOf(stat.metadata_id);
      if (column != BatchBuilder::kNoColumn) builder->SetStat(column, stat.value);
      return true;
    }
    return cursor.Skip(field, type);
  });
  if (!stat_ok) return false;
  return ok || damage->From(cursor);
}

class WireReader : public EventSource {
 public:
  absl::Status AddFile(std::unique_ptr<Source> source, const std::string& /*path*/) override {
    Keep(std::move(source));
    return absl::OkStatus();
  }

  absl::Status IndexPlane(uint32_t file, size_t /*message*/, Plane* plane,
                          Trace* trace) const override {
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
          return IndexLine(value, at, &trace->lines.emplace_back(), &damage);
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

  absl::Status DecodeLine(const Trace& trace, uint32_t line_index,
                          BatchBuilder* builder) const override {
    const Line& line = trace.lines[line_index];
    const Plane& plane = trace.planes[line.plane];
    WireCursor cursor(FileBytes(plane.file).substr(line.bytes.offset, line.bytes.size),
                      line.bytes.offset, 2);
    uint64_t event_index = 0;
    Damage damage;
    absl::Status status;
    const bool ok = ForEachField(&cursor, [&](uint32_t field, WireType type) {
      if (field != 4 || type != WireType::kLength) return cursor.Skip(field, type);
      std::string_view value;
      uint64_t at = 0;
      if (!cursor.ReadBytes(&value, &at)) return false;
      RawEvent event;
      if (!DecodeEvent(value, at, &event, builder, &damage)) return false;
      status = builder->Finish(event_index++, event);
      return status.ok();
    });
    if (!status.ok()) return status;
    if (ok) return builder->Flush();
    if (damage.why == nullptr) damage.From(cursor);
    return DamageError(damage.why, {.file = trace.files[plane.file].path,
                                    .plane = plane.name,
                                    .line = line.name,
                                    .event = event_index,
                                    .byte_offset = damage.byte_offset});
  }
};

}  // namespace

std::unique_ptr<EventSource> MakeWireReader() { return std::make_unique<WireReader>(); }

}  // namespace xplane_time
