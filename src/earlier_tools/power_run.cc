// What a run consists of: the records, who answers them, what an answer took, and the loop.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <deque>
#include <filesystem>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "earlier_tools/power_run_result_json.h"
#include "harness/messages.h"
#include "harness/process.h"
#include "io/sha256.h"
#include "json/json.h"
#include "power/log.h"
#include "power/machine.h"
#include "power/sources.h"
#include "status.h"
#include "xplane_time/power_run.h"

namespace xplane_time {
namespace {

using json::Json;

// ---- The records

// Empty, or what is wrong with the line.
std::string ParseRecord(std::string_view line, RunRecord* record) {
  if (json::NestsDeeper(line)) return "it is nested too deeply";
  const Json object = json::Parse(line);
  if (!object.is_object()) return "it is not a JSON object";
  if (json::Find(object, "problem") == nullptr) return "it has no \"problem\"";
  for (const auto& [name, text] : {std::pair{"problem", &record->problem},
                                   {"answer", &record->answer},
                                   {"subject", &record->subject}}) {
    const Json* field = json::Find(object, name);
    if (field == nullptr) continue;
    if (!field->is_string()) return absl::StrCat("its \"", name, "\" is not a text");
    *text = field->get<std::string>();
  }
  Json metadata = object.value("dataset_metadata", Json());
  if (metadata.is_null()) metadata = Json::object();
  if (!metadata.is_object()) return "its \"dataset_metadata\" is not an object";
  for (const auto& [name, value] : object.items()) {
    const bool known =
        name == "problem" || name == "answer" || name == "subject" || name == "dataset_metadata";
    if (!known && !metadata.contains(name)) metadata[name] = value;
  }
  record->dataset_metadata_json = metadata.dump();
  return "";
}

class JsonLinesSource : public RecordSource {
 public:
  explicit JsonLinesSource(std::string path) : path_(std::move(path)) {}

  // Reads it all once: what is wrong is known before anything is asked.
  absl::Status CheckAll() {
    std::error_code error;
    if (!std::filesystem::exists(path_, error)) return NotFound(path_, ": no such file");
    // It is read twice; a pipe cannot be, and waits for its writer.
    if (std::filesystem::is_regular_file(path_, error)) {
      file_ = power::Descriptor(open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    }
    if (!file_.open()) return Unavailable(path_, ": not a file that can be read");
    for (;; ++size_) {
      ASSIGN_OR_RETURN(const std::optional<RunRecord> record, Next());
      if (!record.has_value()) break;
    }
    if (size_ == 0) {
      return DataLoss(path_, ": no record; one JSON object a line, with a \"problem\"");
    }
    sha256_ = hash_.Hex();
    lseek(file_.get(), 0, SEEK_SET);
    lines_ = Lines();
    next_ = 0;
    return absl::OkStatus();
  }

  absl::StatusOr<std::optional<RunRecord>> Next() override {
    for (power::LogLine line; lines_.Next(&line);) {
      const bool too_long = line.too_long || line.text.size() > kMostLineBytes;
      if (!too_long && line.text.find_first_not_of(" \t\r") == line.text.npos) continue;
      RunRecord record = {.index = next_};
      const std::string error =
          too_long ? "it is longer than 16 MiB" : ParseRecord(line.text, &record);
      if (!error.empty()) return DataLoss(path_, ": line ", line.number, ": ", error);
      ++next_;
      return std::optional(std::move(record));
    }
    if (!lines_.damage().empty()) return Unavailable(path_, ": cannot be read");
    return std::optional<RunRecord>();
  }

  uint64_t size() const override { return size_; }
  std::string sha256() const override { return sha256_; }

 private:
  static constexpr size_t kMostLineBytes = size_t{16} << 20;

  power::LogLines Lines() {
    const auto fill = [this](char* to, size_t size, std::string* damage) {
      const ssize_t got = read(file_.get(), to, size);
      if (got < 0) *damage = "cannot be read";
      const size_t some = got < 0 ? 0 : static_cast<size_t>(got);
      if (sha256_.empty()) hash_.Update({to, some});
      return some;
    };
    return power::LogLines(fill, kMostLineBytes);
  }

  const std::string path_;
  std::string sha256_;
  io::Sha256 hash_;
  power::Descriptor file_;
  power::LogLines lines_ = Lines();
  uint64_t next_ = 0, size_ = 0;
};

// ---- Who answers

absl::StatusOr<RunAnswer> ParseRunAnswer(const std::string& line, int64_t request) {
  ASSIGN_OR_RETURN(const harness::Received message, harness::ParseMessage(line));
  json::Fields fields(message.object);
  if (message.type != "answer") fields.Fail("type", "answer");
  const int64_t answered = fields.Integer("request", 0, json::kNeeded).value_or(-1);
  if (fields.ok() && answered != request) {
    fields.Fail("request", absl::StrCat(request, ", and is ", answered));
  }
  RunAnswer answer;
  answer.status = fields.Text("status", json::kNeeded);
  constexpr std::string_view kStatuses[] = {"ok", "runtime_error", "oom", "timeout", "infra"};
  if (std::ranges::find(kStatuses, answer.status) == std::end(kStatuses)) {
    fields.Fail("status", "one of those in docs/power-run.md");
  }
  answer.answer = fields.Text("answer", json::Need(answer.status == "ok"));
  answer.message = fields.Text("message");
  answer.input_tokens = fields.Integer("input_tokens", 0);
  answer.output_tokens = fields.Integer("output_tokens", 0);
  answer.time_to_first_token_ms = fields.Number("time_to_first_token_ms", 0);
  if (!fields.ok()) return harness::Misfit(line, harness::MisfitOf(fields));
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
    ASSIGN_OR_RETURN(const harness::Received answer, harness::ParseMessage(line));
    return answer.type == "hello" ? absl::OkStatus()
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

// What is read before a window: half a minute of fast counters, of which the edge needs one.
constexpr size_t kLeadReadings = 8192;
// A reading after the end is waited for no longer.
constexpr std::chrono::milliseconds kAtMost(300);

// `machine`: as a log's header has it.
RunHardware HardwareOf(const std::string& machine_json, const PowerInventory& inventory) {
  const Json machine = json::Parse(machine_json);
  return {.label = HardwareLabel(inventory, json::TextOf(machine, "cpu").value_or("")),
          .system_info_json = json::Dump(machine)};
}

class NoTelemetry : public Telemetry {
 public:
  RunHardware Hardware() override {
    return HardwareOf(power::MachineJson(PowerRoots{}.procfs), {});
  }
  absl::Status Begin(std::string_view /*name*/) override { return absl::OkStatus(); }
  absl::StatusOr<RunTelemetry> End(std::string_view name) override {
    RunTelemetry nothing;
    nothing.window.name = name;
    return nothing;
  }
};

// Follows the recorder: what it reads goes into the summary of the window that is open, after
// what was read shortly before.
class RecorderTelemetry : public Telemetry, private power::LogSink {
 public:
  explicit RecorderTelemetry(std::unique_ptr<PowerRecorder> recorder)
      : recorder_(std::move(recorder)) {
    recorder_->Follow(this);
  }
  ~RecorderTelemetry() override { recorder_.reset(); }  // nobody calls a sink from here on

  RunHardware Hardware() override {
    const PowerInventory& inventory = recorder_->inventory();
    RunHardware hardware = HardwareOf(header_.machine_json, inventory);
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
    {
      const std::lock_guard lock(mutex_);
      window_ = power::Summarizer::New({.whole = false, .max_columns = 0});
      window_->Header(header_);
      for (const auto& each : lead_) {
        if (const Pass* pass = std::get_if<Pass>(&each)) {
          window_->Readings(pass->s, pass->t_ns, pass->readings);
        } else {
          const auto& clocks = std::get<power::Clocks>(each);
          window_->ClocksAt(clocks.monotonic_ns, clocks);
        }
      }
    }
    return recorder_->Begin(name);
  }

  absl::StatusOr<RunTelemetry> End(std::string_view name) override {
    RETURN_IF_ERROR(recorder_->End(name));
    std::unique_ptr<power::Summarizer> window;
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, kAtMost, [&] { return missing_.empty(); });
      window = std::move(window_);
    }
    RETURN_IF_ERROR(recorder_->log_status());
    PowerSummary summary = window->Finish({});
    if (summary.windows.empty()) return Internal("no window \"", name, "\"");
    return RunTelemetry{std::move(summary.windows[0]), std::move(summary.inventory.channels),
                        std::move(summary.inventory.absences)};
  }

