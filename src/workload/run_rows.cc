#include "workload/run_rows.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_replace.h"
#include "earlier_tools/power_run_result_json.h"
#include "json/json.h"
#include "status.h"

namespace xplane_time {
namespace {

using json::Json;

struct Metric {
  const char* at;  // JSON pointer of the metric in a record
  bool whole = false;
};
constexpr Metric kMetrics[] = {{"/latency_metrics/total_query_seconds"},
                               {"/latency_metrics/time_to_first_token_seconds"},
                               {"/latency_metrics/per_token_ms"},
                               {"/latency_metrics/throughput_tokens_per_sec"},
                               {"/token_metrics/input", true},
                               {"/token_metrics/output", true},
                               {"/token_metrics/total", true},
                               {"/energy_metrics/per_query_joules"},
                               {"/energy_metrics/lo_joules"},
                               {"/energy_metrics/hi_joules"},
                               {"/energy_metrics/cpu_per_query_joules"},
                               {"/energy_metrics/cpu_lo_joules"},
                               {"/energy_metrics/cpu_hi_joules"},
                               {"/power_metrics/gpu/per_query_watts/avg"},
                               {"/power_metrics/gpu/per_query_watts/max"},
                               {"/power_metrics/cpu/per_query_watts/avg"},
                               {"/power_metrics/cpu/per_query_watts/max"},
                               {"/temperature_metrics/avg"},
                               {"/memory_metrics/cpu_mb/max"},
                               {"/memory_metrics/gpu_mb/max"},
                               {"/hardware_utilization/gpu/busy_pct"}};

std::string NameOf(const Metric& metric) {
  return absl::StrReplaceAll(std::string(metric.at).substr(1), {{"/", "_"}});
}

bool ToRow(const Json& record, RunRow* row) {
  const Json* const models = json::Find(record, "model_metrics");
  if (models == nullptr || !models->is_object() || models->size() != 1) return false;
  row->index = json::ValueOf<uint64_t>(record, "index").value_or(0);
  row->problem = json::TextOf(record, "problem").value_or("");
  row->answer = json::TextOf(record, "answer").value_or("");
  row->subject = json::TextOf(record, "subject").value_or("");
  const Json* const metadata = json::Find(record, "dataset_metadata");
  row->dataset_metadata = metadata == nullptr ? "{}" : json::Dump(*metadata);
  row->status = json::TextOf(record, "status").value_or("");
  row->message = json::TextOf(record, "message").value_or("");
  row->model = models->begin().key();
  if (const Json* const answers = json::Find(record, "model_answers"); answers != nullptr) {
    row->model_answer = json::TextOf(*answers, row->model.c_str());
  }
  const Json& metrics = models->begin().value();
  row->finish_reason = json::TextOf(record, "finish_reason");
  row->attempts = json::ValueOf<int64_t>(record, "attempts");
  row->all_joules = json::NumberOf(power::AllEnergies(record), "per_query_joules");
  for (const Metric& each : kMetrics) {
    const Json::json_pointer place(each.at);
    row->numbers.push_back(metrics.contains(place) ? json::ValueOf<double>(metrics.at(place))
                                                   : std::nullopt);
  }
  return true;
}

}  // namespace

absl::StatusOr<std::vector<RunRow>> ReadRunRows(const std::string& path) {
  constexpr size_t kMostLevels = 100;
  std::error_code error;
  std::ifstream file;
  // Pipes and devices may have no end.
  if (std::filesystem::is_regular_file(path, error)) file.open(path, std::ios::binary);
  if (!file.is_open()) return NotFound(path, ": contains no records of a run");
  std::vector<RunRow> rows;
  uint64_t number = 0;
  for (std::string line; std::getline(file, line) && !file.eof();) {
    ++number;
    const Json record = json::Parse(line, kMostLevels);
    if (!record.is_object() || !ToRow(record, &rows.emplace_back())) {
      return DataLoss(path, ": line ", number, ": not a record of a run");
    }
  }
  return rows;
}

void VisitRow(const RunRow& row, result::FieldSink* sink) {
  XPLANE_TIME_FIELDS(sink, row.index, row.problem, row.answer, row.subject, row.dataset_metadata,
                     row.model, row.status, row.message, row.model_answer, row.finish_reason,
                     row.attempts, row.all_joules);
  for (size_t i = 0; i < std::size(kMetrics); ++i) {
    const auto number = i < row.numbers.size() ? row.numbers[i] : std::nullopt;
    const auto whole = [](double value) { return static_cast<int64_t>(std::llround(value)); };
    if (kMetrics[i].whole) {
      sink->Field(NameOf(kMetrics[i]),
                  number.has_value() ? std::optional(whole(*number)) : std::nullopt);
    } else {
      sink->Field(NameOf(kMetrics[i]), number);
    }
  }
}

}  // namespace xplane_time
