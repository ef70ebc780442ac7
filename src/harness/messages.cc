#include "harness/messages.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "status.h"

namespace xplane_time::harness {
constexpr int kVersion = 1;

std::string MisfitOf(const json::Fields& fields) {
  if (fields.ok()) return "";
  return absl::StrCat("its field \"", fields.failed(), "\" is not as it should be: ",
                      fields.wanted() == json::kThere ? "it is missing" : fields.wanted());
}

absl::StatusOr<Json> ParseMessage(std::string_view line) {
  if (json::NestsDeeper(line)) return Misfit(line, "it is nested too deeply");
  Json message = json::Parse(line);
  if (!message.is_object()) return Misfit(line, "it is not a JSON object");
  json::Fields fields(message);
  const int64_t version = fields.Integer("v", 0, json::kNeeded).value_or(0);
  fields.Text("type", json::kNeeded);
  if (!fields.ok()) return Misfit(line, MisfitOf(fields));
  if (version != kVersion) return Misfit(line, absl::StrCat("its version is ", version, ", not 1"));
  return message;
}

absl::Status Misfit(std::string_view line, std::string_view why) {
  constexpr size_t kShown = 200;
  return InvalidArgument("an answer that is none of the protocol's: ", why, "; it begins with \"",
                         absl::CEscape(std::string(line.substr(0, kShown))), "\"");
}

std::string Line(const char* type, const Json& fields) {
  Json message = {{"v", kVersion}, {"type", type}};
  message.update(fields);
  return json::Dump(message);
}

}  // namespace xplane_time::harness
