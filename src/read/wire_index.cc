// The wire reader: indexes an XSpace directly in its mapped bytes. Planes, their metadata and the
// index of lines are here; events are in wire_events.cc.
//
// Indexing lines (internals.h has a drawing): each line's header is read field by field. The rest
// is cut into pieces at guessed event boundaries. Threads hop through four pieces at a time in
// step, so that four memory loads overlap. Finish() then walks over the pieces of a line: a piece
// whose begin is exactly reached counts as hopped over; after a wrong guess, single hops continue
// to the next piece that fits. The result is exact for any guess. Time: O(events) hops, divided by
// threads.
#include "read/internals.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "parallel.h"
#include "status.h"

namespace xplane_time {

// Slow paths of WireCursor.

bool WireCursor::ReadLongVarint(uint64_t* value) {
  const char* start = at_;
  uint64_t result = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    if (at_ == end_) return FailAt(start, "a truncated number");
    const auto byte = static_cast<uint8_t>(*at_++);
    // The tenth byte has room for one bit; like the generated parser, this drops the other bits.
    if (shift < 64) result |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) {
      *value = result;
      return true;
    }
  }
  return FailAt(start, "a number of more than 10 bytes");
}

bool WireCursor::ReadUnusualValue(WireField* field) {
  if (field->type == WireType::kStartGroup) return SkipGroup(field->number);
  if (field->type == WireType::kEndGroup) return Fail("a group end without its start");
  const ptrdiff_t size = field->type == WireType::kFixed64 ? 8 : 4;
  if (end_ - at_ < size) return Fail("a truncated value");
  if (size == 8) std::memcpy(&field->bits, at_, 8);  // little-endian, like all supported machines
  at_ += size;
  return true;
}

// Iterative, so that deeply nested groups do not use up the stack.
bool WireCursor::SkipGroup(uint32_t field) {
  std::array<uint32_t, kMaxDepth> open;
  size_t depth = 0;
  if (depth_ == open.size()) return Fail("more than 100 nested groups");
  open[depth++] = field;
  while (depth > 0) {
    const char* start = at_;
    WireField inner;
    if (!ReadTag(&inner.number, &inner.type)) return false;
    if (inner.type == WireType::kEndGroup) {
      if (open[--depth] != inner.number) {
        return FailAt(start, "a group end with another number");
      }
    } else if (inner.type == WireType::kStartGroup) {
      if (depth_ + depth == open.size()) return FailAt(start, "more than 100 nested groups");
      open[depth++] = inner.number;
    } else if (!ReadValue(&inner)) {
      return false;
    }
  }
  return true;
}

namespace {

// A position in a line, and the number of events before it.
struct HopPlace {
  const char* at;
  const char* end;
  uint64_t events;
};

// Moves past one event in the usual encoding; false at any other field.
__attribute__((always_inline)) inline bool Hop(HopPlace* place) {
  const char* p = place->at;
  __builtin_prefetch(p + kPrefetchBytes);
  if (place->end - p <= 3 || *p != kEventsTag) return false;
  // Lengths of one and two bytes mix, so this avoids a branch that could not be predicted.
  const size_t low = static_cast<uint8_t>(p[1]), high = static_cast<uint8_t>(p[2]);
  const size_t two = low >> 7;
  const size_t size = 2 + two + (low & 0x7f) + ((high & (0 - two)) << 7);
  if ((two & (high >> 7)) != 0 || size > static_cast<size_t>(place->end - p)) return false;
  place->at = p + size;
  ++place->events;
  return true;
}

constexpr size_t kPiecesAtOnce = 4;

// Hops through all places in step until one is not at a usual event. Returns the index of that
// place.
size_t HopTogether(std::array<HopPlace, kPiecesAtOnce>* places) {
  HopPlace a = (*places)[0], b = (*places)[1], c = (*places)[2], d = (*places)[3];
  size_t stopped = kPiecesAtOnce;
  while (stopped == kPiecesAtOnce) {
    if (!Hop(&a)) {
      stopped = 0;
    } else if (!Hop(&b)) {
      stopped = 1;
    } else if (!Hop(&c)) {
      stopped = 2;
    } else if (!Hop(&d)) {
      stopped = 3;
    }
  }
  *places = {a, b, c, d};
  return stopped;
}

// A part of the events of a line, and the position that hopping reached in it.
struct Piece {
  const char* begin;
  HopPlace reached;
};

// Maps the pages of a source in one call before they are read. This is cheaper than a page fault
// for every few pages. Only the beginning of long ranges is mapped. No effect if the system lacks
// the call.
void MapPagesOf(std::string_view bytes) {
#if defined(MADV_POPULATE_READ)
  constexpr size_t kFew = size_t{1} << 16, kMost = size_t{1} << 25;
  if (bytes.size() < kFew) return;
  const auto page_size = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const size_t before = reinterpret_cast<uintptr_t>(bytes.data()) % page_size;
  char* const page = const_cast<char*>(bytes.data()) - before;  // NOLINT: it is not written to
  madvise(page, std::min(bytes.size(), kMost) + before, MADV_POPULATE_READ);
#else
  static_cast<void>(bytes);
#endif
}

// Distributes pieces to threads, each piece once. A thread begins with its own stretch of pieces,
// because threads that map neighbouring pages wait for the same page table.
class PieceQueue {
 public:
  PieceQueue(std::span<Piece> pieces, size_t threads)
      : pieces_(pieces), stretch_(pieces.size() / threads + 1), next_(threads) {}