 private:
  struct Pass {
    size_t s = 0;
    int64_t t_ns = 0;
    std::vector<power::Reading> readings;
  };

  using power::LogSink::End;
  void Header(power::LogHeader header) override {
    for (size_t s = 0; s < header.periods_ns.size(); ++s) {
      const auto& channels = header.inventory.channels;
      const auto is_energy_of_it = [&](const PowerChannel& each) {
        return IsPowerOrEnergy(each) && each.source == header.periods_ns[s].first;
      };
      if (std::ranges::any_of(channels, is_energy_of_it)) energy_sources_.insert(s);
    }
    header_ = std::move(header);
  }

  void Readings(size_t s, int64_t t_ns, std::span<const power::Reading> readings) override {
    const std::lock_guard lock(mutex_);
    if (window_ != nullptr) window_->Readings(s, t_ns, readings);
    lead_.push_back(Pass{s, t_ns, {readings.begin(), readings.end()}});
    lead_readings_ += readings.size();
    for (; lead_readings_ > kLeadReadings; lead_.pop_front()) {
      if (const Pass* pass = std::get_if<Pass>(&lead_.front())) {
        lead_readings_ -= pass->readings.size();
      } else {
        header_.clocks = std::get<power::Clocks>(lead_.front());
      }
    }
    missing_.erase(s);
    changed_.notify_all();
  }

  void ClocksAt(int64_t t_ns, const power::Clocks& clocks) override {
    const std::lock_guard lock(mutex_);
    if (window_ != nullptr) window_->ClocksAt(t_ns, clocks);
    lead_.push_back(clocks);
  }

  void Mark(int64_t t_ns, std::string_view window, bool end) override {
    const std::lock_guard lock(mutex_);
    if (window_ != nullptr) window_->Mark(t_ns, window, end);
    if (end) missing_ = energy_sources_;
  }

  std::unique_ptr<PowerRecorder> recorder_;
  std::set<size_t> energy_sources_;  // `s` of readings that an edge waits for
  std::mutex mutex_;                 // of all below; taken under the recorder's own
  std::condition_variable changed_;
  power::LogHeader header_;  // its clocks: the last before lead_
  std::deque<std::variant<Pass, power::Clocks>> lead_;
  size_t lead_readings_ = 0;
  std::unique_ptr<power::Summarizer> window_;
  std::set<size_t> missing_;  // of energy_sources_, since the window's end
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
  auto source = std::make_unique<JsonLinesSource>(path);
  RETURN_IF_ERROR(source->CheckAll());
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
