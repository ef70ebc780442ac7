// The data sets of power run, by name: what a file of records may be.
//
//   for (const DatasetFormat& each : DatasetFormats()) ... each.name
//   ASSIGN_OR_RETURN(const auto records, OpenDataset("problems.csv", {.problem_field =
//   "question"}));
//   // DataLoss: problems.csv: line 2: question: must be present; there are: id, text: ...
//
// A new one is a line in datasets.cc and, where it is no text with a record a row, in
// python/xplane_time/datasets.py (CONTRIBUTING.md).
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
  std::string_view recognized_by;    // for people
  std::string_view needs = {};       // what is to be installed; empty: nothing
  const TextFormat* text = nullptr;  // null: Python makes JSON Lines of it
};

std::span<const DatasetFormat> DatasetFormats();

// A scratch file with what `python` -P -m xplane_time.datasets prints of `path`, from its begin: a
// line of JSON a record. Python imports nothing from the current directory. Errors:
// FailedPrecondition (no Python, no such module or library: what to install), DataLoss (the data
// set; over 8 GiB of lines), Internal (no room).
absl::StatusOr<io::Descriptor> ConvertByPython(const std::string& path, const std::string& python);

}  // namespace xplane_time
