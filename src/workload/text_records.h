// Records in a text, a row each: checked as a whole at first, then read one at a time by their
// places in the file, so that a million of them take 8 MB and not the file.
//
//   path -> rows (bytes) -> json::Json objects -> RunRecord
//
// One thread. The file stays open; one that is written to meanwhile is DataLoss.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "io/descriptor.h"
#include "json/json.h"
#include "xplane_time/power_run.h"

namespace xplane_time {

// What a row is. `parse` makes a JSON object of one, or nothing of a header, which it keeps in
// `columns` for the others; it returns what is wrong.
struct TextFormat {
  std::string (*parse)(std::string_view row, std::vector<std::string>* columns,
                       json::Json* object) = nullptr;
  bool quotes = false;  // ends of lines in quotes are none
};
extern const TextFormat kJsonLines;
extern const TextFormat kCsv;  // RFC 4180: parted by commas, below a header; all cells are texts

// `name`: in errors. Errors: DataLoss, with the line.
absl::StatusOr<std::unique_ptr<RecordSource>> OpenTextRecords(const std::string& name,
                                                              io::Descriptor file,
                                                              const TextFormat& format,
                                                              const DatasetOptions& options);

}  // namespace xplane_time
