#include "read/stat_names.h"

#include <algorithm>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "near_names.h"

namespace xplane_time {
namespace {

// What to ask for instead of `name`.
std::string WayOut(const std::string& name, const std::set<std::string>& known) {
  const std::vector<std::string> all(known.begin(), known.end());
  const std::vector<std::string> near = NearNames(name, all);
  if (near.empty()) return "xplane-time planes --stats lists those that there are";
  return absl::StrCat("did you mean ", absl::StrJoin(near, ", "), "?");
}

}  // namespace

absl::Status CheckStatNames(const Trace& trace, std::span<const std::string> names) {
  if (names.empty()) return absl::OkStatus();
  std::set<std::string> known;
  for (const Plane& plane : trace.planes) {
    for (const StatMetadata& stat : plane.stat_metadata.entries) known.emplace(stat.name);
  }
  for (size_t i = 0; i < names.size(); ++i) {
    if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), names[i]) !=
        names.begin() + static_cast<std::ptrdiff_t>(i)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the stat ", names[i], " is asked for twice; once is enough"));
    }
    if (!known.contains(names[i])) {
      return absl::FailedPreconditionError(absl::StrCat(
          trace.files[0].path, ": no event has a stat ", names[i], "; ", WayOut(names[i], known)));
    }
  }
  return absl::OkStatus();
}

}  // namespace xplane_time
