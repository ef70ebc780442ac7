// Known variants: ids and parameters from the explicit list of a search space.
#ifndef XPLANE_TIME_SRC_COMPARE_KNOWN_VARIANTS_H_
#define XPLANE_TIME_SRC_COMPARE_KNOWN_VARIANTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "xplane_time/pick.h"

namespace xplane_time::compare {

// {"variants": [{"id": "0", "params": {"block": 64}}]}; ids are strings or whole numbers.
// Errors: NotFound, DataLoss (JSON), FailedPrecondition (no such list).
absl::StatusOr<std::vector<KnownVariant>> ReadKnownVariants(const std::string& path);

}  // namespace xplane_time::compare

#endif  // XPLANE_TIME_SRC_COMPARE_KNOWN_VARIANTS_H_
