// The data sets of power run: the supported file formats, by name.
//
//   for (const DatasetFormat& each : DatasetFormats()) ... each.name
//   ASSIGN_OR_RETURN(const auto records,
//                    OpenDataset("problems.csv", {.problem_field = "question"}));
//   // DataLoss: problems.csv: line 2: question: must be present; fields: id, text: ...
//
// A new format is a line in datasets.cc. If it is not a text with one record for each row, it also
// needs code in python/xplane_time/datasets.py (CONTRIBUTING.md).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "io/descriptor.h"
#include "xplane_time/power_run.h"

namespace xplane_time {

struct TextFormat;

struct DatasetFormat {
  std::string_view name, help;
  std::string_view recognized_by;    // text for help messages
  std::string_view needs = {};       // package to install; may be empty
  const TextFormat* text = nullptr;  // null: Python converts it to JSON Lines
};

std::span<const DatasetFormat> DatasetFormats();

// Runs `python` -P -m xplane_time.datasets on `path` and returns a scratch file with its output, at
// position 0: one line of JSON for each record. Python does not import from the current directory.
// Errors: FailedPrecondition (Python, the module or a library is missing: what to install),
// DataLoss (the data set; over 8 GiB of lines), Internal (no space).
absl::StatusOr<io::Descriptor> ConvertByPython(const std::string& path, const std::string& python);

}  // namespace xplane_time
