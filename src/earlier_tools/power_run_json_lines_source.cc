#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "io/sha256.h"
#include "json/json.h"
#include "status.h"
#include "xplane_time/power_run.h"

namespace xplane_time {
namespace {

using json::Json;

constexpr size_t kMostLineBytes = size_t{16} << 20;

// Empty, or what is wrong with the line.
std::string ParseRecord(const std::string& line, RunRecord* record) {
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
    if (!std::filesystem::exists(path_, error)) {
      return NotFound(path_, ": no such file");
    }
    // It is read twice; a pipe cannot be, and waits for its writer.
    if (std::filesystem::is_regular_file(path_, error)) file_.open(path_);
    if (!file_.is_open()) {
      return Unavailable(path_, ": not a file that can be read");
    }
    for (;;) {
      ASSIGN_OR_RETURN(const std::optional<RunRecord> record, Read(&hash_));
      if (!record.has_value()) break;
      ++size_;
    }
    if (size_ == 0) {
      return DataLoss(path_, ": no record; one JSON object a line, with a \"problem\"");
    }
    sha256_ = hash_.Hex();
    file_.clear();
    file_.seekg(0);
    line_ = next_ = 0;
    return absl::OkStatus();
  }

  absl::StatusOr<std::optional<RunRecord>> Next() override { return Read(nullptr); }
  uint64_t size() const override { return size_; }
  std::string sha256() const override { return sha256_; }

 private:
  // The next line, or more of it than a line may have.
  bool ReadLine(std::string* line) {
    line->clear();
    constexpr size_t kPart = size_t{1} << 16;
    while (line->size() <= kMostLineBytes) {
      const size_t before = line->size();
      line->resize(before + kPart);
      file_.getline(line->data() + before, static_cast<std::streamsize>(kPart));
      const auto got = static_cast<size_t>(file_.gcount());
      const bool goes_on = file_.fail() && got == kPart - 1;
      const bool feed = !file_.fail() && !file_.eof();  // it was counted
      line->resize(before + got - (feed ? 1 : 0));
      if (!goes_on) return feed || !line->empty();
      file_.clear(file_.rdstate() & ~std::ios::failbit);
    }
    return true;
  }
  // The next line that is not empty.
  absl::StatusOr<std::optional<RunRecord>> Read(io::Sha256* hash) {
    for (std::string line; ReadLine(&line);) {
      ++line_;
      if (hash != nullptr) {
        hash->Update(line);
        if (!file_.eof()) hash->Update("\n");
      }
      const bool too_long = line.size() > kMostLineBytes;
      if (!too_long && line.find_first_not_of(" \t\r") == std::string::npos) continue;
      RunRecord record = {.index = next_};
      const std::string error = too_long ? "it is longer than 16 MiB" : ParseRecord(line, &record);
      if (!error.empty()) {
        return DataLoss(path_, ": line ", line_, ": ", error);
      }
      ++next_;
      return std::optional(std::move(record));
    }
    if (file_.bad()) return Unavailable(path_, ": cannot be read");
    return std::optional<RunRecord>();
  }

  std::string path_, sha256_;
  std::ifstream file_;
  io::Sha256 hash_;
  uint64_t line_ = 0, next_ = 0, size_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RecordSource>> OpenJsonLinesSource(const std::string& path) {
  auto source = std::make_unique<JsonLinesSource>(path);
  RETURN_IF_ERROR(source->CheckAll());
  return source;
}

}  // namespace xplane_time
