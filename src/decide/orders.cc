#include "decide/orders.h"

#include <algorithm>

namespace xplane_time::decide {

std::vector<uint32_t> WilliamsRow(uint32_t k, uint64_t row) {
  const uint64_t rows = k % 2 == 0 ? k : 2 * uint64_t{k};
  const uint32_t shift = static_cast<uint32_t>(row % rows) % k;
  std::vector<uint32_t> order(k);
  for (uint32_t position = 0; position < k; ++position) {
    const uint32_t zigzag = position % 2 == 1 ? (position + 1) / 2 : (k - position / 2) % k;
    order[position] = (zigzag + shift) % k;
  }
  if (row % rows >= k) std::reverse(order.begin(), order.end());
  return order;
}

}  // namespace xplane_time::decide
