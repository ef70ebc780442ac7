// Recognizes the data set of a path, and lists the formats.
#include "workload/datasets.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "io/whole_file.h"
#include "status.h"
#include "workload/text_records.h"

namespace xplane_time {
namespace {

namespace fs = std::filesystem;

constexpr char kPyarrow[] = "pip install xplane-time pyarrow";

constexpr std::array kFormats = {
    DatasetFormat{.name = "jsonl",
                  .help = "JSON Lines: one object per line",
                  .recognized_by = ".jsonl, .ndjson, .json, starts with {",
                  .text = &kJsonLines},
    DatasetFormat{.name = "csv",
                  .help = "rows of cells below a header (RFC 4180)",
                  .recognized_by = ".csv",
                  .text = &kCsv},
    DatasetFormat{.name = "parquet",
                  .help = "a Parquet file",
                  .recognized_by = "starts with PAR1, .parquet",
                  .needs = kPyarrow},
    DatasetFormat{.name = "hf",
                  .help = "a Hugging Face save_to_disk folder",
                  .recognized_by = "state.json, dataset_dict.json",
                  .needs = kPyarrow}};

std::string FormatNames() {
  std::string names;
  for (const DatasetFormat& each : kFormats) Append(&names, names.empty() ? "" : ", ", each.name);
  return names;
}

absl::Status NoFormat(const std::string& path, std::string_view what) {
  return DataLoss(path, ": ", what, "; formats: ", FormatNames(),
                  " (choose one with --dataset-format NAME; see xplane-time power datasets)");
}

// Advice for unreadable formats, which are recognized by their first bytes.
std::string_view WayOutOf(std::string_view head) {
  struct Known {
    std::string_view bytes, way_out;
  };
  constexpr Known kKnown[] = {
      {"\x1f\x8b", "is compressed with gzip; decompress it with gunzip first"},
      {"\x28\xb5\x2f\xfd", "is compressed with zstd; decompress it with unzstd first"},
      {"PK\x03\x04", "is a zip archive; extract it with unzip first"},
      {"ARROW1", "is an Arrow file; convert it to Parquet (pyarrow.parquet.write_table)"},
      {"\xff\xfe", "is UTF-16; convert it with iconv -f UTF-16 -t UTF-8"},
      {"\xfe\xff", "is UTF-16; convert it with iconv -f UTF-16 -t UTF-8"}};
  const auto* const known =
      std::ranges::find_if(kKnown, [&](const Known& each) { return head.starts_with(each.bytes); });
  return known == std::end(kKnown) ? "" : known->way_out;
}

const DatasetFormat* ByName(std::string_view name) {
  const auto* const found = std::ranges::find(kFormats, name, &DatasetFormat::name);
  return found == kFormats.end() ? nullptr : found;
}

absl::StatusOr<const DatasetFormat*> FormatOf(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    const bool saved =
        fs::exists(path + "/state.json", error) || fs::exists(path + "/dataset_dict.json", error);
    if (saved) return ByName("hf");
    return NoFormat(path, "is a folder without state.json, so not a data set of save_to_disk");
  }
  constexpr size_t kHeadBytes = 4096;
  const std::string head = io::ReadFile(path, kHeadBytes).value_or("");
  if (const std::string_view way_out = WayOutOf(head); !way_out.empty()) {
    return DataLoss(path, ": ", way_out);
  }
  if (head.starts_with("PAR1")) return ByName("parquet");
  const std::string suffix = fs::path(path).extension();
  if (suffix == ".csv" || suffix == ".parquet") return ByName(suffix.substr(1));
  const size_t first = head.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  if (suffix == ".json" && first != head.npos && head[first] == '[') {
    return DataLoss(path, ": is a single JSON array; convert it to JSON Lines with jq -c .[]");
  }
  const bool named = suffix == ".jsonl" || suffix == ".ndjson" || suffix == ".json";
  if (named || (first != head.npos && head[first] == '{')) return ByName("jsonl");
  return NoFormat(path, "has an unknown format (by content and suffix)");
}

}  // namespace

std::span<const DatasetFormat> DatasetFormats() { return kFormats; }

absl::StatusOr<std::unique_ptr<RecordSource>> OpenDataset(const std::string& path,
                                                          const DatasetOptions& options) {
  std::error_code error;
  if (!fs::exists(path, error)) return NotFound(path, ": no such file");
  const bool is_folder = fs::is_directory(path, error);
  // Opening a pipe would wait for its writer.
  const int fd =
      is_folder || fs::is_regular_file(path, error) ? open(path.c_str(), O_RDONLY | O_CLOEXEC) : -1;
  io::Descriptor file(fd);
  if (!file.open()) return Unavailable(path, ": not a readable file");
  const DatasetFormat* format = ByName(options.format);
  if (format == nullptr && !options.format.empty()) {
    return InvalidArgument("unknown data set format \"", options.format,
                           "\"; formats: ", FormatNames());
  }
  if (format == nullptr) {
    ASSIGN_OR_RETURN(format, FormatOf(path));
  }
  if (format->text == nullptr) {
    ASSIGN_OR_RETURN(file, ConvertByPython(path, options.python));
    return OpenTextRecords(path, std::move(file), kJsonLines, options);
  }
  if (is_folder) return NoFormat(path, "is a folder");
  return OpenTextRecords(path, std::move(file), *format->text, options);
}

}  // namespace xplane_time