  // The next piece, or null at the end.
  Piece* Take(size_t thread) {
    for (size_t i = 0; i < next_.size(); ++i) {
      const size_t of = (thread + i) % next_.size(), place = next_[of]++;
      const size_t index = of * stretch_ + place;
      if (place < stretch_ && index < pieces_.size()) return &pieces_[index];
    }
    return nullptr;
  }

 private:
  const std::span<Piece> pieces_;
  const size_t stretch_;
  std::vector<std::atomic<size_t>> next_;  // next position in each stretch
};

// Takes and processes pieces until there are no more.
void HopThroughPieces(size_t thread, PieceQueue* pieces) {
  std::array<HopPlace, kPiecesAtOnce> places = {};
  std::array<Piece*, kPiecesAtOnce> open = {};
  size_t open_count = 0;
  const auto take = [&](size_t i) {
    open[i] = pieces->Take(thread);
    places[i] = open[i] != nullptr ? open[i]->reached : HopPlace{};
    if (open[i] == nullptr) return;
    ++open_count;
    MapPagesOf({places[i].at, static_cast<size_t>(places[i].end - places[i].at)});
  };
  for (size_t i = 0; i < kPiecesAtOnce; ++i) take(i);
  while (open_count > 0) {
    // With fewer open pieces than places: one after the other.
    size_t i = 0;
    if (open_count == kPiecesAtOnce) {
      i = HopTogether(&places);
    } else {
      while (open[i] == nullptr) ++i;
      while (Hop(&places[i])) {
      }
    }
    open[i]->reached = places[i];
    --open_count;
    take(i);
  }
}

// Whether the bytes look like an event: a metadata id followed by an offset. (The id alone is not
// enough, because a stat also begins with an id.) The tag is checked first, because from a random
// byte a group could extend to the end.
bool LooksLikeEvent(const char* at, const char* end) {
  WireCursor line(std::string_view(at, static_cast<size_t>(end - at)), 0);
  WireField event;
  if (!line.ReadTag(&event.number, &event.type) || event.key() != Length(kEventsField) ||
      !line.ReadValue(&event)) {
    return false;
  }
  WireCursor fields(event.bytes, 0);
  WireField id, offset;
  return fields.ReadTag(&id.number, &id.type) && id.key() == Varint(1) && fields.ReadValue(&id) &&
         fields.ReadTag(&offset.number, &offset.type) && offset.key() == Varint(2);
}

// The first position from `from` on that looks like the beginning of several events, within a few
// pages; else null.
const char* GuessEvent(const char* from, const char* end) {
  constexpr ptrdiff_t kMostBytes = 1 << 14;
  constexpr uint64_t kEnough = 8;
  for (const char* at = from; at < end && at - from < kMostBytes; ++at) {
    HopPlace place = {at, end, 0};
    while (place.events < kEnough && LooksLikeEvent(place.at, end) && Hop(&place)) {
    }
    if (place.events == kEnough) return at;
  }
  return nullptr;
}

class LineIndexer {
 public:
  LineIndexer(const Trace& trace, std::string_view file, Line* line)
      : trace_(trace),
        file_(file),
        line_(line),
        place_{file.data() + line->bytes.offset,
               file.data() + line->bytes.offset + line->bytes.size, 0} {
    line->parts = {{line->bytes, 0}};
  }

