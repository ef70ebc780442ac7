// A stored tuning session as a bundle: evidence for its verdict, which anyone can decide again.
//
//   session.json           the session, its variants, and the verdict
//   space.json             the variants as a space (docs/space.md)
//   witness/rounds.jsonl   every round, in the order in which it was stored, as a chain
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "evidence/bundle.h"
#include "xplane_time/tune.h"

namespace xplane_time::evidence {

inline constexpr char kSessionKind[] = "tune";

// Errors: FailedPrecondition (it has no verdict yet).
absl::StatusOr<BundleSpec> SessionBundle(const RecordedSession& session);

// The session in a bundle. Errors: DataLoss, with file and line.
absl::StatusOr<RecordedSession> SessionOf(const Bundle& bundle);

// The stored verdict, and the verdict that follows from the stored rounds.
struct DecisionCheck {
  std::string claim, pick;  // as stored; pick is an id, or empty
  std::string replayed_claim = {}, replayed_pick = {};
  std::vector<std::string> differences = {};  // names of the fields
  std::string reason = {};  // why the rounds were not replayed; empty if they were
  // Fields of the verdict that follow neither from the rounds nor from the session.
  std::vector<std::string> not_compared = {};
};
// Errors: DataLoss (the verdict or its input cannot be read).
absl::StatusOr<DecisionCheck> CheckDecision(const RecordedSession& session);

}  // namespace xplane_time::evidence
