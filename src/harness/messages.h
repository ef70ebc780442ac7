// Messages between a driver and a program it started: JSON, one object a line, with
// `"v": 1` and a `type` (docs/harness.md). What is in them is up to those who talk.
//
// Pure. Answers are the words of a stranger: an answer that does not fit is InvalidArgument
// that quotes it.
#ifndef XPLANE_TIME_SRC_HARNESS_MESSAGES_H_
#define XPLANE_TIME_SRC_HARNESS_MESSAGES_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace xplane_time::harness {

using Json = nlohmann::ordered_json;

// Fields of an answer; the first that does not fit is kept as an error. `object` outlives it.
// An absent field and null are the same: not there.
class Fields {
 public:
  explicit Fields(const Json& object) : object_(object) {}

  std::string Text(const char* name, bool needed = false);
  std::optional<int64_t> Integer(const char* name, int64_t least, bool needed = false);
  std::optional<double> Real(const char* name, double least);  // finite
  bool Flag(const char* name);
  std::string ObjectText(const char* name);  // "{}" where it is not there
  const Json* Find(const char* name, bool needed);

  void Fail(std::string_view name, std::string_view wanted);
  const std::string& error() const { return error_; }  // empty: all fit

 private:
  const Json& object_;
  std::string error_;
};

struct Received {
  std::string type;
  Json object;
};
// Errors: InvalidArgument (no object, no or another version, no type, nested too deeply).
absl::StatusOr<Received> ParseMessage(std::string_view line);

// InvalidArgument that says why and quotes the beginning of `line`.
absl::Status Misfit(std::string_view line, std::string_view why);

Json Message(const char* type);
// Without its end; text that is not UTF-8 is replaced.
std::string Line(const Json& message);

}  // namespace xplane_time::harness

#endif  // XPLANE_TIME_SRC_HARNESS_MESSAGES_H_
