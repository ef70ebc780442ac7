// Power run: a file of problems goes through a program one by one, and each answer is kept with
// the energy, power, memory and latency of just that answer.
//
//   RecordSource -> InferenceClient (Ask) between Telemetry's Begin and End -> RecordSink
//
//   auto source = OpenDataset("problems.jsonl", {});
//   auto client = CommandClient::New({.command = {"python", "answer.py"}, .model = "llama"});
//   auto hardware = PrimeHardware(telemetry, options.stopped);
//   auto directory = RunDirectory::Open(options, (*source)->sha256(), hardware);
//   auto outcome = RunPower(options, source->get(), client.get(), telemetry, directory->get(),
//                           /*on_record=*/nullptr);
//   // FailedPrecondition: runs/profile_...: there already; --resume goes on, --overwrite ...
//
// A record is on the disk before the next is asked: a run that was killed goes on with
// `resume`, and asks nothing twice. What fails of one record (a crash, a hang, nonsense) is that
// record's status, never the run's. A value that is not known is null, never 0.
//
// Data sets have a list, src/workload/datasets.h, and clients one, src/workload/clients.h. Room is
// left for other sinks (Parquet): an interface of a few functions.
//
// One thread, but for clients: with `concurrency` Ready and Ask are called by as many at once.
// docs/power-run.md says what is in the directory.
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

// ---- What is asked

struct RunRecord {
  uint64_t index = 0;  // its place in the input, from 0, in whatever order it is asked
  std::string problem = {}, answer = {}, subject = {};
  std::string dataset_metadata_json = "{}";
};

class RecordSource {
 public:
  virtual ~RecordSource() = default;
  // Empty at the end. Errors: DataLoss (the input changed meanwhile).
  virtual absl::StatusOr<std::optional<RunRecord>> Next() = 0;
  virtual uint64_t size() const = 0;
  virtual std::string sha256() const = 0;  // of the input: the same run means the same input
};

struct DatasetOptions {
  std::string format = {};  // a name of DatasetFormats(); empty: by its bytes, else its suffix
  // What the fields are called in the data set.
  std::string problem_field = "problem", answer_field = "answer", subject_field = "subject";
  std::optional<uint64_t> shuffle_seed = {};  // in an order of its own, the same everywhere
  std::string python = {};  // empty: XPLANE_TIME_PYTHON, else python3; of formats that it reads
};

// A file or folder of records: {problem, answer?, subject?, dataset_metadata?}; fields beyond
// these join the metadata. All of it is checked here, before anything is asked; in memory are the
// places of the records alone. Errors: NotFound, DataLoss (FILE: line N: ..., or a format that is
// not known), InvalidArgument (no such format by name), Unavailable (cannot be read),
// FailedPrecondition (Python or its library is not there), Internal (no room in TMPDIR).
absl::StatusOr<std::unique_ptr<RecordSource>> OpenDataset(const std::string& path,
                                                          const DatasetOptions& options);

// ---- Who answers

struct RunAnswer {
  // ok; of the program: runtime_error, oom, timeout, infra; of the driver: crash, crash(SIGNAL),
  // oom (killed by signal 9), timeout, bad_answer.
  std::string status = "ok";
  std::string answer = {}, message = {};
  std::optional<int64_t> input_tokens = {}, output_tokens = {};
  // Since the last attempt began. A token of reasoning is none of the answer.
  std::optional<double> time_to_first_token_ms = {}, time_to_first_reasoning_token_ms = {};
  // Between the pieces that an answer came in; unknown below two pieces.
  struct InterTokenTimes {
    std::optional<double> p50 = {}, p95 = {}, p99 = {};
  } inter_token_ms = {};
  std::string finish_reason = {};  // of a server: stop, length, ...; empty: it gave none
  int64_t attempts = 1;
};

class InferenceClient {
 public:
  virtual ~InferenceClient() = default;
  // Before the first question: whether it can be asked at all. Errors: those of Ask.
  virtual absl::Status Start() { return absl::OkStatus(); }
  // Before the window of a record begins: what is not part of the answer (a start) is done here.
  // Errors: as of Ask.
  virtual absl::Status Ready() { return absl::OkStatus(); }
  // `again` is called before each attempt after the first: what is measured begins anew with it.
  // Failures of one record are its answer. Errors end the run: Cancelled (stopped while it was
  // under way: the record is not answered), Unavailable and NotFound (no record will be).
  virtual absl::StatusOr<RunAnswer> Ask(const RunRecord& record,
                                        const std::function<void()>& again) = 0;
  // After the last question.
  virtual void Finish() {}
  virtual int64_t pid() const { return 0; }  // of the process that answers; 0: it is not ours
  // Of what answers, by name, once it runs: {"vllm": "0.9.1"}; null: it does not say.
  virtual std::string versions_json() const { return "null"; }
};

