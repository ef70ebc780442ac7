// Typed reading of JSON: a value with its path, so that every error can say where.
//
//   Field root(document, "space.json", "$");
//   root.At("parameters").Item(2).Error("has no type; ...")
//   // InvalidArgument: space.json: $.parameters[2]: has no type; ...
//
// ParseJson never throws and bounds nesting: the library's writer recurses.
#pragma once

#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "status.h"
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

// A value in a document. Cheap to copy; the document and the source outlive it.
class Field {
 public:
  Field(const Json& value, std::string_view source, std::string path)
      : value_(&value), source_(source), path_(std::move(path)) {}

  const Json& value() const { return *value_; }
  bool Has(const char* key) const { return value_->is_object() && value_->contains(key); }
  bool Has(const char* key, Kind kind) const { return Has(key) && (*value_)[key].type() == kind; }
  Field At(const char* key) const;  // Has(key)
  Field Item(size_t i) const;       // i < value().size()

  // InvalidArgument: SOURCE: PATH: what
  template <typename... Parts>
  absl::Status Error(const Parts&... what) const {
    return InvalidArgument(source_, ": ", path_, ": ", what...);
  }
  // The value, shortened, in an error: PATH: VALUE what
  template <typename... Parts>
  absl::Status BadValue(const Parts&... what) const {
    return Error(Shown(), " ", what...);
  }

  absl::Status Read(std::string* into) const;
  absl::Status Read(int64_t* into) const;
  absl::Status Read(double* into) const;  // finite
  // Of the member, where there is one; else `into` stays as it is.
  template <typename T>
  absl::Status Read(const char* key, T* into) const {
    return Has(key) ? At(key).Read(into) : absl::OkStatus();
  }

  absl::Status ExpectArray() const;
  // The items of an array, until one is an error.
  absl::Status Each(absl::FunctionRef<absl::Status(const Field&)> visit) const;
  // No keys but these; "comment" always may be there.
  absl::Status ExpectObject(std::initializer_list<const char*> keys) const;

 private:
  std::string Shown() const;

  const Json* value_;
  std::string_view source_;
  std::string path_;
};

inline constexpr size_t kMostParameters = 256;
inline constexpr std::array<std::string_view, 4> kTypeNames = {"int", "float", "string", "bool"};
std::optional<ParameterType> TypeNamed(std::string_view name);
inline std::string TypeName(ParameterType type) {
  return std::string(kTypeNames[static_cast<size_t>(type)]);
}

// The value as one of `type`; an int becomes a float where a float is wanted.
absl::StatusOr<ParameterValue> ReadValue(const Field& field, ParameterType type);
absl::StatusOr<std::vector<ParameterValue>> ReadValues(const Field& list, ParameterType type);
Json JsonOf(const ParameterValue& value);
// Fails where two values are equal.
absl::Status CheckDistinct(const Parameter& parameter, const Field& field);
// Each by `read`, which takes its name from the member `name`. Names and values differ.
absl::Status ReadParameters(const Field& list, const char* name,
                            absl::FunctionRef<absl::Status(const Field&, Parameter*)> read,
                            SearchSpace* space);

// An object of parameters (empty where absent: "{}"), canonical.
absl::StatusOr<std::string> ReadParams(const Field& field);

// A space of another tuner; none: the document is no such file.
std::optional<absl::Status> ImportSpace(const Field& root, SearchSpace* space);
// A cache file of kernel_tuner that its writer did not close: the text up to its last whole
// entry, closed; empty where it is no such file.
std::string CloseOpenCache(std::string_view text);

// Constraints and the memory expression can be parsed. Errors: InvalidArgument with place.
absl::Status CheckConstraints(const SearchSpace& space);

}  // namespace xplane_time::tune
