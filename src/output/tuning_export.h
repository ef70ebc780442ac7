// Export: a stored session as text for other tools.
//
// Enters: a store and the id of a session. Leaves: text, in pieces, through a sink; the
// first error of store or sink ends it. The same session gives the same bytes.
//
//   std::string text;
//   ExportCsv(store, 1, [&](std::string_view piece) { text += piece; return OkStatus(); });
//   ExportCsv(store, 99, sink)   // NotFound: tune.db: no session 99; ...
//
// Samples come in the order in which they were stored, discarded rounds included (T4 leaves
// those out). Times are in picoseconds, in T4 in milliseconds.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "xplane_time/store.h"

namespace xplane_time::output {

using TextSink = absl::FunctionRef<absl::Status(std::string_view)>;

// One row a sample; one column, param_NAME, a parameter of any variant; with workloads three
// columns for each: status_NAME, t_ps_NAME, energy_uj_NAME. A variant that was out before it
// was run has a row without slot and time.
absl::Status ExportCsv(const TuneStore& store, int64_t session, TextSink sink);

// Everything that is stored of the session (schema xplane-time.tune.v1: tune.v1.json).
absl::Status ExportJson(const TuneStore& store, int64_t session, TextSink sink);

// kernel_tuner's T4 results (results-schema 1.0.0 as kernel_tuner 1.5.0 writes it): one
// result a variant that was measured or failed before, with all its times; "time" is their
// mean, as it is there.
absl::Status ExportT4(const TuneStore& store, int64_t session, TextSink sink);

}  // namespace xplane_time::output
