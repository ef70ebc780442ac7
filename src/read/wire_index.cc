#include "read/wire_index.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <vector>

#include "parallel.h"
#include "read/event_source.h"
#include "read/source.h"
#include "read/wire.h"
#include "read/wire_line.h"

namespace xplane_time {
namespace {

// A place in a line, and the events counted up to there.
struct HopPlace {
  const char* at;
  const char* end;
  uint64_t events;
};

// Moves past an event in the usual encoding; false where there is something else.
__attribute__((always_inline)) inline bool Hop(HopPlace* place) {
  const char* p = place->at;
  __builtin_prefetch(p + kPrefetchBytes);
  if (place->end - p <= 3 || *p != kEventsTag) return false;
  // Lengths of one and of two bytes mix: no branch could be foreseen.
  const size_t low = static_cast<uint8_t>(p[1]), high = static_cast<uint8_t>(p[2]);
  const size_t two = low >> 7;
  const size_t size = 2 + two + (low & 0x7f) + ((high & (0 - two)) << 7);
  if ((two & (high >> 7)) != 0 || size > static_cast<size_t>(place->end - p)) return false;
  place->at = p + size;
  ++place->events;
  return true;
}

constexpr size_t kPiecesAtOnce = 4;

// Hops through all places in step until one has no usual event; its number.
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

// A part of a line's events, and how far hopping came in it.
struct Piece {
  const char* begin;
  HopPlace reached;
};

// Takes pieces from `next` on until there are none.
void HopThroughPieces(std::span<Piece> pieces, std::atomic<size_t>* next) {
  std::array<HopPlace, kPiecesAtOnce> places = {};
  std::array<Piece*, kPiecesAtOnce> open = {};
  size_t open_count = 0;
  const auto take = [&](size_t i) {
    const size_t index = (*next)++;
    open[i] = index < pieces.size() ? &pieces[index] : nullptr;
    places[i] = open[i] != nullptr ? open[i]->reached : HopPlace{};
    if (open[i] == nullptr) return;
    ++open_count;
    MapPagesOf({places[i].at, static_cast<size_t>(places[i].end - places[i].at)});
  };
  for (size_t i = 0; i < kPiecesAtOnce; ++i) take(i);
  while (open_count > 0) {
    // With fewer pieces than places one after the other.
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

// Whether this looks like an event: its metadata id and then its offset. (A stat begins
// with an id, too.)
bool LooksLikeEvent(const char* at, const char* end) {
  WireCursor line(std::string_view(at, static_cast<size_t>(end - at)), 0);
  uint32_t field;
  WireType type;
  std::string_view event;
  if (!line.ReadTag(&field, &type) || field != kEventsField || type != WireType::kLength ||
      !line.ReadBytes(&event)) {
    return false;
  }
  WireCursor fields(event, 0);
  uint64_t id;
  return fields.ReadTag(&field, &type) && field == 1 && type == WireType::kVarint &&
         fields.ReadVarint(&id) && fields.ReadTag(&field, &type) && field == 2 &&
         type == WireType::kVarint;
}

// The first place from `from` on that looks like the beginning of some events, at most a
// few pages on; else null.
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
               file.data() + line->bytes.offset + line->bytes.size, 0} {}

  // Reads the header, and cuts what follows into pieces.
  absl::Status Begin(size_t piece_bytes, std::vector<Piece>* pieces) {
    while (place_.at != place_.end && *place_.at != kEventsTag) {
      if (absl::Status status = ReadField(); !status.ok()) return status;
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

  // From the header's end to the line's, over pieces where they fit.
  absl::Status Finish(std::span<const Piece> pieces) {
    while (place_.at != place_.end) {
      while (!pieces.empty() && pieces[0].begin < place_.at) pieces = pieces.subspan(1);
      if (!pieces.empty() && pieces[0].begin == place_.at && pieces[0].reached.events > 0) {
        place_.at = pieces[0].reached.at;
        place_.events += pieces[0].reached.events;
      } else if (!Hop(&place_)) {
        if (absl::Status status = ReadField(); !status.ok()) return status;
      }
    }
    line_->event_count = place_.events;
    return absl::OkStatus();
  }

 private:
  // Any field, of the line's header mostly.
  absl::Status ReadField() {
    const auto offset = static_cast<uint64_t>(place_.at - file_.data());
    WireCursor cursor(std::string_view(place_.at, static_cast<size_t>(place_.end - place_.at)),
                      offset, 2);
    uint32_t field;
    WireType type;
    bool ok = cursor.ReadTag(&field, &type);
    if (ok && type == WireType::kLength && field == 2) {
      ok = cursor.ReadBytes(&line_->name);
    } else if (ok && type == WireType::kLength && field == 11) {
      ok = cursor.ReadBytes(&line_->display_name);
    } else if (ok && type == WireType::kVarint && field == 1) {
      ok = cursor.ReadInt64(&line_->id);
    } else if (ok && type == WireType::kVarint && field == 3) {
      ok = cursor.ReadInt64(&line_->timestamp_ns);
    } else if (ok && type == WireType::kVarint && field == 10) {
      ok = cursor.ReadInt64(&line_->display_id);
    } else if (ok) {
      place_.events += field == kEventsField && type == WireType::kLength ? 1 : 0;
      ok = cursor.Skip(field, type);
    }
    place_.at = file_.data() + cursor.offset();
    if (ok) return absl::OkStatus();
    const Plane& plane = trace_.planes[line_->plane];
    return DamageError(cursor.error(), {.file = trace_.files[plane.file].path,
                                        .plane = plane.name,
                                        .line = line_->name,
                                        .byte_offset = cursor.offset()});
  }

  const Trace& trace_;
  const std::string_view file_;
  Line* const line_;
  HopPlace place_;
};

}  // namespace

void IndexWireLines(const WireFiles& files, const Trace& trace, const IndexOptions& options,
                    std::span<Line> lines, std::span<absl::Status> status) {
  std::vector<LineIndexer> indexers;
  std::vector<Piece> pieces;
  std::vector<size_t> first_piece;  // a line
  for (size_t i = 0; i < lines.size(); ++i) {
    indexers.emplace_back(trace, files(lines[i].plane), &lines[i]);
    first_piece.push_back(pieces.size());
    status[i] = indexers[i].Begin(options.piece_bytes, &pieces);
  }
  first_piece.push_back(pieces.size());
  std::atomic<size_t> next{0};
  const size_t threads = std::min(pieces.size() / kPiecesAtOnce + 1,
                                  static_cast<size_t>(std::max(1, options.threads)));
  ParallelFor(threads, options.threads,
              [&](size_t /*thread*/) { HopThroughPieces(pieces, &next); });
  for (size_t i = 0; i < lines.size(); ++i) {
    if (!status[i].ok()) continue;
    const size_t first = first_piece[i];
    status[i] = indexers[i].Finish(std::span(pieces).subspan(first, first_piece[i + 1] - first));
  }
}

}  // namespace xplane_time
