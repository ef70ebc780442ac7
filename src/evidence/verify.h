// Verify: whether a bundle is as it was written, and whether its results follow from its samples.
//
//   auto bundle = ReadBundle("witness.zip");
//   Verification found = Verify(**bundle);
//   found.sound()          // false: found.problems says which file, which line
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "evidence/bundle.h"
#include "evidence/session.h"

namespace xplane_time::evidence {

struct Verification {
  std::string bundle, sha256;
  std::string kind = {};  // "grid", "tune", or empty
  std::optional<int64_t> created_unix_s = {};
  std::string fingerprint = {};
  std::optional<std::string> revision = {};
  uint64_t files = 0, bytes = 0;
  uint64_t chains = 0, samples = 0;       // sound chains, and lines of them beside their heads
  std::vector<std::string> checked = {};  // what was looked at: "hashes", "csv/results.csv", ...
  // What is taken as it was written, because nothing in the bundle gives it. Empty: a problem came
  // first.
  std::vector<std::string> not_compared = {};
  std::optional<DecisionCheck> decision = {};
  std::vector<Problem> problems = {};
  bool sound() const { return problems.empty(); }
};

// Results are made again where every hash holds: else it is known already that they do not count.
Verification Verify(const Bundle& bundle);

}  // namespace xplane_time::evidence
