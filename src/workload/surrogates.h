// Text that a server cuts between the two surrogates of a character.
//
// A character beyond U+FFFF consists of two escapes in JSON: "\ud83d\ude00". A server that streams
// its answer by tokens may send the first escape in one piece and the second in the next. Parsers
// reject both pieces.
//
//   MarkUnpaired(R"({"content":"\ud83d"})")   // JSON, with a mark in place of the surrogate
//   joiner.Join(content, &text);              // this piece, then the next
//   joiner.End(&text);                        // a surrogate without its other half becomes U+FFFD
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace xplane_time {

// Replaces each unpaired surrogate by a mark for SurrogateJoiner, and each number that exceeds a
// double by a text ("1e999"). A mark is the noncharacter U+FDD0 and the four digits of the
// surrogate.
std::string MarkUnpaired(std::string_view json);

class SurrogateJoiner {
 public:
  // Appends the next piece of a text and combines its marks.
  void Join(std::string_view piece, std::string* text);
  void End(std::string* text);

 private:
  uint32_t high_ = 0;  // a first surrogate that waits for the second; 0 if there is none
};

}  // namespace xplane_time
