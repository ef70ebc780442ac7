// One record of a run as JSON, and what the run as a whole adds up from it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "json/json.h"
#include "stats/quantile_sketch.h"
#include "xplane_time/power_run.h"

namespace xplane_time::power {

using json::Json;

Json ResultJson(const RunResult& result);

// Whether what was read back is one.
bool IsRunRecord(const Json& record);
void AddToTotals(const Json& record, PowerRunTotals* totals);

// The message of a record that failed, in one line for people. All of it stays in the record.

// Before what a command printed at its end.
constexpr char kLastWords[] = "; its last words: ";

// The first line of a message; of last words the last one, which names a traceback's error.
//   "it ended: exit 1; its last words: Traceback ...\n  ...\nValueError: x"
//   "it ended: exit 1; its last words: ValueError: x"
std::string BriefMessage(std::string_view message);

// Of the answered records of a run: the mean, median and 95th percentile of what each has.
//
// Enters: records as ResultJson gives them, or as they were read back; those whose status is not
// ok are left out. Leaves: JSON with the sections and names of the records. A value that is null
// counts as unknown, never as 0. Bounded memory (stats::QuantileSketch). Not thread-safe.

class RunAggregates {
 public:
  void Add(const Json& record);
  // {"latency_metrics": {"total_query_seconds": {"known", "unknown", "mean", "median", "p95"}, ...
  Json ToJson() const;

 private:
  static constexpr size_t kNumbers = 9;
  struct Values {
    stats::QuantileSketch scaled;
    double sum = 0;
    uint64_t unknown = 0;
  };
  std::array<Values, kNumbers> values_;
};

}  // namespace xplane_time::power
