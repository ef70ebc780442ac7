// Nesting: slices of a Perfetto track lie in each other or apart. An end closes the innermost slice
// that is open: two that overlap in part would swap their ends. And the trace processor drops what
// lies deeper than 512 levels. So what a track cannot hold goes to a further one.
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

// The places of spans by track, in order. Spans are in order of start. One goes to the first track
// where that holds it, else to that whose innermost open span fits it closest: few tracks, though
// not always the fewest. O(n log n).
std::vector<std::vector<uint32_t>> TracksOf(size_t count,
                                            absl::FunctionRef<Span(uint32_t)> span_of);

}  // namespace xplane_time::perfetto
