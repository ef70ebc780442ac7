// Finds names that are similar to a misspelt one, for error messages.
//
//   const std::vector<std::string> known = {"hlo_op", "run_id"};
//   NearNames("hlo_opp", known)   // {"hlo_op"}
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace xplane_time {

// At most `most` of `known`, the nearest first. A name is near if a few changed, added, dropped or
// swapped letters turn it into `name`; case is ignored. Empty: no name is near.
std::vector<std::string> NearNames(std::string_view name, std::span<const std::string> known,
                                   size_t most = 3);

// "; did you mean --trim or --top?" with `before` in front of each name. Empty: no name is near.
std::string DidYouMean(std::string_view name, std::span<const std::string> known,
                       std::string_view before = "");

}  // namespace xplane_time
