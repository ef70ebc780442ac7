// The variants of a session, between the store's ids and the decider's places.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "xplane_time/decide.h"
#include "xplane_time/store.h"
#include "xplane_time/tune.h"

namespace xplane_time {

// From what PreparationJson wrote. Errors: DataLoss where it is damaged or lacks one.
absl::Status TakeStates(std::string_view preparation_json, std::vector<TunedVariant>* variants);

// Of sound ones with one fingerprint all but the first are aliases of it.
void AssignAliases(std::vector<TunedVariant>* variants);

// Sound ones that are no aliases and were not dropped get their places.
void AssignPlaces(std::vector<TunedVariant>* variants);

// The place of a variant, or of what it is an alias of; nothing: it is not measured.
std::optional<uint32_t> PlaceOf(std::span<const TunedVariant> variants, std::string_view id);

Space SpaceOf(std::span<const TunedVariant> variants);

// PlaceOf of all of them, for many look-ups.
using Places = absl::flat_hash_map<std::string, uint32_t>;
Places PlacesOf(std::span<const TunedVariant> variants);

// Samples of variants that are not measured are left out.
RoundResult ResultOf(const Places& places, const RoundRecord& record);

// In what a session differs from one that is asked for: names of the parts of the identity, and
// of the fields of the decision's configuration.

// Whether its latest verdict is a winner, a pick or a tie.
bool HasDecided(const SessionInfo& session);

// {"code_hash", "delta"}; empty where the identities are equal.
std::vector<std::string> Differences(const SessionInfo& session, const SessionSpec& asked);

}  // namespace xplane_time
