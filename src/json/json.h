// JSON: read what anybody may have written, and write what is always JSON.
//
//   const Json line = Parse(text);             // discarded: damaged, or nested too deeply
//   if (!line.is_object()) return ...;
//   Fields fields(line, "variants[2]");
//   const std::string id = fields.Text("id", kNeeded);
//   const auto runs = fields.Integer("runs", /*least=*/0);   // empty: not there
//   if (!fields.ok()) return absl::InvalidArgumentError(fields.error());
//   // variants[2].runs: must be a whole number of at least 0
//
// A field that is absent and one that is null are the same: not there. Members keep their order.
// Nothing here throws. nlohmann's header is large: include this from .cc files only.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace xplane_time::json {

using Json = nlohmann::ordered_json;

// nlohmann's writer recurses: what nests deeper is not parsed.
inline constexpr size_t kMostLevels = 64;

// Counts brackets outside of strings; a text that is not JSON may give anything.
bool NestsDeeper(std::string_view text, size_t most_levels = kMostLevels);

// A discarded value (is_discarded(), and no object) where the text is damaged or too deep.
Json Parse(std::string_view text, size_t most_levels = kMostLevels);

// One line; bytes that are not UTF-8 are replaced.
std::string Dump(const Json& value);

// Not finite: null.
Json NumberOrNull(double value);
template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value.has_value() ? Json(*value) : Json();
}
inline Json OrNull(const std::optional<double>& value) {
  return value.has_value() ? NumberOrNull(*value) : Json();
}
// An empty text is null.
Json TextOrNull(std::string_view text);

// What is there, of the right type; else nothing. `object` may be no object.
const Json* Find(const Json& object, const char* name);
// Of a bool, a whole number in the range of its type, a number, or a text.
template <typename T>
std::optional<T> ValueOf(const Json& value) {
  bool fits = false;
  if constexpr (std::same_as<T, bool>) {
    fits = value.is_boolean();
  } else if constexpr (std::integral<T>) {
    fits = value.is_number_unsigned()
               ? std::in_range<T>(value.get<uint64_t>())
               : value.is_number_integer() && std::in_range<T>(value.get<int64_t>());
  } else if constexpr (std::floating_point<T>) {
    fits = value.is_number();
  } else {
    fits = value.is_string();
  }
  return fits ? std::optional(value.get<T>()) : std::nullopt;
}
template <typename T>
std::optional<T> ValueOf(const Json& object, const char* name) {
  const Json* const at = Find(object, name);
  return at == nullptr ? std::nullopt : ValueOf<T>(*at);
}
inline auto TextOf(const Json& object, const char* name) {
  return ValueOf<std::string>(object, name);
}
inline auto WholeOf(const Json& object, const char* name) { return ValueOf<int64_t>(object, name); }
inline auto NumberOf(const Json& object, const char* name) { return ValueOf<double>(object, name); }
inline bool FlagOf(const Json& object, const char* name) {
  return ValueOf<bool>(object, name).value_or(false);
}

enum class Need : bool { kOptional, kNeeded };
inline constexpr Need kNeeded = Need::kNeeded;
inline constexpr char kThere[] = "present";  // what a needed field must be

// The fields of one object, by type; the first that does not fit is kept as the error, with its
// path. `object` outlives it.
class Fields {
 public:
  // `place`: of the object, for errors: "config.budget"; empty: the whole text.
  explicit Fields(const Json& object, std::string place = "");

  bool ok() const { return error_.empty(); }
  const std::string& error() const { return error_; }    // "PLACE.NAME: must be WANTED"
  const std::string& failed() const { return failed_; }  // NAME
  const std::string& wanted() const { return wanted_; }

  const Json* Find(const char* name, Need need = Need::kOptional);
  std::string Text(const char* name, Need need = Need::kOptional);
  std::optional<int64_t> Integer(const char* name, int64_t least = INT64_MIN,
                                 Need need = Need::kOptional);
  std::optional<double> Number(const char* name, double least);  // finite
  std::optional<bool> Flag(const char* name);

  std::string Place(std::string_view name) const;
  void Fail(std::string_view name, std::string_view wanted);

 private:
  template <typename T>
  std::optional<T> Get(const char* name, Need need, auto fits, auto wanted);

  const Json& object_;
  std::string place_, error_, failed_, wanted_;
};

}  // namespace xplane_time::json
