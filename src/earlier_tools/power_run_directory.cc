#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "earlier_tools/power_run_result_json.h"
#include "io/whole_file.h"
#include "json/json.h"
#include "power/sysfs.h"
#include "status.h"
#include "xplane_time/power_run.h"
#include "xplane_time/version.h"

namespace xplane_time {
namespace {

namespace fs = std::filesystem;
using json::Json, json::TextOf, power::Descriptor;

constexpr char kSchema[] = "xplane-time.power-run.v1";
constexpr char kRun[] = "run.json", kRecords[] = "records.jsonl", kSummary[] = "summary.json";

std::string Slug(std::string_view text, const char* otherwise) {
  constexpr size_t kMost = 80;
  std::string slug;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '_';
    if (plain) {
      slug += c;
    } else if (!slug.empty() && slug.back() != '-') {
      slug += '-';
    }
  }
  slug.resize(std::min(slug.size(), kMost));
  while (!slug.empty() && slug.back() == '-') slug.pop_back();
  return slug.empty() ? otherwise : slug;
}

bool IsOfARun(std::string_view name) {
  return name == kRun || name == kRecords || name == kSummary;
}

// What a write that was killed leaves: summary.json.a1B2c3. Someone's summary.json.backup looks
// the same: it is in nobody's way, and stays.
bool MayBeLeft(std::string_view name) {
  const size_t dot = name.rfind('.');
  constexpr size_t kRandom = 6;
  return dot != name.npos && IsOfARun(name.substr(0, dot)) && name.size() - dot - 1 == kRandom;
}

absl::Status ThereAlready(const std::string& path) {
  return FailedPrecondition(
      path,
      ": there already; --resume goes on with it, --overwrite throws it away, --output-dir "
      "chooses another place");
}

// Of what could not be written, with the way out: all that is kept before it is whole.
absl::Status WithWayOut(const absl::Status& failed) {
  if (failed.ok()) return failed;
  return absl::Status(
      failed.code(),
      absl::StrCat(failed.message(),
                   "; free space, or mend what else it is, then go on with --resume"));
}

absl::Status CannotWrite(const std::string& path) {
  return WithWayOut(Internal(path, ": cannot write: ", std::strerror(errno)));
}

// Of our own file: a link, a pipe or a device under its name is another's.
absl::Status NotOurs(const std::string& path) {
  return FailedPrecondition(
      path,
      ": not a plain file with one name: no run wrote it; --output-dir chooses another place");
}

// Empty where it is not there.
absl::StatusOr<std::string> ReadRunFile(const std::string& path) {
  constexpr off_t kMostBytes = 1 << 20;
  const Descriptor file(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.open() && errno == ENOENT) return std::string();
  struct stat info = {};
  const bool plain = file.open() && fstat(file.get(), &info) == 0 && S_ISREG(info.st_mode) &&
                     info.st_nlink == 1 && info.st_size <= kMostBytes;
  if (!plain) return NotOurs(path);
  std::string text(static_cast<size_t>(info.st_size), '\0');
  const ssize_t got = read(file.get(), text.data(), text.size());
  text.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  return text;
}

// The files of a run in `path`, where there are no others.
absl::StatusOr<std::vector<fs::path>> FilesOfARun(const std::string& path) {
  std::vector<fs::path> files;
  std::error_code error;
  fs::directory_iterator each(path, error);
  for (; !error && each != fs::directory_iterator(); each.increment(error)) {
    const std::string name = each->path().filename().string();
    if (MayBeLeft(name)) continue;
    if (!IsOfARun(name)) {
      return FailedPrecondition(path, ": holds \"", name,
                                "\", which no run wrote; --output-dir chooses another place");
    }
    if (each->symlink_status(error).type() != fs::file_type::regular) {
      return NotOurs(each->path().string());
    }
    files.push_back(each->path());
  }
  if (error) {
    return Internal(path, ": cannot be listed: ", error.message());
  }
  return files;
}

// The run.json of a directory. Null where there is none and no record either: a run that was
// killed before it began.
absl::StatusOr<Json> FoundRun(const std::string& path, bool has_records) {
  ASSIGN_OR_RETURN(const std::string text, ReadRunFile(path));
  if (text.empty() && !has_records) return Json();
  Json found = json::Parse(text, 10);
  if (TextOf(found, "schema") == kSchema) return found;
  return DataLoss(
      path, text.empty() ? ": not there, though there are records" : ": not of a run",
      ": nobody knows what the records are of; put it back, move the directory away, or choose "
      "another --output-dir");
}

// The same question as the one that the directory is of.
absl::Status CheckSame(const std::string& path, const Json& found, const Json& wanted) {
  for (const char* name : {"input_sha256", "model", "dataset"}) {
    const std::string is = TextOf(found, name).value_or(""), asked = *TextOf(wanted, name);
    if (is == asked) continue;
    return FailedPrecondition(path, ": is of another ", name, " (", is, ", not ", asked,
                              "); --overwrite throws it away, --output-dir chooses another place");
  }
  return absl::OkStatus();
}

}  // namespace

