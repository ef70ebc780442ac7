// Output: finished results in, text out.
//
// Enters: the row structs of report.h and planes.h. Leaves: one string in the asked
// format, ready for standard output or a file.
//
//   auto text = RenderFunctions(report, {.format = Format::kCsv}, /*by_id=*/false,
//                               /*samples=*/false);
//   RenderKernels(report, {.sort = "size"}).status()
//   // InvalidArgument: --sort: unknown key "size"; valid keys: total, self, ...
//
// JSON and CSV hold every row in full precision; rows are cut by `top` only, and only
// those of functions, combined, variants, kernels and trees. Tables fit `width` columns.
// Names with invalid UTF-8 are shown with \xNN in every format. Nothing here reads
// files, clocks or the terminal. Not handled: raw events, which stream (events.h).
#ifndef XPLANE_TIME_SRC_OUTPUT_OUTPUT_H_
#define XPLANE_TIME_SRC_OUTPUT_OUTPUT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "timing/given_options.h"
#include "xplane_time/planes.h"
#include "xplane_time/report.h"

namespace xplane_time::output {

enum class Format : uint8_t { kTable, kJson, kCsv, kMarkdown };

// Of times in tables; JSON and CSV are always in picoseconds.
enum class Unit : uint8_t { kAuto, kNs, kUs, kMs, kS };

struct OutputOptions {
  Format format = Format::kTable;
  std::vector<GivenOption> given = {};  // JSON records them
  std::optional<size_t> top = {};       // rows to keep; tables of `report` default to 10
  std::string sort = {};                // a key of ordering.h; empty: total, descending
  Unit unit = Unit::kAuto;
  int width = 80;     // terminal columns
  bool wide = false;  // tables: every column, names at full length, whatever width
  std::vector<std::string> columns = {};  // columns.h: only these of tables; empty: the usual ones
  bool color = false;                     // ANSI
  Metric metric = Metric::kActive;        // the time that function tables show
  bool unicode = true;                    // bars, ellipsis and signs beyond ASCII in tables
};

// The whole report; CSV prints its function rows. Errors: InvalidArgument (sort).
absl::StatusOr<std::string> RenderReport(const Report& report, const OutputOptions& options);

// Functions a device and combined; `by_id`: Report::variants; `samples`:
// Report::samples. CSV prints one of them: samples before variants before functions.
// Errors: InvalidArgument (sort).
absl::StatusOr<std::string> RenderFunctions(const Report& report, const OutputOptions& options,
                                            bool by_id, bool samples);

// Errors: InvalidArgument (sort).
absl::StatusOr<std::string> RenderKernels(const Report& report, const OutputOptions& options);

std::string RenderTree(const TreeReport& report, const OutputOptions& options);

// CSV prints the lines, or, where the report has them, the stats.
std::string RenderPlanes(const PlanesReport& report, const OutputOptions& options);

}  // namespace xplane_time::output

#endif  // XPLANE_TIME_SRC_OUTPUT_OUTPUT_H_
