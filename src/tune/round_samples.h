// What a harness says of a round, as a time a slot.
#ifndef XPLANE_TIME_SRC_TUNE_ROUND_SAMPLES_H_
#define XPLANE_TIME_SRC_TUNE_ROUND_SAMPLES_H_

#include "absl/status/statusor.h"
#include "tune/harness_protocol.h"
#include "xplane_time/tune.h"

namespace xplane_time {

// From its samples, or from its trace: there the n-th distinct variant of the order is the
// function with the variant id n, and its runs, in order of time, are: one of no slot where it
// opened the round, then `calls` a slot. A slot without a sample is no_events. A status other
// than ok is that of all slots: it should be one that nobody is to blame for. Errors:
// InvalidArgument (a slot that is not there, or twice; neither samples nor a trace), DataLoss
// (a trace that cannot be read or does not have these runs).
absl::StatusOr<RoundTimes> TimesOfResult(const ResultAnswer& result, const RoundRequest& request);

}  // namespace xplane_time

#endif  // XPLANE_TIME_SRC_TUNE_ROUND_SAMPLES_H_
