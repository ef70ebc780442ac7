// Messages between a driver and a program it started: one JSON object for each line, with `"v": 1`
// and a `type` (docs/harness.md). The two programs define the other members.
//
// Pure functions. Answers come from programs that we do not control: a wrong answer is an
// InvalidArgument that quotes it.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "json/json.h"

namespace xplane_time::harness {

using json::Json;

// An object whose "type" is a text. Errors: InvalidArgument (not an object, a missing or different
// version, no type, nested too deeply).
absl::StatusOr<Json> ParseMessage(std::string_view line);

// An InvalidArgument with the reason and the beginning of `line`.
absl::Status Misfit(std::string_view line, std::string_view why);

// A message without a line end; invalid UTF-8 is replaced.
std::string Line(const char* type, const Json& fields = Json::object());

}  // namespace xplane_time::harness
