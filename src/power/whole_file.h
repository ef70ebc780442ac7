// A file that is complete or absent, whatever ends the program: written beside its name,
// synced, renamed. Where there was one, it stays until then.
#ifndef XPLANE_TIME_SRC_POWER_WHOLE_FILE_H_
#define XPLANE_TIME_SRC_POWER_WHOLE_FILE_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace xplane_time::power {

// Errors: Internal "PATH: cannot write: ...".
absl::Status WriteWholeFile(const std::string& path, std::string_view bytes);

// All of `bytes` to `fd`, through interruptions; errno where it fails.
bool WriteAll(int fd, std::string_view bytes);

// Names in `directory` survive a power cut. Best effort: not all file systems can.
void SyncDirectory(const std::string& directory);

}  // namespace xplane_time::power

#endif  // XPLANE_TIME_SRC_POWER_WHOLE_FILE_H_
