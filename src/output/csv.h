// CSV: one header row, then the same rows as JSON (RFC 4180, lines end in "\n").
//
// Nested names are joined by `_` (active_ps_mean, active_ps_median_ci95_lo), an unknown
// value is an empty cell, doubles have the shortest form that reads back the same.
#pragma once

#include <concepts>
#include <string>

namespace xplane_time::output {

// Digits without an exponent at ordinary magnitudes; not finite: nothing.
void AppendCsvNumber(double value, std::string* out);

void AppendCsvInteger(std::integral auto value, std::string* out) {
  out->append(std::to_string(value));
}

}  // namespace xplane_time::output
