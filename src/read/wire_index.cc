#include "read/wire_index.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>
#include <vector>

#include "parallel.h"
#include "read/event_source.h"
#include "read/source.h"
#include "read/wide_varint.h"
#include "read/wire.h"
#include "status.h"

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
  WireField event;
  if (!line.ReadField(&event) || event.key() != Length(kEventsField)) return false;
  WireCursor fields(event.bytes, 0);
  WireField id, offset;
  return fields.ReadField(&id) && id.key() == Varint(1) &&
         fields.ReadTag(&offset.number, &offset.type) && offset.key() == Varint(2);
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

  // From the header's end to the line's, over pieces where they fit.
  absl::Status Finish(std::span<const Piece> pieces) {
    while (place_.at != place_.end) {
      while (!pieces.empty() && pieces[0].begin < place_.at) pieces = pieces.subspan(1);
      if (!pieces.empty() && pieces[0].begin == place_.at && pieces[0].reached.events > 0) {
        place_.at = pieces[0].reached.at;
        place_.events += pieces[0].reached.events;
      } else if (!Hop(&place_)) {
        RETURN_IF_ERROR(ReadField());
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
    WireField field;
    Damage damage;
    const bool ok = cursor.ReadField(&field) || damage.From(cursor);
    place_.at = file_.data() + cursor.offset();
    if (!ok) return LineDamage(trace_, *line_, damage);
    switch (field.key()) {
      case Varint(1):
        line_->id = field.whole();
        break;
      case Length(2):
        line_->name = field.bytes;
        break;
      case Varint(3):
        line_->timestamp_ns = field.whole();
        break;
      case Length(kEventsField):
        ++place_.events;
        break;
      case Varint(10):
        line_->display_id = field.whole();
        break;
      case Length(11):
        line_->display_name = field.bytes;
        break;
      default:
        break;
    }
    return absl::OkStatus();
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

namespace {

// The careful way. False at damage.
bool DecodeEvent(const WireField& message, RawEvent* event, BatchBuilder* builder, Damage* damage) {
  return ReadMessage(message, 3, damage, [&](const WireField& field) {
    switch (field.key()) {
      case Varint(1):
        event->metadata_id = field.whole();
        return true;
      case Varint(2):
      case Varint(5):  // a oneof: the last one counts
        event->aggregated = field.number == 5;
        event->data = field.whole();
        return true;
      case Varint(3):
        event->duration_ps = field.whole();
        return true;
      case Length(4): {
        if (!builder->wants_stats()) return true;
        Stat stat;
        if (!DecodeStat(field, 4, &stat, damage)) return false;
        const uint32_t column = builder->ColumnOf(stat.metadata_id);
        if (column != BatchBuilder::kNoColumn) builder->SetStat(column, stat.value);
        return true;
      }
      default:
        return true;
    }
  });
}

// By tag: what a stat is whose value is a varint; else kAbsent.
constexpr std::array<StatType, 256> kNumberTypes = [] {
  std::array<StatType, 256> types = {};
  for (const uint32_t number : {3, 4, 7}) types[Varint(number)] = kStatTypes[Varint(number)];
  return types;
}();

inline StatType NumberType(char tag) { return kNumberTypes[static_cast<uint8_t>(tag)]; }

// The fast way: known fields in their usual encoding. False where something is unusual;
// stats may then have been set. Reads up to kSlack bytes past `end`: three numbers.
template <typename How>
struct FastEvent {
  static constexpr size_t kSlack = 48;

  // The value of any stat, from its tag up to `end`.
  [[gnu::noinline]] static bool ReadValue(const char* p, const char* end, StatValue* value) {
    if (p >= end) return false;
    const char tag = *p++;
    const StatType type = kStatTypes[static_cast<uint8_t>(tag)];
    if (NumberType(tag) != StatType::kAbsent) {
      value->type = NumberType(tag);
      return ReadWideVarint<How>(&p, &value->bits) && p == end;
    }
    if ((tag & 7) == static_cast<char>(WireType::kLength) && type != StatType::kAbsent) {
      uint64_t size;
      if (!ReadWideVarint<How>(&p, &size) || p > end) return false;
      value->type = type;
      value->text = std::string_view(p, static_cast<size_t>(end - p));
      return size == value->text.size();
    }
    if (tag != 0x11 || end - p != 8) return false;
    value->type = StatType::kDouble;
    std::memcpy(&value->bits, p, sizeof value->bits);
    return true;
  }

  __attribute__((always_inline)) static inline bool ReadOddStat(const char* value, const char* end,
                                                                uint32_t column, BatchLoop* loop) {
    StatValue read;
    if (!ReadValue(value, end, &read)) return false;
    loop->SetStat(column, read);
    return true;
  }

  // A stat that starts at `*p`, in any length; moves `*p` past it.
  struct StatPlace {
    uint64_t id;
    const char *value, *end;
  };
  [[gnu::noinline]] static bool FindStat(const char* p, const char* end, StatPlace* place) {
    uint64_t size;
    if (*p++ != 0x22 || !ReadWideVarint<How>(&p, &size) || p > end) return false;
    if (size < 2 || size > static_cast<uint64_t>(end - p)) return false;
    place->end = p + size;
    if (*p++ != 0x08 || !ReadWideVarint<How>(&p, &place->id)) return false;
    place->value = p;
    return p <= place->end;
  }

  // Stats up to `end`. Those that nobody asked for are skipped by length.
  __attribute__((always_inline)) static inline bool ReadStats(const char* p, const char* end,
                                                              BatchLoop* loop) {
    while (p < end) {
      uint64_t word;
      std::memcpy(&word, p, sizeof word);
      if ((word & 0x80ff80ff) != 0x00080022) {  // not: a stat, a byte of size, an id of a byte
        StatPlace place;
        if (!FindStat(p, end, &place)) return false;
        const uint32_t column = loop->ColumnOf(place.id);
        if (column != BatchBuilder::kNoColumn &&
            !ReadOddStat(place.value, place.end, column, loop)) {
          return false;
        }
        p = place.end;
        continue;
      }
      const uint64_t size = (word >> 8) & 0x7f;
      const char* value = p + 4;
      const char* stat_end = p + 2 + size;
      if (size < 2 || stat_end > end) return false;
      const uint32_t column = loop->ColumnOf((word >> 24) & 0x7f);
      const StatType type = NumberType(static_cast<char>(word >> 32));
      uint64_t bits;
      if (column < BatchBuilder::kNameless && type != StatType::kAbsent &&
          ReadVarintOf<How>(size - 3, value + 1, &bits)) {
        loop->SetNumber(column, type, bits);
      } else if (column != BatchBuilder::kNoColumn && !ReadOddStat(value, stat_end, column, loop)) {
        return false;
      }
      p = stat_end;
    }
    return true;
  }

  __attribute__((always_inline)) static inline bool SkipStats(const char* p, const char* end) {
    while (p < end) {
      uint64_t size;
      if (*p++ != 0x22 || !ReadWideVarint<How>(&p, &size) || p > end) return false;
      if (size > static_cast<uint64_t>(end - p)) return false;
      p += size;
    }
    return true;
  }

  // A number that is there or not.
  __attribute__((always_inline)) static inline bool ReadNumber(char tag, const char** p,
                                                               int64_t* number) {
    if (**p != tag) return true;
    ++*p;
    uint64_t bits;
    const bool one_byte = tag == 0x08;  // mostly
    if (!(one_byte ? ReadWideVarint<How>(p, &bits) : ReadLongVarint<How>(p, &bits))) return false;
    *number = static_cast<int64_t>(bits);
    return true;
  }

  __attribute__((always_inline)) static inline bool Read(uint64_t index, bool wants_stats,
                                                         const char* p, const char* end,
                                                         BatchLoop* loop) {
    // In the order in which they are written; a field out of order ends the fast way, and so
    // does a number that is the next event's.
    int64_t id = 0, offset_ps = 0, duration_ps = 0;
    if (!ReadNumber(0x08, &p, &id) || !ReadNumber(0x10, &p, &offset_ps) ||
        !ReadNumber(0x18, &p, &duration_ps) || p > end) {
      return false;
    }
    if (wants_stats ? !ReadStats(p, end, loop) : !SkipStats(p, end)) return false;
    loop->Add(index, id, offset_ps, duration_ps);
    return true;
  }
};

class WireLineDecoder : public LineDecoder {
 public:
  WireLineDecoder(std::string_view file, const Trace& trace, uint32_t line)
      : trace_(trace),
        line_(line),
        file_(file),
        at_(file.data() + trace.lines[line].bytes.offset),
        end_(at_ + trace.lines[line].bytes.size) {}

  absl::Status Fill(BatchBuilder* builder) override {
    while (at_ != end_ && !builder->full()) {
      FillFast(builder);
      if (at_ == end_ || builder->full()) break;
      RETURN_IF_ERROR(CarefulField(builder));
    }
    return absl::OkStatus();
  }

 protected:
  // Adds events up to the first that needs care.
  virtual void FillFast(BatchBuilder* builder) = 0;

  template <typename How>
  __attribute__((always_inline)) inline void FillWith(BatchBuilder* builder) {
    if (file_.size() <= FastEvent<How>::kSlack) return;
    // Copies: what is written could be these members, for all the compiler knows.
    const char* const safe_end =
        std::min(end_, file_.data() + file_.size() - FastEvent<How>::kSlack);
    const char* at = at_;
    uint64_t index = event_index_;
    const bool wants_stats = builder->wants_stats();
    BatchLoop loop(builder);
    while (at < safe_end && *at == kEventsTag && !loop.full()) {
      __builtin_prefetch(at + kPrefetchBytes);
      const char* p = at + 1;
      uint64_t size;
      if (!ReadWideVarint<How>(&p, &size) || p > safe_end) break;
      if (size > static_cast<uint64_t>(safe_end - p)) break;
      if (!FastEvent<How>::Read(index, wants_stats, p, p + size, &loop)) {
        loop.ClearRow();
        break;
      }
      ++index;
      at = p + size;
    }
    loop.Finish();
    at_ = at;
    event_index_ = index;
  }

 private:
  absl::Status CarefulField(BatchBuilder* builder) {
    const auto offset = static_cast<uint64_t>(at_ - file_.data());
    WireCursor cursor(std::string_view(at_, static_cast<size_t>(end_ - at_)), offset, 2);
    WireField field;
    RawEvent event;
    Damage damage;
    bool ok = cursor.ReadField(&field) || damage.From(cursor);
    if (ok && field.key() == Length(kEventsField)) {
      ok = DecodeEvent(field, &event, builder, &damage);
      if (ok) builder->Add(event_index_++, event);
    }
    at_ = file_.data() + cursor.offset();
    return ok ? absl::OkStatus() : LineDamage(trace_, trace_.lines[line_], damage, event_index_);
  }

  const Trace& trace_;
  const uint32_t line_;
  const std::string_view file_;
  const char* at_;
  const char* const end_;
  uint64_t event_index_ = 0;
};

class PortableLineDecoder final : public WireLineDecoder {
 public:
  using WireLineDecoder::WireLineDecoder;
  void FillFast(BatchBuilder* builder) override { FillWith<GatherByShifts>(builder); }
};

#if defined(__x86_64__)
class Bmi2LineDecoder final : public WireLineDecoder {
 public:
  using WireLineDecoder::WireLineDecoder;
  XPLANE_TIME_TARGET_BMI2 void FillFast(BatchBuilder* builder) override {
    FillWith<GatherByPext>(builder);
  }
};
#endif

}  // namespace

std::unique_ptr<LineDecoder> MakeWireLineDecoder(std::string_view file, const Trace& trace,
                                                 uint32_t line, VarintWay way) {
#if defined(__x86_64__)
  if (way == VarintWay::kBest && __builtin_cpu_supports("bmi2")) {
    return std::make_unique<Bmi2LineDecoder>(file, trace, line);
  }
#endif
  return std::make_unique<PortableLineDecoder>(file, trace, line);
}

}  // namespace xplane_time
