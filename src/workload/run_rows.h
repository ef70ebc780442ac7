// records.jsonl as rows: the numbers of each record, flat, for tables.
//
//   ASSIGN_OR_RETURN(const auto rows, ReadRunRows("runs/profile_.../records.jsonl"));
//   arrow::FromRows(result::TableOf("", std::span(rows)))
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "result/result.h"

namespace xplane_time {

struct RunRow {
  uint64_t index = 0;
  std::string problem = {}, answer = {}, subject = {}, dataset_metadata = {};  // the last: JSON
  std::string status = {}, message = {}, model = {};
  std::optional<std::string> model_answer = {};   // where the status is ok
  std::optional<std::string> finish_reason = {};  // a server's
  std::optional<int64_t> attempts = {};
  std::optional<double> all_joules = {};            // of every device and domain that counts
  std::vector<std::optional<double>> numbers = {};  // of the metrics, in the order of the columns
};

// A last line without its end, which a run that was killed leaves, is none. Errors: NotFound,
// Unavailable, DataLoss (with the line).
absl::StatusOr<std::vector<RunRow>> ReadRunRows(const std::string& path);

// Columns of metrics have the names of the record, parted by "_":
// latency_metrics_total_query_seconds.
void VisitRow(const RunRow& row, result::FieldSink* sink);

}  // namespace xplane_time
