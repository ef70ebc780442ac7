#include "json/json.h"

#include <cmath>

#include "absl/strings/match.h"
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

std::string Dump(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json NumberOrNull(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json TextOrNull(std::string_view text) { return text.empty() ? Json() : Json(text); }

}  // namespace xplane_time::json
