// Nesting: slices of a Perfetto track must be nested or disjoint. An end closes the innermost open
// slice, so two slices that overlap in part would exchange their ends. Also, the trace processor
// drops slices below 512 levels. Slices that a track cannot hold go to another track.
//
//   |----a----|            track 1   |----a----|
//        |----b----|       track 2        |----b----|
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"

namespace xplane_time::perfetto {

inline constexpr size_t kMostLevels = 512;

struct Span {
  int64_t start_ns = 0, end_ns = 0;
};

// Assigns spans to tracks; returns the indices of the spans of each track, in order. Spans must be
// in order of start. A span goes to the first track if it fits there, otherwise to the track whose
// innermost open span encloses it most closely. This gives few tracks, but not always the fewest.
// O(n log n).
std::vector<std::vector<uint32_t>> TracksOf(size_t count,
                                            absl::FunctionRef<Span(uint32_t)> span_of);

}  // namespace xplane_time::perfetto
