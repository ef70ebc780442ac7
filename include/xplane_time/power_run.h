// Power run: asks a program a file of problems one by one, and stores each answer with its energy,
// power, memory and latency.
//
//   RecordSource -> InferenceClient (Ask) between Telemetry's Begin and End -> RecordSink
//
// Example:
//
//   struct Echo : InferenceClient {  // or CommandClient::New({.command = {"python", "answer.py"}})
//     absl::StatusOr<RunAnswer> Ask(const RunRecord& record,
//                                   const std::function<void()>& /*again*/) override {
//       return RunAnswer{.answer = record.problem};
//     }
//   };
//   PowerRunOptions options;
//   options.model = "echo";
//   options.dataset = "problems";
//   auto source = OpenDataset("problems.jsonl", {});
//   if (!source.ok()) return source.status();
//   auto telemetry = NewNoTelemetry();  // or StartTelemetry, with sensors
//   auto hardware = PrimeHardware(telemetry.get(), options.stopped);
//   auto directory = RunDirectory::Open(options, (*source)->sha256(), hardware);
//   if (!directory.ok()) return directory.status();
//   // FailedPrecondition: runs/profile_...: already exists; continue it with --resume, ...
//   Echo client;
//   auto outcome = RunPower(options, source->get(), &client, telemetry.get(), directory->get(),
//                           /*on_record=*/nullptr);
//   if (!outcome.ok()) return outcome.status();
//   assert(outcome->asked == (*source)->size() && outcome->failed == 0);
//
// Each record is on disk before the next one is asked. A killed run can therefore continue with
// `resume` and asks no question twice. A failure of one record (a crash, a hang, an invalid answer)
// is the status of that record and does not end the run. An unknown value is null, never 0.
//
// Formats of data sets are listed in src/workload/datasets.h, and clients in
// src/workload/clients.h. RecordSink is an interface, so that other sinks (Parquet) can be added.
//
// Everything runs on one thread, except that with `concurrency` this number of threads call Ready
// and Ask at once. docs/power-run-files.md describes the files of the directory.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "xplane_time/power.h"

