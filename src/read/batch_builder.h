// BatchBuilder: raw events, one by one, become EventBatches. Both readers feed it, so
// that normalizing, skipping and counting of damaged events happen in one place.
#pragma once

#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
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
  void Clear();

  const StatValue& MetadataStat(size_t column, uint32_t metadata) const;
  bool InMetadata(size_t column) const;

 private:
  friend class BatchLoop;
  static constexpr size_t kSmallIds = 4096;

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

  void ClearCells(size_t begin, size_t end);
  void FindColumns();
  void AddCells(uint32_t column);

  const Trace& trace_;
  std::span<const std::string_view> stat_names_;
  Diagnostics* diagnostics_;
  const Plane* plane_ = nullptr;
  uint32_t line_ = 0;
  std::optional<int64_t> line_start_ps_;  // nothing: off the axis

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
        line_start_ps_(builder->line_start_ps_.value_or(0)) {
    const auto distance = static_cast<uint64_t>(std::abs(line_start_ps_));
    if (builder->line_start_ps_.has_value() && distance < kSmallPs) most_ps_ = kSmallPs;
  }
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
  static constexpr uint64_t kSmallPs = uint64_t{1} << 60;

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
  uint64_t most_ps_ = 0;  // below it offsets and durations are small
};

}  // namespace xplane_time
