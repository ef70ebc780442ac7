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
  // The column of a stat, or kNoColumn. A stat name may have several ids.
  static constexpr uint32_t kNoColumn = ~uint32_t{0};
  uint32_t ColumnOf(int64_t stat_metadata_id) const {
    const auto at = static_cast<uint64_t>(stat_metadata_id);
    return at < kSmallIds ? column_of_small_id_[at] : ColumnOfLargeId(stat_metadata_id);
  }
  // A stat of the event that Add() will add next; of equal ones the first counts.
  void SetStat(uint32_t column, const StatValue& value) {
    if (cells_[column] == nullptr) AddCells(column);
    StatValue& cell = cells_[column][size_];
    if (cell.type != StatType::kAbsent) return;
    cell = value;
    if (value.type == StatType::kRef) Resolve(&cell);
  }
  // Forgets the stats set since the last Add().
  void ClearRow() { ClearCells(size_, size_ + 1); }

  bool full() const { return size_ == EventBatch::kBatchSize; }
  // Adds the event with index `event` of the line; not when full().
  void Add(uint64_t event, const RawEvent& raw) {
    int64_t start_ps = 0;
    const uint32_t metadata = plane_->event_metadata.Find(raw.metadata_id);
    const bool usual = !raw.aggregated && raw.duration_ps >= 0 && raw.duration_ps < kAxisLimitPs &&
                       line_start_known_ &&
                       !__builtin_add_overflow(line_start_ps_, raw.data, &start_ps) &&
                       start_ps >= -kAxisLimitPs && start_ps <= kAxisLimitPs - raw.duration_ps &&
                       metadata != kNoMetadata;
    if (usual) {
      Append(event, raw, start_ps, 1, metadata);
    } else {
      AddUnusual(event, raw, metadata);
    }
  }

  // What was added since the last batch; the one before becomes invalid.
  EventBatch Batch();
  void Clear();

  const StatValue& MetadataStat(size_t column, uint32_t metadata) const;

 private:
  static constexpr size_t kSmallIds = 4096;

  void Append(uint64_t event, const RawEvent& raw, int64_t start_ps, int64_t occurrences,
              uint32_t metadata) {
    event_[size_] = event;
    start_ps_[size_] = start_ps;
    duration_ps_[size_] = raw.duration_ps;
    occurrences_[size_] = occurrences;
    metadata_[size_] = metadata;
    metadata_id_[size_] = raw.metadata_id;
    ++size_;
  }
  void AddUnusual(uint64_t event, const RawEvent& raw, uint32_t metadata);
  uint32_t ColumnOfLargeId(int64_t stat_metadata_id) const;
  void Resolve(StatValue* reference) const;
  void ClearCells(size_t begin, size_t end);
  void FindColumns();
  void AddCells(uint32_t column);

  const Trace& trace_;
  std::span<const std::string_view> stat_names_;
  Diagnostics* diagnostics_;
  const Plane* plane_ = nullptr;
  uint32_t line_ = 0;
  bool line_start_known_ = false;  // fits an int64
  int64_t line_start_ps_ = 0;

  // Stat ids are small and dense in practice: a table, and a map for the others.
  std::vector<uint32_t> column_of_small_id_;
  absl::flat_hash_map<int64_t, uint32_t> column_of_large_id_;
  // Stats of event metadata, resolved once an entry: a value a column.
  mutable absl::flat_hash_map<uint32_t, std::vector<StatValue>> metadata_rows_;

  size_t size_ = 0;
  std::vector<uint64_t> event_;
  std::vector<int64_t> start_ps_, duration_ps_, occurrences_, metadata_id_;
  std::vector<uint32_t> metadata_;
  std::vector<std::unique_ptr<StatValue[]>> cells_;  // by column; null: never set
  std::vector<StatColumn> columns_;
};

}  // namespace xplane_time

#endif  // XPLANE_TIME_SRC_READ_BATCH_BUILDER_H_