  // Reads the header and cuts the rest into pieces.
  absl::Status Begin(size_t piece_bytes, std::vector<Piece>* pieces) {
    while (place_.at != place_.end && *place_.at != kEventsTag) {
      RETURN_IF_ERROR(ReadField());
    }
    for (const char* begin = place_.at; begin != place_.end;) {
      const char* end = nullptr;
      if (static_cast<size_t>(place_.end - begin) > 2 * piece_bytes) {
        end = GuessEvent(begin + piece_bytes, place_.end);
      }
      if (end == nullptr) end = place_.end;
      pieces->push_back({begin, {begin, end, 0}});
      begin = end;
    }
    return absl::OkStatus();
  }

  // Walks from the end of the header to the end of the line, over the pieces that fit.
  absl::Status Finish(std::span<const Piece> pieces) {
    while (place_.at != place_.end) {
      while (!pieces.empty() && pieces[0].begin < place_.at) pieces = pieces.subspan(1);
      if (!pieces.empty() && pieces[0].begin == place_.at && pieces[0].reached.events > 0) {
        if (place_.events > 0) BeginPart();
        place_.at = pieces[0].reached.at;
        place_.events += pieces[0].reached.events;
      } else if (!Hop(&place_)) {
        RETURN_IF_ERROR(ReadField());
      }
    }
    line_->event_count = place_.events;
    EndPart();
    return absl::OkStatus();
  }

 private:
  // Ends the current part of events; the next one begins here.
  void BeginPart() {
    EndPart();
    line_->parts.push_back({{Offset(), 0}, place_.events});
  }
  void EndPart() {
    ByteRange& last = line_->parts.back().bytes;
    last.size = Offset() - last.offset;
  }
  uint64_t Offset() const { return static_cast<uint64_t>(place_.at - file_.data()); }

  // Reads any field, mostly of the line's header.
  absl::Status ReadField() {
    const uint64_t offset = Offset();
    WireCursor cursor(std::string_view(place_.at, static_cast<size_t>(place_.end - place_.at)),
                      offset, 2);
    WireField field;
    Damage damage;
    const bool ok = cursor.ReadField(&field) || damage.From(cursor);
    place_.at = file_.data() + cursor.offset();
    if (!ok) return LineDamage(trace_, *line_, damage);
    if (field.key() == Varint(1)) line_->id = field.whole();
    if (field.key() == Length(2)) line_->name = field.bytes;
    if (field.key() == Varint(3)) line_->timestamp_ns = field.whole();
    if (field.key() == Length(kEventsField)) ++place_.events;
    if (field.key() == Varint(10)) line_->display_id = field.whole();
    if (field.key() == Length(11)) line_->display_name = field.bytes;
    return absl::OkStatus();
  }

  const Trace& trace_;
  const std::string_view file_;
  Line* const line_;
  HopPlace place_;
};

}  // namespace

std::vector<absl::Status> IndexWireLines(const WireFiles& files, const IndexOptions& options,
                                         Trace* trace) {
  std::vector<absl::Status> status;
  std::vector<LineIndexer> indexers;
  std::vector<Piece> pieces;
  std::vector<size_t> first_piece;  // by line
  for (Line& line : trace->lines) {
    indexers.emplace_back(*trace, files(line.plane), &line);
    first_piece.push_back(pieces.size());
    status.push_back(indexers.back().Begin(options.piece_bytes, &pieces));
  }
  first_piece.push_back(pieces.size());
  const size_t threads = std::min(pieces.size() / kPiecesAtOnce + 1,
                                  static_cast<size_t>(std::max(1, options.threads)));
  PieceQueue queue(pieces, threads);
  ParallelFor(threads, options.threads, [&](size_t thread) { HopThroughPieces(thread, &queue); });
  for (size_t i = 0; i < status.size(); ++i) {
    if (!status[i].ok()) continue;
    const size_t first = first_piece[i];
    status[i] = indexers[i].Finish(std::span(pieces).subspan(first, first_piece[i + 1] - first));
  }
  return status;
}

