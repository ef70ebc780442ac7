#include "decide/orders.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace xplane_time::decide {

uint64_t Random::Next() {
  uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

double Random::Uniform() { return (static_cast<double>(Next() >> 11) + 0.5) * 0x1p-53; }

// Box and Muller (1958).
double Random::Normal() {
  const double radius = std::sqrt(-2 * std::log(Uniform()));
  return radius * std::cos(2 * std::numbers::pi * Uniform());
}

Random RandomFor(uint64_t seed, uint64_t what, uint64_t index) {
  Random mixed(seed);
  Random by_what(mixed.Next() ^ what);
  return Random(by_what.Next() ^ index);
}

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
