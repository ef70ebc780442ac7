// What a run consists of: the records, who answers them, what an answer took, and the loop.
#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "earlier_tools/power_run_result_json.h"
#include "harness/messages.h"
#include "harness/process.h"
#include "io/sha256.h"
#include "io/whole_file.h"
#include "json/field.h"
#include "power/machine.h"
#include "power/sources.h"
#include "status.h"
#include "xplane_time/power_run.h"

namespace xplane_time {
namespace {

using json::Field, json::Json, json::kNeeded, json::kOptional;

// ---- The records

// Empty, or what is wrong with the line.
std::string ParseRecord(std::string_view line, RunRecord* record) {
  const Json object = json::Parse(line);
  if (!object.is_object()) {
    return json::NestsDeeper(line) ? "it is nested too deeply" : "it is not a JSON object";
  }
  std::string wrong;
  const Field fields(object, &wrong);
  fields.Read("problem", &record->problem, kNeeded);
  fields.Read("answer", &record->answer);
  fields.Read("subject", &record->subject);
  Json metadata = fields.Object("dataset_metadata");
  if (!wrong.empty()) return wrong;
  for (const auto& [name, value] : object.items()) {
    const bool known =
        name == "problem" || name == "answer" || name == "subject" || name == "dataset_metadata";
    if (!known && !metadata.contains(name)) metadata[name] = value;
  }
  record->dataset_metadata_json = metadata.dump();
  return "";
}

// All of a file: what is wrong is known before anything is asked.
struct JsonLinesSource : RecordSource {
  absl::StatusOr<std::optional<RunRecord>> Next() override {
    return next < records.size() ? std::optional(records[next++]) : std::nullopt;
  }
  uint64_t size() const override { return records.size(); }
  std::string sha256() const override { return hash; }

  std::vector<RunRecord> records;
  std::string hash;
  size_t next = 0;
};

// ---- Who answers

absl::StatusOr<RunAnswer> ParseRunAnswer(const std::string& line, int64_t request) {
  ASSIGN_OR_RETURN(const Json message, harness::ParseMessage(line));
  std::string wrong;
  const Field fields(message, &wrong);
  fields.At("type").Expect(message["type"] == "answer", "answer");
  int64_t answered = -1;
  fields.Read("request", &answered, kNeeded, 0);
  fields.At("request").Expect(answered == request, Cat(request, ", and is ", answered));
  RunAnswer answer;
  fields.Read("status", &answer.status, kNeeded);
  constexpr std::string_view kStatuses[] = {"ok", "runtime_error", "oom", "timeout", "infra"};
  fields.At("status").Expect(std::ranges::find(kStatuses, answer.status) != std::end(kStatuses),
                             "one of those in docs/power-run.md");
  fields.Read("answer", &answer.answer, json::Need(answer.status == "ok"));
  fields.Read("message", &answer.message);
  fields.Read("input_tokens", &answer.input_tokens, kOptional, 0);
  fields.Read("output_tokens", &answer.output_tokens, kOptional, 0);
  fields.Read("time_to_first_token_ms", &answer.time_to_first_token_ms, kOptional, 0);
  if (!wrong.empty()) return harness::Misfit(line, wrong);
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
    return Unavailable(name, " did not say hello: ", power::BriefMessage(Lost(status).message),
                       "; docs/power-run.md says what it should");
  }

  absl::Status Ready() override {
    RETURN_IF_ERROR(Start());
    auto line = process_->Receive(MonotonicClock::now() + std::chrono::milliseconds(1));
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
    return answer["type"] == "hello" ? absl::OkStatus()
                                     : harness::Misfit(line, "the first answer is not hello");
  }

  // Of a process_ that did not answer as it should; it is gone then.
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
  std::string last_failure_;
  std::optional<std::string> early_;  // a line that came before the question
  int64_t next_request_ = 1;
  int failures_in_a_row_ = 0;
};

// ---- What it took

// What is read of the log before a window: half a minute of fast counters, of which the edge needs
// one.
constexpr std::streamoff kLeadBytes = 1 << 18;
// A reading after the end is waited for no longer.
constexpr std::chrono::milliseconds kAtMost(300);

// `machine`: as a log's header has it.
RunHardware HardwareOf(const Json& machine, const PowerInventory& inventory) {
  return {.label = HardwareLabel(inventory, json::TextOf(machine, "cpu").value_or("")),
          .system_info_json = json::Dump(machine)};
}

class NoTelemetry : public Telemetry {
 public:
  RunHardware Hardware() override {
    return HardwareOf(json::Parse(power::MachineJson(PowerRoots{}.procfs)), {});
  }
  absl::Status Begin(std::string_view /*name*/) override { return absl::OkStatus(); }
  absl::StatusOr<RunTelemetry> End(std::string_view name) override {
    RunTelemetry nothing;
    nothing.window.name = name;
    return nothing;
  }
};

// A window is summarized from its part of the recorder's log, after what was written shortly
// before.
class RecorderTelemetry : public Telemetry {
 public:
  explicit RecorderTelemetry(std::unique_ptr<PowerRecorder> recorder)
      : recorder_(std::move(recorder)), log_(recorder_->log_path(), std::ios::binary) {
    std::getline(log_, header_);
    header_ += '\n';
  }

