// Internal interfaces of the readers, from the bytes of a file to columns of events.
//
//   Source        the mapped bytes of one input
//   SpaceScan     the outermost level of a trace file: the positions of its planes
//   EventSource   the reader behind a Trace: it fills the index of planes and lines when
//                 a trace is opened, and decodes events later, line by line
//   BatchBuilder  collects raw events into EventBatches
//
// There are two readers: wire_index.cc (our own) and reference_reader.cc (the generated parser).
// Both feed a BatchBuilder, so that events are normalized, skipped and counted in one place.
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

// The place of an error: "FILE: WHAT (plane P, line L, event E, byte B)".
struct ErrorPlace {
  std::string_view file = {}, plane = {}, line = {};
  uint64_t event = Location::kNowhere, byte_offset = Location::kNowhere;
};
absl::Status DamageError(std::string_view what, const ErrorPlace& place);
absl::Status LineDamage(const Trace& trace, const Line& line, const Damage& damage,
                        uint64_t event = Location::kNowhere);

// The bytes of one input. Regular files are mapped directly. Pipes and gzip streams are copied to
// an unlinked temporary file of limited size, because names follow the events that use them in a
// trace, and one forward pass cannot resolve them.
struct Source {
  std::string_view bytes;
  std::shared_ptr<void> mapping = {};  // owner of `bytes`; null: the caller's memory
  // For a trace in JSON, from which `bytes` were made: the size of the JSON and its defects.
  std::optional<uint64_t> json_bytes = {};
  Diagnostics diagnostics = {};
};

// Opens a file, or standard input for "-", and inflates gzip. Errors: NotFound, PermissionDenied,
// DataLoss (bad gzip), ResourceExhausted (a gzip bomb, no space for the spool), Unavailable (I/O).
absl::StatusOr<Source> OpenSource(const std::string& path, const ReadOptions& options);
// The suffix of the name of a trace, such as ".xplane.pb.gz"; empty: not the name of a trace.
std::string TraceSuffix(const std::string& name);
// `bytes` (plain or gzip) must outlive the Source.
absl::StatusOr<Source> SourceInMemory(std::string_view bytes, const std::string& name,
                                      const ReadOptions& options);

// The outermost level of a trace file: the positions of its planes, and its messages.
//
// Concatenated files are one valid XSpace. A writer puts planes before errors, warnings and
// hostnames. A plane after one of those therefore begins the next file, which determines the
// hostname of the planes.
struct SpaceScan {
  struct PlaneMessage {
    ByteRange bytes;
    std::string_view host = {};  // "" if several hosts are possible
  };
  std::vector<PlaneMessage> planes;
  std::vector<std::string_view> hostnames, errors, warnings;
};

// Checks a trace while it arrives, so that an endless stream that is not a trace is detected at
// once. The header of a field may be split between two pieces.
class SpaceGuard {
 public:
  // A field longer than `most_bytes` is an error.
  SpaceGuard(std::string name, uint64_t most_bytes)
      : name_(std::move(name)), most_bytes_(most_bytes) {}
  // Checks the next bytes. Errors: as ScanSpace.
  absl::Status Add(std::string_view bytes);

 private:
  static constexpr size_t kHeadBytes = size_t{1} << 16;
  static constexpr uint64_t kMostUnknownBytes = uint64_t{1} << 20;
  absl::Status PassField(std::string_view bytes);

  const std::string name_;
  const uint64_t most_bytes_;
  std::string head_;            // to recognize other formats
  std::string rest_;            // bytes that are not processed yet: the beginning of a header
  uint64_t begin_ = 0;          // offset of `rest_` in the file
  uint64_t next_ = 0;           // offset of the next field
  uint64_t unknown_bytes_ = 0;  // bytes in unknown fields, which later writers may have added
};

// Scans the outermost level. Errors: DataLoss with the byte offset and, if the file is not a trace,
// the format that it seems to have.
absl::StatusOr<SpaceScan> ScanSpace(std::string_view bytes, const std::string& path);

// An XEvent from the file, without its stats.
struct RawEvent {
  int64_t metadata_id = 0;
  bool aggregated = false;  // `data` is num_occurrences; otherwise it is offset_ps
  int64_t data = 0;
  int64_t duration_ps = 0;
};

