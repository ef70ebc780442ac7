// A stored session as JSON, and back; used by exports and bundles.
//
//   RoundJson(round).dump()
//   // {"batch":1,"discarded":false,"notes":{},"round":0,"samples":[...]}
//   RoundRecord round;
//   std::string wrong;
//   ReadRound(tune::Field(json, &wrong, "line 2"), &round);
//   // wrong: line 2.samples[0].slot: must be a whole number ...; empty: it could be read
#pragma once

#include "tune/space_json.h"
#include "xplane_time/store.h"

namespace xplane_time::tune {

Json SessionJson(const SessionInfo& info);  // without its verdict
Json VariantJson(const Configuration& variant);
Json RoundJson(const RoundRecord& round);

// Notes and configurations keep their JSON values; their text may change.
void ReadSession(const Field& session, SessionInfo* info);
void ReadVariant(const Field& variant, Configuration* configuration);
void ReadRound(const Field& round, RoundRecord* record);

}  // namespace xplane_time::tune
