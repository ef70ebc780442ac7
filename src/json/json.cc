#include "json/json.h"

#include <cmath>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace xplane_time::json {
namespace {

// Keeps the names of the members of all open objects. Stops at the first repeated one.
class RepeatedMemberFinder : public nlohmann::json_sax<Json> {
 public:
  std::optional<std::string> repeated() && { return std::move(repeated_); }

  bool key(string_t& name) override {
    if (open_.back().emplace(name).second) return true;
    repeated_ = name;
    return false;
  }
  bool start_object(std::size_t) override {
    open_.emplace_back();
    return true;
  }
  bool end_object() override {
    open_.pop_back();
    return true;
  }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  std::vector<absl::flat_hash_set<std::string>> open_;
  std::optional<std::string> repeated_;
};

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
  // Without a callback, because with one the parser searches an array for each of its elements.
  return Json::parse(text, /*cb=*/nullptr, /*allow_exceptions=*/false);
}

std::string ParseError(std::string_view text, size_t most_levels) {
  if (NestsDeeper(text, most_levels)) {
    return absl::StrCat("it is nested too deeply (over ", most_levels, " levels)");
  }
  try {
    return Json::parse(text).is_discarded() ? "it is not JSON" : "";
  } catch (const Json::parse_error& error) {
    const bool is_encoding = absl::StrContains(error.what(), "UTF-8");
    return absl::StrCat(is_encoding ? "it is not UTF-8" : "it is not JSON", " (byte ",
                        error.byte > 0 ? error.byte - 1 : 0, ")");
  } catch (const Json::exception&) {  // out_of_range: 1e999
    return "it contains a number that is out of range";
  }
}

std::optional<std::string> FindRepeatedMember(std::string_view text) {
  RepeatedMemberFinder finder;
  Json::sax_parse(text, &finder);
  return std::move(finder).repeated();
}

std::string Dump(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json NumberOrNull(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json TextOrNull(std::string_view text) { return text.empty() ? Json() : Json(text); }

}  // namespace xplane_time::json
