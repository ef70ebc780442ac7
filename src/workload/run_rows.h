// records.jsonl as rows for tables: the numbers of each record, flattened.
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
  // dataset_metadata is JSON
  std::string problem = {}, answer = {}, subject = {}, dataset_metadata = {};
  std::string status = {}, message = {}, model = {};
  std::optional<std::string> model_answer = {};   // set if the status is ok
  std::optional<std::string> finish_reason = {};  // reported by a server
  std::optional<int64_t> attempts = {};
  std::optional<double> all_joules = {};            // over all devices and domains that count
  std::vector<std::optional<double>> numbers = {};  // values of the metrics, in the order of the
                                                    // columns
};

// Ignores a last line without an end, which a killed run leaves behind. Errors: NotFound,
// Unavailable, DataLoss (with the line).
absl::StatusOr<std::vector<RunRow>> ReadRunRows(const std::string& path);

// Columns of metrics have the record's member names, joined by "_":
// latency_metrics_total_query_seconds.
void VisitRow(const RunRow& row, result::FieldSink* sink);

}  // namespace xplane_time
