// The directory of a power run: records.jsonl, run.json and summary.json, and continuing a run.
//
// - records.jsonl grows by one line for each answer. Its lock belongs to the open file, so it ends
//   with the process. A kill leaves at most one incomplete line, which is removed on the next
//   start.
// - run.json describes the questions, the model and the client. A run is only continued if all of
//   that is unchanged (MayTake, AskedAlike).
// - summary.json has statistics over the records (Aggregate). It is written as a whole: first to a
//   temporary file, then renamed.
//
// Only files that a run wrote are read, replaced or removed; links, pipes and other files are
// errors. Memory is bounded by the indices of the records, since statistics use quantile sketches.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "earlier_tools/power_run_rates.h"
#include "earlier_tools/power_run_result_json.h"
#include "io/whole_file.h"
#include "json/described.h"
#include "power/sysfs.h"
#include "re2/re2.h"
#include "stats/quantile_sketch.h"
#include "status.h"
#include "xplane_time/power_run.h"
#include "xplane_time/version.h"

namespace xplane_time {

XPLANE_TIME_JSON_FIELDS(PowerRunTotals::Energy, joules, lo_joules, hi_joules, known, unknown,
                        unbounded, useless, partial, incomplete)

namespace {

namespace fs = std::filesystem;
using json::Json, json::TextOf, power::Descriptor;

constexpr char kSchema[] = "xplane-time.power-run.v1";
constexpr char kOrderOfFile[] = "as in the file";
constexpr char kRun[] = "run.json", kRecords[] = "records.jsonl", kSummary[] = "summary.json";

std::string Slug(std::string_view text, const char* otherwise) {
  constexpr size_t kMost = 80;
  static const RE2 others("[^A-Za-z0-9._]+", RE2::Latin1);
  std::string slug(text);
  RE2::GlobalReplace(&slug, others, "-");
  slug.erase(0, slug.find_first_not_of('-'));
  slug.resize(std::min(slug.size(), kMost));
  while (!slug.empty() && slug.back() == '-') slug.pop_back();
  return slug.empty() ? otherwise : slug;
}

bool IsOfARun(std::string_view name) {
  return name == kRun || name == kRecords || name == kSummary;
}

// Whether the name is that of a temporary file of a killed write: summary.json.a1B2c3. A user's
// summary.json.backup looks the same, so such files are ignored and not removed.
bool MayBeLeft(std::string_view name) {
  constexpr size_t kDotAndRandom = 7;
  const size_t at = std::max(name.size(), kDotAndRandom) - kDotAndRandom;
  return name[at] == '.' && IsOfARun(name.substr(0, at));
}

// Adds advice to the error of a failed write. Everything stored before is complete.
absl::Status WithWayOut(const absl::Status& failed) {
  if (failed.ok()) return failed;
  return absl::Status(
      failed.code(),
      Cat(failed.message(), "; free space or fix the cause, then continue with --resume"));
}

absl::Status CannotWrite(const std::string& path) {
  return WithWayOut(Internal(path, ": cannot write: ", std::strerror(errno)));
}

// A file of a run is a regular file with one name; a link, a pipe or a device belongs to someone
// else.
bool IsPlain(const struct stat& info) { return S_ISREG(info.st_mode) && info.st_nlink == 1; }
absl::Status NotOurs(const std::string& path) {
  return FailedPrecondition(
      path,
      ": not a regular file with one name, so not written by a run; choose another --output-dir");
}

// Empty if the file does not exist.
absl::StatusOr<std::string> ReadRunFile(const std::string& path) {
  constexpr off_t kMostBytes = 1 << 20;
  struct stat info = {};
  if (lstat(path.c_str(), &info) != 0 && errno == ENOENT) return std::string();
  std::optional<std::string> text;
  if (IsPlain(info) && info.st_size <= kMostBytes) text = io::ReadFile(path);
  return text.has_value() ? absl::StatusOr<std::string>(*std::move(text)) : NotOurs(path);
}

// The files of a run in `path`; an error if there are other files.
absl::StatusOr<std::vector<fs::path>> FilesOfARun(const std::string& path) {
  std::vector<fs::path> files;
  std::error_code error;
  fs::directory_iterator each(path, error);
  for (; !error && each != fs::directory_iterator(); each.increment(error)) {
    const std::string name = each->path().filename().string();
    if (MayBeLeft(name)) continue;
    if (!IsOfARun(name)) {
      return FailedPrecondition(path, ": contains \"", name,
                                "\", which no run wrote; choose another --output-dir");
    }
    if (each->symlink_status(error).type() != fs::file_type::regular) {
      return NotOurs(each->path().string());
    }
    files.push_back(each->path());
  }
  if (error) return Internal(path, ": cannot be listed: ", error.message());
  return files;
}

// Statistics over the answered records, for a number that each may have: mean, median, 95th
// percentile and extremes. null counts as unknown, never as 0. Bounded memory.
struct Aggregate {
  const char* at;         // JSON pointer below the metrics, in the records and in the summary
  const char* of_record;  // below it: a statistic of the record, whose name is not part of the
                          // summary
  double per_unit;        // resolution of the sketch
  const char* energy_of = nullptr;  // prefix of an energy that counts only if it is whole
  stats::QuantileSketch scaled = {};
  double sum = 0, min = HUGE_VAL, max = -HUGE_VAL;
  uint64_t unknown = 0;

