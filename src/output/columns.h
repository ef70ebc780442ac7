// Columns: which columns of its tables a command has, and the choice among them.
//
// A name is the header in lower case without its unit: "median us" is median, "95% CI" is 95% ci.
// So a choice holds whatever the numbers are.
//
//   ParseColumns("functions", "Median, runs")   {"median", "runs"}
//   ParseColumns("functions", "size").status()
//   // InvalidArgument: --columns: unknown column "size"; valid columns: function, variant, ...
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "output/grid.h"

namespace xplane_time::output {

std::string ColumnName(std::string_view header);

// Parted by commas. `command`: a command's name, or "samples". Errors: InvalidArgument, with the
// names that `command` knows.
absl::StatusOr<std::vector<std::string>> ParseColumns(std::string_view command,
                                                      std::string_view text);

// Shows the columns of these names, in this order, after the first column, which stays; hidden
// ones too. A grid that has none of them stays as it is.
void ChooseColumns(const std::vector<std::string>& names, Grid* grid);

}  // namespace xplane_time::output
