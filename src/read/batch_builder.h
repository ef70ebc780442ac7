// BatchBuilder: raw events, one by one, become EventBatches. Both readers feed it, so
// that normalizing, skipping and counting of damaged events happen in one place.
#ifndef XPLANE_TIME_SRC_READ_BATCH_BUILDER_H_
#define XPLANE_TIME_SRC_READ_BATCH_BUILDER_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "xplane_time/diagnostics.h"
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
  BatchBuilder(const Trace& trace, uint32_t line, std::span<const std::string_view> stat_names,
               Diagnostics* diagnostics, BatchVisitor visitor);

  bool wants_stats() const { return column_count_ > 0; }
  // The column of a stat, or kNoColumn. A stat name may have several ids.
  static constexpr uint32_t kNoColumn = ~uint32_t{0};
  uint32_t ColumnOf(int64_t stat_metadata_id) const;
  // A stat of the event that Finish() will add next; of equal ones the first counts.
  void SetStat(uint32_t column, const StatValue& value);
  // Adds the event with index `event` of the line.
  absl::Status Finish(uint64_t event, const RawEvent& raw);
  // Hands over what is left.
  absl::Status Flush();

 private:
  void ClearRow();
  void FillFromMetadata(uint32_t metadata);

  const Trace& trace_;
  const Plane& plane_;
  const Line& line_;
  const uint32_t line_index_;
  Diagnostics* diagnostics_;
  BatchVisitor visitor_;
  size_t column_count_;

  // Stat ids are small and dense in practice: a table, and a map for the others.
  std::vector<uint32_t> column_of_small_id_;
  absl::flat_hash_map<int64_t, uint32_t> column_of_large_id_;
  // Stats of event metadata, resolved once an id: row of column_count_ values.
  absl::flat_hash_map<uint32_t, std::vector<StatValue>> metadata_rows_;

  std::vector<StatValue> row_;
  std::vector<uint64_t> event_;
  std::vector<int64_t> start_ps_, duration_ps_, occurrences_, metadata_id_;
  std::vector<uint32_t> metadata_;
  std::vector<StatColumn> stats_;
};

}  // namespace xplane_time

#endif  // XPLANE_TIME_SRC_READ_BATCH_BUILDER_H_
