#include "harness/messages.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "json/field.h"
#include "status.h"

namespace xplane_time::harness {
constexpr int kVersion = 1;

absl::StatusOr<Json> ParseMessage(std::string_view line) {
  Json message = json::Parse(line);
  if (!message.is_object()) {
    const std::string why = json::ParseError(line);
    return Misfit(line, Cat("it is not a JSON object", why.empty() ? "" : ": ", why));
  }
  std::string wrong, type;
  int64_t version = 0;
  const json::Field fields(message, &wrong);
  fields.Read("v", &version, json::kNeeded);
  fields.Read("type", &type, json::kNeeded);
  if (!wrong.empty()) return Misfit(line, wrong);
  if (version != kVersion) return Misfit(line, absl::StrCat("its version is ", version, ", not 1"));
  return message;
}

absl::Status Misfit(std::string_view line, std::string_view why) {
  constexpr size_t kShown = 200;
  return InvalidArgument("an answer that violates the protocol: ", why, "; it starts with \"",
                         absl::CEscape(std::string(line.substr(0, kShown))), "\"");
}

std::string Line(const char* type, const Json& fields) {
  Json message = {{"v", kVersion}, {"type", type}};
  message.update(fields);
  return json::Dump(message);
}

}  // namespace xplane_time::harness
