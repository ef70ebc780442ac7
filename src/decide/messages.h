// Messages: JSON to the decider's structs and back.
//
// Enters: parsed JSON of any shape. Leaves: structs, or InvalidArgument that names the field
// ("samples[3].t_ps: ..."). Types are strict (5.0 is no integer), unknown fields are ignored,
// absent ones take the documented defaults. An id is a string or an integer and is given back as
// it came.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "nlohmann/json.hpp"
#include "xplane_time/decide.h"

namespace xplane_time::decide {

// Ids by position in the space.
class Ids {
 public:
  absl::Status Add(const nlohmann::json& id);  // InvalidArgument: a wrong type, or known already
  std::optional<uint32_t> Find(const nlohmann::json& id) const;
  const nlohmann::json& operator[](uint32_t variant) const { return ids_[variant]; }

 private:
  std::vector<nlohmann::json> ids_;
  std::unordered_map<std::string, uint32_t> positions_;  // by the JSON text
};

struct OpenMessage {
  Space space;
  DecideConfig config;
  Ids ids;
  bool history = false;  // one follows, before any answer
};

absl::StatusOr<OpenMessage> ParseOpen(const nlohmann::json& message);
absl::StatusOr<RoundResult> ParseResult(const nlohmann::json& message, const Ids& ids);
absl::StatusOr<std::vector<RoundResult>> ParseHistory(const nlohmann::json& message,
                                                      const Ids& ids);

// Without "v", "type" and "session".
nlohmann::ordered_json BatchJson(const Batch& batch, const Ids& ids);
nlohmann::ordered_json VerdictJson(const Verdict& verdict, const Ids& ids);

}  // namespace xplane_time::decide
