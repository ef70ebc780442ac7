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
using harness::kNeeded;

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

}  // namespace

struct CommandClient::State {
  absl::StatusOr<std::string> Exchange(const std::string& line, std::chrono::milliseconds timeout) {
    const Deadline deadline = MonotonicClock::now() + timeout;
    RETURN_IF_ERROR(process->Send(line, deadline));
    return process->Receive(deadline);
  }
  absl::Status Hello();
  // Of a process that did not answer as it should; it is gone then.
  RunAnswer Lost(const absl::Status& status);

  CommandClientOptions options;
  std::unique_ptr<HarnessProcess> process = {};
  std::string last_failure = {};
  std::optional<std::string> early = {};  // a line that came before the question
  int64_t next_request = 1;
  uint64_t starts = 0;
  int failures_in_a_row = 0;
};

absl::Status CommandClient::State::Hello() {
  ASSIGN_OR_RETURN(
      const std::string line,
      Exchange(harness::Line("hello", {{"model", options.model}}), options.hello_timeout));
  ASSIGN_OR_RETURN(const harness::Received answer, harness::ParseMessage(line));
  return answer.type == "hello" ? absl::OkStatus()
                                : harness::Misfit(line, "the first answer is not hello");
}

RunAnswer CommandClient::State::Lost(const absl::Status& status) {
  RunAnswer answer;
  if (absl::IsDeadlineExceeded(status)) {
    answer = {.status = "timeout", .message = "no answer in time"};
  } else if (absl::IsUnavailable(status)) {
    const std::string ending = process->Ending();
    answer = {.status = StatusOfEnding(ending), .message = absl::StrCat("it ended: ", ending)};
  } else {
    answer = {.status = "bad_answer", .message = std::string(status.message())};
  }
  const std::string printed(absl::StripAsciiWhitespace(process->Printed()));
  if (!printed.empty()) absl::StrAppend(&answer.message, power::kLastWords, printed);
  process.reset();
  ++failures_in_a_row;
  last_failure = power::BriefMessage(answer.message);
  return answer;
}

CommandClient::CommandClient(CommandClientOptions options)
    : state_(std::make_unique<State>(State{.options = std::move(options)})) {}
CommandClient::~CommandClient() = default;

absl::Status CommandClient::Start() {
  State& state = *state_;
  if (state.process != nullptr) return absl::OkStatus();
  const std::string name = absl::StrCat("the command \"", state.options.command[0], "\"");
  if (state.failures_in_a_row >= state.options.most_failures) {
    return Unavailable(name, " was lost ", state.failures_in_a_row,
                       " times in a row: ", state.last_failure,
                       "; mend it, and go on with --resume");
  }
  auto process = HarnessProcess::Start({.command = state.options.command,
                                        .log_path = state.options.log_path,
                                        .stopped = state.options.stopped});
  if (!process.ok()) {  // who starts it calls it a harness
    return absl::Status(process.status().code(),
                        absl::StrReplaceAll(process.status().message(),
                                            {{": the harness cannot", ": the command cannot"},
                                             {"for the harness: ", "for the command: "}}));
  }
  state.process = *std::move(process);
  ++state.starts;
  const absl::Status status = state.Hello();
  if (status.ok()) return status;
  if (absl::IsCancelled(status)) {
    state.process.reset();
    return status;
  }
  return Unavailable(name, " did not say hello: ", power::BriefMessage(state.Lost(status).message),
                     "; docs/power-run.md says what it should");
}

absl::Status CommandClient::Ready() {
  RETURN_IF_ERROR(Start());
  auto line = state_->process->Receive(MonotonicClock::now() + kEarly);
  if (line.ok()) state_->early = *std::move(line);
  if (absl::IsCancelled(line.status())) state_->process.reset();
  // One that ended is found so when it is asked.
  return absl::IsCancelled(line.status()) ? line.status() : absl::OkStatus();
}

absl::StatusOr<RunAnswer> CommandClient::Ask(const RunRecord& record) {
  RETURN_IF_ERROR(Start());
  State& state = *state_;
  if (const auto early = std::exchange(state.early, std::nullopt); early.has_value()) {
    return state.Lost(harness::Misfit(*early, "an answer that came before the question"));
  }
  const int64_t request = state.next_request++;
  const auto line =
      state.Exchange(AskLine(request, state.options.model, record), state.options.timeout);
  auto answer = line.ok() ? ParseRunAnswer(*line, request) : line.status();
  if (absl::IsCancelled(answer.status())) {
    state.process.reset();
    return answer;
  }
  if (!answer.ok()) return state.Lost(answer.status());
  state.failures_in_a_row = 0;
  return answer;
}

void CommandClient::Finish() {
  if (state_->process == nullptr) return;
  const Deadline deadline = MonotonicClock::now() + kToFinish;
  static_cast<void>(state_->process->Send(harness::Line("bye"), deadline));
  state_->process->End(deadline);
  state_->process.reset();
}

int64_t CommandClient::pid() const {
  return state_->process != nullptr ? state_->process->pid() : 0;
}

uint64_t CommandClient::restarts() const { return state_->starts == 0 ? 0 : state_->starts - 1; }

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
