// In what a session differs from one that is asked for: names of the parts of the identity, and
// of the fields of the decision's configuration.
#ifndef XPLANE_TIME_SRC_TUNE_SESSION_DIFFERENCE_H_
#define XPLANE_TIME_SRC_TUNE_SESSION_DIFFERENCE_H_

#include <string>
#include <vector>

#include "xplane_time/store.h"

namespace xplane_time {

// Whether its latest verdict is a winner, a pick or a tie.
bool HasDecided(const SessionInfo& session);

// {"code_hash", "delta"}; empty where the identities are equal.
std::vector<std::string> Differences(const SessionInfo& session, const SessionSpec& asked);

}  // namespace xplane_time

#endif  // XPLANE_TIME_SRC_TUNE_SESSION_DIFFERENCE_H_
