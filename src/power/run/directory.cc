#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "power/run/result_json.h"
#include "power/whole_file.h"
#include "xplane_time/power_run.h"
#include "xplane_time/version.h"

namespace xplane_time {
namespace {

namespace fs = std::filesystem;
using power::Json;

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

bool IsOfARun(const std::string& name) {
  return name == kRun || name == kRecords || name == kSummary;
}

absl::Status ThereAlready(const std::string& path) {
  return absl::FailedPreconditionError(absl::StrCat(
      path,
      ": there already; --resume goes on with it, --overwrite throws it away, --output-dir "
      "chooses another place"));
}

// Throws away what a run wrote, and nothing else.
absl::Status Clear(const std::string& path) {
  for (const auto& each : fs::directory_iterator(path)) {
    if (!IsOfARun(each.path().filename().string())) {
      return absl::FailedPreconditionError(
          absl::StrCat(path, ": holds \"", each.path().filename().string(),
                       "\", which no run wrote; --output-dir chooses another place"));
    }
  }
  std::error_code error;
  for (const auto& each : fs::directory_iterator(path)) {
    if (each.path().filename() == kRecords) continue;  // locked, and emptied by its holder
    if (!fs::remove(each.path(), error)) {
      return absl::InternalError(
          absl::StrCat(each.path().string(), ": cannot be removed: ", error.message()));
    }
  }
  return absl::OkStatus();
}

std::string Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

absl::Status CannotWrite(const std::string& path) {
  return absl::InternalError(absl::StrCat(path, ": cannot write: ", std::strerror(errno)));
}

// The same question as the one that the directory is of.
absl::Status CheckSame(const std::string& path, const Json& wanted) {
  const Json found = Json::parse(Read(path), nullptr, /*allow_exceptions=*/false);
  const auto text = [](const Json& object, const char* name) {
    const auto at = object.find(name);
    return at != object.end() && at->is_string() ? at->get<std::string>() : "";
  };
  if (!found.is_object() || text(found, "schema") != kSchema) {
    return absl::DataLossError(
        absl::StrCat(path, ": not of a run; --overwrite throws the directory away"));
  }
  for (const char* name : {"input_sha256", "model", "dataset"}) {
    if (text(found, name) == text(wanted, name)) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        path, ": is of another ", name, " (", text(found, name), ", not ", text(wanted, name),
        "); --overwrite throws it away, --output-dir chooses "
        "another place"));
  }
  return absl::OkStatus();
}

}  // namespace

struct RunDirectory::State {
  ~State() {
    if (records_fd >= 0) close(records_fd);
  }
  absl::Status Lock();
  absl::Status TakeUp();
  absl::Status TakeUpLine(const std::string& line, uint64_t number);

  std::string path, records_path;
  PowerRunOptions options;
  std::string input_sha256;
  RunHardware hardware;
  int records_fd = -1;
  std::set<uint64_t> done;
  PowerRunTotals totals;
};

// Held by the open file: it ends with the process, whatever ends that.
absl::Status RunDirectory::State::Lock() {
  records_fd = open(records_path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (records_fd < 0) return CannotWrite(records_path);
  if (flock(records_fd, LOCK_EX | LOCK_NB) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(path, ": in use by another run; wait for it, or choose another --output-dir"));
}

absl::Status RunDirectory::State::TakeUpLine(const std::string& line, uint64_t number) {
  const auto damaged = [&](const char* why) {
    return absl::DataLossError(absl::StrCat(records_path, ": line ", number, ": ", why,
                                            "; mend or remove it, or start again: --overwrite"));
  };
  const Json record = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!record.is_object()) return damaged("not a JSON object");
  if (!record.contains("index") || !record["index"].is_number_unsigned()) {
    return damaged("no index");
  }
  if (!done.insert(record["index"].get<uint64_t>()).second) return damaged("an index that was");
  if (!power::AddToTotals(record, &totals)) return damaged("not a record of a run");
  return absl::OkStatus();
}

