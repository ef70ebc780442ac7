// Provenance: the machine, the program and the source revision of a measurement.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace xplane_time::evidence {

// Returns an object: `machine` (power/machine.h), `versions` {xplane_time}, `source` {revision,
// changed, reason}. `revision` is the commit of the directory `folder`; `changed` is true if
// tracked files differ from it. Both are null if they are unknown; `reason` explains why. Only the
// commits of submodules are compared. Programs that the repository or GIT_ variables name are not
// run: no file system monitor, hook, content filter, pager or transport.
nlohmann::json ProvenanceOf(const std::string& folder);

}  // namespace xplane_time::evidence
