// What the readers of traces are made of, from a file's bytes to columns of events.
//
//   Source        the bytes of one input, mapped
//   SpaceScan     the outermost level: where planes are
//   EventSource   what stands behind a Trace: a reader fills the index of planes and lines when
//                 a trace is opened, and decodes events later, line by line
//   BatchBuilder  raw events, one by one, become EventBatches
//
// Two readers: wire_index.cc (our own) and reference_reader.cc (the generated parser). Both feed a
// BatchBuilder, so that normalizing, skipping and counting of damaged events happen in one place.
#pragma once

#include <array>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "read/wire.h"
#include "xplane_time/normalize.h"
#include "xplane_time/read.h"

namespace xplane_time {

// "FILE: WHAT (plane P, line L, event E, byte B)".
struct ErrorPlace {
  std::string_view file = {}, plane = {}, line = {};
  uint64_t event = Location::kNowhere, byte_offset = Location::kNowhere;
};
absl::Status DamageError(std::string_view what, const ErrorPlace& place);
absl::Status LineDamage(const Trace& trace, const Line& line, const Damage& damage,
                        uint64_t event = Location::kNowhere);

// The bytes of one input. Regular files are mapped as they are; pipes and gzip streams go through
// an unlinked temporary file, size-capped, because names follow the events that use them and one
// forward pass cannot resolve them.
struct Source {
  std::string_view bytes;
  std::shared_ptr<void> mapping = {};  // what `bytes` are in; null: the caller's memory
  // Of a trace in JSON, from which `bytes` were made: its own size, and what is wrong with it.
  std::optional<uint64_t> json_bytes = {};
  Diagnostics diagnostics = {};
};

// Opens a file, or standard input for "-", and inflates gzip. Errors: NotFound, PermissionDenied,
// DataLoss (bad gzip), ResourceExhausted (a gzip bomb, no space for the spool), Unavailable (I/O).
absl::StatusOr<Source> OpenSource(const std::string& path, const ReadOptions& options);
// ".xplane.pb.gz" of the name of a trace; empty: of none.
std::string TraceSuffix(const std::string& name);
// `bytes` (plain or gzip) must outlive it.
absl::StatusOr<Source> SourceInMemory(std::string_view bytes, const std::string& name,
                                      const ReadOptions& options);

// The outermost level of a trace file: where its planes are, and what it says about itself.
//
// Files appended to each other are one valid XSpace. A writer puts planes before errors, warnings
// and hostnames, so a plane after one of those begins the next file; that tells which hostname goes
// with which planes.
struct SpaceScan {
  struct PlaneMessage {
    ByteRange bytes;
    std::string_view host = {};  // "" where several are possible
  };
  std::vector<PlaneMessage> planes;
  std::vector<std::string_view> hostnames, errors, warnings;
};

// Looks at a trace as it comes, for whoever must not wait for its end: an endless stream that
// is no trace shows at once. A field's header may be cut between two pieces.
class SpaceGuard {
 public:
  // No field is longer than `most_bytes`.
  SpaceGuard(std::string name, uint64_t most_bytes)
      : name_(std::move(name)), most_bytes_(most_bytes) {}
  // The next bytes. Errors: as ScanSpace.
  absl::Status Add(std::string_view bytes);

 private:
  static constexpr size_t kHeadBytes = size_t{1} << 16;
  static constexpr uint64_t kMostUnknownBytes = uint64_t{1} << 20;
  absl::Status PassField(std::string_view bytes);

  const std::string name_;
  const uint64_t most_bytes_;
  std::string head_;            // for telling what it is instead
  std::string rest_;            // what is not passed yet: a header's first bytes
  uint64_t begin_ = 0;          // where it begins
  uint64_t next_ = 0;           // where the next field begins
  uint64_t unknown_bytes_ = 0;  // of fields that later writers may have added
};

// Errors: DataLoss with the byte offset; what the content looks like, where it is no
// trace at all.
absl::StatusOr<SpaceScan> ScanSpace(std::string_view bytes, const std::string& path);

// An XEvent as it is in the file, without its stats.
struct RawEvent {
  int64_t metadata_id = 0;
  bool aggregated = false;  // `data` is num_occurrences, else offset_ps
  int64_t data = 0;
  int64_t duration_ps = 0;
};

class BatchBuilder {
 public:
  BatchBuilder(const Trace& trace, std::span<const std::string_view> stat_names,
               Diagnostics* diagnostics);

  // Of the events that follow. Keeps what lines of one plane share.
  void StartLine(uint32_t line, const EventChoice& choice = {});

