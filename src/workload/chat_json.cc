#include "workload/chat_json.h"

#include <cmath>
#include <cstdlib>
#include <type_traits>
#include <utility>

#include "harness/messages.h"
#include "status.h"
#include "workload/model_server.h"
#include "workload/surrogates.h"

namespace xplane_time {

using json::Json;

namespace {

std::optional<Json> FindParameter(const ClientParameters& parameters, std::string_view name) {
  const auto at = parameters.find(name);
  return at == parameters.end() ? std::nullopt : std::optional(ParameterJson(at->second));
}

}  // namespace

Json ParameterJson(const ClientParameterValue& value) {
  if (const auto* const passed = std::get_if<PassedOn>(&value)) return json::Parse(passed->json);
  return std::visit(
      [](const auto& known) {
        if constexpr (std::is_same_v<decltype(known), const PassedOn&>)
          return Json();
        else
          return Json(known);
      },
      value);
}

void PassParametersOn(const ClientParameters& parameters, Json* object) {
  for (const auto& [name, value] : parameters) {
    if (!std::holds_alternative<PassedOn>(value)) continue;
    Json json = ParameterJson(value);
    if (name == kExtraBody) {
      object->update(json);
    } else {
      (*object)[name] = std::move(json);
    }
  }
}

Json MessagesJson(const ClientParameters& parameters, const std::string& problem) {
  Json messages = Json::array();
  if (auto system = FindParameter(parameters, "system")) {
    messages.push_back({{"role", "system"}, {"content", *system}});
  }
  messages.push_back({{"role", "user"}, {"content", problem}});
  return messages;
}

void SetParameter(const ClientParameters& parameters, std::string_view ours, const char* theirs,
                  Json* object) {
  if (auto value = FindParameter(parameters, ours)) (*object)[theirs] = *std::move(value);
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

absl::StatusOr<Json> ParsePiece(std::string_view text, const ApiKey& key) {
  Json piece = json::Parse(text);
  if (piece.is_discarded()) piece = json::Parse(MarkUnpaired(text));
  if (piece.is_object()) return piece;
  const std::string why = json::ParseError(text);
  return MisfitPiece(text, why.empty() ? "it is not a JSON object" : why, key);
}

absl::Status MisfitPiece(std::string_view text, std::string_view why, const ApiKey& key) {
  return harness::Misfit(key.Hide(text), why);
}

std::optional<int64_t> TokensIn(const Json& usage, const char* name, const ApiKey& key,
                                std::string* message) {
  const Json* const at = json::Find(usage, name);
  if (at == nullptr) return std::nullopt;
  const auto tokens = json::ValueOf<int64_t>(*at);
  if (tokens.has_value() && *tokens >= 0) return tokens;
  std::string value = json::Dump(*at);
  if (at->is_string() && std::isinf(std::strtod(value.c_str() + 1, nullptr))) {
    value = at->get<std::string>();  // a number that ParsePiece turned into a text
  }
  Append(message, message->empty() ? "" : "; ", name, " ", key.Hide(value).substr(0, 60),
         " is ignored: it is not a count of tokens");
  return std::nullopt;
}

std::string ErrorMessageIn(std::string_view body, const ApiKey& key) {
  constexpr size_t kShown = 300, kShownOfMessage = 2000;
  const Json reply = json::Parse(body);
  const Json* error = json::Find(reply, "error");
  if (error == nullptr) error = &reply;
  std::optional<std::string> message;
  if (error->is_string()) message = error->get<std::string>();
  for (const char* name : {"message", "detail"}) {
    if (!message.has_value()) message = json::TextOf(*error, name);
  }
  if (message.has_value()) return key.Hide(*message).substr(0, kShownOfMessage);
  return key.Hide(body).substr(0, kShown);
}

}  // namespace xplane_time
