// Sources by name: which readers there are, and what they find.
#ifndef XPLANE_TIME_SRC_POWER_SOURCES_H_
#define XPLANE_TIME_SRC_POWER_SOURCES_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "power/reader.h"

namespace xplane_time::power {

// Shared with a thread that may hang in it.
struct FoundReader {
  std::shared_ptr<Reader> reader;
  PowerInventory inventory = {};
};

// A reader for each source asked for, with what it found, in the order of their names. A
// source that hangs is left out, with an absence in `absences`. Errors: InvalidArgument (no
// such source), Unavailable (no more threads).
absl::StatusOr<std::vector<FoundReader>> FindReaders(const PowerSourceOptions& options,
                                                     int64_t hung_after_ns,
                                                     std::vector<PowerAbsence>* absences);

}  // namespace xplane_time::power

#endif  // XPLANE_TIME_SRC_POWER_SOURCES_H_
