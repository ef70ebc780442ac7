// JSON that the protocols of model servers have in common.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "json/json.h"
#include "workload/api_key.h"
#include "workload/clients.h"

namespace xplane_time {

// The parameter whose members are added to the request.
inline constexpr std::string_view kExtraBody = "extra_body";

json::Json ParameterJson(const ClientParameterValue& value);
// Adds the unknown parameters to `object` unchanged, and each member of extra_body.
void PassParametersOn(const ClientParameters& parameters, json::Json* object);

// The system message, if there is one, and the question.
json::Json MessagesJson(const ClientParameters& parameters, const std::string& problem);
// If parameter `ours` is given, sets it as `theirs`.
void SetParameter(const ClientParameters& parameters, std::string_view ours, const char* theirs,
                  json::Json* object);

// The names in {LIST: [{NAME: ...}]}; empty if it is not such a list.
std::optional<std::vector<std::string>> ModelNamesIn(std::string_view text, const char* list,
                                                     const char* name);
// Parses a piece of a stream. The text may be cut between two surrogates (see SurrogateJoiner).
// Numbers that exceed a double become texts. Errors: InvalidArgument (not a JSON object), without
// the key.
absl::StatusOr<json::Json> ParsePiece(std::string_view text, const ApiKey& key);
// The error for a piece that violates the protocol: "an answer that is none of the protocol's: WHY;
// it begins with ...", without the key.
absl::Status MisfitPiece(std::string_view text, std::string_view why, const ApiKey& key);
// A count of tokens. A value that is not a count counts as unknown; `message` gets the value,
// without the key.
std::optional<int64_t> TokensIn(const json::Json& usage, const char* name, const ApiKey& key,
                                std::string* message);

}  // namespace xplane_time
