// What spaces, stores and tables of tuned configurations have in common: their JSON, whose members
// are in alphabetical order, and parameters.
//
//   std::string wrong;
//   const Field root(document, &wrong, "space.json: $");
//   root.At("parameters").Item(2).Error("has no type; ...")
//   // wrong: space.json: $.parameters[2]: has no type; ...
//
// ParseJson never throws and bounds nesting: the library's writer recurses.
#pragma once

#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "json/field.h"
#include "xplane_time/space.h"

namespace xplane_time::tune {

using Json = nlohmann::json;
using Kind = Json::value_t;

// Errors: InvalidArgument "SOURCE: not JSON: ... at byte N".
absl::StatusOr<Json> ParseJson(std::string_view text, std::string_view source);

// What was parsed before: configurations, a session's notes. Damage becomes null.
Json Stored(std::string_view text);

// Compact, keys sorted; -0.0 is 0.0. `value` comes from ParseJson (valid UTF-8, shallow).
std::string CanonicalJson(const Json& value);

// 32 hex digits, stable across platforms and versions: 128 bits of FNV-1a, whose halves
// (high, low) become high = fmix(high + low), low = fmix(low + high); fmix is the last step of
// MurmurHash3. Not against adversaries.
std::string StableHash(std::string_view text);

using Field = json::BasicField<Json>;

std::string Shown(const Json& value);
// The value, shortened, in an error: PATH: VALUE what
template <typename... Parts>
void BadValue(const Field& field, const Parts&... what) {
  field.Error(Shown(field.value()), " ", what...);
}
// An object, of no keys but these; "comment" always may be there.
void ExpectObject(const Field& field, std::initializer_list<const char*> keys);

inline constexpr size_t kMostParameters = 256;
inline constexpr std::array<std::string_view, 4> kTypeNames = {"int", "float", "string", "bool"};
std::optional<ParameterType> TypeNamed(std::string_view name);
inline std::string TypeName(ParameterType type) {
  return std::string(kTypeNames[static_cast<size_t>(type)]);
}

// The value as one of `type`; an int becomes a float where a float is wanted.
ParameterValue ReadValue(const Field& field, ParameterType type);
std::vector<ParameterValue> ReadValues(const Field& list, ParameterType type);
Json JsonOf(const ParameterValue& value);
// Fails where two values are equal.
void CheckDistinct(const Parameter& parameter, const Field& field);
// Each by `read`, which takes its name from the member `name`. Names and values differ.
void ReadParameters(const Field& list, const char* name, void (*read)(const Field&, Parameter*),
                    SearchSpace* space);

// An object of parameters, canonical.
std::string ReadParams(const Field& field);

// A space of another tuner. False: the document is no such file.
bool ImportSpace(const Field& root, SearchSpace* space);
// A cache file of kernel_tuner that its writer did not close: the text up to its last whole
// entry, closed; empty where it is no such file.
std::string CloseOpenCache(std::string_view text);

// Constraints and the memory expression can be parsed. Errors: InvalidArgument with place.
absl::Status CheckConstraints(const SearchSpace& space);

}  // namespace xplane_time::tune