  void Add(const Json& metrics) {
    const Json::json_pointer place(absl::StrCat(at, of_record));
    Json value = metrics.contains(place) ? metrics.at(place) : Json();
    if (energy_of != nullptr) {
      value = json::OrNull(power::WholeEnergy(metrics["energy_metrics"], energy_of));
    }
    const double number = value.is_number() ? value.get<double>() * per_unit : NAN;
    if (!(std::abs(number) < 0x1p62)) {
      ++unknown;
      return;
    }
    scaled.Add(std::llround(number));
    sum += value.get<double>();
    min = std::min(min, value.get<double>());
    max = std::max(max, value.get<double>());
  }
  Json ToJson() const {
    const uint64_t known = scaled.count();
    // The extremes are exact, and rounding must not move other statistics beyond them.
    const auto within = [&](double number) { return Json(std::clamp(number, min, max)); };
    const auto unscaled = [&](std::optional<double> number) {
      return number.has_value() ? within(*number / per_unit) : Json();
    };
    return {{"known", known},
            {"unknown", unknown},
            {"mean", known > 0 ? within(sum / static_cast<double>(known)) : Json()},
            {"median", unscaled(scaled.Median())},
            {"p95", unscaled(scaled.Quantile(0.95))},
            {"min", known > 0 ? Json(min) : Json()},
            {"max", known > 0 ? Json(max) : Json()}};
  }
};

// Returns "gpu_joules" and so on; null if unknown.
template <typename Named>
Json EnergiesJson(const Named& named) {
  Json energies;
  for (const auto& [name, energy] : named) {
    const bool known = energy->known > 0, bounded = known && energy->unbounded == 0;
    json::VisitFields(*energy, [&, name = name](const std::string& what, const auto& value) {
      const bool is_known = what == "joules" ? known : bounded || !what.ends_with("_joules");
      energies[absl::StrCat(name, "_", what)] = is_known ? Json(value) : Json();
    });
  }
  return energies;
}

// Adds the tokens of a record, or of other sums. If the sum overflows, they count as unknown.
void AddTokens(std::optional<int64_t> output_tokens, bool answered, SharedWindowTotals* totals) {
  int64_t sum = 0;
  if (output_tokens.has_value() &&
      !__builtin_add_overflow(totals->output_tokens, *output_tokens, &sum)) {
    totals->output_tokens = sum;
  } else {
    totals->answers_without_tokens += answered ? 1 : 0;
  }
}

Json SharedWindowsJson(const SharedWindowTotals& totals) {
  if (totals.spans == 0) return nullptr;
  const std::pair<const char*, const PowerRunTotals::Energy*> named[] = {
      {"gpu", &totals.gpu}, {"cpu", &totals.cpu}, {"all", &totals.all}};
  Json shared = {{"seconds", totals.seconds},
                 {"spans", totals.spans},
                 {"records", totals.records},
                 {"output_tokens", totals.output_tokens},
                 {"answers_without_tokens", totals.answers_without_tokens},
                 {"energy_totals", EnergiesJson(named)}};
  const bool all_tokens = totals.output_tokens > 0 && totals.answers_without_tokens == 0;
  for (const auto& [name, energy] : named) {
    const bool whole = energy->known > 0 && energy->unknown == 0 && energy->incomplete == 0;
    const auto per = [whole, joules = energy->joules](bool known, double of) {
      return known && whole ? Json(joules / of) : Json();
    };
    shared["mean_watts"][name] = per(totals.seconds > 0, totals.seconds);
    shared["joules_per_output_token"][name] =
        per(all_tokens, static_cast<double>(totals.output_tokens));
  }
  return shared;
}

// Reads the totals of earlier spans from a summary; missing values are 0.
SharedWindowTotals SharedWindowsOf(const Json& shared) {
  SharedWindowTotals totals;
  const auto read = [](const Json& object, const std::string& name, auto* value) {
    *value =
        json::ValueOf<std::remove_pointer_t<decltype(value)>>(object, name.c_str()).value_or(0);
  };
  read(shared, "seconds", &totals.seconds);
  read(shared, "spans", &totals.spans);
  read(shared, "records", &totals.records);
  read(shared, "output_tokens", &totals.output_tokens);
  read(shared, "answers_without_tokens", &totals.answers_without_tokens);
  const Json* const energies = json::Find(shared, "energy_totals");
  for (const auto& [name, energy] :
       {std::pair{"gpu_", &totals.gpu}, {"cpu_", &totals.cpu}, {"all_", &totals.all}}) {
    json::VisitFields(*energy, [&, name = name](const std::string& what, auto& value) {
      if (energies != nullptr) read(*energies, name + what, &value);
    });
  }
  return totals;
}

// Returns "550.54.15", or each distinct version of several GPUs; empty if it is unknown.
std::string DriverOf(const Json& gpus) {
  std::set<std::string> drivers;
  for (const Json& each : gpus.is_array() ? gpus : Json::array()) {
    drivers.insert(TextOf(each, "driver").value_or(""));
  }
  drivers.erase("");
  return absl::StrJoin(drivers, ", ");
}

class KeptRun : public RunDirectory {
 public:
  // See RunDirectory::Open.
  KeptRun(const PowerRunOptions& options, const std::string& input_sha256,
          const RunHardware& hardware)
      : path_((fs::path(options.output_root) /
               RunDirectoryName(hardware.label, options.model, options.dataset))
                  .string()),
        records_path_(path_ + "/" + kRecords),
        options_(options),
        input_sha256_(input_sha256),
        hardware_(hardware) {}

