// Records in a text file, one for each row. The file is first checked as a whole. Then records are
// read one at a time by their positions in the file, so that a million records take 8 MB of memory.
//
//   path -> rows (bytes) -> json::Json objects -> RunRecord
//
// For one thread. The file stays open; if it is changed meanwhile, reading returns DataLoss.
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

// The format of rows. `parse` converts a row to a JSON object and returns an error message, or "".
// For a header it leaves the object empty and stores the names in `columns` for the other rows.
struct TextFormat {
  std::string (*parse)(std::string_view row, std::vector<std::string>* columns,
                       json::Json* object) = nullptr;
  bool quotes = false;  // line ends inside quotes do not end a row
};
extern const TextFormat kJsonLines;
extern const TextFormat kCsv;  // RFC 4180: separated by commas, with a header; all cells are texts

// `name` is used in errors. Errors: DataLoss, with the line.
absl::StatusOr<std::unique_ptr<RecordSource>> OpenTextRecords(const std::string& name,
                                                              io::Descriptor file,
                                                              const TextFormat& format,
                                                              const DatasetOptions& options);

}  // namespace xplane_time
