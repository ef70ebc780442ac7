// Random: random numbers for tests, equal on every machine for a seed.
#pragma once

#include <cstdint>
#include <random>

namespace xplane_time::testing {

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  // 0 to below - 1.
  int64_t Below(int64_t below) {
    return static_cast<int64_t>(engine_() % static_cast<uint64_t>(below));
  }
  bool OneIn(int64_t n) { return Below(n) == 0; }

 private:
  std::mt19937 engine_;
};

}  // namespace xplane_time::testing