  // Creates the directory, locks it, and continues or removes an earlier run.
  absl::Status Open() {
    std::error_code error;
    // A run that ended before its first answer may be replaced.
    const bool there = fs::exists(records_path_, error) && fs::file_size(records_path_, error) > 0;
    const bool asks = there && !options_.resume && !options_.overwrite;
    if (asks && !(options_.confirm_overwrite && options_.confirm_overwrite(path_))) {
      return FailedPrecondition(path_,
                                ": already exists; continue it with --resume, replace it with "
                                "--overwrite, or choose another --output-dir");
    }
    fs::create_directories(path_, error);
    if (error)
      return Internal(path_, ": cannot be created: ", error.message(), "; see --output-dir");
    return Prepare();
  }

  absl::StatusOr<bool> Has(const RunRecord& record) const override {
    const auto kept = done_.find(record.index);
    if (kept == done_.end()) return false;
    if (kept->second == HashOf(record.problem)) return true;
    return DataLoss(
        records_path_, ": the record with index ", record.index,
        " belongs to another data set, because its problem differs; start again with --overwrite");
  }
  const std::string& path() const override { return path_; }
  const PowerRunTotals& totals() const override { return totals_; }
  const SharedWindowTotals& shared_windows() const override { return shared_; }

  absl::Status Write(const RunResult& result) override {
    const Json record = power::ResultJson(result);
    if (!io::WriteAll(records_.get(), json::Dump(record) + "\n") || fsync(records_.get()) != 0) {
      return CannotWrite(records_path_);
    }
    Add(record);
    ++since_span_.records;
    AddTokens(result.answer.output_tokens, result.answer.status == "ok", &since_span_);
    return UpdateSummary();
  }