  RunHardware Hardware() override {
    const PowerInventory& inventory = recorder_->inventory();
    const Json header = json::Parse(header_);
    const Json* const machine = json::Find(header, "machine");
    RunHardware hardware = HardwareOf(machine == nullptr ? Json() : *machine, inventory);
    Json gpus = Json::array();
    for (const PowerDevice& each : inventory.devices) {
      if (power::FactsOf(each.source).measures != power::Measures::kGpus) continue;
      gpus.push_back({{"name", each.name},
                      {"id", each.id},
                      {"driver", each.driver},
                      {"pci_bus_id", each.pci_bus_id},
                      {"shared_device", each.shared}});
    }
    if (!gpus.empty()) hardware.gpu_info_json = json::Dump(gpus);
    return hardware;
  }

  absl::Status Begin(std::string_view name) override {
    log_.clear();
    log_.seekg(0, std::ios::end);
    const std::streamoff log_bytes = log_.tellg();
    from_ = std::max(static_cast<std::streamoff>(header_.size()), log_bytes - kLeadBytes);
    RETURN_IF_ERROR(recorder_->Begin(name));
    begin_ns_ = power::MonotonicNow();
    return absl::OkStatus();
  }

  absl::StatusOr<RunTelemetry> End(std::string_view name) override {
    const int64_t end_ns = power::MonotonicNow();
    RETURN_IF_ERROR(recorder_->End(name));
    recorder_->AwaitReadings(kAtMost);
    RETURN_IF_ERROR(recorder_->log_status());
    log_.clear();
    // From the begin of a line: what is before it is the end of another, or nothing.
    log_.seekg(from_ - 1);
    log_.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
    const std::string text = header_ + std::string(std::istreambuf_iterator<char>(log_),
                                                   std::istreambuf_iterator<char>());
    ASSIGN_OR_RETURN(PowerSummary summary,
                     SummarizePowerLogText(text, "the power log",
                                           {.windows = {{std::string(name), begin_ns_, end_ns}},
                                            .whole = false,
                                            .max_windows = 1,  // none of the log's
                                            .max_columns = 0}));
    return RunTelemetry{std::move(summary.windows[0]), std::move(summary.inventory.channels),
                        std::move(summary.inventory.absences)};
  }

 private:
  std::unique_ptr<PowerRecorder> recorder_;
  std::ifstream log_;
  std::string header_;       // its first line
  std::streamoff from_ = 0;  // of the window's part of it
  int64_t begin_ns_ = 0;
};

// ---- The loop

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

std::string power::BriefMessage(std::string_view message) {
  const size_t words_at = message.find(kLastWords);
  const std::string_view said = message.substr(0, words_at);
  std::string brief(said.substr(0, said.find('\n')));
  if (words_at == message.npos) return brief;
  std::string_view words = message.substr(words_at + sizeof kLastWords - 1);
  while (words.ends_with('\n') || words.ends_with('\r')) words.remove_suffix(1);
  const size_t line_at = words.rfind('\n');
  return brief.append(kLastWords).append(line_at == words.npos ? words : words.substr(line_at + 1));
}

absl::StatusOr<std::unique_ptr<RecordSource>> OpenJsonLinesSource(const std::string& path) {
  constexpr size_t kMostLineBytes = size_t{16} << 20;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return NotFound(path, ": no such file");
  std::optional<std::string> text;
  // A pipe waits for its writer.
  if (std::filesystem::is_regular_file(path, error)) text = io::ReadFile(path);
  if (!text.has_value()) return Unavailable(path, ": not a file that can be read");
  auto source = std::make_unique<JsonLinesSource>();
  source->hash = io::Sha256Hex(*text);
  uint64_t number = 0;
  for (const absl::string_view each : absl::StrSplit(*text, '\n')) {
    ++number;
    const std::string_view line(each.data(), each.size());
    const bool too_long = line.size() > kMostLineBytes;
    if (!too_long && line.find_first_not_of(" \t\r") == line.npos) continue;
    RunRecord& record = source->records.emplace_back();
    record.index = source->records.size() - 1;
    const std::string wrong = too_long ? "it is longer than 16 MiB" : ParseRecord(line, &record);
    if (!wrong.empty()) return DataLoss(path, ": line ", number, ": ", wrong);
  }
  if (source->records.empty()) {
    return DataLoss(path, ": no record; one JSON object a line, with a \"problem\"");
  }
  return source;
}

std::unique_ptr<CommandClient> CommandClient::New(CommandClientOptions options) {
  return std::make_unique<Command>(std::move(options));
}

std::string HardwareLabel(const PowerInventory& inventory, std::string_view processor) {
  for (const PowerDevice& device : inventory.devices) {
    const auto is_its_gpu = [&](const PowerChannel& each) {
      return each.device == device.id && each.domain == "gpu";
    };
    if (!device.name.empty() && std::ranges::any_of(inventory.channels, is_its_gpu)) {
      return device.name;
    }
  }
  return std::string(processor);
}

std::unique_ptr<Telemetry> NewNoTelemetry() { return std::make_unique<NoTelemetry>(); }

std::unique_ptr<Telemetry> NewRecorderTelemetry(std::unique_ptr<PowerRecorder> recorder) {
  return std::make_unique<RecorderTelemetry>(std::move(recorder));
}

RunHardware PrimeHardware(Telemetry* telemetry, const std::function<bool()>& stopped) {
  constexpr std::chrono::milliseconds kAtMost(2000), kEvery(50);
  const auto deadline = std::chrono::steady_clock::now() + kAtMost;
  for (;;) {
    RunHardware hardware = telemetry->Hardware();
    const bool late = std::chrono::steady_clock::now() + kEvery > deadline;
    if (!hardware.label.empty() || late || stopped()) return hardware;
    std::this_thread::sleep_for(kEvery);
  }
}

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
    if (sink->Has(index)) {
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
