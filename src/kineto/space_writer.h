// Writes an XSpace (proto/xplane.proto) whose planes, lines and names are known only at its end.
//
//   PlaneWriter plane("/device:GPU:0", &spill);
//   LineWriter* line = plane.AddLine();
//   WireBytes event, no_stats;
//   event.Number(1, plane.AddEventMetadata("gemm", no_stats));
//   event.IntegerStat(4, plane.StatId("stream"), 7);
//   line->Add(event.bytes());
//
// Events wait in memory, line by line, and where they are many in a scratch file.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "scratch.h"
#include "status.h"

namespace xplane_time::kineto {

// One message of the wire format, front to back.
class WireBytes {
 public:
  void Clear() { size_ = 0; }
  std::string_view bytes() const { return {buffer_.data(), size_}; }

  void Number(uint32_t field, uint64_t value) {
    char* at = Room(2 * kMostVarint);
    at = PutVarint(at, field << 3);
    Took(PutVarint(at, value));
  }
  void Bytes(uint32_t field, std::string_view value) {
    Header(field, value.size());
    Append(value);
  }
  // Whole fields.
  void Append(std::string_view fields) {
    std::memcpy(Room(fields.size()), fields.data(), fields.size());
    size_ += fields.size();
  }
  // Of a field whose bytes are elsewhere.
  void Header(uint32_t field, uint64_t size) {
    char* at = Room(2 * kMostVarint);
    at = PutVarint(at, field << 3 | 2);
    Took(PutVarint(at, size));
  }
  // A stat of an event or a plane, as field `field` of it.
  void IntegerStat(uint32_t field, uint64_t id, int64_t value) {
    NumberStat(field, id, 4, static_cast<uint64_t>(value));
  }
  void UnsignedStat(uint32_t field, uint64_t id, uint64_t value) {
    NumberStat(field, id, 3, value);
  }
  void DoubleStat(uint32_t field, uint64_t id, double value);
  void TextStat(uint32_t field, uint64_t id, std::string_view text);

 private:
  static constexpr size_t kMostVarint = 10;

  char* Room(size_t size) {
    if (buffer_.size() - size_ < size) buffer_.resize(2 * (size_ + size));
    return buffer_.data() + size_;
  }
  void Took(const char* end) { size_ = static_cast<size_t>(end - buffer_.data()); }
  static char* PutVarint(char* at, uint64_t value) {
    for (; value >= 0x80; value >>= 7) *at++ = static_cast<char>(value | 0x80);
    *at++ = static_cast<char>(value);
    return at;
  }
  // Short enough for a length of one byte.
  void NumberStat(uint32_t field, uint64_t id, uint32_t value_field, uint64_t value) {
    char* at = Room(4 * kMostVarint);
    at = PutVarint(at, field << 3 | 2);
    char* const length = at++;
    *at++ = 1 << 3;
    at = PutVarint(at, id);
    *at++ = static_cast<char>(value_field << 3);
    at = PutVarint(at, value);
    *length = static_cast<char>(at - length - 1);
    Took(at);
  }

  std::vector<char> buffer_ = std::vector<char>(1024);
  size_t size_ = 0;
};

// Where the events of all lines wait.
class Spill;

class LineWriter {
 public:
  LineWriter(int64_t id, Spill* spill) : id_(id), spill_(spill) {}

  // An XEvent.
  void Add(std::string_view event);
  void SetName(std::string_view name) { name_ = name; }
  // What the producer calls the line, where that is a number.
  void SetNumber(int64_t number) { number_ = number; }

 private:
  friend class Spill;
  friend class SpaceWriter;
  struct Piece {
    uint64_t offset, size;
  };
  uint64_t bytes() const { return spilled_bytes_ + waiting_.size(); }

  const int64_t id_;
  Spill* const spill_;
  std::string name_;
  int64_t number_ = 0;
  std::string waiting_;
  std::vector<Piece> spilled_;
  uint64_t spilled_bytes_ = 0;
};

class Spill {
 public:
  // Takes the waiting events of a line, where they are many.
  void Take(LineWriter* line) {
    if (line->waiting_.size() >= most_waiting_) Write(line);
  }
  LineWriter* AddLine(int64_t id) {
    lines_.emplace_back(id, this);
    most_waiting_ = std::min(kMostOfLine, kMostOfAll / lines_.size());
    return &lines_.back();
  }

 private:
  friend class SpaceWriter;
  static constexpr size_t kMostOfLine = size_t{1} << 16, kMostOfAll = size_t{1} << 24;
  void Write(LineWriter* line);

  std::deque<LineWriter> lines_;
  size_t most_waiting_ = kMostOfLine;  // bytes, in each line
  ScratchBytes bytes_{kMostOfAll};
  uint64_t size_ = 0;
};

class PlaneWriter {
 public:
  PlaneWriter(std::string name, Spill* spill) : name_(std::move(name)), spill_(spill) {}

  void SetName(std::string name) { name_ = std::move(name); }
  LineWriter* AddLine();
  // A new entry of the event metadata. `stats`: as fields kMetadataStats.
  uint64_t AddEventMetadata(std::string_view name, const WireBytes& stats);
  static constexpr uint32_t kMetadataStats = 5;
  uint64_t StatId(std::string_view name);
  bool HasStat(std::string_view name) const { return stat_ids_.contains(Absl(name)); }
  // Stats of the plane itself: field kStats.
  WireBytes& stats() { return stats_; }
  static constexpr uint32_t kStats = 6;

 private:
  friend class SpaceWriter;
  std::string name_;
  Spill* const spill_;
  std::vector<LineWriter*> lines_;
  WireBytes metadata_, stats_;
  uint64_t event_ids_ = 0;
  absl::flat_hash_map<std::string, uint64_t> stat_ids_;
};

// A whole XSpace, in memory or in a scratch file.
struct Space {
  std::shared_ptr<ScratchBytes> bytes;
  size_t size = 0;
};

// All lines begin at `timestamp_ns`.
Space WriteSpace(const std::vector<PlaneWriter*>& planes, const Spill& spill, int64_t timestamp_ns,
                 std::string_view hostname);

}  // namespace xplane_time::kineto
