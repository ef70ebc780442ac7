// Shared by spaces, stores and tables of tuned configurations: their JSON, whose members are in
// alphabetical order, and parameters.
//
//   std::string wrong;
//   const Field root(document, &wrong, "space.json: $");
//   root.At("parameters").Item(2).Error("has no type; ...")
//   // wrong: space.json: $.parameters[2]: has no type; ...
//
// ParseJson never throws and limits the nesting, because the library's writer is recursive.
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

// JSON that was parsed before: configurations, a session's notes. Damaged text becomes null.
Json Stored(std::string_view text);

// Compact, keys sorted; -0.0 becomes 0.0. `value` comes from ParseJson (valid UTF-8, shallow).
std::string CanonicalJson(const Json& value);

// 32 hex digits, stable across platforms and versions: 128 bits of FNV-1a, whose halves (high, low)
// become high = fmix(high + low), low = fmix(low + high). fmix is the last step of MurmurHash3. Not
// resistant to adversaries.
std::string StableHash(std::string_view text);

using Field = json::BasicField<Json>;

std::string Shown(const Json& value);
// Reports the shortened value in an error: PATH: VALUE what
template <typename... Parts>
void BadValue(const Field& field, const Parts&... what) {
  field.Error(Shown(field.value()), " ", what...);
}
// An object with only these keys; "comment" is always allowed.
void ExpectObject(const Field& field, std::initializer_list<const char*> keys);

inline constexpr size_t kMostParameters = 256;
inline constexpr std::array<std::string_view, 4> kTypeNames = {"int", "float", "string", "bool"};
std::optional<ParameterType> TypeNamed(std::string_view name);
inline std::string TypeName(ParameterType type) {
  return std::string(kTypeNames[static_cast<size_t>(type)]);
}

// Reads a value of `type`; an int becomes a float if a float is expected.
ParameterValue ReadValue(const Field& field, ParameterType type);
std::vector<ParameterValue> ReadValues(const Field& list, ParameterType type);
Json JsonOf(const ParameterValue& value);
// Fails if two values are equal.
void CheckDistinct(const Parameter& parameter, const Field& field);
// Reads each parameter with `read`; its name is the member `name`. Names and values must be
// distinct.
void ReadParameters(const Field& list, const char* name, void (*read)(const Field&, Parameter*),
                    SearchSpace* space);

// An object of parameters, in canonical form.
std::string ReadParams(const Field& field);

// Reads a space of another tuner. False if the document is not such a file.
bool ImportSpace(const Field& root, SearchSpace* space);
// The text of an unclosed kernel_tuner cache file, up to its last whole entry and closed. Empty if
// it is not such a file.
std::string CloseOpenCache(std::string_view text);

// Checks that the constraints and the memory expression can be parsed. Errors: InvalidArgument with
// the position.
absl::Status CheckConstraints(const SearchSpace& space);

}  // namespace xplane_time::tune
