#include "workload/chat_json.h"

#include "status.h"
#include "workload/model_server.h"

namespace xplane_time {

using json::Json;

namespace {

std::optional<Json> ParameterJson(const ClientParameters& parameters, std::string_view name) {
  const auto at = parameters.find(name);
  if (at == parameters.end()) return std::nullopt;
  return std::visit([](const auto& value) { return Json(value); }, at->second);
}

}  // namespace

Json MessagesJson(const ClientParameters& parameters, const std::string& problem) {
  Json messages = Json::array();
  if (auto system = ParameterJson(parameters, "system")) {
    messages.push_back({{"role", "system"}, {"content", *system}});
  }
  messages.push_back({{"role", "user"}, {"content", problem}});
  return messages;
}

void SetParameter(const ClientParameters& parameters, std::string_view ours, const char* theirs,
                  Json* object) {
  if (auto value = ParameterJson(parameters, ours)) (*object)[theirs] = *std::move(value);
}

std::optional<std::vector<std::string>> ModelNamesIn(std::string_view text, const char* list,
                                                     const char* name) {
  const Json reply = json::Parse(text);
  const Json* const models = json::Find(reply, list);
  if (models == nullptr || !models->is_array()) return std::nullopt;
  std::vector<std::string> names;
  for (const Json& each : *models) {
    if (auto text_of = json::TextOf(each, name)) names.push_back(*std::move(text_of));
  }
  return names;
}

std::optional<int64_t> TokensIn(const Json& usage, const char* name, std::string* message) {
  const Json* const at = json::Find(usage, name);
  if (at == nullptr) return std::nullopt;
  const auto tokens = json::ValueOf<int64_t>(*at);
  if (tokens.has_value() && *tokens >= 0) return tokens;
  Append(message, message->empty() ? "" : "; ", name, " ", json::Dump(*at).substr(0, 60),
         " is dropped: it is no count of tokens");
  return std::nullopt;
}

std::string ErrorMessageIn(std::string_view body) {
  const Json reply = json::Parse(body);
  const Json* error = json::Find(reply, "error");
  if (error == nullptr) error = &reply;
  if (error->is_string()) return error->get<std::string>();
  for (const char* name : {"message", "detail"}) {
    if (auto message = json::TextOf(*error, name)) return *message;
  }
  constexpr size_t kShown = 300;
  return std::string(body.substr(0, kShown));
}

}  // namespace xplane_time