struct CommandClientOptions {
  std::vector<std::string> command;
  std::string model = {};
  std::string log_path = {};  // what it prints is appended there; empty: nowhere
  std::chrono::milliseconds hello_timeout{120'000}, timeout{600'000};  // of an answer
  int most_failures = 3;  // losses of the process in a row; then it cannot work
  std::function<bool()> stopped = [] { return false; };
};

// A command that stays, talked to in JSON Lines on pipes of its own (docs/power-run.md). What
// dies, hangs or answers nonsense is killed, and started anew for the next record; what is left at
// the end is killed. Ready starts it; what it says by then is no answer to the next question, and
// fails it. Finish says bye, and waits a moment. Errors of Start: NotFound, Unavailable, Cancelled.
struct CommandClient {
  static std::unique_ptr<InferenceClient> New(CommandClientOptions options);
};

// ---- What it took

struct RunHardware {
  std::string label;  // empty: not known yet
  std::string system_info_json = "null", gpu_info_json = "null";
};

// One window, with the channels that its gauges number, and what could not be read.
struct RunTelemetry {
  WindowSummary window = {};
  std::vector<PowerChannel> channels = {};
  std::vector<PowerAbsence> absences = {};
  PowerReason reason = PowerReason::kKnown;  // else: why nothing of it is known
};

class Telemetry {
 public:
  virtual ~Telemetry() = default;
  virtual RunHardware Hardware() = 0;
  // One that is open is thrown away, and begins anew.
  virtual absl::Status Begin(std::string_view name) = 0;
  virtual absl::StatusOr<RunTelemetry> End(std::string_view name) = 0;
  // End, and the next window begins where this one ended: nothing is between them.
  virtual absl::StatusOr<RunTelemetry> Lap(std::string_view name) = 0;
};

// Over a recorder: each window is summarized from its part of the log, after what was written
// shortly before, so that a long run costs no more a record than a short one.
std::unique_ptr<Telemetry> NewRecorderTelemetry(std::unique_ptr<PowerRecorder> recorder);
// Over a recorder of these sources; of the source "none" alone, NewNoTelemetry(). `tell` gets what
// was named and has no sensor of power or energy. Errors: FailedPrecondition (there is no such
// sensor, and none was named), InvalidArgument (no such source).
absl::StatusOr<std::unique_ptr<Telemetry>> StartTelemetry(
    const PowerSourceOptions& from, const std::function<void(const std::string&)>& tell);
// Knows the machine and nothing else: every value is null.
std::unique_ptr<Telemetry> NewNoTelemetry();

// "GPU's name" of an inventory (as a part of a path), else the processor's; empty: neither.
std::string HardwareLabel(const PowerInventory& inventory, std::string_view processor);

// ---- What is kept

struct RunResult {
  RunRecord record = {};
  RunAnswer answer = {};
  std::string model = {};
  int64_t begin_ns = 0, end_ns = 0;  // CLOCK_MONOTONIC around Ask's last attempt
  int64_t asked_ns = 0;              // where the first attempt began
  int64_t begin_unix_ns = 0;
  std::optional<RunTelemetry> telemetry = {};
  std::string telemetry_error = {};  // where there is none
  RunHardware hardware = {};
};

// What was measured while several records at once were asked: of none of them alone. One follows
// the other without a gap.
struct RunSpan {
  int64_t begin_ns = 0, end_ns = 0;  // CLOCK_MONOTONIC
  absl::StatusOr<RunTelemetry> telemetry = RunTelemetry{};
};

class RecordSink {
 public:
  virtual ~RecordSink() = default;
  // Whether it is kept already, by a run that is resumed. Errors: DataLoss (another question is
  // kept under its index).
  virtual absl::StatusOr<bool> Has(const RunRecord& record) const = 0;
  // Kept for good when it returns OK.
  virtual absl::Status Write(const RunResult& result) = 0;
  // Of the records that were written since the last span; kept by the next checkpoint.
  virtual void Add(const RunSpan& span) = 0;
  // At the start, every 100 records or 10 s, and at the end: makes the summary of the run.
  // `stop_reason` is "running", "" where all was asked, or why it ended early.
  virtual absl::Status Checkpoint(std::string_view stop_reason) = 0;
};

// One record as it stands in records.jsonl, without the end of the line.
std::string RunResultJson(const RunResult& result);

