// Interchange: decisions in the formats of CI systems.
//
//   JUnit XML                 a test case a row; `failure` fails it, `skipped` skips it
//   Google Benchmark JSON     a benchmark a row that has a time, its ratio as a counter
//   Bencher Metric Format     {"NAME": {"latency": {"value", "lower_value", "upper_value"}}}
//                             in nanoseconds, bounds only where an interval is known
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "output/output.h"

namespace xplane_time::output {

struct InterchangeRow {
  std::string name;   // function, with device, variant and program where they tell rows apart
  std::string group;  // JUnit's classname
  std::optional<double> time_ps = {}, lo_ps = {}, hi_ps = {};
  std::optional<double> ratio = {}, ratio_lo = {}, ratio_hi = {};
  uint64_t samples = 0;
  std::string text;                                  // the verdict in a sentence
  std::string failure_type = {}, skipped_type = {};  // empty: it passed
};

std::string JunitXml(std::string_view suite, const std::vector<InterchangeRow>& rows);
std::string BenchmarkJson(const std::vector<InterchangeRow>& rows);
std::string BencherJson(const std::vector<InterchangeRow>& rows);

// All three, from what `rows()` gives.
void AddInterchange(std::string_view suite, std::function<std::vector<InterchangeRow>()> rows,
                    Output* output);

}  // namespace xplane_time::output
