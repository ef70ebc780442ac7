// Claim: the strength of a choice among variants. pick, decide and tune end with a claim.
//
// Example:
//
//   static_assert(ClaimName(Claim::kTie) == "tie" && ExitCode(Claim::kUndecided) == 11);
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace xplane_time {

enum class Claim : uint8_t {
  kWinner,         // every other variant is proved slower
  kTie,            // tied variants are proved to be within delta of each other; the others are out
  kPick,           // no variant is more than delta faster than the pick; a weaker claim
  kUndecided,      // none of the above; the pick is the best guess
  kTooLittleData,  // undecided with too few rounds; only for recorded runs
  kAllFailed,      // no variant gave a time; there is no pick
};

// Names in the order of the enum.
constexpr std::array<std::string_view, 6> NamesOf(Claim) {
  return {"winner", "tie", "pick", "undecided", "too_little_data", "all_failed"};
}
constexpr std::string_view ClaimName(Claim claim) {
  return NamesOf(claim)[static_cast<size_t>(claim)];
}
constexpr int ExitCode(Claim claim) {
  constexpr int kExitCodes[] = {0, 0, 0, 11, 12, 20};
  return kExitCodes[static_cast<size_t>(claim)];
}
constexpr bool IsDecided(Claim claim) { return ExitCode(claim) == 0; }

}  // namespace xplane_time
