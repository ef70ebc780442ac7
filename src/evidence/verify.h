// Verify: whether a bundle is unchanged, and whether its results follow from its samples.
//
//   auto bundle = ReadBundle("witness.zip");
//   Verification found = Verify(**bundle);
//   found.sound()          // false: found.problems has the file and the line
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
  uint64_t chains = 0, samples = 0;       // sound chains, and their lines except the heads
  std::vector<std::string> checked = {};  // the checked parts: "hashes", "csv/results.csv", ...
  // Parts that are accepted as written, because they do not follow from the bundle. Empty if a
  // problem ended the check.
  std::vector<std::string> not_compared = {};
  std::optional<DecisionCheck> decision = {};
  std::vector<Problem> problems = {};
  bool sound() const { return problems.empty(); }
};

// Results are only recomputed if every hash is valid; otherwise the bundle is already invalid.
Verification Verify(const Bundle& bundle);

}  // namespace xplane_time::evidence
