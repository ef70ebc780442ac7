// Random numbers that are the same on every platform for a given seed. The engines are specified to
// the bit. The distributions are our own, because those of the standard library differ between
// implementations.
//
//   Random random = RandomFor(seed, kOrders, round);
//   random.Shuffle(order);
//   random.Normal()
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <random>
#include <utility>
#include <vector>

namespace xplane_time::stats {

// SplitMix64 by Steele, Lea and Flood (2014).
class SplitMix64 {
 public:
  explicit SplitMix64(uint64_t seed) : state_(seed) {}
  uint64_t operator()() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }

 private:
  uint64_t state_;
};

template <typename Engine>
class Draws {
 public:
  explicit Draws(uint64_t seed) : engine_(seed) {}

  uint64_t Next() { return engine_(); }
  // A number in [0, n) for n > 0. The bias is below n / 2^64.
  uint64_t Below(uint64_t n) { return Next() % n; }
  // A number in [0, n) for n > 0. Rejection avoids any bias.
  uint64_t BelowUnbiased(uint64_t n) {
    const uint64_t rest = (0 - n) % n;  // 2^64 mod n
    uint64_t number = Next();
    while (number < rest) number = Next();
    return number % n;
  }

  double Uniform() { return (static_cast<double>(Next() >> 11) + 0.5) * 0x1p-53; }     // (0, 1)
  double UniformOrOne() { return static_cast<double>((Next() >> 11) + 1) * 0x1p-53; }  // (0, 1]

  // By Box and Muller (1958).
  double Normal() {
    const double radius = std::sqrt(-2 * std::log(Uniform()));
    return radius * std::cos(2 * std::numbers::pi * Uniform());
  }

  template <typename T>
  void Shuffle(std::vector<T>& values) {
    for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[Below(i)]);
  }

 private:
  Engine engine_;
};

using Random = Draws<SplitMix64>;
using MersenneRandom = Draws<std::mt19937_64>;

// An independent stream for each (seed, what, index).
inline Random RandomFor(uint64_t seed, uint64_t what, uint64_t index) {
  Random mixed(seed);
  Random by_what(mixed.Next() ^ what);
  return Random(by_what.Next() ^ index);
}

// Beta-distributed numbers, for order statistics of uniform numbers.
class BetaRandom {
 public:
  explicit BetaRandom(uint64_t seed) : random_(seed) {}

  double Uniform() { return random_.UniformOrOne(); }  // (0, 1]: its logarithm is finite

  // Requires a, b >= 1.
  double Beta(double a, double b) {
    const double x = Gamma(a);
    return x / (x + Gamma(b));
  }

 private:
  // Marsaglia's polar method, which makes two numbers at a time.
  double Normal() {
    if (has_spare_) {
      has_spare_ = false;
      return spare_;
    }
    double x = 0, y = 0, square = 0;
    do {
      x = 2 * Uniform() - 1;
      y = 2 * Uniform() - 1;
      square = x * x + y * y;
    } while (square >= 1 || square == 0);
    const double scale = std::sqrt(-2 * std::log(square) / square);
    spare_ = y * scale;
    has_spare_ = true;
    return x * scale;
  }

  // Marsaglia and Tsang, "A Simple Method for Generating Gamma Variables" (2000); requires shape >=
  // 1.
  double Gamma(double shape) {
    const double d = shape - 1.0 / 3;
    const double c = 1 / std::sqrt(9 * d);
    while (true) {
      const double x = Normal();
      const double root = 1 + c * x;
      if (root <= 0) continue;
      const double v = root * root * root;
      const double u = Uniform();
      // Accepts nearly every draw without a logarithm.
      if (u < 1 - 0.0331 * x * x * x * x) return d * v;
      if (std::log(u) < 0.5 * x * x + d * (1 - v + std::log(v))) return d * v;
    }
  }

  MersenneRandom random_;
  double spare_ = 0;
  bool has_spare_ = false;
};

}  // namespace xplane_time::stats
