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

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace xplane_time::decide {

// SplitMix64 (Steele, Lea, Flood 2014): the same numbers everywhere.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next();
  uint64_t Below(uint64_t n) { return Next() % n; }  // n > 0; the bias is below n / 2^64
  double Uniform();                                  // (0, 1)
  double Normal();

  template <typename T>
  void Shuffle(std::vector<T>& values) {
    for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[Below(i)]);
  }

 private:
  uint64_t state_;
};

// A stream of its own for each (seed, what, index).
Random RandomFor(uint64_t seed, uint64_t what, uint64_t index);

// Row `row` (of any number: they repeat) for k variants; positions 0 to k - 1. k > 0.
std::vector<uint32_t> WilliamsRow(uint32_t k, uint64_t row);

}  // namespace xplane_time::decide

#endif  // XPLANE_TIME_SRC_DECIDE_ORDERS_H_
