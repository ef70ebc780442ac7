// Driven: a decider with a device under it, as a driver would run it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/decide/simulated_device.h"

namespace xplane_time::testing {

inline Space SpaceOf(size_t variants) {
  Space space;
  for (size_t i = 0; i < variants; ++i) space.variants.push_back({.id = std::to_string(i)});
  return space;
}

// A round, and a chance to spoil it.
using Spoil = std::function<void(RoundResult&)>;

struct Driven {
  Verdict verdict;
  std::vector<Batch> batches;
  std::vector<RoundResult> results;
};

inline Driven Drive(const Space& space, const DecideConfig& config, SimulatedDevice device,
                    const Spoil& spoil = {}) {
  Driven driven;
  auto decider = Decider::Open(space, config);
  EXPECT_TRUE(decider.ok()) << decider.status();
  while (const Batch* next = decider->Next()) {
    const Batch batch = *next;
    driven.batches.push_back(batch);
    for (size_t i = 0; i < batch.rounds.size(); ++i) {
      RoundResult result = device.Run(batch.batch, i, batch.rounds[i]);
      if (spoil) spoil(result);
      const auto folded = decider->Fold(result);
      EXPECT_TRUE(folded.ok()) << folded.status();
      driven.results.push_back(std::move(result));
    }
    if (driven.batches.size() > 10'000) {
      ADD_FAILURE() << "no end in sight";
      break;
    }
  }
  driven.verdict = decider->verdict();
  return driven;
}

}  // namespace xplane_time::testing
