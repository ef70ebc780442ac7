// EventTable: raw events as a table, with the columns of the `events` command.
//
//   input    number  index of the input          start_ps     number  unknown: aggregated
//   host     category, unknown: no host name     duration_ps  number
//   plane, line, name  categories                occurrences  number
//
// and one column for each stat: int64 (uint64 if a value requires it) or double if all values are
// numbers of one kind; otherwise a category of texts. Memory: 8 bytes for each event and number, 4
// for each event and category; while stats are read, 32 more each.
#pragma once

#include "absl/status/statusor.h"
#include "arrow/table.h"
#include "xplane_time/diagnostics.h"
#include "xplane_time/trace.h"

namespace xplane_time::arrow {

struct EventTableOptions {
  std::string device = "all";             // select.h
  std::string line = {}, name = {};       // RE2, search semantics; empty: all
  std::vector<std::string> columns = {};  // empty: all
  std::vector<std::string> stats = {};
  int64_t min_duration_ps = 0;
  int threads = 1;
};

// Rows are in the order of the file. Errors: InvalidArgument (an unknown column, a repeated name, a
// pattern), those of CheckStatNames, SelectPlanes and VisitEvents.
absl::StatusOr<Table> EventsTable(const Trace& trace, const EventTableOptions& options,
                                  Diagnostics* diagnostics);

}  // namespace xplane_time::arrow