  void Add(const RunSpan& span) override {
    power::AddToTotals(span, &shared_);
    const SharedWindowTotals since = std::exchange(since_span_, {});
    shared_.records += since.records;
    shared_.answers_without_tokens += since.answers_without_tokens;
    AddTokens(since.output_tokens, /*answered=*/true, &shared_);
  }

  std::string SummaryJson(std::string_view stop_reason) const override {
    const auto seconds = [](std::optional<int64_t> unix_ns) {
      return unix_ns.has_value() ? Json(static_cast<double>(*unix_ns) * 1e-9) : Json();
    };
    const std::pair<const char*, const PowerRunTotals::Energy*> energies[] = {
        {"gpu", &totals_.gpu}, {"cpu", &totals_.cpu}, {"ane", &totals_.ane}, {"all", &totals_.all}};
    Json aggregates;
    for (const Aggregate& each : aggregates_) {
      aggregates[Json::json_pointer(each.at)] = each.ToJson();
    }
    Json summary = {{"schema", "xplane-time.power-run-summary.v1"},
                    {"model", options_.model},
                    {"profiler_config", json::Parse(options_.config_json)},
                    {"dataset", options_.dataset},
                    {"dataset_name", options_.dataset},
                    {"input_sha256", input_sha256_},
                    {"hardware_label", Slug(hardware_.label, "UNKNOWN_HW")},
                    {"generated_at", generated_unix_s_},
                    {"started_at", seconds(first_unix_ns_)},
                    {"ended_at", seconds(last_unix_ns_)},
                    {"total_queries", totals_.records},
                    {"failed_queries", totals_.failed},
                    {"max_queries", json::OrNull(options_.max_queries)},
                    {"complete", stop_reason.empty()},
                    {"stop_reason", json::TextOrNull(stop_reason)},
                    {"energy_totals", EnergiesJson(energies)},
                    {"shared_windows", SharedWindowsJson(shared_)},
                    {"energy_rates", rates_.ToJson()},
                    {"aggregates", aggregates},
                    {"system_info", json::Parse(hardware_.system_info_json)},
                    {"gpu_info", json::Parse(hardware_.gpu_info_json)},
                    {"output_dir", path_},
                    {"versions",
                     {{"xplane-time", XPLANE_TIME_VERSION_STRING},
                      {"driver", json::TextOrNull(DriverOf(json::Parse(hardware_.gpu_info_json)))},
                      {"model_server", json::Parse(options_.model_server_json)}}}};
    return summary.dump(2, ' ', false, Json::error_handler_t::replace);
  }

  absl::Status Checkpoint(std::string_view stop_reason) override {
    return WithWayOut(io::WriteWholeFile(path_ + "/" + kSummary, Summary(stop_reason)));
  }

 private:
  using Clock = std::chrono::steady_clock;

  std::string Summary(std::string_view stop_reason) {
    generated_unix_s_ =
        std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    return SummaryJson(stop_reason) + "\n";
  }

  // Writes the summary between checkpoints, so that a killed run has a summary of its records. It
  // skips the sync, which takes longer than a short answer. The first 100 records have a summary
  // each; after them summaries take at most 5 % of the time.
  absl::Status UpdateSummary() {
    constexpr uint64_t kEach = 100;
    constexpr int kMinPauses = 20;
    const Clock::time_point begin = Clock::now();
    if (totals_.records > kEach && begin - updated_ < kMinPauses * update_time_) {
      return absl::OkStatus();
    }
    const std::string path = path_ + "/" + kSummary;
    std::string temporary = path;
    const Descriptor file(io::OpenBeside(&temporary));
    if (!file.open()) return CannotWrite(path);
    if (!io::WriteAll(file.get(), Summary("running")) ||
        std::rename(temporary.c_str(), path.c_str()) != 0) {
      const absl::Status failed = CannotWrite(path);
      unlink(temporary.c_str());
      return failed;
    }
    updated_ = Clock::now();
    update_time_ = updated_ - begin;
    return absl::OkStatus();
  }