  // Those that are not are left to the decoder.
  const EventChoice& choice() const { return choice_; }
  bool wants_stats() const { return !stat_names_.empty(); }
  // The column of a stat, or kNoColumn. A stat name may have several ids. Where all stats
  // of the plane are asked for, those without a name have the column kNameless, so that
  // each is decoded.
  static constexpr uint32_t kNoColumn = ~uint32_t{0}, kNameless = kNoColumn - 1;
  uint32_t ColumnOf(int64_t stat_metadata_id) const;
  // A stat of the event that Add() will add next; of equal ones the first counts.
  void SetStat(uint32_t column, const StatValue& value);
  // Forgets the stats set since the last Add().
  void ClearRow() { ClearCells(size_, size_ + 1); }

  bool full() const { return size_ == EventBatch::kBatchSize; }
  // Adds the event with index `event` of the line; not when full(). A damaged one is
  // skipped and noted.
  void Add(uint64_t event, const RawEvent& raw);

  // What was added since the last batch; the one before becomes invalid.
  EventBatch Batch();
  // Of all events since StartLine(), with a choice by metadata those not chosen, too.
  Interval extent() const { return extent_; }
  void Clear();

  const StatValue& MetadataStat(size_t column, uint32_t metadata) const;
  bool InMetadata(size_t column) const;

 private:
  friend class BatchLoop;
  friend class PassLoop;
  static constexpr size_t kSmallIds = 4096;
  static constexpr Interval kNoExtent = {std::numeric_limits<int64_t>::max(),
                                         std::numeric_limits<int64_t>::min()};

  // One array a column, in one place.
  struct Rows {
    std::array<uint64_t, EventBatch::kBatchSize> event;
    std::array<int64_t, EventBatch::kBatchSize> start_ps, duration_ps, occurrences, metadata_id;
    std::array<uint32_t, EventBatch::kBatchSize> metadata;
  };
  struct Cells {
    std::array<StatType, EventBatch::kBatchSize> type;
    std::array<uint64_t, EventBatch::kBatchSize> bits;
    std::array<std::string_view, EventBatch::kBatchSize> text;
  };

  // Below it offsets and durations are so small that no sum of them leaves the axis.
  uint64_t most_ps() const {
    constexpr uint64_t kSmallPs = uint64_t{1} << 60;
    const bool small =
        line_start_ps_.has_value() && static_cast<uint64_t>(std::abs(*line_start_ps_)) < kSmallPs;
    return small ? kSmallPs : 0;
  }
  void FindChosenIds();
  void ClearCells(size_t begin, size_t end);
  void FindColumns();
  void AddCells(uint32_t column);

  const Trace& trace_;
  std::span<const std::string_view> stat_names_;
  Diagnostics* diagnostics_;
  const Plane* plane_ = nullptr;
  uint32_t line_ = 0;
  EventChoice choice_;
  int64_t base_ns_ = 0;                   // of the line's file
  std::optional<int64_t> line_start_ps_;  // nothing: off the axis
  std::vector<uint8_t> chosen_ids_;       // by id, as far as ids are small: EventChoice::metadata
  size_t at_within_ = 0;                  // in EventChoice::within

  // Stat ids are small and dense in practice: a table, and a map for the others.
  uint32_t column_of_unknown_ = kNoColumn;
  std::vector<uint32_t> column_of_small_id_ = std::vector<uint32_t>(kSmallIds, kNoColumn);
  absl::flat_hash_map<int64_t, uint32_t> column_of_large_id_;
  // Stats of event metadata, resolved once an entry: a value a column.
  mutable absl::flat_hash_map<uint32_t, std::vector<StatValue>> metadata_rows_;
  mutable std::vector<uint8_t> in_metadata_;  // by column: some entry has the stat

  Interval extent_ = kNoExtent;
  size_t size_ = 0;
  std::unique_ptr<Rows> rows_;
  std::vector<std::unique_ptr<Cells>> cells_;  // by column; null: never set
  std::vector<StatColumn> columns_;
};

// Adds many events of the usual kind to a builder: a copy of what it needs, which as a
// local variable stays in registers. The builder rests until Finish().
class BatchLoop {
 public:
  explicit BatchLoop(BatchBuilder* builder)
      : builder_(builder),
        rows_(builder->rows_.get()),
        cells_(builder->cells_.data()),
        column_of_small_id_(builder->column_of_small_id_.data()),
        metadata_of_id_(builder->plane_->event_metadata.array()),
        row_(builder->size_),
        line_start_ps_(builder->line_start_ps_.value_or(0)),
        most_ps_(builder->most_ps()) {}
  void Finish() { builder_->size_ = row_; }

