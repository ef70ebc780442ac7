// JSON: parses untrusted text, and always writes valid JSON.
//
//   const Json line = Parse(text);             // discarded: damaged, or nested too deeply
//   if (!line.is_object()) return ...;
//   const auto runs = WholeOf(line, "runs");  // empty: absent, or not a whole number
//
// json/field.h reads into structs and reports the place of an invalid value. An absent field and a
// null field are treated alike: both are absent. These functions throw no exceptions. nlohmann's
// header is large: include this header from .cc files only.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace xplane_time::json {

// nlohmann's ordered_map searches members linearly: an object with a million members would take
// minutes to parse. This map builds an index for objects with many members.
template <typename Key, typename T, typename Less, typename Allocator>
class IndexedMap : public nlohmann::ordered_map<Key, T, Less, Allocator> {
  using Map = nlohmann::ordered_map<Key, T, Less, Allocator>;

 public:
  using Map::Map;
  using iterator = typename Map::iterator;
  using const_iterator = typename Map::const_iterator;

  iterator find(std::string_view key) { return this->begin() + Place(key); }
  const_iterator find(std::string_view key) const { return this->begin() + Place(key); }

  std::pair<iterator, bool> emplace(std::string_view key, T&& value) {
    constexpr size_t kMany = 32;
    if (this->size() >= kMany && !IsIndexed()) {
      index_.clear();
      for (const auto& member : *this) index_.emplace(member.first, index_.size());
    }
    if (const auto at = find(key); at != this->end()) return {at, false};
    if (this->size() >= kMany) index_.emplace(Key(key), this->size());
    Map::Container::emplace_back(Key(key), std::move(value));
    return {std::prev(this->end()), true};
  }
  T& operator[](std::string_view key) { return emplace(key, T()).first->second; }

  auto erase(auto... what) {
    index_.clear();
    return Map::erase(what...);
  }
  void clear() {
    index_.clear();
    Map::clear();
  }

 private:
  bool IsIndexed() const { return index_.size() == this->size(); }

  std::ptrdiff_t Place(std::string_view key) const {
    if (IsIndexed()) {
      const auto at = index_.find(absl::string_view(key.data(), key.size()));
      return static_cast<std::ptrdiff_t>(at == index_.end() ? this->size() : at->second);
    }
    return std::ranges::find(*this, key, &Map::value_type::first) - this->begin();
  }

  absl::flat_hash_map<Key, size_t> index_;  // all members, or (usually) no members
};

// Members keep their order.
using Json = nlohmann::basic_json<IndexedMap>;

// nlohmann's writer recurses, so deeper texts are not parsed.
inline constexpr size_t kMostLevels = 64;

// Counts brackets outside of strings. The result is arbitrary for a text that is not JSON.
bool NestsDeeper(std::string_view text, size_t most_levels = kMostLevels);

// Parses a text. The value is discarded (is_discarded(), and not an object) if the text is damaged
// or nested too deeply.
Json Parse(std::string_view text, size_t most_levels = kMostLevels);

// Why Parse discards a text: "it is not UTF-8 (byte 7)". Empty: it does not. Parses the text again.
std::string ParseError(std::string_view text, size_t most_levels = kMostLevels);

// The first member that occurs twice in one object of a text that Parse accepts. Parse keeps one of
// its values. Parses the text again.
std::optional<std::string> FindRepeatedMember(std::string_view text);

// One line of JSON. Bytes that are not UTF-8 are replaced.
std::string Dump(const Json& value);

// null if the value is not finite.
Json NumberOrNull(double value);
template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value.has_value() ? Json(*value) : Json();
}
inline Json OrNull(const std::optional<double>& value) {
  return value.has_value() ? NumberOrNull(*value) : Json();
}
// null if the text is empty.
Json TextOrNull(std::string_view text);

// The member with this name; null if it is absent or null. `object` need not be an object.
template <typename J>
const J* Find(const J& object, const char* name) {
  const auto at = object.find(name);
  return at == object.end() || at->is_null() ? nullptr : &*at;
}
// The value as a bool, a whole number in the range of its type, a number, or a text; empty if it
// has another type.
template <typename T>
std::optional<T> ValueOf(const auto& value) {
  bool fits = false;
  if constexpr (std::same_as<T, bool>) {
    fits = value.is_boolean();
  } else if constexpr (std::integral<T>) {
    fits = value.is_number_unsigned()
               ? std::in_range<T>(value.template get<uint64_t>())
               : value.is_number_integer() && std::in_range<T>(value.template get<int64_t>());
  } else if constexpr (std::floating_point<T>) {
    fits = value.is_number();
  } else {
    fits = value.is_string();
  }
  return fits ? std::optional(value.template get<T>()) : std::nullopt;
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

}  // namespace xplane_time::json