  // The hash of a problem in the form of the records.
  static size_t HashOf(const std::string& problem) {
    return std::hash<std::string>()(json::Dump(Json(problem)));
  }

  // The lock belongs to the open file, so it ends with the process in any case.
  absl::Status Lock() {
    records_ =
        Descriptor(open(records_path_.c_str(),
                        O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666));
    if (!records_.open())
      return errno == ELOOP ? NotOurs(records_path_) : CannotWrite(records_path_);
    if (flock(records_.get(), LOCK_EX | LOCK_NB) != 0) {
      return FailedPrecondition(
          path_, ": in use by another run; wait for it, or choose another --output-dir");
    }
    struct stat info = {};
    if (fstat(records_.get(), &info) != 0) return CannotWrite(records_path_);
    if (!IsPlain(info)) return NotOurs(records_path_);
    return absl::OkStatus();
  }

  // Removes a last line without an end: it was being written when the run was killed.
  absl::Status TakeUp() {
    std::ifstream file(records_path_, std::ios::binary);
    uint64_t number = 0, whole_bytes = 0;
    std::string kept;  // lines to keep, if failed ones are dropped
    bool drops = false;
    for (std::string line; std::getline(file, line) && !file.eof();) {
      ASSIGN_OR_RETURN(const bool is_kept, TakeUpLine(line, ++number));
      whole_bytes += line.size() + 1;
      drops |= !is_kept;
      if (options_.retry_failed && is_kept) absl::StrAppend(&kept, line, "\n");
    }
    if (drops) return ReplaceBy(kept);
    const bool good = ftruncate(records_.get(), static_cast<off_t>(whole_bytes)) == 0;
    return good ? absl::OkStatus() : CannotWrite(records_path_);
  }

  // Reads the spans from the last written summary; later measurements are lost and not counted.
  void TakeUpSpans() {
    const auto text = ReadRunFile(path_ + "/" + kSummary);
    const Json summary = json::Parse(text.ok() ? *text : "");
    const Json* const shared = json::Find(summary, "shared_windows");
    if (shared != nullptr) shared_ = SharedWindowsOf(*shared);
  }

  // Replaces the records as a whole, so that each index occurs once.
  absl::Status ReplaceBy(const std::string& kept) {
    std::error_code error;
    const fs::perms rights = fs::status(records_path_, error).permissions();
    RETURN_IF_ERROR(WithWayOut(io::WriteWholeFile(records_path_, kept)));
    fs::permissions(records_path_, rights, error);
    replaced_ = std::exchange(records_, Descriptor());
    return Lock();
  }

  // Removes the files of a run, and no others. The records are removed first, so that after a kill
  // no record is attributed to another run.
  absl::Status Clear() {
    ASSIGN_OR_RETURN(const std::vector<fs::path> files, FilesOfARun(path_));
    if (ftruncate(records_.get(), 0) != 0) return CannotWrite(records_path_);
    std::error_code error;
    for (const fs::path& each : files) {
      if (each.filename() == kRecords) continue;  // it is locked
      if (!fs::remove(each, error)) {
        return Internal(each.string(), ": cannot be removed: ", error.message());
      }
    }
    return absl::OkStatus();
  }

  // Prepares an existing directory: locks it, checks that it belongs to this run, and opens the
  // records.
  absl::Status Prepare() {
    // Checked before anything is written, and again under the lock.
    RETURN_IF_ERROR(MayTake().status());
    RETURN_IF_ERROR(Lock());
    ASSIGN_OR_RETURN(const bool goes_on, MayTake());
    if (goes_on) {
      TakeUpSpans();
      return TakeUp();
    }
    RETURN_IF_ERROR(Clear());
    return WithWayOut(io::WriteWholeFile(
        path_ + "/" + kRun, RunJson().dump(2, ' ', false, Json::error_handler_t::replace) + "\n"));
  }

