// Provenance: on which machine, with which program and from which source something was measured.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace xplane_time::evidence {

// An object: `machine` (power/machine.h), `versions` {xplane_time}, `source` {revision, changed,
// reason}. Of the directory `folder` the commit that git says, and whether tracked files differ
// from it; null with the reason where there is none. What is known when it is called.
nlohmann::json ProvenanceOf(const std::string& folder);

}  // namespace xplane_time::evidence
