// Given options: which options change what a report says, where they are not the default.
//
// The JSON of a report records them; comparisons refuse inputs in which they differ.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "xplane_time/report.h"

namespace xplane_time {

struct GivenOption {
  std::string name;  // "skip_runs"
  std::variant<std::string, int64_t> value;
};

// In a fixed order; empty: all are the default.
std::vector<GivenOption> GivenOptions(const ReportOptions& options);

}  // namespace xplane_time