  bool full() const { return row_ == EventBatch::kBatchSize; }
  uint32_t ColumnOf(uint64_t id) const {
    if (id < BatchBuilder::kSmallIds) return column_of_small_id_[id];
    return builder_->ColumnOf(static_cast<int64_t>(id));
  }
  // Of a stat with a column, of equal ones the first.
  void SetNumber(uint32_t column, StatType type, uint64_t bits) {
    if (cells_[column] == nullptr) [[unlikely]] {
      builder_->AddCells(column);
    }
    BatchBuilder::Cells& cells = *cells_[column];
    if (cells.type[row_] != StatType::kAbsent) return;
    cells.type[row_] = type;
    cells.bits[row_] = bits;
  }
  void SetStat(uint32_t column, const StatValue& value) {
    Finish();
    builder_->SetStat(column, value);
  }
  void ClearRow() {
    Finish();
    builder_->ClearRow();
  }
  void Add(uint64_t event, int64_t id, int64_t offset_ps, int64_t duration_ps) {
    const auto at = static_cast<uint64_t>(id);
    const uint32_t metadata = at < metadata_of_id_.size() ? metadata_of_id_[at] : kNoMetadata;
    // With all three this small no sum of them leaves the axis.
    const bool small = static_cast<uint64_t>(offset_ps | duration_ps) < most_ps_;
    if (!small || metadata == kNoMetadata) [[unlikely]] {
      return AddUnusual(event, id, offset_ps, duration_ps);
    }
    rows_->event[row_] = event;
    rows_->start_ps[row_] = line_start_ps_ + offset_ps;
    rows_->duration_ps[row_] = duration_ps;
    rows_->occurrences[row_] = 1;
    rows_->metadata_id[row_] = id;
    rows_->metadata[row_] = metadata;
    ++row_;
  }

 private:
  void AddUnusual(uint64_t event, int64_t id, int64_t offset_ps, int64_t duration_ps) {
    Finish();
    builder_->Add(event, {.metadata_id = id, .data = offset_ps, .duration_ps = duration_ps});
    row_ = builder_->size_;
  }

  BatchBuilder* const builder_;
  BatchBuilder::Rows* const rows_;
  const std::unique_ptr<BatchBuilder::Cells>* const cells_;
  const uint32_t* const column_of_small_id_;
  const std::span<const uint32_t> metadata_of_id_;
  size_t row_;
  const int64_t line_start_ps_;
  const uint64_t most_ps_;
};

// Passes over events that are not chosen; a copy like BatchLoop's, and it rests as well.
class PassLoop {
 public:
  explicit PassLoop(BatchBuilder* builder)
      : builder_(builder),
        chosen_(builder->chosen_ids_.data()),
        chosen_size_(builder->chosen_ids_.size()),
        column_of_small_id_(builder->column_of_small_id_.data()),
        choosing_stats_(static_cast<uint32_t>(builder->choice_.stats)),
        most_ps_(builder->most_ps()),
        within_(builder->choice_.within),
        at_within_(builder->at_within_) {}
  void Finish() {
    builder_->at_within_ = at_within_;
    if (first_ps_ > last_ps_) return;
    const int64_t line_start_ps = builder_->line_start_ps_.value_or(0);
    Interval& extent = builder_->extent_;
    extent.start_ps = std::min(extent.start_ps, line_start_ps + first_ps_);
    extent.end_ps = std::max(extent.end_ps, line_start_ps + last_ps_);
  }

  // Of an event with this id, whatever stats it has.
  bool ChoosesById(uint64_t id) const { return id >= chosen_size_ || chosen_[id] != 0; }
  bool ChoosesByStat(uint64_t id) const {
    const uint32_t column = id < BatchBuilder::kSmallIds
                                ? column_of_small_id_[id]
                                : builder_->ColumnOf(static_cast<int64_t>(id));
    return column < choosing_stats_;
  }
  // Of any. Lines are mostly in order.
  bool ChoosesByTime(int64_t offset_ps, int64_t duration_ps) {
    if (static_cast<uint64_t>(offset_ps | duration_ps) >= most_ps_) return true;
    const int64_t start_ps = builder_->line_start_ps_.value_or(0) + offset_ps;
    const int64_t end_ps = start_ps + duration_ps;
    while (at_within_ < within_.size() && within_[at_within_].end_ps <= start_ps) ++at_within_;
    while (at_within_ > 0 && within_[at_within_ - 1].end_ps > start_ps) --at_within_;
    return at_within_ < within_.size() && within_[at_within_].start_ps < end_ps;
  }
  // Where nothing about the times of an event that is not chosen is unusual, the extent has them.
  bool PassBy(int64_t offset_ps, int64_t duration_ps) {
    if (static_cast<uint64_t>(offset_ps | duration_ps) >= most_ps_) return false;
    first_ps_ = std::min(first_ps_, offset_ps);
    last_ps_ = std::max(last_ps_, offset_ps + duration_ps);
    return true;
  }

