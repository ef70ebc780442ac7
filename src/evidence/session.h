// A stored session of tuning as a bundle: the certificate of its verdict, which anybody can decide
// again.
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

// What a bundle has of a session. Errors: DataLoss, with file and line.
absl::StatusOr<RecordedSession> SessionOf(const Bundle& bundle);

// The verdict of a session, and what its rounds give.
struct DecisionCheck {
  std::string claim, pick;  // as stored; pick: an id, or empty
  std::string replayed_claim = {}, replayed_pick = {};
  std::vector<std::string> differences = {};  // names of the fields
  std::string reason = {};                    // why nothing was replayed; empty: it was
  // Fields of the verdict that neither the rounds nor the session give.
  std::vector<std::string> not_compared = {};
};
// Errors: DataLoss (the verdict, or what is decided on, cannot be read).
absl::StatusOr<DecisionCheck> CheckDecision(const RecordedSession& session);

}  // namespace xplane_time::evidence
