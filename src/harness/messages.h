// Messages between a driver and a program it started: JSON, one object a line, with
// `"v": 1` and a `type` (docs/harness.md). What is in them is up to those who talk.
//
// Pure. Answers are the words of a stranger: an answer that does not fit is InvalidArgument
// that quotes it.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "json/json.h"

namespace xplane_time::harness {

using json::Json;

// An object whose "type" is a text. Errors: InvalidArgument (no object, no or another version, no
// type, nested too deeply).
absl::StatusOr<Json> ParseMessage(std::string_view line);

// InvalidArgument that says why and quotes the beginning of `line`.
absl::Status Misfit(std::string_view line, std::string_view why);

// A message, without the end of its line; text that is not UTF-8 is replaced.
std::string Line(const char* type, const Json& fields = Json::object());

}  // namespace xplane_time::harness
