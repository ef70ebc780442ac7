// The loop of a run: each record is asked inside a window, alone or with others, and stored.
//
// With a concurrency of 1, OneAtATime opens a window of the telemetry for each record, so each
// answer has its own energy. With more, SeveralAtOnce runs a thread for each concurrent question.
// Energies of single answers are then undetermined; instead, one window covers all records, and
// each checkpoint takes a span of it. Run takes records from the source while there is room, stores
// each answer, and writes checkpoints. If the client fails, answers to questions in progress are
// still stored.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <deque>
#include <mutex>
#include <thread>
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

// Drops a time to first token that is later than the answer.
void CheckFirstToken(int64_t taken_ns, RunAnswer* answer) {
  const double taken_ms = static_cast<double>(taken_ns) * 1e-6;
  std::optional<double>& first_ms = answer->time_to_first_token_ms;
  if (!first_ms.has_value() || *first_ms <= taken_ms) return;
  absl::StrAppend(&answer->message, answer->message.empty() ? "" : "; ", "time_to_first_token_ms ",
                  *first_ms, " is ignored: the whole answer took ", taken_ms, " ms");
  first_ms.reset();
}

// Asks for one record. `begin` is called before each attempt. Errors: those of the client.
absl::StatusOr<RunResult> AskTimed(const RunRecord& record, InferenceClient* client,
                                   const std::function<void()>& begin) {
  RunResult result = {.record = record};
  RETURN_IF_ERROR(client->Ready());
  const auto begin_attempt = [&] {
    begin();
    result.begin_unix_ns = power::NowOf(CLOCK_REALTIME);
    result.begin_ns = power::MonotonicNow();
  };
  begin_attempt();
  result.asked_ns = result.begin_ns;
  auto answer = client->Ask(record, begin_attempt);
  result.end_ns = power::MonotonicNow();
  RETURN_IF_ERROR(answer.status());
  result.answer = *std::move(answer);
  CheckFirstToken(result.end_ns - result.begin_ns, &result.answer);
  return result;
}

// Asks one record at a time, or several at once.
class Asker {
 public:
  virtual ~Asker() = default;
  virtual bool HasRoom() const = 0;
  virtual bool IsIdle() const = 0;
  virtual void Ask(RunRecord record) = 0;  // requires HasRoom
  // The next answered record; requires that it is not idle. Errors: those of the client.
  virtual absl::StatusOr<RunResult> Next() = 0;
  // Called at each checkpoint.
  virtual std::optional<RunSpan> NextSpan() { return std::nullopt; }
};

// Asks each record inside its own window.
class OneAtATime : public Asker {
 public:
  OneAtATime(InferenceClient* client, Telemetry* telemetry)
      : client_(client), telemetry_(telemetry) {}

  bool HasRoom() const override { return IsIdle(); }
  bool IsIdle() const override { return !record_.has_value(); }
  void Ask(RunRecord record) override { record_ = std::move(record); }

  absl::StatusOr<RunResult> Next() override {
    const RunRecord record = *std::exchange(record_, std::nullopt);
    absl::Status begun = absl::OkStatus();
    bool is_open = false;
    auto result = AskTimed(record, client_, [&] {
      begun = telemetry_->Begin(kWindow);
      is_open = begun.ok();
    });
    auto window = is_open ? telemetry_->End(kWindow) : absl::StatusOr<RunTelemetry>(RunTelemetry{});
    RETURN_IF_ERROR(result.status());
    if (!begun.ok()) window = begun;
    result->telemetry_error = std::string(window.status().message());
    if (window.ok()) result->telemetry = *std::move(window);
    return result;
  }

 private:
  InferenceClient* const client_;
  Telemetry* const telemetry_;
  std::optional<RunRecord> record_;
};

// Threads take the next waiting record. Windows of single records would overlap, so one window
// covers all.
class SeveralAtOnce : public Asker {
 public:
  SeveralAtOnce(const PowerRunOptions& options, InferenceClient* client, Telemetry* telemetry)
      : most_waiting_(2 * static_cast<size_t>(options.concurrency)),
        stopped_(options.stopped),
        client_(client),
        telemetry_(telemetry),
        begun_(telemetry->Begin(kSharedWindow)),
        begin_ns_(power::MonotonicNow()) {
    for (int i = 0; i < options.concurrency; ++i) threads_.emplace_back([this] { Work(); });
  }
  ~SeveralAtOnce() override {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    waiting_.clear();
    changed_.notify_all();
  }

  // Waiting records keep the threads busy while answers are stored.
  bool HasRoom() const override { return asked_ < most_waiting_; }
  bool IsIdle() const override { return asked_ == 0; }

