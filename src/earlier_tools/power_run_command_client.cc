#include "earlier_tools/power_run_result_json.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "harness/messages.h"
#include "harness/process.h"
#include "json/json.h"
#include "status.h"
#include "xplane_time/power_run.h"

namespace xplane_time {
namespace {

using harness::Fields;
using json::kNeeded;

constexpr std::chrono::milliseconds kToFinish(2000), kEarly(1);
constexpr std::array<std::string_view, 5> kStatuses = {"ok", "runtime_error", "oom", "timeout",
                                                       "infra"};

std::string AskLine(int64_t request, const std::string& model, const RunRecord& record) {
  return harness::Line("ask", {{"request", request},
                               {"model", model},
                               {"problem", record.problem},
                               {"subject", record.subject},
                               {"dataset_metadata", json::Parse(record.dataset_metadata_json)}});
}

absl::StatusOr<RunAnswer> ParseRunAnswer(const std::string& line, int64_t request) {
  ASSIGN_OR_RETURN(const harness::Received message, harness::ParseMessage(line));
  Fields fields(message.object);
  if (message.type != "answer") fields.Fail("type", "answer");
  const int64_t answered = fields.Integer("request", 0, kNeeded).value_or(-1);
  if (fields.error().empty() && answered != request) {
    fields.Fail("request", absl::StrCat(request, ", and is ", answered));
  }
  RunAnswer answer;
  answer.status = fields.Text("status", kNeeded);
  if (std::find(kStatuses.begin(), kStatuses.end(), answer.status) == kStatuses.end()) {
    fields.Fail("status", "one of those in docs/power-run.md");
  }
  answer.answer = fields.Text("answer", json::Need(answer.status == "ok"));
  answer.message = fields.Text("message");
  answer.input_tokens = fields.Integer("input_tokens", 0);
  answer.output_tokens = fields.Integer("output_tokens", 0);
  answer.time_to_first_token_ms = fields.Number("time_to_first_token_ms", 0);
  if (!fields.error().empty()) return harness::Misfit(line, fields.error());
  return answer;
}

class Command : public CommandClient {
 public:
  explicit Command(CommandClientOptions options) : options_(std::move(options)) {}

  absl::Status Start() override {
    if (process_ != nullptr) return absl::OkStatus();
    const std::string name = absl::StrCat("the command \"", options_.command[0], "\"");
    if (failures_in_a_row_ >= options_.most_failures) {
      return Unavailable(name, " was lost ", failures_in_a_row_, " times in a row: ", last_failure_,
                         "; mend it, and go on with --resume");
    }
    auto started = HarnessProcess::Start(
        {.command = options_.command, .log_path = options_.log_path, .stopped = options_.stopped});
    if (!started.ok()) {  // who starts it calls it a harness
      return absl::Status(started.status().code(),
                          absl::StrReplaceAll(started.status().message(),
                                              {{": the harness cannot", ": the command cannot"},
                                               {"for the harness: ", "for the command: "}}));
    }
    process_ = *std::move(started);
    ++starts_;
    const absl::Status status = Hello();
    if (status.ok()) return status;
    if (absl::IsCancelled(status)) {
      process_.reset();
      return status;
    }
    return Unavailable(name, " did not say hello: ", power::BriefMessage(Lost(status).message),
                       "; docs/power-run.md says what it should");
  }

  absl::Status Ready() override {
    RETURN_IF_ERROR(Start());
    auto line = process_->Receive(MonotonicClock::now() + kEarly);
    if (line.ok()) early_ = *std::move(line);
    if (absl::IsCancelled(line.status())) process_.reset();
    // One that ended is found so when it is asked.
    return absl::IsCancelled(line.status()) ? line.status() : absl::OkStatus();
  }

  absl::StatusOr<RunAnswer> Ask(const RunRecord& record) override {
    RETURN_IF_ERROR(Start());
    if (const auto early = std::exchange(early_, std::nullopt); early.has_value()) {
      return Lost(harness::Misfit(*early, "an answer that came before the question"));
    }
    const int64_t request = next_request_++;
    const auto line = Exchange(AskLine(request, options_.model, record), options_.timeout);
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
    if (process_ == nullptr) return;
    const Deadline deadline = MonotonicClock::now() + kToFinish;
    static_cast<void>(process_->Send(harness::Line("bye"), deadline));
    process_->End(deadline);
    process_.reset();
  }

  int64_t pid() const override { return process_ != nullptr ? process_->pid() : 0; }

  uint64_t restarts() const override { return starts_ == 0 ? 0 : starts_ - 1; }

 private:
  absl::StatusOr<std::string> Exchange(const std::string& line, std::chrono::milliseconds timeout) {
    const Deadline deadline = MonotonicClock::now() + timeout;
    RETURN_IF_ERROR(process_->Send(line, deadline));
    return process_->Receive(deadline);
  }
  absl::Status Hello() {
    ASSIGN_OR_RETURN(
        const std::string line,
        Exchange(harness::Line("hello", {{"model", options_.model}}), options_.hello_timeout));
    ASSIGN_OR_RETURN(const harness::Received answer, harness::ParseMessage(line));
    return answer.type == "hello" ? absl::OkStatus()
                                  : harness::Misfit(line, "the first answer is not hello");
  }

  // Of a process_ that did not answer as it should; it is gone then.
  RunAnswer Lost(const absl::Status& status) {
    RunAnswer answer;
    if (absl::IsDeadlineExceeded(status)) {
      answer = {.status = "timeout", .message = "no answer in time"};
    } else if (absl::IsUnavailable(status)) {
      const std::string ending = process_->Ending();
      answer = {.status = StatusOfEnding(ending), .message = absl::StrCat("it ended: ", ending)};
    } else {
      answer = {.status = "bad_answer", .message = std::string(status.message())};
    }
    const std::string printed(absl::StripAsciiWhitespace(process_->Printed()));
    if (!printed.empty()) absl::StrAppend(&answer.message, power::kLastWords, printed);
    process_.reset();
    ++failures_in_a_row_;
    last_failure_ = power::BriefMessage(answer.message);
    return answer;
  }

  const CommandClientOptions options_;
  std::unique_ptr<HarnessProcess> process_;
  std::string last_failure_;
  std::optional<std::string> early_;  // a line that came before the question
  int64_t next_request_ = 1;
  uint64_t starts_ = 0;
  int failures_in_a_row_ = 0;
};

}  // namespace

std::unique_ptr<CommandClient> CommandClient::New(CommandClientOptions options) {
  return std::make_unique<Command>(std::move(options));
}

}  // namespace xplane_time

namespace xplane_time::power {

std::string BriefMessage(std::string_view message) {
  const size_t words_at = message.find(kLastWords);
  const std::string_view said = message.substr(0, words_at);
  std::string brief(said.substr(0, said.find('\n')));
  if (words_at == message.npos) return brief;
  std::string_view words = message.substr(words_at + sizeof kLastWords - 1);
  while (words.ends_with('\n') || words.ends_with('\r')) words.remove_suffix(1);
  const size_t line_at = words.rfind('\n');
  return brief.append(kLastWords).append(line_at == words.npos ? words : words.substr(line_at + 1));
}

}  // namespace xplane_time::power
