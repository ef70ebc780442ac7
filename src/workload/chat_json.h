// What protocols of model servers have in common in their JSON.
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

// The parameter whose members the server gets beside the others.
inline constexpr std::string_view kExtraBody = "extra_body";

json::Json ParameterJson(const ClientParameterValue& value);
// Adds the parameters that the server gets as they are to `object`, and each member of extra_body.
void PassParametersOn(const ClientParameters& parameters, json::Json* object);

// The system's words, where there are some, and the question.
json::Json MessagesJson(const ClientParameters& parameters, const std::string& problem);
// Sets what is given of `ours` as `theirs`.
void SetParameter(const ClientParameters& parameters, std::string_view ours, const char* theirs,
                  json::Json* object);

// {LIST: [{NAME: ...}]}; nothing where it is no such list.
std::optional<std::vector<std::string>> ModelNamesIn(std::string_view text, const char* list,
                                                     const char* name);
// A piece of a stream. It may end an answer's text between two surrogates, for SurrogateJoiner, and
// have numbers that no double holds, which become texts. Errors: InvalidArgument (it is no object
// of JSON), without the key.
absl::StatusOr<json::Json> ParsePiece(std::string_view text, const ApiKey& key);
// An error about a piece of a stream: "an answer that is none of the protocol's: WHY; it begins
// with ...", without the key.
absl::Status MisfitPiece(std::string_view text, std::string_view why, const ApiKey& key);
// A count of tokens. What is not a count is unknown: `message` gets the value, without the key.
std::optional<int64_t> TokensIn(const json::Json& usage, const char* name, const ApiKey& key,
                                std::string* message);

}  // namespace xplane_time