  // Returns false if the record failed and is asked again.
  absl::StatusOr<bool> TakeUpLine(const std::string& line, uint64_t number) {
    const auto damaged = [&](const char* why) {
      return DataLoss(records_path_, ": line ", number, ": ", why,
                      "; repair or remove the line, or start again with --overwrite");
    };
    constexpr size_t kMostLevels = 100;  // the 64 levels of RECORDS, and some of ours
    const Json record = json::Parse(line, kMostLevels);
    if (!record.is_object()) {
      const bool is_deep = json::NestsDeeper(line, kMostLevels);
      return damaged(is_deep ? "nested too deeply" : "not a JSON object");
    }
    if (!record.contains("index") || !record["index"].is_number_unsigned()) {
      return damaged("no index");
    }
    const auto index = record["index"].get<uint64_t>();
    if (done_.contains(index)) return damaged("a repeated index");
    if (index >= options_.input_records.value_or(UINT64_MAX)) {
      return damaged(
          "an index beyond the end of the data set; the line belongs to another data set");
    }
    if (!power::IsRunRecord(record)) return damaged("not a record of a run");
    if (options_.retry_failed && record["status"] != "ok") return false;
    Add(record);
    return true;
  }

  // Returns whether the existing run is continued (true) or removed; an error if it belongs to
  // another run.
  absl::StatusOr<bool> MayTake() const {
    const std::string run_path = path_ + "/" + kRun;
    ASSIGN_OR_RETURN(const std::string text, ReadRunFile(run_path));
    struct stat info = {};
    const bool has_records = lstat(records_path_.c_str(), &info) == 0 && IsPlain(info) &&
                             info.st_size > 0;  // Lock reports other errors
    // A run that was killed before it began has neither this file nor a record.
    const bool is_new = text.empty() && !has_records;
    const Json found = json::Parse(text, 10);
    if (!is_new && TextOf(found, "schema") != kSchema) {
      return DataLoss(
          run_path,
          text.empty() ? ": missing, although records exist" : ": does not belong to a run",
          "; the origin of the records is unknown; restore the file, move the directory away, or "
          "choose another --output-dir");
    }
    if (is_new || !options_.resume) {
      RETURN_IF_ERROR(FilesOfARun(path_).status());
      return false;
    }
    const Json wanted = RunJson();
    Json kept = {{"order", kOrderOfFile}, {"problem_field", PowerRunOptions().problem_field}};
    kept.update(found);  // older runs lack some members
    for (const char* name : {"input_sha256", "model", "dataset", "order", "problem_field"}) {
      const std::string is = TextOf(kept, name).value_or(""), asked = *TextOf(wanted, name);
      if (is == asked) continue;
      return FailedPrecondition(run_path, ": the run has another ", name, " (", is, ", not ", asked,
                                "); replace it with --overwrite, or choose another --output-dir");
    }
    if (found.contains("asked_by")) RETURN_IF_ERROR(AskedAlike(found["asked_by"], run_path));
    return true;
  }

  // Answers and times of another client or temperature belong to another experiment.
  absl::Status AskedAlike(const Json& before, const std::string& run_path) const {
    const Json now = AskedBy();
    for (const auto& [name, value] : now.items()) {
      const Json was = before.value(name, Json());
      if (was == value) continue;
      return FailedPrecondition(run_path, ": the run has another ", name, " (", json::Dump(was),
                                ", not ", json::Dump(value),
                                "); replace it with --overwrite, or choose another --output-dir");
    }
    return absl::OkStatus();
  }

  // The options that answers and their times depend on. The command may be corrected between runs.
  Json AskedBy() const {
    const Json config = json::Parse(options_.config_json);
    Json asked_by = Json::object();
    for (const char* name : {"client", "client_parameters", "base_url", "concurrency"}) {
      if (config.contains(name)) asked_by[name] = config[name];
    }
    return asked_by;
  }

