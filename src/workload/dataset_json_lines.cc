// A data set: a file of JSON Lines, a record each.
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "io/sha256.h"
#include "io/whole_file.h"
#include "json/field.h"
#include "status.h"
#include "xplane_time/power_run.h"

namespace xplane_time {
namespace {

using json::Field, json::Json, json::kNeeded;

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

}  // namespace

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

}  // namespace xplane_time
