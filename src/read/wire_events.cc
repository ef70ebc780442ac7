// Events on the wire: the decoder of lines, and raw events of the file.
//
// WireLineDecoder alternates between two paths until the batch is full:
//
//   FillFast      FastEvent decodes events in the usual encoding (known fields in their usual
//                 order) by unchecked wide loads, up to kSlack bytes before the end of the file
//   CarefulField  decodes one field with bounds checks (WireCursor); it accepts any valid
//                 encoding and reports damage with its place
//
// The fast path gives up at the first unusual byte without side effects on the batch (ClearRow),
// and the careful path continues at the same event. With a choice of events (EventChoice), PassOver
// skips events that are not chosen by reading only their id, times and stat ids. FillFast has two
// variants: with BMI2 (PEXT), and with shifts. Both prefetch kPrefetchBytes ahead.
#include <algorithm>
#include <bit>
#include <type_traits>

#include "read/file_events.h"
#include "read/internals.h"
#include "read/wide_varint.h"
#include "status.h"

namespace xplane_time {
namespace {

// The careful path. `on_stat` receives the message of each stat. Returns false on damage, and if
// `on_stat` returns false.
template <typename OnStat>
bool DecodeEvent(const WireField& message, RawEvent* event, Damage* damage, OnStat on_stat) {
  return ReadMessage(message, 3, damage, [&](const WireField& field) {
    const uint32_t key = field.key();
    if (key == Varint(1)) event->metadata_id = field.whole();
    if (key == Varint(2) || key == Varint(5)) {  // a oneof: the last one counts
      event->aggregated = key == Varint(5);
      event->data = field.whole();
    }
    if (key == Varint(3)) event->duration_ps = field.whole();
    return key != Length(4) || on_stat(field);
  });
}

// Type of a stat with a varint value, by tag; kAbsent for other tags.
constexpr std::array<StatType, 256> kNumberTypes = [] {
  std::array<StatType, 256> types = {};
  for (const uint32_t number : {3u, 4u, 7u}) types[Varint(number)] = kStatTypes[Varint(number)];
  return types;
}();

inline StatType NumberType(char tag) { return kNumberTypes[static_cast<uint8_t>(tag)]; }

// The three choices of events (EventChoice), as tags for overloads.
struct All {};
struct ById {};
struct ByTime {};

// The fast path: known fields in their usual encoding. Functions return false at anything unusual;
// some stats of the row may then be set. They read up to kSlack bytes past `end`, enough for three
// numbers.
template <typename How>
struct FastEvent {
  static constexpr size_t kSlack = 48;

  // Reads the value of any stat. `p` is at its tag, and `end` at its end.
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

  // Finds the stat of any length that starts at `p`: its id, and the begin and end of its value.
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

  __attribute__((always_inline)) static inline bool StatAt(const char* p, const char* end,
                                                           StatPlace* place) {
    uint64_t word;
    std::memcpy(&word, p, sizeof word);
    // Usual: a stat tag, a size of one byte, and an id of one byte.
    if ((word & 0x80ff80ff) != 0x00080022) {
      StatPlace found;  // a separate object, so that *place can stay in registers
      if (!FindStat(p, end, &found)) return false;
      *place = found;
      return true;
    }
    const uint64_t size = (word >> 8) & 0x7f;
    *place = {(word >> 24) & 0x7f, p + 4, p + 2 + size};
    return size >= 2 && place->end <= end;
  }

