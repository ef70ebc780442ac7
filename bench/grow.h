// Grow: the same trace N times as long. Every line's events are repeated, each repetition
// one span of the trace later, on the device's own clock too, and with correlation ids of its
// own; aggregated events and all other stats are repeated as they are.
//
//   span = last end - first start over all events + 1 us; of ids: the largest + 1
//
// Lengths are computed first, then everything is streamed: memory is that of the input,
// and planes and lines may be longer than 2 GiB.
#pragma once

#include <google/protobuf/io/zero_copy_stream.h>

#include <cstdint>

#include "absl/status/statusor.h"
#include "proto/xplane.pb.h"

namespace xplane_time::bench {

struct Grown {
  uint64_t bytes = 0;
  uint64_t events = 0;
};

// `space` is consumed. Errors: InvalidArgument (no events, times beyond int64), Unavailable
// (`out` takes no more).
absl::StatusOr<Grown> WriteGrown(proto::XSpace* space, int64_t times,
                                 google::protobuf::io::ZeroCopyOutputStream* out);

}  // namespace xplane_time::bench
