// Summaries of random numbers, and of fleets whose slow hosts are known.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/support/random.h"
#include "xplane_time/fleet.h"

namespace xplane_time::testing {

// A few rows of each kind, of few names: many rows of two of them have the same key.
inline FleetSummary RandomSummary(Random* random) {
  FleetSummary made;
  made.names = {""};
  for (const char* name : {"GPU:0", "GPU:1", "H100", "dot", "f", "g", "host0", "host1"}) {
    made.names.emplace_back(name);
  }
  const auto id = [&] { return static_cast<NameId>(random->Below(9)); };
  const auto ps = [&] { return random->Below(int64_t{1} << (1 + random->Below(50))); };
  const auto time = [&] {
    TimeSum sum;
    for (int64_t i = random->Below(5); i > 0; --i) {
      sum.Add(ps(), static_cast<uint64_t>(random->Below(3)));
    }
    return sum;
  };
  const auto count = [&] { return static_cast<uint64_t>(random->Below(5)); };
  for (int64_t i = random->Below(4); i > 0; --i) {
    made.devices.push_back({.host = id(),
                            .device = id(),
                            .captures = count(),
                            .busy_ps = ps(),
                            .span_ps = Int128{ps()} << random->Below(70),
                            .idle_ps = ps()});
    made.functions.push_back(
        {.host = id(),
         .function = id(),
         .is_range = random->OneIn(2),
         .runs = count(),
         .active = time(),
         .centres_ps = {ps()},
         .own = {.own_ps = {ps()}, .busy_ps = {ps()}, .captures_with_collectives = count()}});
    made.kernels.push_back({.device = id(),
                            .kernel = id(),
                            .category = Category::kCopy,
                            .time = time(),
                            .self_known = count(),
                            .self_ps = ps()});
    made.steps.push_back(
        {.host = id(),
         .model = id(),
         .span = time(),
         .centres_ps = {ps()},
         .own = {.own_ps = {ps()}, .busy_ps = {ps()}, .captures_with_collectives = count()}});
    made.meetings.push_back({.host = id(),
                             .device = id(),
                             .kernel = id(),
                             .base_ns = random->OneIn(2) ? 0 : ps(),
                             .content = count(),
                             .captures = 1 + count(),
                             .enters_ps = {10, 10 + ps()},
                             .lengths_ps = {ps(), ps()}});
    made.collectives.push_back(
        {.host = id(), .kernel = id(), .count = count(), .exposed_ps = ps()});
  }
  made.captures = {{.path = std::to_string(random->Below(100)), .bytes = count()}};
  if (random->OneIn(3)) made.failures = {{.path = "x", .message = "damaged"}};
  if (random->OneIn(2)) made.diagnostics[{"negative_duration", "error"}] = count();
  return made;
}

struct MadeFleet {
  size_t hosts = 100, devices = 1, captures = 5, functions = 1;
  double host_sd = 0.002, capture_sd = 0.005;  // of logs
  size_t slow_hosts = 0;                       // the first ones
  double slow_by = 0.02;
  bool slow_device = false;  // of a slow host only the first
};

inline FleetSummary MakeFleet(const MadeFleet& made, uint32_t seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  FleetMerger merger({});
  for (size_t host = 0; host < made.hosts; ++host) {
    FleetSummary one;
    one.captures = {{.path = std::to_string(host)}};
    one.names.push_back("host" + std::to_string(host));
    for (size_t device = 0; device < made.devices; ++device) {
      one.names.push_back("GPU:" + std::to_string(device));
    }
    for (size_t f = 0; f < made.functions; ++f) {
      one.names.push_back("f" + std::to_string(f));
      const double host_level = std::log(1e9) + made.host_sd * normal(engine);
      for (size_t device = 0; device < made.devices; ++device) {
        FleetFunction row = {.host = 1,
                             .device = static_cast<NameId>(2 + device),
                             .function = static_cast<NameId>(2 + made.devices + f)};
        const bool is_slow = host < made.slow_hosts && (device == 0 || !made.slow_device);
        const double level = host_level + (is_slow ? std::log1p(made.slow_by) : 0);
        for (size_t i = 0; i < made.captures; ++i) {
          row.centres_ps.push_back(
              std::llround(std::exp(level + made.capture_sd * normal(engine))));
        }
        one.functions.push_back(row);
      }
    }
    merger.Add(one).IgnoreError();
  }
  return merger.Take();
}

}  // namespace xplane_time::testing