  // Reads the stats up to `end`. Stats that were not requested are skipped by length.
  __attribute__((always_inline)) static inline bool ReadStats(const char* p, const char* end,
                                                              BatchLoop* loop) {
    while (p < end) {
      StatPlace place;
      if (!StatAt(p, end, &place)) return false;
      const uint32_t column = loop->ColumnOf(place.id);
      const StatType type = NumberType(*place.value);
      uint64_t bits;
      if (column < BatchBuilder::kNameless && type != StatType::kAbsent &&
          ReadVarintOf<How>(static_cast<uint64_t>(place.end - place.value - 1), place.value + 1,
                            &bits)) {
        loop->SetNumber(column, type, bits);
      } else if (column != BatchBuilder::kNoColumn &&
                 !ReadOddStat(place.value, place.end, column, loop)) {
        return false;
      }
      p = place.end;
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

  // Whether the event can be skipped because it is not chosen. Also false if only decoding can show
  // whether the event is unusual.
  __attribute__((always_inline)) static inline bool Skips(ById, const char* p, const char* end,
                                                          PassLoop* loop) {
    uint64_t id;
    int64_t offset_ps = 0, duration_ps = 0;
    if (*p++ != 0x08 || !ReadShortVarint<How>(&p, &id) || loop->ChoosesById(id)) return false;
    if (!ReadNumber(0x10, &p, &offset_ps) || !ReadNumber(0x18, &p, &duration_ps)) return false;
    while (p < end) {
      StatPlace place;
      if (!StatAt(p, end, &place) || loop->ChoosesByStat(place.id)) return false;
      p = place.end;
    }
    return p == end && loop->PassBy(offset_ps, duration_ps);
  }
  __attribute__((always_inline)) static inline bool Skips(ByTime, const char* p, const char* end,
                                                          PassLoop* loop) {
    uint64_t id;
    int64_t offset_ps = 0, duration_ps = 0;
    if (*p++ != 0x08 || !ReadShortVarint<How>(&p, &id)) return false;
    if (!ReadNumber(0x10, &p, &offset_ps) || !ReadNumber(0x18, &p, &duration_ps)) return false;
    // Only stats may follow: a time after them would replace these times.
    return p <= end && !loop->ChoosesByTime(offset_ps, duration_ps) && SkipStats(p, end);
  }

  // Skips and counts events that are not chosen. Stops at an event that is chosen or unusual.
  template <typename Choice>
  __attribute__((always_inline)) static inline const char* PassOver(const char* at,
                                                                    const char* safe_end,
                                                                    BatchBuilder* builder,
                                                                    uint64_t* index) {
    PassLoop loop(builder);
    uint64_t passed = 0;
    for (; at < safe_end && *at == kEventsTag; ++passed) {
      __builtin_prefetch(at + kPrefetchBytes);
      const char* p = at + 1;
      uint64_t size;
      if (!ReadShortVarint<How>(&p, &size) || p > safe_end) break;
      if (size > static_cast<uint64_t>(safe_end - p) || !Skips(Choice(), p, p + size, &loop)) break;
      at = p + size;
    }
    loop.Finish();
    *index += passed;
    return at;
  }

  // Reads an optional number.
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
    // Fields in the order in which they are written. A field out of order ends the fast path, and
    // so does a number beyond the end of the event.
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

class WireLineDecoder final : public LineDecoder {
 public:
  WireLineDecoder(const Trace& trace, uint32_t line, const LinePart& part, VarintWay way)
      : way_(way),
        trace_(trace),
        line_(trace.lines[line]),
        file_(trace.source->FileOf(trace, line_)),
        at_(file_.data() + part.bytes.offset),
        end_(at_ + part.bytes.size),
        event_index_(part.first_event) {}

  absl::Status Fill(BatchBuilder* builder) override {
    while (at_ != end_ && !builder->full()) {
      FillFast(builder);
      if (at_ == end_ || builder->full()) break;
      RETURN_IF_ERROR(CarefulField(builder));
    }
    return absl::OkStatus();
  }

 private:
  // Adds events up to the first one that needs the careful path.
  void FillFast(BatchBuilder* builder) {
#if defined(__x86_64__)
    if (way_ == VarintWay::kBest && __builtin_cpu_supports("bmi2")) return FillByPext(builder);
#endif
    FillWith<GatherByShifts>(builder);
  }
#if defined(__x86_64__)
  XPLANE_TIME_TARGET_BMI2 void FillByPext(BatchBuilder* builder) {
    FillWith<GatherByPext>(builder);
  }
#endif

  template <typename How>
  __attribute__((always_inline)) inline void FillWith(BatchBuilder* builder) {
    if (!builder->choice().within.empty()) return FillWith<How, ByTime>(builder);
    if (!builder->choice().metadata.empty()) return FillWith<How, ById>(builder);
    FillWith<How, All>(builder);
  }
  template <typename How, typename Choice>
  __attribute__((always_inline)) inline void FillWith(BatchBuilder* builder) {
    if (file_.size() <= FastEvent<How>::kSlack) return;
    // Local copies: the compiler must assume that stores could change the members.
    const char* const safe_end =
        std::min(end_, file_.data() + file_.size() - FastEvent<How>::kSlack);
    const char* at = at_;
    uint64_t index = event_index_;
    const bool wants_stats = builder->wants_stats();
    BatchLoop loop(builder);
    while (!loop.full()) {
      if constexpr (!std::is_same_v<Choice, All>) {
        at = How::Apart([&]() __attribute__((always_inline)) {
          return FastEvent<How>::template PassOver<Choice>(at, safe_end, builder, &index);
        });
      }
      if (at >= safe_end || *at != kEventsTag) break;
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

  absl::Status CarefulField(BatchBuilder* builder) {
    const auto offset = static_cast<uint64_t>(at_ - file_.data());
    WireCursor cursor(std::string_view(at_, static_cast<size_t>(end_ - at_)), offset, 2);
    WireField field;
    RawEvent event;
    Damage damage;
    bool ok = cursor.ReadField(&field) || damage.From(cursor);
    if (ok && field.key() == Length(kEventsField)) {
      ok = DecodeEvent(field, &event, &damage, [&](const WireField& message) {
        if (!builder->wants_stats()) return true;
        Stat stat;
        if (!DecodeStat(message, 4, &stat, &damage)) return false;
        const uint32_t column = builder->ColumnOf(stat.metadata_id);
        if (column != BatchBuilder::kNoColumn) builder->SetStat(column, stat.value);
        return true;
      });
      if (ok) builder->Add(event_index_++, event);
    }
    at_ = file_.data() + cursor.offset();
    return ok ? absl::OkStatus() : LineDamage(trace_, line_, damage, event_index_);
  }

  const VarintWay way_;
  const Trace& trace_;
  const Line& line_;
  const std::string_view file_;
  const char* at_;
  const char* const end_;
  uint64_t event_index_;
};

}  // namespace

std::unique_ptr<LineDecoder> MakeWireLineDecoder(const Trace& trace, uint32_t line,
                                                 const LinePart& part, VarintWay way) {
  return std::make_unique<WireLineDecoder>(trace, line, part, way);
}

absl::Status VisitFileEvents(const Trace& trace, uint32_t line,
                             absl::FunctionRef<bool(const FileEvent&)> visit) {
  const Line& at = trace.lines[line];
  const std::string_view file = trace.source->FileOf(trace, at);
  std::vector<Stat> stats;
  Damage damage;
  uint64_t index = 0;
  ReadMessage(file.substr(at.bytes.offset, at.bytes.size), at.bytes.offset, 2, &damage,
              [&](const WireField& field) {
                if (field.key() != Length(kEventsField)) return true;
                RawEvent event;
                stats.clear();
                const auto keep = [&](const WireField& stat) {
                  return DecodeStat(stat, 4, &stats.emplace_back(), &damage);
                };
                if (!DecodeEvent(field, &event, &damage, keep)) return false;
                ++index;
                return visit({event.metadata_id, event.aggregated ? 0 : event.data,
                              event.duration_ps, stats});
              });
  if (damage.why == nullptr) return absl::OkStatus();
  return LineDamage(trace, at, damage, index);
}

}  // namespace xplane_time
