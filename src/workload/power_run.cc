// The loop: each record is asked inside a window, and kept.
#include <algorithm>
#include <chrono>
#include <ctime>
#include <utility>

#include "absl/strings/str_cat.h"
#include "power/machine.h"
#include "status.h"
#include "xplane_time/power_run.h"

namespace xplane_time {
namespace {

constexpr uint64_t kCheckpointEvery = 100;
constexpr std::chrono::seconds kCheckpointAfter(10);
constexpr char kWindow[] = "query";

// The first token is there before the answer is.
void CheckFirstToken(int64_t taken_ns, RunAnswer* answer) {
  const double taken_ms = static_cast<double>(taken_ns) * 1e-6;
  std::optional<double>& first_ms = answer->time_to_first_token_ms;
  if (!first_ms.has_value() || *first_ms <= taken_ms) return;
  absl::StrAppend(&answer->message, answer->message.empty() ? "" : "; ", "time_to_first_token_ms ",
                  *first_ms, " is dropped: the whole answer took ", taken_ms, " ms");
  first_ms.reset();
}

// Asks for one record inside a window. Errors: of the client.
absl::StatusOr<RunResult> AskMeasured(const RunRecord& record, InferenceClient* client,
                                      Telemetry* telemetry) {
  RunResult result = {.record = record};
  RETURN_IF_ERROR(client->Ready());
  const absl::Status begun = telemetry->Begin(kWindow);
  result.begin_unix_ns = power::NowOf(CLOCK_REALTIME);
  result.begin_ns = power::MonotonicNow();
  auto answer = client->Ask(record);
  result.end_ns = power::MonotonicNow();
  auto window = begun.ok() ? telemetry->End(kWindow) : absl::StatusOr<RunTelemetry>(begun);
  if (!answer.ok()) return answer.status();
  result.answer = *std::move(answer);
  CheckFirstToken(result.end_ns - result.begin_ns, &result.answer);
  result.telemetry_error = std::string(window.status().message());
  if (window.ok()) result.telemetry = *std::move(window);
  result.hardware = telemetry->Hardware();
  return result;
}

}  // namespace

absl::StatusOr<PowerRunOutcome> RunPower(const PowerRunOptions& options, RecordSource* source,
                                         InferenceClient* client, Telemetry* telemetry,
                                         RecordSink* sink, const OnRunRecord& on_record) {
  PowerRunOutcome outcome;
  const uint64_t total = std::min(source->size(), options.max_queries.value_or(source->size()));
  absl::Status failed = sink->Checkpoint("running");  // of the source or the sink
  auto checked = options.clock();
  for (uint64_t index = 0; index < total && failed.ok() && outcome.stopped_by.ok(); ++index) {
    auto record = source->Next();
    failed = record.status();
    if (!failed.ok() || !record->has_value()) break;
    if (sink->Has((*record)->index)) {
      ++outcome.skipped;
      continue;
    }
    if (options.stopped()) {
      outcome.stopped_by = absl::CancelledError("stopped");
      break;
    }
    auto result = AskMeasured(**record, client, telemetry);
    if (!result.ok()) {
      outcome.stopped_by = result.status();
      break;
    }
    result->model = options.model;
    failed = sink->Write(*result);
    if (!failed.ok()) break;
    ++outcome.asked;
    outcome.failed += result->answer.status == "ok" ? 0 : 1;
    if (on_record) on_record(*result, outcome.skipped + outcome.asked, total);
    if (outcome.asked % kCheckpointEvery == 0 || options.clock() - checked >= kCheckpointAfter) {
      failed = sink->Checkpoint("running");
      checked = options.clock();
    }
  }
  if (!outcome.stopped_by.ok()) {
    outcome.stop_reason = absl::IsCancelled(outcome.stopped_by) ? "interrupted" : "no_client";
  }
  if (!failed.ok()) {
    static_cast<void>(sink->Checkpoint("failed"));
    return failed;
  }
  RETURN_IF_ERROR(sink->Checkpoint(outcome.stop_reason));
  return outcome;
}

}  // namespace xplane_time