struct RunDirectory::State {
  absl::Status Lock();
  absl::Status TakeUp();
  absl::Status DropFailed();
  absl::Status Clear();
  absl::Status Prepare();
  absl::Status TakeUpLine(const std::string& line, uint64_t number);
  absl::StatusOr<bool> MayTake() const;
  void Add(const Json& record);
  Json RunJson() const;

  std::string path, records_path;
  PowerRunOptions options;
  std::string input_sha256;
  RunHardware hardware;
  Descriptor records;
  Descriptor replaced;              // records.jsonl as it was; its lock stays
  std::set<uint64_t> failed_lines;  // of it: to be asked again
  bool has_records = false;         // when it was locked
  std::set<uint64_t> done;
  PowerRunTotals totals;
  power::RunAggregates aggregates;
  std::optional<int64_t> first_unix_ns, last_unix_ns;  // asked; answered
  double generated_unix_s = 0;
};

// Held by the open file: it ends with the process, whatever ends that.
absl::Status RunDirectory::State::Lock() {
  records =
      Descriptor(open(records_path.c_str(),
                      O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666));
  if (!records.open()) return errno == ELOOP ? NotOurs(records_path) : CannotWrite(records_path);
  if (flock(records.get(), LOCK_EX | LOCK_NB) != 0) {
    return FailedPrecondition(
        path, ": in use by another run; wait for it, or choose another --output-dir");
  }
  struct stat info = {};
  if (fstat(records.get(), &info) != 0) return CannotWrite(records_path);
  if (!S_ISREG(info.st_mode) || info.st_nlink != 1) return NotOurs(records_path);
  has_records = info.st_size > 0;
  return absl::OkStatus();
}

// Throws away what a run wrote, and nothing else. The records go first: killed at any point,
// none is taken for another run's.
absl::Status RunDirectory::State::Clear() {
  ASSIGN_OR_RETURN(const std::vector<fs::path> files, FilesOfARun(path));
  if (ftruncate(records.get(), 0) != 0) return CannotWrite(records_path);
  std::error_code error;
  for (const fs::path& each : files) {
    if (each.filename() == kRecords) continue;  // locked
    if (!fs::remove(each, error)) {
      return Internal(each.string(), ": cannot be removed: ", error.message());
    }
  }
  return absl::OkStatus();
}

absl::Status RunDirectory::State::TakeUpLine(const std::string& line, uint64_t number) {
  const auto damaged = [&](const char* why) {
    return DataLoss(records_path, ": line ", number, ": ", why,
                    "; mend or remove it, or start again: --overwrite");
  };
  constexpr size_t kMostLevels = 100;  // the 64 of RECORDS, and some of ours
  if (json::NestsDeeper(line, kMostLevels)) return damaged("nested too deeply");
  const Json record = json::Parse(line, kMostLevels);
  if (!record.is_object()) return damaged("not a JSON object");
  if (!record.contains("index") || !record["index"].is_number_unsigned()) {
    return damaged("no index");
  }
  const auto index = record["index"].get<uint64_t>();
  if (done.contains(index)) return damaged("an index that was");
  if (!power::IsRunRecord(record)) return damaged("not a record of a run");
  if (options.retry_failed && record["status"] != "ok") {
    failed_lines.insert(number);
  } else {
    Add(record);
  }
  return absl::OkStatus();
}

