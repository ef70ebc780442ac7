// BatchBuilder: raw events, one by one, become EventBatches. Both readers feed it, so
// that normalizing, skipping and counting of damaged events happen in one place.
#ifndef XPLANE_TIME_SRC_READ_BATCH_BUILDER_H_
#define XPLANE_TIME_SRC_READ_BATCH_BUILDER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "xplane_time/diagnostics.h"
#include "xplane_time/normalize.h"
#include "xplane_time/read.h"
#include "xplane_time/trace.h"

namespace xplane_time {

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
  void StartLine(uint32_t line);

  bool wants_stats() const { return !stat_names_.empty(); }
  // The column of a stat, or kNoColumn. A stat name may have several ids. Where all stats
  // of the plane are asked for, those without a name have the column kNameless, so that
  // each is decoded.
  static constexpr uint32_t kNoColumn = ~uint32_t{0}, kNameless = kNoColumn - 1;
  uint32_t ColumnOf(int64_t stat_metadata_id) const {
    const auto at = static_cast<uint64_t>(stat_metadata_id);
    return at < kSmallIds ? column_of_small_id_[at] : ColumnOfLargeId(stat_metadata_id);
  }
  // A stat of the event that Add() will add next; of equal ones the first counts.
  void SetStat(uint32_t column, const StatValue& value) {
    if (column >= kNameless) return;
    Cells& cells = CellsOf(column);
    if (cells.type[size_] != StatType::kAbsent) return;
    cells.type[size_] = value.type;
    cells.bits[size_] = value.bits;
    if (HasOwnText(value.type)) cells.text[size_] = value.text;
  }
  // The same for one without text.
  void SetNumber(uint32_t column, StatType type, uint64_t bits) {
    if (column >= kNameless) return;
    Cells& cells = CellsOf(column);
    if (cells.type[size_] != StatType::kAbsent) return;
    cells.type[size_] = type;
    cells.bits[size_] = bits;
  }
  // Forgets the stats set since the last Add().
  void ClearRow() { ClearCells(size_, size_ + 1); }

  bool full() const { return size_ == EventBatch::kBatchSize; }
  // Adds the event with index `event` of the line; not when full().
  void Add(uint64_t event, const RawEvent& raw) {
    const uint32_t metadata = plane_->event_metadata.Find(raw.metadata_id);
    // With all three this small no sum of them leaves the axis.
    const bool small =
        line_start_is_small_ && static_cast<uint64_t>(raw.data | raw.duration_ps) < kSmallPs;
    if (small && !raw.aggregated && metadata != kNoMetadata) {
      Append(event, raw, line_start_ps_ + raw.data, 1, metadata);
    } else {
      AddUnusual(event, raw, metadata);
    }
  }

  // What was added since the last batch; the one before becomes invalid.
  EventBatch Batch();
  void Clear();

  const StatValue& MetadataStat(size_t column, uint32_t metadata) const;
  bool InMetadata(size_t column) const;

 private:
  static constexpr size_t kSmallIds = 4096;

  static constexpr uint64_t kSmallPs = uint64_t{1} << 60;

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

  void Append(uint64_t event, const RawEvent& raw, int64_t start_ps, int64_t occurrences,
              uint32_t metadata) {
    Rows& rows = *rows_;
    const size_t row = size_++;
    rows.event[row] = event;
    rows.start_ps[row] = start_ps;
    rows.duration_ps[row] = raw.duration_ps;
    rows.occurrences[row] = occurrences;
    rows.metadata_id[row] = raw.metadata_id;
    rows.metadata[row] = metadata;
  }
  void AddUnusual(uint64_t event, const RawEvent& raw, uint32_t metadata);
  uint32_t ColumnOfLargeId(int64_t stat_metadata_id) const;
  Cells& CellsOf(uint32_t column) {
    if (cells_[column] == nullptr) AddCells(column);
    return *cells_[column];
  }
  void ClearCells(size_t begin, size_t end);
  void FindColumns();
  void AddCells(uint32_t column);

  const Trace& trace_;
  std::span<const std::string_view> stat_names_;
  Diagnostics* diagnostics_;
  const Plane* plane_ = nullptr;
  uint32_t line_ = 0;
  bool line_start_is_small_ = false;
  int64_t line_start_ps_ = 0;

  // Stat ids are small and dense in practice: a table, and a map for the others.
  uint32_t column_of_unknown_ = kNoColumn;
  std::vector<uint32_t> column_of_small_id_;
  absl::flat_hash_map<int64_t, uint32_t> column_of_large_id_;
  // Stats of event metadata, resolved once an entry: a value a column.
  mutable absl::flat_hash_map<uint32_t, std::vector<StatValue>> metadata_rows_;
  mutable std::vector<uint8_t> in_metadata_;  // by column: some entry has the stat

  size_t size_ = 0;
  std::unique_ptr<Rows> rows_;
  std::vector<std::unique_ptr<Cells>> cells_;  // by column; null: never set
  std::vector<StatColumn> columns_;
};

}  // namespace xplane_time

#endif  // XPLANE_TIME_SRC_READ_BATCH_BUILDER_H_
