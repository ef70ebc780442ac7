// The wire reader: decodes XSpace straight from the mapping. Planes and their metadata
// here, lines and events in wire_index.cc.
#include <string>
#include <utility>
#include <vector>

#include "read/event_source.h"
#include "read/wire.h"
#include "read/wire_index.h"

namespace xplane_time {
namespace {

bool AreVarints(const WireField& packed, Damage* damage) {
  WireCursor cursor(packed.bytes, packed.offset, 4);
  uint64_t ignored;
  while (!cursor.done()) {
    if (!cursor.ReadVarint(&ignored)) return damage->From(cursor);
  }
  return true;
}

// Map entries of a plane. Sub-messages of an entry merge; of equal keys the last entry wins.

bool AddEventMetadata(const WireField& message, Plane* plane, Damage* damage) {
  EventMetadata entry;
  std::vector<Stat> stats;
  const bool ok = ReadMessage(message, 2, damage, [&](const WireField& field) {
    if (field.key() == Varint(1)) entry.id = field.whole();
    if (field.key() != Length(2)) return true;
    return ReadMessage(field, 3, damage, [&](const WireField& value) {
      if (value.key() == Length(2)) entry.name = value.bytes;
      if (value.key() == Length(4)) entry.display_name = value.bytes;
      if (value.key() == Length(5)) return DecodeStat(value, 4, &stats.emplace_back(), damage);
      // child_id: not needed, but it must be numbers
      return value.key() != Length(6) || AreVarints(value, damage);
    });
  });
  if (!ok) return false;
  entry.first_stat = static_cast<uint32_t>(plane->metadata_stats.size());
  entry.stat_count = static_cast<uint32_t>(stats.size());
  plane->metadata_stats.insert(plane->metadata_stats.end(), stats.begin(), stats.end());
  plane->event_metadata.Set(entry);
  return true;
}

bool AddStatMetadata(const WireField& message, Plane* plane, Damage* damage) {
  StatMetadata entry;
  const bool ok = ReadMessage(message, 2, damage, [&](const WireField& field) {
    if (field.key() == Varint(1)) entry.id = field.whole();
    if (field.key() != Length(2)) return true;
    return ReadMessage(field, 3, damage, [&](const WireField& value) {
      if (value.key() == Length(2)) entry.name = value.bytes;
      return true;
    });
  });
  if (ok) plane->stat_metadata.Set(entry);
  return ok;
}

class WireReader : public EventSource {
 public:
  absl::Status AddFile(std::shared_ptr<const Source> source, const std::string& /*path*/) override {
    Keep(std::move(source));
    return absl::OkStatus();
  }

  absl::Status IndexPlane(uint32_t file, size_t /*message*/, Plane* plane, Trace* trace) override {
    const std::string_view bytes = FileBytes(file).substr(plane->bytes.offset, plane->bytes.size);
    Damage damage;
    const auto add = [&](const WireField& field) {
      switch (field.key()) {
        case Varint(1):
          plane->id = field.whole();
          return true;
        case Length(2):
          plane->name = field.bytes;
          return true;
        case Length(3):
          trace->lines.emplace_back().bytes = {field.offset, field.bytes.size()};
          return true;
        case Length(4):
          return AddEventMetadata(field, plane, &damage);
        case Length(5):
          return AddStatMetadata(field, plane, &damage);
        case Length(6):
          return DecodeStat(field, 2, &plane->stats.emplace_back(), &damage);
        default:
          return true;
      }
    };
    if (ReadMessage(bytes, plane->bytes.offset, 1, &damage, add)) return absl::OkStatus();
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
