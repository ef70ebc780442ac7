// Grow: makes a trace N times as long. The events of every line are repeated, and each repetition
// is one span of the trace later, also on the device's own clock. Each repetition has new
// correlation ids. Aggregated events and all other stats are repeated unchanged.
//
//   span = last end - first start over all events + 1 us; span of ids: the largest id + 1
//
// Lengths are computed first, and then everything is streamed. Memory is therefore that of the
// input, and planes and lines may be longer than 2 GiB.
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
// (writing to `out` failed).
absl::StatusOr<Grown> WriteGrown(proto::XSpace* space, int64_t times,
                                 google::protobuf::io::ZeroCopyOutputStream* out);

}  // namespace xplane_time::bench
