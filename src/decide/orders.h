// Orders: in which order a round runs its variants.
//
// Williams (1949): over k rounds (2 k where k is odd) each of k variants is first equally often
// and follows each other variant equally often. k = 4:
//
//   0 1 3 2
//   1 2 0 3
//   2 3 1 0
//   3 0 2 1
#ifndef XPLANE_TIME_SRC_DECIDE_ORDERS_H_
#define XPLANE_TIME_SRC_DECIDE_ORDERS_H_

#include <cstdint>
#include <vector>

namespace xplane_time::decide {

// Row `row` (of any number: they repeat) for k variants; positions 0 to k - 1. k > 0.
std::vector<uint32_t> WilliamsRow(uint32_t k, uint64_t row);

}  // namespace xplane_time::decide

#endif  // XPLANE_TIME_SRC_DECIDE_ORDERS_H_
