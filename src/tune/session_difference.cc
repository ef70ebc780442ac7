#include "tune/session_difference.h"

#include <nlohmann/json.hpp>
#include <set>

namespace xplane_time {
namespace {

using Json = nlohmann::json;

Json Parsed(const std::string& text) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return json.is_object() ? json : Json::object();
}

std::set<std::string> DifferentFields(const std::string& first, const std::string& second) {
  const Json a = Parsed(first), b = Parsed(second);
  std::set<std::string> names;
  for (const auto& [name, value] : a.items()) {
    if (!b.contains(name) || b[name] != value) names.insert(name);
  }
  for (const auto& [name, unused] : b.items()) {
    if (!a.contains(name)) names.insert(name);
  }
  return names;
}

}  // namespace

bool HasDecided(const SessionInfo& session) {
  const Json verdict = Parsed(session.verdict_json.value_or("{}"));
  const std::string claim = verdict.value("claim", "");
  return claim == "winner" || claim == "pick" || claim == "tie";
}

std::vector<std::string> Differences(const SessionInfo& session, const SessionSpec& asked) {
  const TuneKey &a = session.key, &b = asked.key;
  std::vector<std::string> names;
  const auto add = [&](const char* name, const std::string& first, const std::string& second) {
    if (first != second) names.emplace_back(name);
  };
  add("workload", a.workload, b.workload);
  add("device_class", a.device_class, b.device_class);
  add("device", session.device, asked.device);
  add("driver", a.driver, b.driver);
  add("framework", a.framework, b.framework);
  add("flags", a.flags, b.flags);
  add("code_hash", a.code_hash, b.code_hash);
  add("how rounds are measured (--calls)", a.protocol_hash, b.protocol_hash);
  add("space", session.space_hash, asked.space_hash);
  for (const std::string& name : DifferentFields(session.config_json, asked.config_json)) {
    names.push_back(name);
  }
  return names;
}

}  // namespace xplane_time
