// Describes the fields of a struct once, for conversion to and from JSON.
//
//   struct Lap {
//     int64_t number = 0;
//     std::optional<double> seconds = {};
//   };
//   XPLANE_TIME_JSON_FIELDS(Lap, number, seconds)              // in Lap's namespace
//
//   ToJson(Lap{1})                              // {"number":1,"seconds":null}
//   FromJson(Parse(R"({"seconds":2})"), &lap)   // false: `number` is missing and keeps its value
//
// Optionals, lists and nested described structs are supported. An enumeration is converted to its
// name in NamesOf(Enum()).
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "json/json.h"

namespace xplane_time::json {

template <typename Object, typename Value>
struct Member {
  const char* name;
  Value Object::*at;
};
template <typename Object, typename Value>
Member(const char*, Value Object::*) -> Member<Object, Value>;

#define XPLANE_TIME_JSON_FIELD(field) ::xplane_time::json::Member{#field, &Self::field},
#define XPLANE_TIME_JSON_FIELDS(Type, ...)                                               \
  inline auto FieldsOf(const Type*) {                                                    \
    using Self = Type;                                                                   \
    return std::tuple{                                                                   \
        NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(XPLANE_TIME_JSON_FIELD, __VA_ARGS__))}; \
  }

template <typename T>
concept Described = requires(const T* object) {
  FieldsOf(object);
};
// Calls `visit(name, value)` for each field. The object may be const.
void VisitFields(auto& object, auto visit) {
  std::apply([&](const auto&... field) { (visit(field.name, object.*field.at), ...); },
             FieldsOf(&object));
}
template <typename T>
concept OptionalValue = std::same_as<T, std::optional<typename T::value_type>>;
template <typename T>
concept List = std::same_as<T, std::vector<typename T::value_type>> ||
    std::same_as<T, std::array<typename T::value_type, 2>>;

template <typename T>
Json ToJson(const T& value) {
  if constexpr (Described<T>) {
    Json object = Json::object();
    VisitFields(value, [&](const char* name, const auto& each) { object[name] = ToJson(each); });
    return object;
  } else if constexpr (OptionalValue<T>) {
    return value.has_value() ? ToJson(*value) : Json();
  } else if constexpr (List<T>) {
    Json list = Json::array();
    for (const auto& each : value) list.push_back(ToJson(each));
    return list;
  } else if constexpr (std::is_enum_v<T>) {
    return NamesOf(value)[static_cast<size_t>(value)];
  } else {
    return value;
  }
}

// Reads `json` into `into`. False: a field is missing or has the wrong type and keeps its value;
// the other fields are read.
template <typename J, typename T>
bool FromJson(const J& json, T* into) {
  if constexpr (Described<T>) {
    if (!json.is_object()) return false;
    const auto get = [&](const auto& field) {
      const auto at = json.find(field.name);
      return at != json.end() && FromJson(*at, &(into->*field.at));
    };
    return std::apply([&](const auto&... field) { return (1 & ... & int{get(field)}) != 0; },
                      FieldsOf(into));
  } else if constexpr (OptionalValue<T>) {
    into->reset();
    if (json.is_null()) return true;
    typename T::value_type value{};
    const bool fits = FromJson(json, &value);
    if (fits || json.is_object()) *into = std::move(value);
    return fits;
  } else if constexpr (List<T>) {
    if (!json.is_array()) return false;
    if constexpr (requires { into->resize(json.size()); }) into->resize(json.size());
    if (into->size() != json.size()) return false;
    bool fits = true;
    for (size_t i = 0; i < json.size(); ++i) fits &= FromJson(json[i], &(*into)[i]);
    return fits;
  } else if constexpr (std::is_enum_v<T>) {
    const auto names = NamesOf(*into);
    std::string name;
    const bool is_text = FromJson(json, &name);
    const auto at = std::find(names.begin(), names.end(), name);
    if (!is_text || at == names.end()) return false;
    *into = static_cast<T>(at - names.begin());
    return true;
  } else if constexpr (std::same_as<T, J>) {
    *into = json;
    return true;
  } else {
    auto value = ValueOf<T>(json);
    if (value.has_value()) *into = std::move(*value);
    return value.has_value();
  }
}

}  // namespace xplane_time::json
