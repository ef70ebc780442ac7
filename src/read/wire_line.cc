#include "read/wire_line.h"

#include <algorithm>
#include <array>
#include <utility>

#include "read/wide_varint.h"
#include "read/wire_message.h"

namespace xplane_time {
namespace {

// The careful way. False at damage.
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

// By tag: what a stat is whose value is a varint; else kAbsent.
constexpr std::array<StatType, 256> kNumberTypes = [] {
  std::array<StatType, 256> types = {};
  types[0x18] = StatType::kUint64;
  types[0x20] = StatType::kInt64;
  types[0x38] = StatType::kRef;
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
    if (NumberType(tag) != StatType::kAbsent) {
      value->type = NumberType(tag);
      return ReadWideVarint<How>(&p, &value->bits) && p == end;
    }
    if (tag == 0x2a || tag == 0x32 || tag == 0x42) {
      uint64_t size;
      if (!ReadWideVarint<How>(&p, &size) || p > end) return false;
      value->type = tag == 0x2a   ? StatType::kString
                    : tag == 0x32 ? StatType::kBytes
                                  : StatType::kCompressedString;
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
      if (absl::Status status = CarefulField(builder); !status.ok()) return status;
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
    uint32_t field;
    WireType type;
    Damage damage;
    bool ok = cursor.ReadTag(&field, &type);
    if (ok && field == kEventsField && type == WireType::kLength) {
      std::string_view value;
      uint64_t value_at = 0;
      RawEvent event;
      ok = cursor.ReadBytes(&value, &value_at) &&
           DecodeEvent(value, value_at, &event, builder, &damage);
      if (ok) builder->Add(event_index_++, event);
    } else if (ok) {
      ok = cursor.Skip(field, type);
    }
    at_ = file_.data() + cursor.offset();
    if (ok) return absl::OkStatus();
    if (damage.why == nullptr) damage.From(cursor);
    const Plane& plane = trace_.planes[trace_.lines[line_].plane];
    return DamageError(damage.why, {.file = trace_.files[plane.file].path,
                                    .plane = plane.name,
                                    .line = trace_.lines[line_].name,
                                    .event = event_index_,
                                    .byte_offset = damage.byte_offset});
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
