// Reads records from text files in two passes.
//
// The first pass reads all rows (RowReader), parses each and reports the first error with its line.
// It keeps the position of each record and the SHA-256 of the file. Then the positions are shuffled
// if requested. The second pass reads each record with pread when it is asked for, and compares the
// file's status with that of the first pass to detect changes.
//
// RowReader keeps one row and a chunk of 1 MiB in memory. In CSV, a row ends at a line end outside
// of quotes. Linear in the bytes.
#include "workload/text_records.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "io/sha256.h"
#include "io/whole_file.h"
#include "json/field.h"
#include "json/json_cursor.h"
#include "stats/random.h"
#include "status.h"

namespace xplane_time {
namespace {

using json::Field, json::Json;

constexpr size_t kMostRowBytes = size_t{16} << 20;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr char kMetadata[] = "dataset_metadata";

// The rows of a file, from its begin.
class RowReader {
 public:
  RowReader(int file, bool quotes) : file_(file), quotes_(quotes) {}

  // Returns false at the end, for a row that is too long, or after a read error.
  bool Next() {
    start_ += size_;
    begin_ += size_;
    line_ += lines_;
    size_ = row_bytes_ = lines_ = 0;
    bool in_quotes = false;
    do {
      const size_t end = FindLineEnd();
      if (errno_ != 0 || is_too_long_) return false;
      const bool is_last = end == Unread().size();
      if (is_last && end == size_) break;
      const std::string_view line = Unread().substr(size_, end - size_);
      if (quotes_ && std::ranges::count(line, '"') % 2 != 0) in_quotes = !in_quotes;
      row_bytes_ = end;
      size_ = is_last ? end : end + 1;
      ++lines_;
    } while (in_quotes);
    return size_ > 0;
  }

  // Without the last line end, and without a byte order mark.
  std::string_view row() const { return Unread().substr(MarkBytes(), row_bytes_ - MarkBytes()); }
  uint64_t begin() const { return begin_ + MarkBytes(); }  // offset in the file
  uint64_t line() const { return line_; }                  // its first line, from 1
  int error() const { return errno_; }
  bool is_too_long() const { return is_too_long_; }
  std::string sha256() { return sha256_.Hex(); }  // of everything that was read; call at the end

 private:
  std::string_view Unread() const { return std::string_view(buffer_).substr(start_); }
  size_t MarkBytes() const {
    const bool has = begin_ == 0 && Unread().substr(0, row_bytes_).starts_with(kByteOrderMark);
    return has ? kByteOrderMark.size() : 0;
  }
  // After size_ unread bytes: the position of the next line end, or of the end of the file.
  size_t FindLineEnd() {
    for (size_t from = size_;;) {
      const size_t found = Unread().find('\n', from);
      from = std::min(found, Unread().size());
      is_too_long_ = from > kMostRowBytes;
      if (found != std::string_view::npos || is_too_long_ || !Fill()) return from;
    }
  }
  bool Fill() {
    constexpr size_t kChunk = size_t{1} << 20;
    buffer_.erase(0, std::exchange(start_, 0));
    const size_t old = buffer_.size();
    buffer_.resize(old + kChunk);
    const ssize_t got = io::ReadFull(file_, buffer_.data() + old, kChunk);
    if (got < 0) errno_ = errno;
    buffer_.resize(old + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    sha256_.Add(std::string_view(buffer_).substr(old));
    return got > 0;
  }

  const int file_;
  const bool quotes_;
  std::string buffer_;
  size_t start_ = 0;                 // of the row in it
  size_t size_ = 0, row_bytes_ = 0;  // with and without the last line end
  uint64_t begin_ = 0, line_ = 1, lines_ = 0;
  int errno_ = 0;
  bool is_too_long_ = false;
  io::Sha256 sha256_;
};

// Returns "; fields: id, text (--problem-field NAME)".
std::string NamesIn(const Json& object, std::string_view option) {
  constexpr size_t kMostNames = 12, kMostBytes = 60;
  std::string names;
  size_t count = 0;
  for (const auto& [name, value] : object.items()) {
    if (++count > kMostNames) break;
    Append(&names, names.empty() ? "" : ", ", name.substr(0, kMostBytes));
  }
  return Cat("; fields: ", names.empty() ? "none" : names, count > kMostNames ? ", ..." : "",
             " (--", option, "-field NAME)");
}

// Reads a text; a number is converted. If the member is missing, `into` does not change.
void ReadText(const Field& fields, const std::string& name, std::string* into) {
  const Json* const value = fields.Find(name.c_str());
  if (value != nullptr && (value->is_number() || value->is_boolean())) {
    *into = value->dump();
  } else {
    fields.Read(name.c_str(), into);
  }
}

// Returns an error message, or "".
std::string ToRecord(const Json& object, const DatasetOptions& options, RunRecord* record) {
  const std::string& problem = options.problem_field;
  if (json::Find(object, problem.c_str()) == nullptr) {
    if (object.contains(problem)) return Cat(problem, ": must be a string, not null");
    return Cat(problem, ": must be present", NamesIn(object, "problem"));
  }
  const DatasetOptions usual;
  for (const auto& [what, name, by_default] :
       {std::tuple("answer", &options.answer_field, &usual.answer_field),
        {"subject", &options.subject_field, &usual.subject_field}}) {
    const bool is_asked_for = *name != *by_default;
    if (is_asked_for && !object.contains(*name)) {
      return Cat(*name, ": must be present", NamesIn(object, what));
    }
  }
  std::string wrong;
  const Field fields(object, &wrong);
  fields.Read(problem.c_str(), &record->problem);
  ReadText(fields, options.answer_field, &record->answer);
  ReadText(fields, options.subject_field, &record->subject);
  Json metadata = fields.Object(kMetadata);
  if (!wrong.empty()) return wrong;
  for (const auto& [name, value] : object.items()) {
    const bool known = name == problem || name == options.answer_field ||
                       name == options.subject_field || name == kMetadata;
    if (!known && !metadata.contains(name)) metadata[name] = value;
  }
  record->dataset_metadata_json = json::Dump(metadata);
  return "";
}

bool IsBlank(std::string_view row) { return row.find_first_not_of(" \t\r") == row.npos; }

class TextRecords : public RecordSource {
 public:
  TextRecords(std::string name, io::Descriptor file, const TextFormat& format,
              const DatasetOptions& options)
      : name_(std::move(name)), file_(std::move(file)), format_(format), options_(options) {}