// A last line without its end was being written when the run was killed: it goes.
absl::Status RunDirectory::State::TakeUp() {
  std::ifstream file(records_path, std::ios::binary);
  uint64_t number = 0, whole_bytes = 0;
  for (std::string line; std::getline(file, line) && !file.eof();) {
    if (absl::Status status = TakeUpLine(line, ++number); !status.ok()) return status;
    whole_bytes += line.size() + 1;
  }
  if (ftruncate(records_fd, static_cast<off_t>(whole_bytes)) != 0) return CannotWrite(records_path);
  return absl::OkStatus();
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
    return absl::InternalError(
        absl::StrCat(state->path, ": cannot be made: ", error.message(), "; see --output-dir"));
  }
  if (absl::Status status = state->Lock(); !status.ok()) return status;
  const Json run = {{"schema", kSchema},
                    {"input_sha256", input_sha256},
                    {"model", options.model},
                    {"dataset", options.dataset}};
  absl::Status status;
  if (there && !options.resume) status = Clear(state->path);
  if (status.ok() && options.resume && fs::exists(run_path, error)) {
    status = CheckSame(run_path, run);
    if (status.ok()) status = state->TakeUp();
  } else if (status.ok()) {
    // A kill between these two leaves no records: nothing is taken for another run's.
    status = ftruncate(state->records_fd, 0) == 0 ? absl::OkStatus() : CannotWrite(run_path);
    if (status.ok()) status = power::WriteWholeFile(run_path, run.dump(2) + "\n");
  }
  if (!status.ok()) return status;
  return std::unique_ptr<RunDirectory>(new RunDirectory(std::move(state)));
}

RunDirectory::RunDirectory(std::unique_ptr<State> state) : state_(std::move(state)) {}
RunDirectory::~RunDirectory() = default;

bool RunDirectory::Has(uint64_t index) const { return state_->done.contains(index); }
const std::string& RunDirectory::path() const { return state_->path; }
const PowerRunTotals& RunDirectory::totals() const { return state_->totals; }

absl::Status RunDirectory::Write(const RunResult& result) {
  const Json record = power::ResultJson(result);
  const std::string line = record.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  if (!power::WriteAll(state_->records_fd, line) || fsync(state_->records_fd) != 0) {
    return CannotWrite(state_->records_path);
  }
  state_->done.insert(result.record.index);
  power::AddToTotals(record, &state_->totals);
  return absl::OkStatus();
}

std::string RunDirectory::SummaryJson(std::string_view stop_reason) const {
  const PowerRunOptions& options = state_->options;
  const PowerRunTotals& totals = state_->totals;
  const auto parsed = [](const std::string& text) {
    return Json::parse(text, nullptr, /*allow_exceptions=*/false);
  };
  Json energies;
  for (const auto& [name, energy] :
       {std::pair{"gpu", &totals.gpu}, {"cpu", &totals.cpu}, {"ane", &totals.ane}}) {
    energies[absl::StrCat(name, "_joules")] = energy->known > 0 ? Json(energy->joules) : Json();
    energies[absl::StrCat(name, "_known")] = energy->known;
    energies[absl::StrCat(name, "_unknown")] = energy->unknown;
  }
  Json summary = {{"schema", "xplane-time.power-run-summary.v1"},
                  {"model", options.model},
                  {"profiler_config", parsed(options.config_json)},
                  {"dataset", options.dataset},
                  {"dataset_name", options.dataset},
                  {"input_sha256", state_->input_sha256},
                  {"hardware_label", Slug(state_->hardware.label, "UNKNOWN_HW")},
                  {"generated_at", static_cast<double>(options.now_unix_ms) / 1000},
                  {"total_queries", totals.records},
                  {"failed_queries", totals.failed},
                  {"complete", stop_reason.empty()},
                  {"stop_reason", stop_reason.empty() ? Json() : Json(stop_reason)},
                  {"energy_totals", energies},
                  {"system_info", parsed(state_->hardware.system_info_json)},
                  {"gpu_info", parsed(state_->hardware.gpu_info_json)},
                  {"output_dir", state_->path},
                  {"versions", {{"xplane-time", XPLANE_TIME_VERSION_STRING}}}};
  return summary.dump(2, ' ', false, Json::error_handler_t::replace);
}

absl::Status RunDirectory::Checkpoint(std::string_view stop_reason) {
  return power::WriteWholeFile(state_->path + "/" + kSummary, SummaryJson(stop_reason) + "\n");
}

}  // namespace xplane_time
