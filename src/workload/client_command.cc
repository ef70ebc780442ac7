// A client that is a long-running command; it exchanges lines of JSON (docs/power-run.md).
#include <algorithm>
#include <iterator>
#include <utility>

#include "earlier_tools/power_run_result_json.h"
#include "harness/messages.h"
#include "harness/process.h"
#include "json/field.h"
#include "status.h"
#include "xplane_time/power_run.h"

namespace xplane_time {
namespace {

using json::Field, json::Json, json::kNeeded, json::kOptional;

absl::StatusOr<RunAnswer> ParseRunAnswer(const std::string& line, int64_t request) {
  ASSIGN_OR_RETURN(const Json message, harness::ParseMessage(line));
  std::string wrong;
  const Field fields(message, &wrong);
  fields.At("type").Expect(message["type"] == "answer", "answer");
  int64_t answered = -1;
  fields.Read("request", &answered, kNeeded, 0);
  fields.At("request").Expect(answered == request, Cat(request, ", but is ", answered));
  RunAnswer answer;
  fields.Read("status", &answer.status, kNeeded);
  constexpr std::string_view kStatuses[] = {"ok", "runtime_error", "oom", "timeout", "infra"};
  fields.At("status").Expect(std::ranges::find(kStatuses, answer.status) != std::end(kStatuses),
                             "a status listed in docs/power-run.md");
  fields.Read("answer", &answer.answer, json::Need(answer.status == "ok"));
  fields.Read("message", &answer.message);
  fields.Read("input_tokens", &answer.input_tokens, kOptional, 0);
  fields.Read("output_tokens", &answer.output_tokens, kOptional, 0);
  fields.Read("time_to_first_token_ms", &answer.time_to_first_token_ms, kOptional, 0);
  if (!wrong.empty()) return harness::Misfit(line, wrong);
  return answer;
}

class Command : public InferenceClient {
 public:
  explicit Command(CommandClientOptions options) : options_(std::move(options)) {}

  absl::Status Start() override {
    if (process_ != nullptr) return absl::OkStatus();
    const std::string name = absl::StrCat("the command \"", options_.command[0], "\"");
    if (failures_in_a_row_ >= options_.most_failures) {
      return Unavailable(name, " failed ", failures_in_a_row_, " times in a row: ", last_failure_,
                         "; correct it, and continue with --resume");
    }
    ASSIGN_OR_RETURN(process_, HarnessProcess::Start({.command = options_.command,
                                                      .name = "command",
                                                      .log_path = options_.log_path,
                                                      .stopped = options_.stopped}));
    const absl::Status status = Hello();
    if (status.ok()) return status;
    if (absl::IsCancelled(status)) {
      process_.reset();
      return status;
    }
    return Unavailable(name, " did not send hello: ", power::BriefMessage(Lost(status).message),
                       "; docs/power-run.md describes the protocol");
  }

  absl::Status Ready() override {
    RETURN_IF_ERROR(Start());
    auto line = process_->Receive(MonotonicClock::now() + std::chrono::milliseconds(1));
    if (line.ok()) early_ = *std::move(line);
    if (absl::IsCancelled(line.status())) process_.reset();
    // If it has ended, the next question detects it.
    return absl::IsCancelled(line.status()) ? line.status() : absl::OkStatus();
  }

  absl::StatusOr<RunAnswer> Ask(const RunRecord& record,
                                const std::function<void()>& /*again*/) override {
    RETURN_IF_ERROR(Start());
    if (const auto early = std::exchange(early_, std::nullopt); early.has_value()) {
      return Lost(harness::Misfit(*early, "an answer before the question"));
    }
    const int64_t request = next_request_++;
    const auto line = Exchange("ask",
                               {{"request", request},
                                {"model", options_.model},
                                {"problem", record.problem},
                                {"subject", record.subject},
                                {"dataset_metadata", json::Parse(record.dataset_metadata_json)}},
                               options_.timeout);
    auto answer = line.ok() ? ParseRunAnswer(*line, request) : line.status();
    if (absl::IsCancelled(answer.status())) {
      process_.reset();
      return answer;
    }
    if (!answer.ok()) return Lost(answer.status());
    failures_in_a_row_ = 0;
    return answer;
  }

  void Finish() override {
    if (process_ != nullptr) process_->SayBye();
    process_.reset();
  }

  std::string versions_json() const override { return versions_json_; }
  int64_t pid() const override { return process_ != nullptr ? process_->pid() : 0; }

 private:
  absl::StatusOr<std::string> Exchange(const char* type, const Json& fields,
                                       std::chrono::milliseconds timeout) {
    const Deadline deadline = MonotonicClock::now() + timeout;
    RETURN_IF_ERROR(process_->Send(harness::Line(type, fields), deadline));
    return process_->Receive(deadline);
  }
  absl::Status Hello() {
    ASSIGN_OR_RETURN(const std::string line,
                     Exchange("hello", {{"model", options_.model}}, options_.hello_timeout));
    ASSIGN_OR_RETURN(const Json answer, harness::ParseMessage(line));
    if (answer["type"] != "hello") return harness::Misfit(line, "the first answer is not hello");
    std::string wrong;
    const Field fields(answer, &wrong);
    const Json& versions = fields.Object("versions");
    if (!wrong.empty()) return harness::Misfit(line, wrong);
    versions_json_ = fields.Has("versions") ? json::Dump(versions) : "null";
    return absl::OkStatus();
  }

  // The answer for a process that failed to answer correctly; the process has ended then.
  RunAnswer Lost(const absl::Status& status) {
    const HarnessProcess::Loss loss = process_->LossBy(status, power::kLastWords);
    const RunAnswer answer = {.status = loss.status == "infra" ? "bad_answer" : loss.status,
                              .message = loss.message};
    process_.reset();
    ++failures_in_a_row_;
    last_failure_ = power::BriefMessage(answer.message);
    return answer;
  }

  const CommandClientOptions options_;
  std::unique_ptr<HarnessProcess> process_;
  std::string last_failure_, versions_json_ = "null";
  std::optional<std::string> early_;  // a line that came before the question
  int64_t next_request_ = 1;
  int failures_in_a_row_ = 0;
};

}  // namespace

std::unique_ptr<InferenceClient> CommandClient::New(CommandClientOptions options) {
  return std::make_unique<Command>(std::move(options));
}

}  // namespace xplane_time