  absl::Status Check() {
    fstat(file_.get(), &as_checked_);
    RowReader reader(file_.get(), format_.quotes);
    while (reader.Next()) {
      if (IsBlank(reader.row())) continue;
      RunRecord record;
      bool is_header = false;
      const std::string wrong = Parse(reader.row(), &record, &is_header);
      if (!wrong.empty()) return DataLoss(name_, ": line ", reader.line(), ": ", wrong);
      if (is_header) continue;
      places_.push_back({reader.begin(), reader.row().size(), places_.size()});
    }
    if (reader.is_too_long()) {
      return DataLoss(name_, ": line ", reader.line(), ": the line is longer than 16 MiB");
    }
    if (reader.error() != 0) {
      return Unavailable(name_, ": cannot be read: ", std::strerror(reader.error()));
    }
    sha256_ = reader.sha256();
    if (places_.empty())
      return DataLoss(name_, ": contains no records; a record is a row with a field \"",
                      options_.problem_field, "\"");
    Shuffle();
    return CheckUnchanged();
  }

  absl::StatusOr<std::optional<RunRecord>> Next() override {
    if (next_ == places_.size()) return std::nullopt;
    const Place& place = places_[next_++];
    std::string row(place.bytes, '\0');
    const ssize_t got = pread(file_.get(), row.data(), row.size(), static_cast<off_t>(place.begin));
    RETURN_IF_ERROR(CheckUnchanged());
    RunRecord record = {.index = place.index};
    bool is_header = false;
    const bool whole = got >= 0 && static_cast<size_t>(got) == row.size();
    if (!whole || !Parse(row, &record, &is_header).empty()) {
      return Unavailable(name_, ": record ", place.index, " cannot be read again");
    }
    return record;
  }
  uint64_t size() const override { return places_.size(); }
  std::string sha256() const override { return sha256_; }

 private:
  struct Place {
    uint64_t begin = 0;
    size_t bytes = 0;
    uint64_t index = 0;
  };

  std::string Parse(std::string_view row, RunRecord* record, bool* is_header) {
    Json object;
    std::string wrong = format_.parse(row, &columns_, &object);
    if (!wrong.empty()) return wrong;
    *is_header = object.is_null();
    return *is_header ? "" : ToRecord(object, options_, record);
  }

