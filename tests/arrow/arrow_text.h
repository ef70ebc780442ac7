// What an exported stream holds, read back through Arrow's C interface alone: as CSV.
#pragma once

#include <string>

#include "arrow/table.h"
#include "xplane_time/arrow_c_data.h"

namespace xplane_time::testing {

// A header and a line a row, as CSV writes them. Consumes the stream.
std::string CsvOf(ArrowArrayStream* stream);
std::string CsvOf(arrow::Table table);

}  // namespace xplane_time::testing
