#include "tune/proposer_protocol.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "json/json.h"

namespace xplane_time {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;
constexpr size_t kMostLevels = 64;

Json Message(const char* type) { return {{"v", kVersion}, {"type", type}}; }

std::string Line(const Json& message) {
  return message.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::Status Misfit(std::string_view line, const std::string& why) {
  constexpr size_t kShown = 200;
  return absl::InvalidArgumentError(
      absl::StrCat("an answer that is none of the protocol's: ", why, "; it begins with \"",
                   absl::CEscape(std::string(line.substr(0, kShown))), "\""));
}

absl::StatusOr<Json> Parsed(std::string_view line, std::string_view type) {
  if (json::NestsDeeper(line, kMostLevels)) return Misfit(line, "it is nested too deeply");
  Json answer = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!answer.is_object()) return Misfit(line, "it is not a JSON object");
  if (answer.value("v", Json()) != kVersion) return Misfit(line, "its \"v\" is not 1");
  if (answer.value("type", Json()) != type) {
    return Misfit(line, absl::StrCat("its type is not ", std::string(type)));
  }
  return answer;
}

const char* TypeName(ParameterType type) {
  switch (type) {
    case ParameterType::kInt:
      return "int";
    case ParameterType::kFloat:
      return "float";
    case ParameterType::kString:
      return "string";
    case ParameterType::kBool:
      break;
  }
  return "bool";
}

}  // namespace

std::string ProposerHello(const SearchSpace& space, uint64_t seed, size_t told) {
  Json message = Message("hello");
  message["seed"] = seed;
  message["told"] = told;
  message["parameters"] = Json::array();
  for (const Parameter& each : space.parameters) {
    Json values = Json::array();
    for (const ParameterValue& value : each.values) {
      std::visit([&](const auto& plain) { values.push_back(plain); }, value);
    }
    message["parameters"].push_back(
        {{"name", each.name}, {"type", TypeName(each.type)}, {"values", std::move(values)}});
  }
  message["constraints"] = space.constraints;
  return Line(message);
}

std::string AskRequest(int64_t request, uint64_t count) {
  Json message = Message("ask");
  message["request"] = request;
  message["count"] = count;
  return Line(message);
}

std::string TellRequest(const Told& told) {
  Json message = Message("tell");
  message["id"] = told.id.empty() ? Json() : Json(told.id);
  message["params"] = Json::parse(told.params_json, nullptr, /*allow_exceptions=*/false);
  message["status"] = told.status;
  message["value"] = told.value.has_value() ? Json(*told.value) : Json();
  if (!told.message.empty()) message["message"] = told.message;
  if (told.repeated) message["repeated"] = true;
  if (told.proposal.has_value()) {
    message["request"] = told.proposal->request;
    message["index"] = told.proposal->index;
  }
  return Line(message);
}

std::string ProposerBye() { return Line(Message("bye")); }

absl::Status ParseProposerHello(std::string_view line) { return Parsed(line, "hello").status(); }

absl::StatusOr<std::vector<std::string>> ParseProposals(std::string_view line, int64_t request,
                                                        uint64_t most) {
  const auto answer = Parsed(line, "configurations");
  if (!answer.ok()) return answer.status();
  if (answer->value("request", Json()) != request) {
    return Misfit(line, absl::StrCat("it does not answer request ", request));
  }
  const auto list = answer->find("params");
  if (list == answer->end() || !list->is_array()) return Misfit(line, "\"params\" is no list");
  if (list->size() > most) {
    return Misfit(line, absl::StrCat(list->size(), " proposals, and ", most, " were asked for"));
  }
  std::vector<std::string> proposals;
  for (const Json& each : *list) {
    if (!each.is_object()) return Misfit(line, "a proposal is not an object");
    proposals.push_back(Line(each));
  }
  return proposals;
}

}  // namespace xplane_time
