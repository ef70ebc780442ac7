// Period: splits the sequence of one program's kernels into runs when the trace holds
// no other evidence.
//
//   a b c a b c a b c      -> [a b c] [a b c] [a b c]   the smallest exact period
//   a b c a b   a b c      -> [a b c] [a b]   [a b c]   a run may lack kernels,
//   a b c   b c a b c      -> [a b c] [b c]   [a b c]   its first ones included
//   a b c b a c a b c      -> [a b c] [b a c] [a b c]   two streams swap neighbours
//   a b c d                -> [a b c d]                 no repetition: one run
//
// Where there is no exact period (or losses repeat), a template (the content of the modal run) is
// sought: the shortest that contains every symbol, of which every run is a subset, and of which at
// least two runs and 3/4 of all runs (else half of them) are complete. Of equally good ones the one
// that leaves the least idle time inside runs is taken. Within a run the order hardly ever goes far
// back, so a symbol from far before begins the next run.
//
// What this cannot see: a program whose only kernels repeat in a loop looks like more
// runs (the host's count then disagrees), and the tail of one run next to the head of
// another looks like one run.
#ifndef XPLANE_TIME_SRC_TIMING_PERIOD_H_
#define XPLANE_TIME_SRC_TIMING_PERIOD_H_

#include <cstdint>
#include <span>
#include <vector>

namespace xplane_time {

// The run of each element, from 0. `symbols` are small ids in order of start;
// `idle_ps[i]` is the time between element i and all before it (or empty: unknown).
// O(n) where there is an exact period and n is large, or no symbol repeats in it.
std::vector<uint32_t> SplitByPeriod(std::span<const uint32_t> symbols,
                                    std::span<const int64_t> idle_ps);

}  // namespace xplane_time

#endif  // XPLANE_TIME_SRC_TIMING_PERIOD_H_
