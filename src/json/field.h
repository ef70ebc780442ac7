// A value in a JSON text with its place, for reading untrusted JSON into typed variables.
//
//   std::string wrong;
//   const Json json = Parse(text);
//   const Field line(json, &wrong);
//   line.Read("runs", &runs, kNeeded, /*least=*/0);
//   line.At("variants").Each([&](const Field& each) { each.Read("id", &ids.emplace_back()); });
//   if (!wrong.empty()) return InvalidArgument(wrong);
//   // variants[2].id: must be a string
//
// The types are those of described.h. If a value is absent or null, the variable keeps its value.
// All fields of a text share `wrong`, which describes the first value that did not fit; reading
// continues after it. The text and `wrong` must outlive the fields.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "json/described.h"
#include "status.h"

namespace xplane_time::json {

enum class Need : bool { kOptional, kNeeded };
using enum Need;

inline constexpr int64_t kAny = INT64_MIN;

// The requirement on a value of this type, for error messages.
template <typename T>
std::string Wanted(int64_t least = kAny) {
  if constexpr (OptionalValue<T>) {
    return Wanted<typename T::value_type>(least);
  } else if constexpr (std::is_enum_v<T>) {
    std::string names;
    for (const std::string_view name : NamesOf(T())) {
      Append(&names, names.empty() ? "one of " : ", ", name);
    }
    return names;
  } else if constexpr (std::same_as<T, bool>) {
    return "true or false";
  } else if constexpr (std::is_arithmetic_v<T>) {
    std::string number = std::integral<T> ? "a whole number" : "a number";
    if (least != kAny) return Cat(number, " of at least ", least);
    if constexpr (!std::integral<T>) return number;
    return Cat(number, " from ", std::numeric_limits<T>::min(), " to ",
               std::numeric_limits<T>::max());
  } else {
    return std::same_as<T, std::string> ? "a string" : Described<T> ? "an object" : "a list";
  }
}

template <typename T>
bool IsBelow(const T& value, int64_t least) {
  if constexpr (OptionalValue<T>) {
    return value.has_value() && IsBelow(*value, least);
  } else if constexpr (std::floating_point<T>) {
    return least != kAny && value < static_cast<T>(least);
  } else if constexpr (std::integral<T> && !std::same_as<T, bool>) {
    return std::cmp_less(value, least);
  } else {
    return false;
  }
}

template <typename J>
class BasicField {
 public:
  // `place`: for errors, such as "config.budget"; empty: the whole text.
  BasicField(const J& value, std::string* wrong, std::string place = "")
      : value_(&value), wrong_(wrong), place_(std::move(place)) {}

  const J& value() const { return *value_; }
  bool ok() const { return wrong_->empty(); }
  std::string* wrong() const { return wrong_; }

  // Null if the member is absent.
  const J* Find(const char* name) const {
    Expect(value_->is_object() || value_ == &kNone, "an object");
    return json::Find(*value_, name);
  }
  bool Has(const char* name) const { return Find(name) != nullptr; }
  bool Has(const char* name, typename J::value_t type) const { return At(name)->type() == type; }
  BasicField At(const char* name) const {
    const J* const value = Find(name);
    return {value == nullptr ? kNone : *value, wrong_,
            place_.empty() ? name : Cat(place_, ".", name)};
  }
  // An item of a list.
  BasicField Item(size_t i) const { return {(*value_)[i], wrong_, Cat(place_, "[", i, "]")}; }
  // An item of an object with arbitrary keys.
  BasicField Item(const std::string& key) const {
    return {value_->at(key), wrong_, Cat(place_, "[\"", key.substr(0, 60), "\"]")};
  }
  const J* operator->() const { return value_; }

  template <typename T>
  void Read(T* into, int64_t least = kAny) const {
    if (!FromJson(*value_, into) || IsBelow(*into, least)) Fail(Wanted<T>(least));
  }
  template <typename T>
  void Read(const char* name, T* into, Need need = kOptional, int64_t least = kAny) const {
    const J* const value = Find(name);
    if (value == nullptr && need == kNeeded) At(name).Fail("present");
    if (value == nullptr || (FromJson(*value, into) && !IsBelow(*into, least))) return;
    At(name).Fail(Wanted<T>(least));
  }
  // Calls `visit(item)` for the items of a list, until a value does not fit.
  void Each(auto visit) const {
    Expect(value_->is_array(), "a list");
    for (size_t i = 0; ok() && i < value_->size(); ++i) visit(Item(i));
  }
  // A member that must be an object; an empty object if it is absent.
  const J& Object(const char* name) const {
    const BasicField object = At(name);
    const bool is_object = object->is_object();
    object.Expect(is_object || object.value_ == &kNone, "an object");
    return is_object ? object.value() : kEmpty;
  }

  void Expect(bool fits, std::string_view wanted) const {
    if (!fits) Fail(wanted);
  }
  void Fail(std::string_view wanted) const { Error("must be ", wanted); }
  template <typename... Parts>
  void Error(const Parts&... parts) const {
    if (ok()) *wrong_ = Cat(place_.empty() ? "the line" : place_, ": ", parts...);
  }

 private:
  inline static const J kNone, kEmpty = J::object();

  const J* value_;
  std::string* wrong_;
  std::string place_;
};
using Field = BasicField<Json>;

}  // namespace xplane_time::json