class BatchBuilder {
 public:
  BatchBuilder(const Trace& trace, std::span<const std::string_view> stat_names,
               Diagnostics* diagnostics);

  // Begins a line. Lookup tables are kept if the plane stays the same.
  void StartLine(uint32_t line, const EventChoice& choice = {});

  // The decoder skips the events that are not chosen.
  const EventChoice& choice() const { return choice_; }
  bool wants_stats() const { return !stat_names_.empty(); }
  // The column of a stat, or kNoColumn. Several ids may have the same stat name. If all stats of
  // the plane are requested, ids without a name have the column kNameless, so that every stat is
  // decoded.
  static constexpr uint32_t kNoColumn = ~uint32_t{0}, kNameless = kNoColumn - 1;
  uint32_t ColumnOf(int64_t stat_metadata_id) const;
  // Sets a stat of the event that the next Add() adds. If a stat is set twice, the first value
  // counts.
  void SetStat(uint32_t column, const StatValue& value);
  // Drops the stats that were set since the last Add().
  void ClearRow() { ClearCells(size_, size_ + 1); }

  bool full() const { return size_ == EventBatch::kBatchSize; }
  // Adds the event with index `event` of the line; requires !full(). Damaged events are counted and
  // skipped.
  void Add(uint64_t event, const RawEvent& raw);

  // The events since the previous batch, which becomes invalid.
  EventBatch Batch();
  // Extent of all events since StartLine(). With a choice by metadata it includes events that are
  // not chosen.
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

  // One array per column, in one allocation.
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

  // Offsets and durations below this bound cannot leave the axis, not even their sum. 0 if the
  // start of the line is too large for such a bound.
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
  int64_t base_ns_ = 0;                   // base of the line's file
  std::optional<int64_t> line_start_ps_;  // nullopt: beyond the axis
  std::vector<uint8_t> chosen_ids_;       // EventChoice::metadata by id, for small ids
  size_t at_within_ = 0;                  // position in EventChoice::within

  // Stat ids are small and dense in practice: a table holds these, and a map the others.
  uint32_t column_of_unknown_ = kNoColumn;
  std::vector<uint32_t> column_of_small_id_ = std::vector<uint32_t>(kSmallIds, kNoColumn);
  absl::flat_hash_map<int64_t, uint32_t> column_of_large_id_;
  // Stats of event metadata, resolved once per entry: one value per column.
  mutable absl::flat_hash_map<uint32_t, std::vector<StatValue>> metadata_rows_;
  mutable std::vector<uint8_t> in_metadata_;  // by column: whether some entry has the stat

  Interval extent_ = kNoExtent;
  size_t size_ = 0;
  std::unique_ptr<Rows> rows_;
  std::vector<std::unique_ptr<Cells>> cells_;  // by column; null: never set
  std::vector<StatColumn> columns_;
};

// Adds many usual events to a builder. It is a copy of the data that this needs; as a local
// variable it stays in registers. The builder must not be used until Finish().
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
  // Sets a stat that has a column. If it is set twice, the first value counts.
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
    // With all three below the bound, no sum of them leaves the axis.
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

// Skips events that are not chosen. A copy like BatchLoop; the builder must not be used meanwhile
// either.
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

  // Whether events with this id are chosen, whatever stats they have.
  bool ChoosesById(uint64_t id) const { return id >= chosen_size_ || chosen_[id] != 0; }
  bool ChoosesByStat(uint64_t id) const {
    const uint32_t column = id < BatchBuilder::kSmallIds
                                ? column_of_small_id_[id]
                                : builder_->ColumnOf(static_cast<int64_t>(id));
    return column < choosing_stats_;
  }
  // Whether an event is chosen by time. `at_within_` moves little, because lines are mostly sorted.
  bool ChoosesByTime(int64_t offset_ps, int64_t duration_ps) {
    if (static_cast<uint64_t>(offset_ps | duration_ps) >= most_ps_) return true;
    const int64_t start_ps = builder_->line_start_ps_.value_or(0) + offset_ps;
    const int64_t end_ps = start_ps + duration_ps;
    while (at_within_ < within_.size() && within_[at_within_].end_ps <= start_ps) ++at_within_;
    while (at_within_ > 0 && within_[at_within_ - 1].end_ps > start_ps) --at_within_;
    return at_within_ < within_.size() && within_[at_within_].start_ps < end_ps;
  }
  // Skips an event that is not chosen, and adds its times to the extent. False if its times are
  // unusual.
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
  // Extent of the skipped events, as offsets in the line.
  int64_t first_ps_ = BatchBuilder::kNoExtent.start_ps, last_ps_ = BatchBuilder::kNoExtent.end_ps;
};

