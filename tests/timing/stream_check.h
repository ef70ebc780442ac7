// Long traces, for which executions come chunk by chunk: whether that changes anything.
//
// A report must say what the slow reference says; the same as of everything at once,
// which --max-events and a line that is not sorted ask for; and the same for any number
// of threads.
#pragma once

#include <cstdint>

#include "tests/support/slow_report.h"
#include "tests/support/trace_builder.h"
#include "xplane_time/report.h"

namespace xplane_time::testing {

// Events come from a line in batches of so many (EventBatch::kBatchSize).
inline constexpr int64_t kBatch = 1024;

// With samples. An error fails the test.
Report StreamReport(const TraceBuilder& trace, ReportOptions options = {});

// The report of everything at once, and of one number of threads after the other, is the
// same as chunk by chunk. False where it is not.
bool ChunksChangeNothing(const TraceBuilder& trace, ReportOptions options = {});

// And it is what the slow reference makes of `trace`, or of `like` it.
using Reference = SlowReport (*)(const proto::XSpace&);
bool StreamAgrees(const TraceBuilder& trace, Reference reference);
bool StreamAgrees(const TraceBuilder& trace, Reference reference, const TraceBuilder& like);

}  // namespace xplane_time::testing
