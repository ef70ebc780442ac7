// What protocols of model servers have in common in their JSON.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "json/json.h"
#include "workload/clients.h"

namespace xplane_time {

// The system's words, where there are some, and the question.
json::Json MessagesJson(const ClientParameters& parameters, const std::string& problem);
// Sets what is given of `ours` as `theirs`.
void SetParameter(const ClientParameters& parameters, std::string_view ours, const char* theirs,
                  json::Json* object);

// {LIST: [{NAME: ...}]}; nothing where it is no such list.
std::optional<std::vector<std::string>> ModelNamesIn(std::string_view text, const char* list,
                                                     const char* name);
// A count of tokens; what is none is unknown, and `message` says so.
std::optional<int64_t> TokensIn(const json::Json& usage, const char* name, std::string* message);

}  // namespace xplane_time