void RunDirectory::State::Add(const Json& record) {
  done.insert(record["index"].get<uint64_t>());
  power::AddToTotals(record, &totals);
  aggregates.Add(record);
  const Json interval = record.value("interval", Json());
  const auto begun = json::WholeOf(interval, "begin_unix_ns"),
             from = json::WholeOf(interval, "begin_ns"), to = json::WholeOf(interval, "end_ns");
  int64_t took_ns = 0, ended = 0;
  if (!begun || !from || !to || __builtin_sub_overflow(*to, *from, &took_ns) ||
      __builtin_add_overflow(*begun, took_ns, &ended)) {
    return;
  }
  first_unix_ns = std::min(first_unix_ns.value_or(*begun), *begun);
  last_unix_ns = std::max(last_unix_ns.value_or(ended), ended);
}

// A last line without its end was being written when the run was killed: it goes.
absl::Status RunDirectory::State::TakeUp() {
  std::ifstream file(records_path, std::ios::binary);
  uint64_t number = 0, whole_bytes = 0;
  for (std::string line; std::getline(file, line) && !file.eof();) {
    RETURN_IF_ERROR(TakeUpLine(line, ++number));
    whole_bytes += line.size() + 1;
  }
  if (ftruncate(records.get(), static_cast<off_t>(whole_bytes)) != 0)
    return CannotWrite(records_path);
  return failed_lines.empty() ? absl::OkStatus() : DropFailed();
}

// The file without them takes its place as a whole: each index stays there once.
absl::Status RunDirectory::State::DropFailed() {
  std::string temporary = records_path + ".XXXXXX";
  replaced = std::exchange(records, Descriptor(mkostemp(temporary.data(), O_APPEND | O_CLOEXEC)));
  bool good = records.open() && flock(records.get(), LOCK_EX | LOCK_NB) == 0;
  struct stat info = {};
  good =
      good && fstat(replaced.get(), &info) == 0 && fchmod(records.get(), info.st_mode & 0777) == 0;
  std::ifstream file(records_path, std::ios::binary);
  uint64_t number = 0;
  for (std::string line; good && std::getline(file, line);) {
    if (!failed_lines.contains(++number)) good = io::WriteAll(records.get(), line + "\n");
  }
  good = good && fsync(records.get()) == 0 && rename(temporary.c_str(), records_path.c_str()) == 0;
  if (good) {
    io::SyncDirectory(path);
    return absl::OkStatus();
  }
  absl::Status failed = CannotWrite(records_path);
  if (records.open()) unlink(temporary.c_str());
  return failed;
}

std::string RunDirectoryName(std::string_view hardware, std::string_view model,
                             std::string_view dataset) {
  return absl::StrCat("profile_", Slug(hardware, "UNKNOWN_HW"), "_", Slug(model, "model"), "_",
                      Slug(dataset, "dataset"));
}

absl::StatusOr<std::unique_ptr<RunDirectory>> RunDirectory::Open(const PowerRunOptions& options,
                                                                 const std::string& input_sha256,
                                                                 const RunHardware& hardware) {
  auto state = std::make_unique<State>();
  state->options = options;
  state->input_sha256 = input_sha256;
  state->hardware = hardware;
  state->path = (fs::path(options.output_root) /
                 RunDirectoryName(hardware.label, options.model, options.dataset))
                    .string();
  state->records_path = state->path + "/" + kRecords;
  const std::string run_path = state->path + "/" + kRun;
  std::error_code error;
  const bool there = fs::exists(state->path, error) && !fs::is_empty(state->path, error);
  const bool asks = there && !options.resume && !options.overwrite;
  if (asks && !(options.confirm_overwrite && options.confirm_overwrite(state->path))) {
    return ThereAlready(state->path);
  }
  fs::create_directories(state->path, error);
  if (error) {
    return Internal(state->path, ": cannot be made: ", error.message(), "; see --output-dir");
  }
  RETURN_IF_ERROR(state->Prepare());
  return std::unique_ptr<RunDirectory>(new RunDirectory(std::move(state)));
}

