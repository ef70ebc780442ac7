// Text that a server cuts between the two surrogates of a character.
//
// A character beyond U+FFFF is two escapes in JSON: "\ud83d\ude00". A server that streams its
// answer by tokens may send the first in one piece and the second in the next. Neither piece is
// JSON that parsers accept.
//
//   MarkUnpaired(R"({"content":"\ud83d"})")   // JSON, with a mark in place of the surrogate
//   joiner.Join(content, &text);              // of this piece, then of the next
//   joiner.End(&text);                        // a surrogate without its other half is U+FFFD
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace xplane_time {

// JSON in which each unpaired surrogate is a mark, for SurrogateJoiner, and each number that no
// double holds is a text ("1e999"). A mark is U+FDD0, which is no character of any text, and the
// four digits of the surrogate.
std::string MarkUnpaired(std::string_view json);

class SurrogateJoiner {
 public:
  // Appends the next piece of a text, with its marks paired.
  void Join(std::string_view piece, std::string* text);
  void End(std::string* text);

 private:
  uint32_t high_ = 0;  // a first surrogate that waits for the second; 0: none
};

}  // namespace xplane_time
