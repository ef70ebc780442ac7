#include "harness/messages.h"

#include <cmath>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "json/json.h"

namespace xplane_time::harness {
namespace {

constexpr int kVersion = 1;
constexpr size_t kMostLevels = 64;

}  // namespace

std::string Fields::Text(const char* name, bool needed) {
  const Json* at = Find(name, needed);
  if (at == nullptr) return "";
  if (at->is_string()) return at->get<std::string>();
  Fail(name, "a text");
  return "";
}

std::optional<int64_t> Fields::Integer(const char* name, int64_t least, bool needed) {
  const Json* at = Find(name, needed);
  if (at == nullptr) return std::nullopt;
  const bool fits = at->is_number_integer() &&
                    !(at->is_number_unsigned() && at->get<uint64_t>() > INT64_MAX) &&
                    at->get<int64_t>() >= least;
  if (fits) return at->get<int64_t>();
  Fail(name, absl::StrCat("a whole number of at least ", least));
  return std::nullopt;
}

std::optional<double> Fields::Real(const char* name, double least) {
  const Json* at = Find(name, false);
  if (at == nullptr) return std::nullopt;
  if (at->is_number() && std::isfinite(at->get<double>()) && at->get<double>() >= least) {
    return at->get<double>();
  }
  Fail(name, absl::StrCat("a number of at least ", least));
  return std::nullopt;
}

bool Fields::Flag(const char* name) {
  const Json* at = Find(name, false);
  if (at == nullptr) return false;
  if (at->is_boolean()) return at->get<bool>();
  Fail(name, "true or false");
  return false;
}

std::string Fields::ObjectText(const char* name) {
  const Json* at = Find(name, false);
  if (at == nullptr) return "{}";
  if (at->is_object()) return at->dump();
  Fail(name, "an object");
  return "{}";
}

const Json* Fields::Find(const char* name, bool needed) {
  const auto at = object_.find(name);
  if (at != object_.end() && !at->is_null()) return &*at;
  if (needed) Fail(name, "it is missing");
  return nullptr;
}

void Fields::Fail(std::string_view name, std::string_view wanted) {
  if (!error_.empty()) return;
  error_ = absl::StrCat("its field \"", std::string(name),
                        "\" is not as it should be: ", std::string(wanted));
}

absl::StatusOr<Received> ParseMessage(std::string_view line) {
  if (json::NestsDeeper(line, kMostLevels)) return Misfit(line, "it is nested too deeply");
  Received received;
  received.object = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!received.object.is_object()) return Misfit(line, "it is not a JSON object");
  Fields fields(received.object);
  const int64_t version = fields.Integer("v", 0, true).value_or(0);
  received.type = fields.Text("type", true);
  if (!fields.error().empty()) return Misfit(line, fields.error());
  if (version != kVersion) return Misfit(line, absl::StrCat("its version is ", version, ", not 1"));
  return received;
}

absl::Status Misfit(std::string_view line, std::string_view why) {
  constexpr size_t kShown = 200;
  return absl::InvalidArgumentError(
      absl::StrCat("an answer that is none of the protocol's: ", std::string(why), "; it begins ",
                   "with \"", absl::CEscape(std::string(line.substr(0, kShown))), "\""));
}

Json Message(const char* type) { return {{"v", kVersion}, {"type", type}}; }

std::string Line(const Json& message) {
  return message.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace xplane_time::harness
