#include "read/file_events.h"

#include <string_view>
#include <vector>

#include "read/event_source.h"
#include "read/wire_index.h"
#include "read/wire_message.h"

namespace xplane_time {
namespace {

class Walk {
 public:
  explicit Walk(absl::FunctionRef<bool(const FileEvent&)> visit) : visit_(visit) {}

  // One XLine message. False at damage.
  bool Line(WireCursor* cursor) {
    while (!stopped_ && !cursor->done()) {
      uint32_t field;
      WireType type;
      if (!cursor->ReadTag(&field, &type)) return damage_.From(*cursor);
      if (field != kEventsField || type != WireType::kLength) {
        if (!cursor->Skip(field, type)) return damage_.From(*cursor);
        continue;
      }
      std::string_view bytes;
      uint64_t offset = 0;
      if (!cursor->ReadBytes(&bytes, &offset)) return damage_.From(*cursor);
      if (!Event(bytes, offset)) return false;
      ++index_;
    }
    return true;
  }

  uint64_t index() const { return index_; }
  const Damage& damage() const { return damage_; }

 private:
  bool Event(std::string_view bytes, uint64_t offset) {
    WireCursor cursor(bytes, offset, 3);
    FileEvent event;
    stats_.clear();
    bool stat_ok = true;
    const bool ok = ForEachField(&cursor, [&](uint32_t field, WireType type) {
      if (type == WireType::kVarint) {
        if (field == 1) return cursor.ReadInt64(&event.metadata_id);
        if (field == 2) return cursor.ReadInt64(&event.offset_ps);
        if (field == 3) return cursor.ReadInt64(&event.duration_ps);
        if (field == 5) event.offset_ps = 0;  // a oneof: the last one counts
      } else if (type == WireType::kLength && field == 4) {
        std::string_view value;
        uint64_t at = 0;
        if (!cursor.ReadBytes(&value, &at)) return false;
        stats_.emplace_back();
        stat_ok = DecodeStat(value, at, 4, &stats_.back(), &damage_);
        return stat_ok;
      }
      return cursor.Skip(field, type);
    });
    if (!ok) return stat_ok ? damage_.From(cursor) : false;
    event.stats = stats_;
    stopped_ = !visit_(event);
    return true;
  }

  absl::FunctionRef<bool(const FileEvent&)> visit_;
  std::vector<Stat> stats_;
  Damage damage_;
  uint64_t index_ = 0;
  bool stopped_ = false;
};

}  // namespace

absl::Status VisitFileEvents(const Trace& trace, uint32_t line,
                             absl::FunctionRef<bool(const FileEvent&)> visit) {
  const Line& at = trace.lines[line];
  const Plane& plane = trace.planes[at.plane];
  const std::string_view file = trace.source->FileBytes(plane.file);
  WireCursor cursor(file.substr(at.bytes.offset, at.bytes.size), at.bytes.offset, 2);
  Walk walk(visit);
  if (walk.Line(&cursor)) return absl::OkStatus();
  return DamageError(walk.damage().why, {.file = trace.files[plane.file].path,
                                         .plane = plane.name,
                                         .line = at.name,
                                         .event = walk.index(),
                                         .byte_offset = walk.damage().byte_offset});
}

}  // namespace xplane_time