  void Add(const Json& record) {
    done_.emplace(record["index"].get<uint64_t>(), HashOf(TextOf(record, "problem").value_or("")));
    power::AddToTotals(record, &totals_);
    if (record["status"] == "ok") {
      const Json& metrics = record["model_metrics"].begin().value();
      for (Aggregate& each : aggregates_) each.Add(metrics);
    }
    rates_.Add(record);
    const Json interval = record.value("interval", Json());
    const auto begun = json::WholeOf(interval, "begin_unix_ns"),
               from = json::WholeOf(interval, "begin_ns"), to = json::WholeOf(interval, "end_ns");
    int64_t took_ns = 0, ended = 0;
    if (!begun || !from || !to || __builtin_sub_overflow(*to, *from, &took_ns) ||
        __builtin_add_overflow(*begun, took_ns, &ended)) {
      return;
    }
    first_unix_ns_ = std::min(first_unix_ns_.value_or(*begun), *begun);
    last_unix_ns_ = std::max(last_unix_ns_.value_or(ended), ended);
  }

  Json RunJson() const {
    const auto seed = options_.shuffle_seed;
    return {{"schema", kSchema},
            {"input_sha256", input_sha256_},
            {"model", options_.model},
            {"dataset", options_.dataset},
            {"order", seed.has_value() ? absl::StrCat("shuffle ", *seed) : kOrderOfFile},
            {"problem_field", options_.problem_field},
            {"asked_by", AskedBy()}};
  }

  const std::string path_, records_path_;
  const PowerRunOptions options_;
  const std::string input_sha256_;
  const RunHardware hardware_;
  Descriptor records_;
  Descriptor replaced_;              // the earlier records.jsonl, which keeps its lock
  std::map<uint64_t, size_t> done_;  // by index, with the hash of the problem
  PowerRunTotals totals_;
  SharedWindowTotals shared_, since_span_;  // since_span_ only has values from records
  power::EnergyRates rates_;
  static constexpr double kMicro = 1e6, kNano = 1e9;
  std::vector<Aggregate> aggregates_ = {
      {"/latency_metrics/total_query_seconds", "", kNano},
      {"/latency_metrics/time_to_first_token_seconds", "", kNano},
      {"/latency_metrics/per_token_ms", "", kMicro},
      {"/latency_metrics/throughput_tokens_per_sec", "", kMicro},
      {"/token_metrics/input", "", 1},
      {"/token_metrics/output", "", 1},
      {"/token_metrics/total", "", 1},
      {"/power_metrics/gpu/per_query_watts", "/avg", kMicro},
      {"/power_metrics/cpu/per_query_watts", "/avg", kMicro},
      {"/energy_metrics/per_query_joules", "", kNano, /*energy_of=*/""},
      {"/energy_metrics/cpu_per_query_joules", "", kNano, /*energy_of=*/"cpu_"},
      {"/temperature_metrics", "/avg", kMicro},
      {"/memory_metrics/cpu_mb", "/max", kMicro},
      {"/memory_metrics/gpu_mb", "/max", kMicro},
      {"/hardware_utilization/gpu/compute_utilization_pct", "", kMicro},
      {"/hardware_utilization/gpu/memory_bandwidth_utilization_pct", "", kMicro},
      {"/hardware_utilization/gpu/tensor_core_utilization_pct", "", kMicro},
      {"/hardware_utilization/gpu/busy_pct", "", kMicro}};
  std::optional<int64_t> first_unix_ns_, last_unix_ns_;  // time of the first question and of the
                                                         // last answer
  double generated_unix_s_ = 0;
  Clock::time_point updated_;  // time of the last UpdateSummary
  Clock::duration update_time_{0};
};

}  // namespace

std::string RunDirectoryName(std::string_view hardware, std::string_view model,
                             std::string_view dataset) {
  return absl::StrCat("profile_", Slug(hardware, "UNKNOWN_HW"), "_", Slug(model, "model"), "_",
                      Slug(dataset, "dataset"));
}

absl::StatusOr<std::unique_ptr<RunDirectory>> RunDirectory::Open(const PowerRunOptions& options,
                                                                 const std::string& input_sha256,
                                                                 const RunHardware& hardware) {
  auto run = std::make_unique<KeptRun>(options, input_sha256, hardware);
  RETURN_IF_ERROR(run->Open());
  return run;
}

}  // namespace xplane_time
