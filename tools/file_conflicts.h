// File conflicts: whatever a command reads or writes is looked at before anything is written.
//
//   xplane-time t.xplane.pb -o link_to_t      // InvalidArgument: --output and TRACE are the same
//   xplane-time tune s.json --store s.json    // file, s.json: ...
//
// Files are the same by device and inode, through links; those that are not there yet by where
// they will be. Devices, pipes and terminals are never the same.
#ifndef XPLANE_TIME_TOOLS_FILE_CONFLICTS_H_
#define XPLANE_TIME_TOOLS_FILE_CONFLICTS_H_

#include "absl/status/status.h"
#include "options.h"

namespace xplane_time::tools {

// Errors: InvalidArgument.
absl::Status CheckFileConflicts(const Options& options);

}  // namespace xplane_time::tools

#endif  // XPLANE_TIME_TOOLS_FILE_CONFLICTS_H_