namespace {

bool AreVarints(const WireField& packed, Damage* damage) {
  WireCursor cursor(packed.bytes, packed.offset, 4);
  uint64_t ignored;
  while (!cursor.done()) {
    if (!cursor.ReadVarint(&ignored)) return damage->From(cursor);
  }
  return true;
}

// Reads a map entry of a plane. Sub-messages of an entry merge; of equal keys the last entry wins.
template <typename OnValue>
bool ReadEntry(const WireField& entry, int64_t* key, Damage* damage, OnValue on_value) {
  return ReadMessage(entry, 2, damage, [&](const WireField& field) {
    if (field.key() == Varint(1)) *key = field.whole();
    return field.key() != Length(2) || ReadMessage(field, 3, damage, on_value);
  });
}

bool AddEventMetadata(const WireField& message, Plane* plane, Damage* damage) {
  std::vector<Stat>& stats = plane->metadata_stats;
  EventMetadata entry;
  entry.first_stat = static_cast<uint32_t>(stats.size());
  const bool ok = ReadEntry(message, &entry.id, damage, [&](const WireField& value) {
    if (value.key() == Length(2)) entry.name = value.bytes;
    if (value.key() == Length(4)) entry.display_name = value.bytes;
    if (value.key() == Length(5)) return DecodeStat(value, 4, &stats.emplace_back(), damage);
    // child_id is not needed, but it must consist of numbers
    return value.key() != Length(6) || AreVarints(value, damage);
  });
  entry.stat_count = static_cast<uint32_t>(stats.size()) - entry.first_stat;
  if (ok) plane->event_metadata.Set(entry);
  return ok;
}

bool AddStatMetadata(const WireField& message, Plane* plane, Damage* damage) {
  StatMetadata entry;
  const bool ok = ReadEntry(message, &entry.id, damage, [&](const WireField& value) {
    if (value.key() == Length(2)) entry.name = value.bytes;
    return true;
  });
  if (ok) plane->stat_metadata.Set(entry);
  return ok;
}

class WireReader : public EventSource {
 public:
  absl::Status IndexPlane(uint32_t file, size_t /*message*/, Plane* plane, Trace* trace) override {
    const std::string_view bytes = FileBytes(file).substr(plane->bytes.offset, plane->bytes.size);
    Damage damage;
    const auto add = [&](const WireField& field) {
      const uint32_t key = field.key();
      if (key == Varint(1)) plane->id = field.whole();
      if (key == Length(2)) plane->name = field.bytes;
      if (key == Length(3)) {
        trace->lines.emplace_back().bytes = {field.offset, field.bytes.size()};
      }
      if (key == Length(4)) return AddEventMetadata(field, plane, &damage);
      if (key == Length(5)) return AddStatMetadata(field, plane, &damage);
      return key != Length(6) || DecodeStat(field, 2, &plane->stats.emplace_back(), &damage);
    };
    if (ReadMessage(bytes, plane->bytes.offset, 1, &damage, add)) return absl::OkStatus();
    return DamageError(
        damage.why,
        {.file = trace->files[file].path, .plane = plane->name, .byte_offset = damage.byte_offset});
  }

  std::vector<absl::Status> IndexLines(int threads, Trace* trace) const override {
    return IndexWireLines([&](uint32_t plane) { return FileBytes(trace->planes[plane].file); },
                          {.threads = threads}, trace);
  }

  std::unique_ptr<LineDecoder> Decode(const Trace& trace, uint32_t line,
                                      const LinePart& part) const override {
    return MakeWireLineDecoder(trace, line, part);
  }
};

}  // namespace

std::unique_ptr<EventSource> MakeWireReader() { return std::make_unique<WireReader>(); }

}  // namespace xplane_time