namespace xplane_time {

// ---- Questions

struct RunRecord {
  uint64_t index = 0;  // position in the input, from 0, whatever the order of asking
  std::string problem = {}, answer = {}, subject = {};
  std::string dataset_metadata_json = "{}";
};

class RecordSource {
 public:
  virtual ~RecordSource() = default;
  // The next record; empty at the end. Errors: DataLoss (the input has changed meanwhile).
  virtual absl::StatusOr<std::optional<RunRecord>> Next() = 0;
  virtual uint64_t size() const = 0;
  virtual std::string sha256() const = 0;  // of the input; it identifies the input of a resumed run
};

struct DatasetOptions {
  // a name of DatasetFormats(); empty: detected by content, else by suffix
  std::string format = {};
  // Names of the fields in the data set.
  std::string problem_field = "problem", answer_field = "answer", subject_field = "subject";
  // seed of a random order that is the same on every machine; empty: input order
  std::optional<uint64_t> shuffle_seed = {};
  // interpreter for formats that need Python; empty: XPLANE_TIME_PYTHON, else python3
  std::string python = {};
};

// Opens a file or folder of records: {problem, answer?, subject?, dataset_metadata?}. Other fields
// are added to the metadata. The whole input is checked here, before the first question. Only the
// positions of the records are kept in memory. Errors: NotFound, DataLoss (FILE: line N: ..., or an
// unknown format), InvalidArgument (an unknown name of a format), Unavailable (unreadable),
// FailedPrecondition (Python or its library is missing), Internal (no space in TMPDIR).
absl::StatusOr<std::unique_ptr<RecordSource>> OpenDataset(const std::string& path,
                                                          const DatasetOptions& options);

// ---- Answers

struct RunAnswer {
  // ok; from the program: runtime_error, oom, timeout, infra; from the driver: crash,
  // crash(SIGNAL), oom (killed by signal 9), timeout, bad_answer.
  std::string status = "ok";
  std::string answer = {}, message = {};
  std::optional<int64_t> input_tokens = {}, output_tokens = {};
  // Since the start of the last attempt. Tokens of reasoning are not part of the answer.
  std::optional<double> time_to_first_token_ms = {}, time_to_first_reasoning_token_ms = {};
  // Intervals between the pieces of a streamed answer. Unknown with fewer than two pieces.
  struct InterTokenTimes {
    std::optional<double> p50 = {}, p95 = {}, p99 = {};
  } inter_token_ms = {};
  std::string finish_reason = {};  // from a server: stop, length, ...; empty: not given
  int64_t attempts = 1;
};

class InferenceClient {
 public:
  virtual ~InferenceClient() = default;
  // Checks before the first question whether the client can answer at all. Errors: those of Ask.
  virtual absl::Status Start() { return absl::OkStatus(); }
  // Called before the window of a record begins, for work that is not part of the answer (such as
  // the start of a process). Errors: as Ask.
  virtual absl::Status Ready() { return absl::OkStatus(); }
  // Asks one question. It calls `again` before each attempt after the first; the measurement then
  // restarts. A failure of one record is returned as its answer (RunAnswer::status). An error ends
  // the run: Cancelled (stopped during the question: the record has no answer), Unavailable and
  // NotFound (no record can be answered).
  virtual absl::StatusOr<RunAnswer> Ask(const RunRecord& record,
                                        const std::function<void()>& again) = 0;
  // Called after the last question.
  virtual void Finish() {}
  virtual int64_t pid() const { return 0; }  // process that answers; 0: it is not a child process
  // Versions of the answering software by name, once it runs: {"vllm": "0.9.1"}; null: unknown.
  virtual std::string versions_json() const { return "null"; }
};

struct CommandClientOptions {
  std::vector<std::string> command;
  std::string model = {};
  std::string log_path = {};  // its output is appended to this file; empty: discarded
  std::chrono::milliseconds hello_timeout{120'000}, timeout{600'000};  // timeout of an answer
  int most_failures = 3;  // process losses in a row after which the client gives up
  std::function<bool()> stopped = [] { return false; };
};

// A persistent command that exchanges JSON Lines over pipes (docs/power-run.md). If it dies, hangs
// or gives an invalid answer, it is killed and restarted for the next record. At the end, remaining
// processes are killed. Ready starts the command. Output that arrives before a question is not an
// answer to it, and fails the question. Finish sends bye and waits briefly. Errors of Start:
// NotFound, Unavailable, Cancelled.
struct CommandClient {
  static std::unique_ptr<InferenceClient> New(CommandClientOptions options);
};

// ---- Measurements

struct RunHardware {
  std::string label;  // empty: not known yet
  std::string system_info_json = "null", gpu_info_json = "null";
};

// One window, the channels of its gauges, and the sensors that could not be read.
struct RunTelemetry {
  WindowSummary window = {};
  std::vector<PowerChannel> channels = {};
  std::vector<PowerAbsence> absences = {};
  PowerReason reason = PowerReason::kKnown;  // otherwise the reason why the whole window is unknown
};

class Telemetry {
 public:
  virtual ~Telemetry() = default;
  virtual RunHardware Hardware() = 0;
  // Begins a window. An open window is discarded and restarted.
  virtual absl::Status Begin(std::string_view name) = 0;
  virtual absl::StatusOr<RunTelemetry> End(std::string_view name) = 0;
  // Ends the window and begins the next one at the same time, without a gap.
  virtual absl::StatusOr<RunTelemetry> Lap(std::string_view name) = 0;
};

// Telemetry from a recorder. Each window is summarized from its part of the log and a short time
// before it, so the cost per record does not grow with the length of the run.
std::unique_ptr<Telemetry> NewRecorderTelemetry(std::unique_ptr<PowerRecorder> recorder);
// Starts a recorder of these sources. If the only source is "none", this is NewNoTelemetry().
// `tell` receives the named sources that have no sensor of power or energy. Errors:
// FailedPrecondition (no such sensor at all, and no source was named), InvalidArgument (an unknown
// source).
absl::StatusOr<std::unique_ptr<Telemetry>> StartTelemetry(
    const PowerSourceOptions& from, const std::function<void(const std::string&)>& tell);
// Telemetry that reports only the hardware; every measured value is null.
std::unique_ptr<Telemetry> NewNoTelemetry();

// The name of the GPU in the inventory (fit for a path), else of the processor; empty: both
// unknown.
std::string HardwareLabel(const PowerInventory& inventory, std::string_view processor);

// ---- Results

struct RunResult {
  RunRecord record = {};
  RunAnswer answer = {};
  std::string model = {};
  int64_t begin_ns = 0, end_ns = 0;  // CLOCK_MONOTONIC around the last attempt of Ask
  int64_t asked_ns = 0;              // start of the first attempt
  int64_t begin_unix_ns = 0;
  std::optional<RunTelemetry> telemetry = {};
  std::string telemetry_error = {};  // reason if there is no telemetry
  RunHardware hardware = {};
};

// A measurement during which several records were asked at once. Its energy cannot be divided among
// these records. Spans follow each other without gaps.
struct RunSpan {
  int64_t begin_ns = 0, end_ns = 0;  // CLOCK_MONOTONIC
  absl::StatusOr<RunTelemetry> telemetry = RunTelemetry{};
};

class RecordSink {
 public:
  virtual ~RecordSink() = default;
  // Whether an earlier part of a resumed run has stored the record. Errors: DataLoss (another
  // question is stored under its index).
  virtual absl::StatusOr<bool> Has(const RunRecord& record) const = 0;
  // Stores a record. It is durable when the function returns OK.
  virtual absl::Status Write(const RunResult& result) = 0;
  // Adds a span for the records that were written since the previous span. The next checkpoint
  // stores the span.
  virtual void Add(const RunSpan& span) = 0;
  // Writes the summary of the run: at the start, every 100 records or 10 s, and at the end.
  // `stop_reason` is "running", "" if all records were asked, or why the run ended early.
  virtual absl::Status Checkpoint(std::string_view stop_reason) = 0;
};

// One record as a line of records.jsonl, without the line feed.
std::string RunResultJson(const RunResult& result);

// ---- The run

struct PowerRunOptions {
  std::string model, dataset;
  std::string output_root = "runs";  // the directory of the run is created in it
  std::optional<uint64_t> max_queries = {};
  // Properties of the source. A resumed run needs the same values.
  std::optional<uint64_t> input_records = {};  // number of records; empty: unknown
  std::optional<uint64_t> shuffle_seed = {};
  std::string problem_field = "problem";
  bool overwrite = false, resume = false;
  bool retry_failed = false;  // with `resume`: drop failed records and ask them again
  // Number of records asked at once. Above 1, energies are measured for spans and unknown for
  // records.
  int concurrency = 1;
  // Called if the run exists and neither `overwrite` nor `resume` is set. If it returns true, the
  // run is overwritten.
  std::function<bool(const std::string& directory)> confirm_overwrite = {};
  std::function<bool()> stopped = [] { return false; };
  std::string config_json = "{}";          // options of the call; stored in summary.json
  std::string model_server_json = "null";  // versions_json of the client; also stored there
  // Clock for the time between checkpoints.
  std::function<std::chrono::steady_clock::time_point()> clock = std::chrono::steady_clock::now;
};

// Progress over all resumed parts of the run.
struct PowerRunTotals {
  struct Energy {
    double joules = 0;                    // sum of the known energies
    double lo_joules = 0, hi_joules = 0;  // sums of the bounds of the energies that have bounds
    uint64_t known = 0, unknown = 0;
    uint64_t unbounded = 0;  // known energies without bounds
    uint64_t useless = 0;    // known energies whose bounds are further apart than the energy itself
    uint64_t partial = 0;    // known energies that lack a device without read permission
    // Known energies that include only a part of the time, for example because a counter restarted.
    // These energies are too small, and therefore the sum is too small.
    uint64_t incomplete = 0;
  };
  uint64_t records = 0, failed = 0;
  Energy gpu, cpu, ane;
  // all energies that are part of a total (EnergyEstimate::in_total), of any domain
  Energy all;
};

// Totals of records that were asked at once. `known` and `unknown` of energies count spans.
struct SharedWindowTotals {
  double seconds = 0;
  uint64_t spans = 0, records = 0;
  int64_t output_tokens = 0;            // over the records with a known number
  uint64_t answers_without_tokens = 0;  // records that did not fail and have no number of tokens
  PowerRunTotals::Energy gpu, cpu, all;
};

// "profile_{hardware}_{model}_{dataset}", each reduced to letters, digits and "._-". Empty hardware
// becomes UNKNOWN_HW.
std::string RunDirectoryName(std::string_view hardware, std::string_view model,
                             std::string_view dataset);

// The locked directory of a run: run.json, records.jsonl, summary.json.
class RunDirectory : public RecordSink {
 public:
  // Creates the directory, continues an existing run (`resume`), or deletes it (`overwrite`; only
  // if it holds the files of a run and no others). A partially written last record is dropped.
  // Errors: FailedPrecondition (it exists, holds other files or a link, is in use, or belongs to
  // another input or model), DataLoss (a damaged record, with its line; records without run.json),
  // Internal (cannot write).
  static absl::StatusOr<std::unique_ptr<RunDirectory>> Open(const PowerRunOptions& options,
                                                            const std::string& input_sha256,
                                                            const RunHardware& hardware);
  virtual std::string SummaryJson(std::string_view stop_reason) const = 0;
  virtual const std::string& path() const = 0;
  virtual const PowerRunTotals& totals() const = 0;
  virtual const SharedWindowTotals& shared_windows() const = 0;
};

// Called for each record after it was stored; may be empty.
using OnRunRecord = std::function<void(const RunResult& result, uint64_t done, uint64_t of)>;

struct PowerRunOutcome {
  uint64_t asked = 0, failed = 0, skipped = 0;  // by this run; skipped: already stored
  std::string stop_reason = {};                 // empty: all records were asked
  absl::Status stopped_by = {};                 // the client's error, if it ended the run
};

// Asks the records without a stored answer among the first max_queries of the input, `concurrency`
// at once, and stores them in the order of their answers. summary.json is written at the start,
// every 100 records or 10 s, and at the end, even if an error ends the run. Errors: those of the
// source and of the sink.
absl::StatusOr<PowerRunOutcome> RunPower(const PowerRunOptions& options, RecordSource* source,
                                         InferenceClient* client, Telemetry* telemetry,
                                         RecordSink* sink, const OnRunRecord& on_record);

// Calls Hardware() every 50 ms for at most 2 s, until it has a label or `stopped` returns true.
RunHardware PrimeHardware(Telemetry* telemetry, const std::function<bool()>& stopped);

}  // namespace xplane_time
