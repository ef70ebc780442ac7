// Writes an XSpace (proto/xplane.proto) whose planes, lines and names are complete only at the end.
//
//   PlaneWriter plane("/device:GPU:0", &spill);
//   LineWriter* line = plane.AddLine();
//   WireWriter event, no_stats;
//   event.AddVarint(1, plane.AddEventMetadata("gemm", no_stats));
//   AddIntegerStat(4, plane.StatId("stream"), 7, &event);
//   line->Add(event.bytes());
//
// Events are buffered in memory by line. If there are many, they go to a scratch file.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "read/wire_writer.h"
#include "scratch_log.h"
#include "status.h"

namespace xplane_time::kineto {

// Add a stat of an event or a plane as field `field`.
void AddIntegerStat(uint32_t field, uint64_t id, int64_t value, WireWriter* out);
void AddUnsignedStat(uint32_t field, uint64_t id, uint64_t value, WireWriter* out);
void AddDoubleStat(uint32_t field, uint64_t id, double value, WireWriter* out);
void AddTextStat(uint32_t field, uint64_t id, std::string_view text, WireWriter* out);

// Beyond this size, buffered events and the output go to files.
inline constexpr size_t kInMemory = size_t{4} << 20;

// The buffer of the events of all lines.
class Spill;

class LineWriter {
 public:
  LineWriter(int64_t id, Spill* spill) : id_(id), spill_(spill) {}

  // Adds an encoded XEvent.
  void Add(std::string_view event);
  void SetName(std::string_view name) { name_ = name; }
  // The producer's number of the line, if it has one.
  void SetNumber(int64_t number) { number_ = number; }

 private:
  friend class Spill;
  friend class SpaceWriter;
  struct Piece {
    uint64_t offset, size;
  };
  uint64_t bytes() const { return spilled_bytes_ + waiting_.bytes().size(); }

  const int64_t id_;
  Spill* const spill_;
  std::string name_;
  int64_t number_ = 0;
  WireWriter waiting_;
  std::vector<Piece> spilled_;
  uint64_t spilled_bytes_ = 0;
};

class Spill {
 public:
  // Moves the buffered events of a line to the spill if there are many.
  void Take(LineWriter* line) {
    if (line->waiting_.bytes().size() >= most_waiting_) Write(line);
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
  size_t most_waiting_ = kMostOfLine;  // buffered bytes per line
  ScratchLog bytes_{kInMemory};
};

class PlaneWriter {
 public:
  PlaneWriter(std::string name, Spill* spill) : name_(std::move(name)), spill_(spill) {}

  void SetName(std::string name) { name_ = std::move(name); }
  LineWriter* AddLine();
  // Adds an entry to the event metadata and returns its id. `stats`: encoded as fields
  // kMetadataStats.
  uint64_t AddEventMetadata(std::string_view name, const WireWriter& stats);
  static constexpr uint32_t kMetadataStats = 5;
  uint64_t StatId(std::string_view name);
  bool HasStat(std::string_view name) const { return stat_ids_.contains(Absl(name)); }
  // Stats of the plane itself, as fields kStats.
  WireWriter& stats() { return stats_; }
  static constexpr uint32_t kStats = 6;

 private:
  friend class SpaceWriter;
  std::string name_;
  Spill* const spill_;
  std::vector<LineWriter*> lines_;
  WireWriter metadata_, stats_;
  uint64_t event_ids_ = 0;
  absl::flat_hash_map<std::string, uint64_t> stat_ids_;
};

// A whole XSpace, in memory or in a scratch file. No owner: it cannot be read.
using Space = ScratchLog::View;

struct SpaceParts {
  // The planes of a host, and its name.
  struct Host {
    std::string name = {};  // empty: unnamed
    std::vector<PlaneWriter*> planes = {};
  };
  int64_t timestamp_ns = 0;  // start of all lines
  std::vector<Host> hosts = {};
  std::vector<std::string> errors = {}, warnings = {};
};

// Writes the planes after all their events were added; call it once. Several hosts become
// consecutive spaces, so that the name of each host belongs to its planes.
Space WriteSpace(const SpaceParts& parts, Spill* spill);

}  // namespace xplane_time::kineto
