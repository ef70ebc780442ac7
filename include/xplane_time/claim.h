// Claim: how firm a choice among variants is; what pick, decide and tune end with.
//
//   ClaimName(Claim::kTie) == "tie", ExitCode(Claim::kUndecided) == 11
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
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

// In the order of their values.
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
