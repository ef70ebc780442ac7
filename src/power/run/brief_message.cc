#include "power/run/brief_message.h"

#include <algorithm>

namespace xplane_time::power {

std::string BriefMessage(std::string_view message) {
  const size_t words_at = message.find(kLastWords);
  const std::string_view said = message.substr(0, words_at);
  std::string brief(said.substr(0, said.find('\n')));
  if (words_at == message.npos) return brief;
  std::string_view words = message.substr(words_at + sizeof kLastWords - 1);
  while (words.ends_with('\n') || words.ends_with('\r')) words.remove_suffix(1);
  const size_t line_at = words.rfind('\n');
  return brief.append(kLastWords).append(line_at == words.npos ? words : words.substr(line_at + 1));
}

}  // namespace xplane_time::power