class PlaneIndex;

// Decodes the events of one line in portions.
class LineDecoder {
 public:
  virtual ~LineDecoder() = default;
  // Adds events until the builder is full or the line ends.
  virtual absl::Status Fill(BatchBuilder* builder) = 0;
};

class EventSource {
 public:
  virtual ~EventSource() = default;

  // Called once per file, before its planes are indexed.
  virtual absl::Status AddFile(Source source, const std::string& /*path*/) {
    sources_.push_back(std::move(source));
    return absl::OkStatus();
  }
  // Fills metadata, stats and lines of the plane whose message is at plane->bytes. Lines are
  // appended to trace->lines with `bytes` set. `message` is the index of the XPlane message in the
  // file.
  virtual absl::Status IndexPlane(uint32_t file, size_t message, Plane* plane, Trace* trace) = 0;
  // Fills the remaining fields of all lines, after all planes. Returns a status per line.
  virtual std::vector<absl::Status> IndexLines(int threads, Trace* trace) const = 0;
  // Makes a decoder of one part of the line, which may be the whole line.
  virtual std::unique_ptr<LineDecoder> Decode(const Trace& trace, uint32_t line,
                                              const LinePart& part) const = 0;

  std::string_view FileBytes(uint32_t file) const { return sources_[file].bytes; }
  std::string_view FileOf(const Trace& trace, const Line& line) const {
    return FileBytes(trace.planes[line.plane].file);
  }
  // The index of the planes of the trace that owns this source (plane_index.h).
  std::shared_ptr<const PlaneIndex> IndexPlanes(const Trace& trace) const;

 private:
  std::vector<Source> sources_;
  mutable std::mutex index_mutex_;
  mutable std::shared_ptr<const PlaneIndex> index_;
};

std::unique_ptr<EventSource> MakeWireReader();
std::unique_ptr<EventSource> MakeReferenceReader();

// The index of lines on the wire: their headers and numbers of events. The indexer hops over events
// by their lengths.
//
//   |header|event|event| ... |event|event| ... |event|trailer|
//   |        piece 0         |     piece 1     |   piece 2   |
//
// The end of an event is known only after its length has arrived from memory, so hopping waits for
// memory. Long lines are therefore cut into pieces, at places that look like the beginning of an
// event, and each thread hops through several pieces at once. A guess may be wrong. A piece counts
// only if the events before it end exactly at its beginning. Otherwise the line is hopped through
// again from there, one event at a time.

// The bytes of the file of a plane, by plane index.
using WireFiles = absl::FunctionRef<std::string_view(uint32_t plane)>;

struct IndexOptions {
  int threads = 1;
  size_t piece_bytes = size_t{1} << 18;
};

// Fills the remaining fields of the trace's lines, which have plane and bytes. Returns a status per
// line. The result does not depend on the numbers of threads and pieces.
std::vector<absl::Status> IndexWireLines(const WireFiles& files, const IndexOptions& options,
                                         Trace* trace);

// The events of a line on the wire.
//
// The fast path (FastEvent) decodes fields in the usual encoding with wide loads and without error
// texts. If it meets an unknown or damaged field, the careful path decodes the event again from its
// beginning, field by field, with WireCursor. The careful path decides what is an error.

// XLine.events
inline constexpr uint32_t kEventsField = 4;
inline constexpr char kEventsTag = 0x22;
// Prefetch distance that hides the latency of memory.
inline constexpr size_t kPrefetchBytes = 2048;

enum class VarintWay : uint8_t { kBest, kPortable };

// `trace` must outlive the decoder.
std::unique_ptr<LineDecoder> MakeWireLineDecoder(const Trace& trace, uint32_t line,
                                                 const LinePart& part,
                                                 VarintWay way = VarintWay::kBest);

}  // namespace xplane_time
