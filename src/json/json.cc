#include "json/json.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

namespace xplane_time::json {
namespace {

// Of 64 bits with a sign.
std::optional<int64_t> Whole(const Json& value) {
  const bool fits = value.is_number_integer() &&
                    !(value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX});
  return fits ? std::optional(value.get<int64_t>()) : std::nullopt;
}

}  // namespace

bool NestsDeeper(std::string_view text, size_t most_levels) {
  size_t level = 0;
  bool in_text = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_text) {
      if (c == '\\') ++i;
      if (c == '"') in_text = false;
    } else if (c == '"') {
      in_text = true;
    } else if (c == '[' || c == '{') {
      if (++level > most_levels) return true;
    } else if ((c == ']' || c == '}') && level > 0) {
      --level;
    }
  }
  return false;
}

Json Parse(std::string_view text, size_t most_levels) {
  if (NestsDeeper(text, most_levels)) return Json(Json::value_t::discarded);
  // Without a callback: with one, the parser searches an array for each of its elements.
  return Json::parse(text, /*cb=*/nullptr, /*allow_exceptions=*/false);
}

std::string Dump(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json NumberOrNull(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json TextOrNull(std::string_view text) { return text.empty() ? Json() : Json(text); }

const Json* Find(const Json& object, const char* name) {
  const auto at = object.find(name);
  return at == object.end() || at->is_null() ? nullptr : &*at;
}

std::optional<std::string> TextOf(const Json& object, const char* name) {
  const Json* at = Find(object, name);
  if (at == nullptr || !at->is_string()) return std::nullopt;
  return at->get<std::string>();
}

std::optional<int64_t> WholeOf(const Json& object, const char* name) {
  const Json* at = Find(object, name);
  return at == nullptr ? std::nullopt : Whole(*at);
}

std::optional<double> NumberOf(const Json& object, const char* name) {
  const Json* at = Find(object, name);
  if (at == nullptr || !at->is_number()) return std::nullopt;
  return at->get<double>();
}

bool FlagOf(const Json& object, const char* name) {
  const Json* at = Find(object, name);
  return at != nullptr && at->is_boolean() && at->get<bool>();
}

Fields::Fields(const Json& object, std::string place) : object_(object), place_(std::move(place)) {
  if (!object.is_object()) {
    error_ = absl::StrCat(place_.empty() ? "the line" : place_, ": must be an object");
  }
}

const Json* Fields::Find(const char* name, Need need) {
  const Json* at = json::Find(object_, name);
  if (at == nullptr && need == kNeeded) Fail(name, kThere);
  return at;
}

std::string Fields::Text(const char* name, Need need) {
  const Json* at = Find(name, need);
  if (at == nullptr) return "";
  if (at->is_string()) return at->get<std::string>();
  Fail(name, "a text");
  return "";
}

std::optional<int64_t> Fields::Integer(const char* name, int64_t least, Need need) {
  const Json* at = Find(name, need);
  if (at == nullptr) return std::nullopt;
  const auto value = Whole(*at);
  if (value.has_value() && *value >= least) return value;
  Fail(name, least == INT64_MIN ? "a whole number of 64 bits"
                                : absl::StrCat("a whole number of at least ", least));
  return std::nullopt;
}

std::optional<double> Fields::Number(const char* name, double least) {
  const Json* at = Find(name);
  if (at == nullptr) return std::nullopt;
  if (at->is_number() && std::isfinite(at->get<double>()) && at->get<double>() >= least) {
    return at->get<double>();
  }
  Fail(name, absl::StrCat("a number of at least ", least));
  return std::nullopt;
}

std::optional<bool> Fields::Flag(const char* name) {
  const Json* at = Find(name);
  if (at == nullptr) return std::nullopt;
  if (at->is_boolean()) return at->get<bool>();
  Fail(name, "true or false");
  return std::nullopt;
}

std::string Fields::Place(std::string_view name) const {
  return place_.empty() ? std::string(name) : absl::StrCat(place_, ".", std::string(name));
}

void Fields::Fail(std::string_view name, std::string_view wanted) {
  if (!error_.empty()) return;
  failed_ = name;
  wanted_ = wanted;
  error_ = absl::StrCat(Place(name), ": must be ", wanted_);
}

}  // namespace xplane_time::json
