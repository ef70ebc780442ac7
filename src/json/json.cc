#include "json/json.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace xplane_time::json {

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

// Nothing where it is not there; else an error where it is no T that `fits`.
template <typename T>
std::optional<T> Fields::Get(const char* name, Need need, auto fits, auto wanted) {
  const Json* at = Find(name, need);
  if (at == nullptr) return std::nullopt;
  const std::optional<T> value = ValueOf<T>(*at);
  if (value.has_value() && fits(*value)) return value;
  Fail(name, wanted());
  return std::nullopt;
}

std::string Fields::Text(const char* name, Need need) {
  const auto any = [](const std::string&) { return true; };
  return Get<std::string>(name, need, any, [] { return "a text"; }).value_or("");
}

std::optional<int64_t> Fields::Integer(const char* name, int64_t least, Need need) {
  return Get<int64_t>(
      name, need, [&](int64_t value) { return value >= least; },
      [&] {
        return least == INT64_MIN ? "a whole number of 64 bits"
                                  : absl::StrCat("a whole number of at least ", least);
      });
}

std::optional<double> Fields::Number(const char* name, double least) {
  return Get<double>(
      name, Need::kOptional, [&](double value) { return std::isfinite(value) && value >= least; },
      [&] { return absl::StrCat("a number of at least ", least); });
}

std::optional<bool> Fields::Flag(const char* name) {
  const auto any = [](bool) { return true; };
  return Get<bool>(name, Need::kOptional, any, [] { return "true or false"; });
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