// ---- The run

struct PowerRunOptions {
  std::string model, dataset;
  std::string output_root = "runs";  // the directory is made in it
  std::optional<uint64_t> max_queries = {};
  // Of the source; a run is resumed with the same.
  std::optional<uint64_t> input_records = {};  // how many there are; empty: not known
  std::optional<uint64_t> shuffle_seed = {};
  std::string problem_field = "problem";
  bool overwrite = false, resume = false;
  bool retry_failed = false;  // with `resume`: records that failed are dropped, and asked again
  // Records asked at once: over 1 their energies are unknown, and those of spans are measured.
  int concurrency = 1;
  // Asked where there is a run already and neither is set; true overwrites.
  std::function<bool(const std::string& directory)> confirm_overwrite = {};
  std::function<bool()> stopped = [] { return false; };
  std::string config_json = "{}";          // how it was called; kept in summary.json
  std::string model_server_json = "null";  // versions_json of the client; kept there too
  // Of the time between checkpoints.
  std::function<std::chrono::steady_clock::time_point()> clock = std::chrono::steady_clock::now;
};

// What is done so far, over all the runs that were resumed.
struct PowerRunTotals {
  struct Energy {
    double joules = 0;                    // of the known ones
    double lo_joules = 0, hi_joules = 0;  // the sums of their bounds; of those that have some
    uint64_t known = 0, unknown = 0;
    uint64_t unbounded = 0;  // of the known ones: without bounds
    uint64_t useless = 0;    // of the known ones: bounds further apart than the energy itself
    uint64_t partial = 0;    // of the known ones: without a device that may not be read
    // Of the known ones: measured over a part of the time, as a counter that began anew. Their
    // energies are too small, and so is the sum.
    uint64_t incomplete = 0;
  };
  uint64_t records = 0, failed = 0;
  Energy gpu, cpu, ane;
  Energy all;  // whatever counts (EnergyEstimate::in_total), of these domains or others
};

// Of records that were asked several at once; `known` and `unknown` of energies count spans.
struct SharedWindowTotals {
  double seconds = 0;
  uint64_t spans = 0, records = 0;
  int64_t output_tokens = 0;            // of the records that tell them
  uint64_t answers_without_tokens = 0;  // of records that did not fail
  PowerRunTotals::Energy gpu, cpu, all;
};

// "profile_{hardware}_{model}_{dataset}": each as letters, digits, "._-"; an empty hardware is
// UNKNOWN_HW.
std::string RunDirectoryName(std::string_view hardware, std::string_view model,
                             std::string_view dataset);

// The directory of a run, locked: run.json, records.jsonl, summary.json.
class RunDirectory : public RecordSink {
 public:
  // Makes it, takes up what is there (`resume`), or throws that away (`overwrite`; only files of
  // a run, nothing else in it). A half-written last record is dropped. Errors:
  // FailedPrecondition (it is there, holds something else or a link, is in use, is of another
  // input, model), DataLoss (a damaged record, with its line; records without run.json),
  // Internal (cannot write).
  static absl::StatusOr<std::unique_ptr<RunDirectory>> Open(const PowerRunOptions& options,
                                                            const std::string& input_sha256,
                                                            const RunHardware& hardware);
  virtual std::string SummaryJson(std::string_view stop_reason) const = 0;
  virtual const std::string& path() const = 0;
  virtual const PowerRunTotals& totals() const = 0;
  virtual const SharedWindowTotals& shared_windows() const = 0;
};

// Told of each record once it is kept; may be empty.
using OnRunRecord = std::function<void(const RunResult& result, uint64_t done, uint64_t of)>;

struct PowerRunOutcome {
  uint64_t asked = 0, failed = 0, skipped = 0;  // by this run; skipped: kept already
  std::string stop_reason = {};                 // empty: all was asked
  absl::Status stopped_by = {};                 // of the client, where it ended the run
};

// Asks what is not done yet, up to max_queries of the input, `concurrency` records at once, which
// are kept in the order of their answers; summary.json is written at the
// start, every 100 records or 10 s and at the end, whatever ends it. Errors: of the source, of the
// sink.
absl::StatusOr<PowerRunOutcome> RunPower(const PowerRunOptions& options, RecordSource* source,
                                         InferenceClient* client, Telemetry* telemetry,
                                         RecordSink* sink, const OnRunRecord& on_record);

// Hardware(), asked every 50 ms for at most 2 s, until it has a label.
RunHardware PrimeHardware(Telemetry* telemetry, const std::function<bool()>& stopped);

}  // namespace xplane_time
