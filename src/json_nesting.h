// How deep JSON nests, before it is parsed: nlohmann's writer recurses.
#ifndef XPLANE_TIME_SRC_JSON_NESTING_H_
#define XPLANE_TIME_SRC_JSON_NESTING_H_

#include <cstddef>
#include <string_view>

namespace xplane_time {

// Counts brackets outside of strings; a text that is not JSON may give anything.
inline bool NestsDeeper(std::string_view text, size_t most_levels) {
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

}  // namespace xplane_time

#endif  // XPLANE_TIME_SRC_JSON_NESTING_H_
