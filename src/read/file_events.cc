#include "read/file_events.h"

#include <vector>

#include "read/event_source.h"
#include "read/wire.h"
#include "read/wire_index.h"

namespace xplane_time {
namespace {

bool ReadEvent(const WireField& message, std::vector<Stat>* stats, FileEvent* event,
               Damage* damage) {
  stats->clear();
  const auto add = [&](const WireField& field) {
    switch (field.key()) {
      case Varint(1):
        event->metadata_id = field.whole();
        return true;
      case Varint(2):
        event->offset_ps = field.whole();
        return true;
      case Varint(3):
        event->duration_ps = field.whole();
        return true;
      case Length(4):
        return DecodeStat(field, 4, &stats->emplace_back(), damage);
      case Varint(5):  // a oneof with the offset: the last one counts
        event->offset_ps = 0;
        return true;
      default:
        return true;
    }
  };
  const bool ok = ReadMessage(message, 3, damage, add);
  event->stats = *stats;
  return ok;
}

}  // namespace

absl::Status VisitFileEvents(const Trace& trace, uint32_t line,
                             absl::FunctionRef<bool(const FileEvent&)> visit) {
  const Line& at = trace.lines[line];
  const std::string_view file = trace.source->FileBytes(trace.planes[at.plane].file);
  std::vector<Stat> stats;
  Damage damage;
  uint64_t index = 0;
  ReadMessage(file.substr(at.bytes.offset, at.bytes.size), at.bytes.offset, 2, &damage,
              [&](const WireField& field) {
                if (field.key() != Length(kEventsField)) return true;
                FileEvent event;
                if (!ReadEvent(field, &stats, &event, &damage)) return false;
                ++index;
                return visit(event);
              });
  if (damage.why == nullptr) return absl::OkStatus();
  return LineDamage(trace, at, damage, index);
}

}  // namespace xplane_time
