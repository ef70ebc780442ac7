// Claim: how firm a choice among variants is; what pick, decide and tune end with.
//
//   ClaimName(Claim::kTie) == "tie", ExitCode(Claim::kUndecided) == 11
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace xplane_time {

enum class Claim : uint8_t {
  kWinner,     // every other variant is proved slower
  kTie,        // those that are tied are proved to be within delta of each other, all others out
  kPick,       // no variant is more than delta faster than the pick; no more is claimed
  kUndecided,  // none of these; the pick is the best guess
  kTooLittleData,  // the same, with too few rounds to tell; of recorded runs only
  kAllFailed,      // no variant has given a time; there is no pick
};

struct ClaimTerms {
  std::string_view name;
  int exit_code;
};
inline constexpr ClaimTerms kClaimTerms[] = {
    {"winner", 0},           {"tie", 0},        {"pick", 0}, {"undecided", 11},
    {"too_little_data", 12}, {"all_failed", 20}};

constexpr std::string_view ClaimName(Claim claim) {
  return kClaimTerms[static_cast<size_t>(claim)].name;
}
// In the order of their values.
constexpr auto NamesOf(Claim) {
  std::array<std::string_view, std::size(kClaimTerms)> names;
  for (size_t i = 0; i < names.size(); ++i) names[i] = kClaimTerms[i].name;
  return names;
}
constexpr int ExitCode(Claim claim) { return kClaimTerms[static_cast<size_t>(claim)].exit_code; }

}  // namespace xplane_time
