#include "read/batch_builder.h"

#include <algorithm>

#include "xplane_time/normalize.h"

namespace xplane_time {
namespace {

constexpr int64_t kSmallIds = 4096;

}  // namespace

BatchBuilder::BatchBuilder(const Trace& trace, uint32_t line,
                           std::span<const std::string_view> stat_names, Diagnostics* diagnostics,
                           BatchVisitor visitor)
    : trace_(trace),
      plane_(trace.planes[trace.lines[line].plane]),
      line_(trace.lines[line]),
      line_index_(line),
      diagnostics_(diagnostics),
      visitor_(visitor),
      column_count_(stat_names.size()),
      row_(column_count_),
      stats_(column_count_) {
  if (column_count_ == 0) return;
  column_of_small_id_.assign(kSmallIds, kNoColumn);
  absl::flat_hash_map<absl::string_view, uint32_t> column_of_name;
  for (uint32_t column = 0; column < stat_names.size(); ++column) {
    column_of_name.try_emplace({stat_names[column].data(), stat_names[column].size()}, column);
  }
  for (const StatMetadata& stat : plane_.stat_metadata.entries) {
    const auto found = column_of_name.find({stat.name.data(), stat.name.size()});
    if (found == column_of_name.end()) continue;
    const uint32_t column = found->second;
    if (stat.id >= 0 && stat.id < kSmallIds) {
      column_of_small_id_[static_cast<size_t>(stat.id)] = column;
    } else {
      column_of_large_id_.emplace(stat.id, column);
    }
  }
}

uint32_t BatchBuilder::ColumnOf(int64_t stat_metadata_id) const {
  if (stat_metadata_id >= 0 && stat_metadata_id < kSmallIds) {
    return column_of_small_id_[static_cast<size_t>(stat_metadata_id)];
  }
  const auto found = column_of_large_id_.find(stat_metadata_id);
  return found == column_of_large_id_.end() ? kNoColumn : found->second;
}

void BatchBuilder::SetStat(uint32_t column, const StatValue& value) {
  StatValue& cell = row_[column];
  if (cell.type != StatType::kAbsent) return;
  cell = value;
  if (value.type == StatType::kRef) {
    const uint32_t name = plane_.stat_metadata.Find(static_cast<int64_t>(value.bits));
    if (name != kNoMetadata) cell.text = plane_.stat_metadata.entries[name].name;
  }
}

void BatchBuilder::ClearRow() { std::fill(row_.begin(), row_.end(), StatValue{}); }

void BatchBuilder::FillFromMetadata(uint32_t metadata) {
  const EventMetadata& entry = plane_.event_metadata.entries[metadata];
  if (entry.stat_count == 0) return;
  auto [found, inserted] = metadata_rows_.try_emplace(metadata);
  if (inserted) {
    found->second.resize(column_count_);
    for (uint32_t i = 0; i < entry.stat_count; ++i) {
      const Stat& stat = plane_.metadata_stats[entry.first_stat + i];
      const uint32_t column = ColumnOf(stat.metadata_id);
      if (column == kNoColumn) continue;
      if (found->second[column].type == StatType::kAbsent) found->second[column] = stat.value;
    }
  }
  for (size_t column = 0; column < column_count_; ++column) {
    if (row_[column].type == StatType::kAbsent) row_[column] = found->second[column];
  }
}

absl::Status BatchBuilder::Finish(uint64_t event, const RawEvent& raw) {
  const Location where = {
      .file = plane_.file, .plane = line_.plane, .line = line_index_, .event = event};
  std::optional<int64_t> start_ps = kNoTimePs;
  if (raw.duration_ps < 0 || (raw.aggregated && raw.data < 0)) {
    diagnostics_->Count(DiagnosticCode::kNegativeDuration, where);
    ClearRow();
    return absl::OkStatus();
  }
  if (raw.aggregated) {
    diagnostics_->Count(DiagnosticCode::kAggregatedEvent, where);
  } else {
    start_ps = ToAxisPs(line_.timestamp_ns, trace_.base_ns, raw.data);
    if (!start_ps.has_value() || *start_ps < -kAxisLimitPs ||
        EndPs(*start_ps, raw.duration_ps).value_or(kNoTimePs) > kAxisLimitPs ||
        !EndPs(*start_ps, raw.duration_ps).has_value()) {
      diagnostics_->Count(DiagnosticCode::kTimeOverflow, where);
      ClearRow();
      return absl::OkStatus();
    }
  }
  const uint32_t metadata = plane_.event_metadata.Find(raw.metadata_id);
  if (metadata == kNoMetadata) {
    diagnostics_->Count(DiagnosticCode::kMissingEventMetadata, where);
  } else if (column_count_ > 0) {
    FillFromMetadata(metadata);
  }
  event_.push_back(event);
  start_ps_.push_back(*start_ps);
  duration_ps_.push_back(raw.duration_ps);
  occurrences_.push_back(raw.aggregated ? raw.data : 1);
  metadata_.push_back(metadata);
  metadata_id_.push_back(raw.metadata_id);
  for (size_t column = 0; column < column_count_; ++column) {
    stats_[column].values.push_back(row_[column]);
  }
  ClearRow();
  return event_.size() < EventBatch::kBatchSize ? absl::OkStatus() : Flush();
}

absl::Status BatchBuilder::Flush() {
  if (event_.empty()) return absl::OkStatus();
  EventBatch batch;
  batch.line = line_index_;
  batch.event = event_;
  batch.start_ps = start_ps_;
  batch.duration_ps = duration_ps_;
  batch.occurrences = occurrences_;
  batch.metadata = metadata_;
  batch.metadata_id = metadata_id_;
  batch.stats = stats_;
  absl::Status status = visitor_(batch);
  event_.clear();
  start_ps_.clear();
  duration_ps_.clear();
  occurrences_.clear();
  metadata_.clear();
  metadata_id_.clear();
  for (StatColumn& column : stats_) column.values.clear();
  return status;
}

}  // namespace xplane_time
