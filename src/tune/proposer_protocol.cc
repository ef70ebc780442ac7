#include "tune/proposer_protocol.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "harness/messages.h"
#include "status.h"
#include "tune/space_json.h"

namespace xplane_time {
namespace {

using harness::Line, harness::Misfit, json::Json;

absl::StatusOr<Json> Parsed(std::string_view line, std::string_view type) {
  if (json::NestsDeeper(line)) return Misfit(line, "it is nested too deeply");
  Json answer = json::Parse(line);
  if (!answer.is_object()) return Misfit(line, "it is not a JSON object");
  if (answer.value("v", Json()) != 1) return Misfit(line, "its \"v\" is not 1");
  if (answer.value("type", Json()) != type) {
    return Misfit(line, absl::StrCat("its type is not ", std::string(type)));
  }
  return answer;
}

}  // namespace

std::string ProposerHello(const SearchSpace& space, uint64_t seed, size_t told) {
  Json parameters = Json::array();
  for (const Parameter& each : space.parameters) {
    Json values = Json::array();
    for (const ParameterValue& value : each.values) {
      std::visit([&](const auto& plain) { values.push_back(plain); }, value);
    }
    parameters.push_back(
        {{"name", each.name}, {"type", tune::TypeName(each.type)}, {"values", std::move(values)}});
  }
  return Line("hello", {{"seed", seed},
                        {"told", told},
                        {"parameters", std::move(parameters)},
                        {"constraints", space.constraints}});
}

std::string AskRequest(int64_t request, uint64_t count) {
  return Line("ask", {{"request", request}, {"count", count}});
}

std::string TellRequest(const Told& told) {
  Json fields = {{"id", json::TextOrNull(told.id)},
                 {"params", json::Parse(told.params_json)},
                 {"status", told.status},
                 {"value", json::OrNull(told.value)}};
  if (!told.message.empty()) fields["message"] = told.message;
  if (told.repeated) fields["repeated"] = true;
  if (told.proposal.has_value()) {
    fields["request"] = told.proposal->request;
    fields["index"] = told.proposal->index;
  }
  return Line("tell", fields);
}

std::string ProposerBye() { return Line("bye"); }

absl::Status ParseProposerHello(std::string_view line) { return Parsed(line, "hello").status(); }

absl::StatusOr<std::vector<std::string>> ParseProposals(std::string_view line, int64_t request,
                                                        uint64_t most) {
  ASSIGN_OR_RETURN(const auto answer, Parsed(line, "configurations"));
  if (answer.value("request", Json()) != request) {
    return Misfit(line, absl::StrCat("it does not answer request ", request));
  }
  const auto list = answer.find("params");
  if (list == answer.end() || !list->is_array()) return Misfit(line, "\"params\" is no list");
  if (list->size() > most) {
    return Misfit(line, absl::StrCat(list->size(), " proposals, and ", most, " were asked for"));
  }
  std::vector<std::string> proposals;
  for (const Json& each : *list) {
    if (!each.is_object()) return Misfit(line, "a proposal is not an object");
    proposals.push_back(json::Dump(each));
  }
  return proposals;
}

}  // namespace xplane_time
