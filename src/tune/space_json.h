// Typed reading of JSON: a value with its path, so that every error can say where.
//
//   Field root(document, "space.json", "$");
//   root.At("parameters").Item(2).Error("has no type; ...")
//   // InvalidArgument: space.json: $.parameters[2]: has no type; ...
//
// ParseJson never throws and bounds nesting: the library's writer recurses.
#ifndef XPLANE_TIME_SRC_TUNE_SPACE_JSON_H_
#define XPLANE_TIME_SRC_TUNE_SPACE_JSON_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "xplane_time/space.h"

namespace xplane_time::tune {

using Json = nlohmann::json;

inline absl::string_view Absl(std::string_view text) { return {text.data(), text.size()}; }

// Errors: InvalidArgument "SOURCE: not JSON: ... at byte N".
absl::StatusOr<Json> ParseJson(std::string_view text, std::string_view source);

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
  const std::string& path() const { return path_; }
  bool Has(const char* key) const { return value_->is_object() && value_->contains(key); }
  Field At(const char* key) const;  // Has(key)
  Field Item(size_t i) const;       // i < value().size()

  // InvalidArgument: SOURCE: PATH: what
  absl::Status Error(std::string_view what) const;
  // The value, shortened, in an error: PATH: VALUE what
  absl::Status BadValue(std::string_view what) const;

  absl::StatusOr<std::string> Text() const;
  absl::StatusOr<int64_t> Int() const;
  absl::StatusOr<double> Real() const;  // finite
  absl::Status ExpectArray() const;
  // No keys but these; "comment" always may be there.
  absl::Status ExpectObject(std::initializer_list<std::string_view> keys) const;

 private:
  const Json* value_;
  std::string_view source_;
  std::string path_;
};

// The value as one of `type`; an int becomes a float where a float is wanted.
absl::StatusOr<ParameterValue> ReadValue(const Field& field, ParameterType type);

// An object of parameters (empty where absent: "{}"), canonical.
absl::StatusOr<std::string> ReadParams(const Field& field);

}  // namespace xplane_time::tune

#endif  // XPLANE_TIME_SRC_TUNE_SPACE_JSON_H_