 private:
  BatchBuilder* const builder_;
  const uint8_t* const chosen_;  // by id
  const size_t chosen_size_;
  const uint32_t* const column_of_small_id_;
  const uint32_t choosing_stats_;
  const uint64_t most_ps_;
  const std::span<const Interval> within_;
  size_t at_within_;
  // Of those passed by: offsets.
  int64_t first_ps_ = BatchBuilder::kNoExtent.start_ps, last_ps_ = BatchBuilder::kNoExtent.end_ps;
};

class PlaneIndex;

// Decodes the events of one line, some at a time.
class LineDecoder {
 public:
  virtual ~LineDecoder() = default;
  // Adds events until the builder is full or the line ends.
  virtual absl::Status Fill(BatchBuilder* builder) = 0;
};

class EventSource {
 public:
  virtual ~EventSource() = default;

  // Called once a file, before its planes are indexed.
  virtual absl::Status AddFile(Source source, const std::string& /*path*/) {
    sources_.push_back(std::move(source));
    return absl::OkStatus();
  }
  // Fills metadata, stats and lines (appended to trace->lines, `bytes` set) of the plane
  // whose message is at plane->bytes. `message` counts the XPlane messages of the file.
  virtual absl::Status IndexPlane(uint32_t file, size_t message, Plane* plane, Trace* trace) = 0;
  // Fills the rest of the trace's lines, after all planes. Leaves the status of each.
  virtual std::vector<absl::Status> IndexLines(int threads, Trace* trace) const = 0;
  // Of a part of it, or of the whole line.
  virtual std::unique_ptr<LineDecoder> Decode(const Trace& trace, uint32_t line,
                                              const LinePart& part) const = 0;

  std::string_view FileBytes(uint32_t file) const { return sources_[file].bytes; }
  std::string_view FileOf(const Trace& trace, const Line& line) const {
    return FileBytes(trace.planes[line.plane].file);
  }
  // Of the trace that this is the source of (plane_index.h).
  std::shared_ptr<const PlaneIndex> IndexPlanes(const Trace& trace) const;

 private:
  std::vector<Source> sources_;
  mutable std::mutex index_mutex_;
  mutable std::shared_ptr<const PlaneIndex> index_;
};

std::unique_ptr<EventSource> MakeWireReader();
std::unique_ptr<EventSource> MakeReferenceReader();

// The index of lines on the wire: their headers and numbers of events. Events are hopped
// over by length.
//
//   |header|event|event| ... |event|event| ... |event|trailer|
//   |        piece 0         |     piece 1     |   piece 2   |
//
// Where an event ends is known only when its length has arrived from memory. So long lines
// are cut into pieces, at places that look like the beginning of an event, and each thread
// hops through several pieces at once. A guess may be wrong: a piece counts only if the
// events before it end exactly where it begins; else the line is hopped through from there
// once more, one event after the other.

// The bytes of the file that a plane (by index) is from.
using WireFiles = absl::FunctionRef<std::string_view(uint32_t plane)>;

struct IndexOptions {
  int threads = 1;
  size_t piece_bytes = size_t{1} << 18;
};

// Fills the rest of the trace's lines, whose plane and bytes are set. Leaves the status of each.
// What is found depends neither on the threads nor on the pieces.
std::vector<absl::Status> IndexWireLines(const WireFiles& files, const IndexOptions& options,
                                         Trace* trace);

// The events of a line on the wire.
//
// Events are decoded the fast way (FastEvent): fields in the usual encoding, wide
// loads, no error texts. Whatever it does not know or finds damaged goes the careful
// way, field by field with WireCursor, from the event's beginning; that one decides.

// XLine.events
inline constexpr uint32_t kEventsField = 4;
inline constexpr char kEventsTag = 0x22;
// Far enough ahead for memory to answer in time.
inline constexpr size_t kPrefetchBytes = 2048;

enum class VarintWay : uint8_t { kBest, kPortable };

// `trace` outlives the decoder.
std::unique_ptr<LineDecoder> MakeWireLineDecoder(const Trace& trace, uint32_t line,
                                                 const LinePart& part,
                                                 VarintWay way = VarintWay::kBest);

}  // namespace xplane_time
