// Checks long traces, for which executions are processed in chunks.
//
// A report must equal that of the slow reference. It must also equal the report without chunks,
// which
// --max-events and unsorted lines require, and be equal for any number of threads.
#pragma once

#include <cstdint>

#include "tests/support/slow_report.h"
#include "tests/support/trace_builder.h"
#include "xplane_time/report.h"

namespace xplane_time::testing {

// The number of events in a batch of a line (EventBatch::kBatchSize).
inline constexpr int64_t kBatch = 1024;

// The report with samples. An error fails the test.
Report StreamReport(const TraceBuilder& trace, ReportOptions options = {});

// Checks that the report in chunks equals the report without chunks, for several numbers of
// threads. Returns false if not.
bool ChunksChangeNothing(const TraceBuilder& trace, ReportOptions options = {});

// Also checks that the report equals that of the slow reference for `trace`, or for `like`.
using Reference = SlowReport (*)(const proto::XSpace&);
bool StreamAgrees(const TraceBuilder& trace, Reference reference);
bool StreamAgrees(const TraceBuilder& trace, Reference reference, const TraceBuilder& like);

}  // namespace xplane_time::testing
