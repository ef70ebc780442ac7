// Names near a misspelt one, for error messages.
//
//   NearNames("hlo_opp", {"hlo_op", "run_id"})   // {"hlo_op"}
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace xplane_time {

// At most `most` of `known`, the nearest first: those that a few changed, added, dropped or
// swapped letters turn into `name`, whatever their case. Empty: none is near.
std::vector<std::string> NearNames(std::string_view name, std::span<const std::string> known,
                                   size_t most = 3);

// "; did you mean --trim or --top?" with `before` in front of each name; empty: none is near.
std::string DidYouMean(std::string_view name, std::span<const std::string> known,
                       std::string_view before = "");

}  // namespace xplane_time