// From a directory that is there to one that is locked, of this run, and takes records.
absl::Status RunDirectory::State::Prepare() {
  // Before anything is written, and again once nobody else writes.
  struct stat info = {};
  const bool ours = lstat(records_path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
                    info.st_nlink == 1;  // Lock says what else is wrong
  has_records = ours && info.st_size > 0;
  RETURN_IF_ERROR(MayTake().status());
  RETURN_IF_ERROR(Lock());
  ASSIGN_OR_RETURN(const bool goes_on, MayTake());
  if (goes_on) return TakeUp();
  RETURN_IF_ERROR(Clear());
  return WithWayOut(io::WriteWholeFile(path + "/" + kRun, RunJson().dump(2) + "\n"));
}

Json RunDirectory::State::RunJson() const {
  return {{"schema", kSchema},
          {"input_sha256", input_sha256},
          {"model", options.model},
          {"dataset", options.dataset}};
}

// Whether what is there is gone on with, or else thrown away; an error where it is not ours.
absl::StatusOr<bool> RunDirectory::State::MayTake() const {
  const std::string run_path = path + "/" + kRun;
  ASSIGN_OR_RETURN(const Json found, FoundRun(run_path, has_records));
  if (options.resume && !found.is_null()) {
    RETURN_IF_ERROR(CheckSame(run_path, found, RunJson()));
    return true;
  }
  RETURN_IF_ERROR(FilesOfARun(path).status());
  return false;
}

RunDirectory::RunDirectory(std::unique_ptr<State> state) : state_(std::move(state)) {}
RunDirectory::~RunDirectory() = default;

bool RunDirectory::Has(uint64_t index) const { return state_->done.contains(index); }
const std::string& RunDirectory::path() const { return state_->path; }
const PowerRunTotals& RunDirectory::totals() const { return state_->totals; }

absl::Status RunDirectory::Write(const RunResult& result) {
  const Json record = power::ResultJson(result);
  if (!io::WriteAll(state_->records.get(), json::Dump(record) + "\n") ||
      fsync(state_->records.get()) != 0) {
    return CannotWrite(state_->records_path);
  }
  state_->Add(record);
  return absl::OkStatus();
}

std::string RunDirectory::SummaryJson(std::string_view stop_reason) const {
  const PowerRunOptions& options = state_->options;
  const PowerRunTotals& totals = state_->totals;
  const auto seconds = [](std::optional<int64_t> unix_ns) {
    return unix_ns.has_value() ? Json(static_cast<double>(*unix_ns) * 1e-9) : Json();
  };
  Json energies;
  for (const auto& [name, energy] : {std::pair{"gpu", &totals.gpu},
                                     {"cpu", &totals.cpu},
                                     {"ane", &totals.ane},
                                     {"all", &totals.all}}) {
    const auto add = [&](const char* what, Json value) {
      energies[absl::StrCat(name, "_", what)] = std::move(value);
    };
    const bool known = energy->known > 0, bounded = known && energy->unbounded == 0;
    add("joules", known ? Json(energy->joules) : Json());
    add("lo_joules", bounded ? Json(energy->lo_joules) : Json());
    add("hi_joules", bounded ? Json(energy->hi_joules) : Json());
    add("known", energy->known);
    add("unknown", energy->unknown);
    add("unbounded", energy->unbounded);
    add("useless", energy->useless);
    add("partial", energy->partial);
  }
  Json summary = {{"schema", "xplane-time.power-run-summary.v1"},
                  {"model", options.model},
                  {"profiler_config", json::Parse(options.config_json)},
                  {"dataset", options.dataset},
                  {"dataset_name", options.dataset},
                  {"input_sha256", state_->input_sha256},
                  {"hardware_label", Slug(state_->hardware.label, "UNKNOWN_HW")},
                  {"generated_at", state_->generated_unix_s},
                  {"started_at", seconds(state_->first_unix_ns)},
                  {"ended_at", seconds(state_->last_unix_ns)},
                  {"total_queries", totals.records},
                  {"failed_queries", totals.failed},
                  {"max_queries", json::OrNull(options.max_queries)},
                  {"complete", stop_reason.empty()},
                  {"stop_reason", json::TextOrNull(stop_reason)},
                  {"energy_totals", energies},
                  {"aggregates", state_->aggregates.ToJson()},
                  {"system_info", json::Parse(state_->hardware.system_info_json)},
                  {"gpu_info", json::Parse(state_->hardware.gpu_info_json)},
                  {"output_dir", state_->path},
                  {"versions", {{"xplane-time", XPLANE_TIME_VERSION_STRING}}}};
  return summary.dump(2, ' ', false, Json::error_handler_t::replace);
}

absl::Status RunDirectory::Checkpoint(std::string_view stop_reason) {
  state_->generated_unix_s =
      std::chrono::duration<double>(state_->options.wall_clock().time_since_epoch()).count();
  return WithWayOut(
      io::WriteWholeFile(state_->path + "/" + kSummary, SummaryJson(stop_reason) + "\n"));
}

}  // namespace xplane_time