  absl::Status CheckUnchanged() const {
    struct stat now = {};
    if (fstat(file_.get(), &now) == 0 && now.st_size == as_checked_.st_size &&
        now.st_mtim.tv_sec == as_checked_.st_mtim.tv_sec &&
        now.st_mtim.tv_nsec == as_checked_.st_mtim.tv_nsec) {
      return absl::OkStatus();
    }
    return DataLoss(
        name_,
        ": the file changed while it was read; restore its content, and continue with --resume");
  }

  void Shuffle() {
    if (!options_.shuffle_seed.has_value()) return;
    constexpr uint64_t kOrderOfRecords = 0x7265636f726473;  // number of this random stream
    stats::RandomFor(*options_.shuffle_seed, kOrderOfRecords, 0).Shuffle(places_);
  }

  const std::string name_;
  const io::Descriptor file_;
  const TextFormat format_;
  const DatasetOptions options_;
  struct stat as_checked_ = {};
  std::vector<std::string> columns_;
  std::vector<Place> places_;  // in the order of asking
  std::string sha256_;
  size_t next_ = 0;
};

// Parses the cell that begins at `*at` and moves `*at` to its end. Returns an error message, or "".
std::string ParseCell(std::string_view row, size_t* at, std::string* cell) {
  if (*at == row.size() || row[*at] != '"') {
    const size_t end = std::min(row.find(',', *at), row.size());
    *cell = row.substr(*at, end - *at);
    *at = end;
    const bool quoted = cell->find('"') != cell->npos;
    return quoted ? "a quote in a cell that does not start with one" : "";
  }
  for (;;) {
    const size_t close = row.find('"', *at + 1);
    if (close == row.npos) return "unterminated quote";
    cell->append(row.substr(*at + 1, close - *at - 1));
    *at = close + 1;
    if (*at == row.size() || row[*at] == ',') return "";
    if (row[*at] != '"') return "more of a cell after its closing quote";
    cell->push_back('"');
  }
}

std::string ParseCells(std::string_view row, std::vector<std::string>* cells) {
  for (size_t at = 0;; ++at) {
    if (std::string wrong = ParseCell(row, &at, &cells->emplace_back()); !wrong.empty()) {
      return wrong;
    }
    if (at == row.size()) return "";
  }
}

std::string ParseJsonRow(std::string_view row, std::vector<std::string>* /*columns*/,
                         Json* object) {
  *object = json::Parse(row);
  if (object->is_object()) return "";
  return json::NestsDeeper(row) ? "it is nested too deeply" : "it is not a JSON object";
}

std::string ParseCsvRow(std::string_view row, std::vector<std::string>* columns, Json* object) {
  if (row.ends_with('\r')) row.remove_suffix(1);
  if (!json::IsUtf8(row)) return "it is not UTF-8";
  std::vector<std::string> cells;
  if (std::string wrong = ParseCells(row, &cells); !wrong.empty()) return wrong;
  if (columns->empty()) {
    for (auto each = cells.begin(); each != cells.end(); ++each) {
      if (std::find(cells.begin(), each, *each) != each)
        return Cat("two columns are named \"", *each, "\"");
    }
    *columns = std::move(cells);
    return "";
  }
  if (cells.size() != columns->size()) {
    return Cat("it has ", cells.size(), " cells, but the header has ", columns->size());
  }
  *object = Json::object();
  for (size_t i = 0; i < cells.size(); ++i) {
    const bool is_object = (*columns)[i] == kMetadata && !cells[i].empty();
    (*object)[(*columns)[i]] = is_object ? json::Parse(cells[i]) : Json(std::move(cells[i]));
  }
  if (const auto metadata = object->find(kMetadata); metadata != object->end()) {
    if (*metadata == "") *metadata = nullptr;
    if (metadata->is_discarded()) return "dataset_metadata: must be a JSON object, or empty";
  }
  return "";
}

}  // namespace

const TextFormat kJsonLines = {ParseJsonRow}, kCsv = {ParseCsvRow, /*quotes=*/true};

absl::StatusOr<std::unique_ptr<RecordSource>> OpenTextRecords(const std::string& name,
                                                              io::Descriptor file,
                                                              const TextFormat& format,
                                                              const DatasetOptions& options) {
  auto records = std::make_unique<TextRecords>(name, std::move(file), format, options);
  RETURN_IF_ERROR(records->Check());
  return records;
}

}  // namespace xplane_time