  void Ask(RunRecord record) override {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(record));
    ++asked_;
    changed_.notify_all();
  }

  absl::StatusOr<RunResult> Next() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !answered_.empty(); });
    auto result = std::move(answered_.front());
    answered_.pop_front();
    --asked_;
    if (result.ok()) result->telemetry = RunTelemetry{.reason = PowerReason::kSharedWindow};
    return result;
  }

  std::optional<RunSpan> NextSpan() override {
    RunSpan span = {.begin_ns = begin_ns_, .end_ns = power::MonotonicNow()};
    span.telemetry = begun_.ok() ? telemetry_->Lap(kSharedWindow) : begun_;
    begin_ns_ = span.end_ns;
    return span;
  }

 private:
  static constexpr char kSharedWindow[] = "queries";

  void Work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return ended_ || !waiting_.empty(); });
      if (ended_) return;
      const RunRecord record = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      auto result = stopped_() ? absl::CancelledError("stopped") : AskTimed(record, client_, [] {});
      lock.lock();
      answered_.push_back(std::move(result));
      changed_.notify_all();
    }
  }

  const size_t most_waiting_;
  const std::function<bool()> stopped_;
  InferenceClient* const client_;
  Telemetry* const telemetry_;
  const absl::Status begun_;
  int64_t begin_ns_;
  size_t asked_ = 0;  // asked, and not yet returned by Next
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<RunRecord> waiting_;
  std::deque<absl::StatusOr<RunResult>> answered_;
  bool ended_ = false;
  std::vector<std::jthread> threads_;
};

std::unique_ptr<Asker> AskerOf(const PowerRunOptions& options, InferenceClient* client,
                               Telemetry* telemetry) {
  if (options.concurrency > 1) return std::make_unique<SeveralAtOnce>(options, client, telemetry);
  return std::make_unique<OneAtATime>(client, telemetry);
}

// A run in progress: asks records and stores the answers.
class Run {
 public:
  Run(const PowerRunOptions& options, RecordSource* source, InferenceClient* client,
      Telemetry* telemetry, RecordSink* sink, const OnRunRecord& on_record)
      : options_(options),
        total_(std::min(source->size(), options.max_queries.value_or(source->size()))),
        source_(source),
        telemetry_(telemetry),
        sink_(sink),
        on_record_(on_record),
        asker_(AskerOf(options, client, telemetry)) {}

  absl::StatusOr<PowerRunOutcome> ToItsEnd() {
    absl::Status failed = sink_->Checkpoint("running");  // error of the source or the sink
    checked_ = options_.clock();
    while (failed.ok()) {
      failed = AskMore();
      if (!failed.ok() || asker_->IsIdle()) break;
      auto result = asker_->Next();
      if (result.ok()) {
        failed = Keep(*std::move(result));
      } else if (outcome_.stopped_by.ok()) {  // records that were already asked are stored
        outcome_.stopped_by = result.status();
      }
    }
    if (!outcome_.stopped_by.ok()) {
      outcome_.stop_reason = absl::IsCancelled(outcome_.stopped_by) ? "interrupted" : "no_client";
    }
    if (!failed.ok()) {
      static_cast<void>(Checkpoint("failed"));
      return failed;
    }
    RETURN_IF_ERROR(Checkpoint(outcome_.stop_reason));
    return outcome_;
  }

 private:
  absl::Status AskMore() {
    for (; index_ < total_ && outcome_.stopped_by.ok() && asker_->HasRoom(); ++index_) {
      ASSIGN_OR_RETURN(auto record, source_->Next());
      if (!record.has_value()) {
        index_ = total_;
        break;
      }
      ASSIGN_OR_RETURN(const bool is_kept, sink_->Has(*record));
      if (is_kept) {
        ++outcome_.skipped;
      } else if (options_.stopped()) {
        outcome_.stopped_by = absl::CancelledError("stopped");
      } else {
        asker_->Ask(*std::move(record));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Keep(RunResult result) {
    result.model = options_.model;
    result.hardware = telemetry_->Hardware();
    RETURN_IF_ERROR(sink_->Write(result));
    ++outcome_.asked;
    outcome_.failed += result.answer.status == "ok" ? 0 : 1;
    if (on_record_) on_record_(result, outcome_.skipped + outcome_.asked, total_);
    if (outcome_.asked % kCheckpointEvery != 0 && options_.clock() - checked_ < kCheckpointAfter) {
      return absl::OkStatus();
    }
    const absl::Status failed = Checkpoint("running");
    checked_ = options_.clock();
    return failed;
  }

  absl::Status Checkpoint(std::string_view stop_reason) {
    if (const auto span = asker_->NextSpan(); span.has_value()) sink_->Add(*span);
    return sink_->Checkpoint(stop_reason);
  }

  const PowerRunOptions& options_;
  const uint64_t total_;
  RecordSource* const source_;
  Telemetry* const telemetry_;
  RecordSink* const sink_;
  const OnRunRecord& on_record_;
  const std::unique_ptr<Asker> asker_;
  PowerRunOutcome outcome_;
  uint64_t index_ = 0;  // of the next record
  std::chrono::steady_clock::time_point checked_;
};

}  // namespace

absl::StatusOr<PowerRunOutcome> RunPower(const PowerRunOptions& options, RecordSource* source,
                                         InferenceClient* client, Telemetry* telemetry,
                                         RecordSink* sink, const OnRunRecord& on_record) {
  return Run(options, source, client, telemetry, sink, on_record).ToItsEnd();
}

}  // namespace xplane_time
