#include "hlo/tpu_metadata.h"

#include <algorithm>
#include <cctype>

#include "read/wire.h"

namespace xplane_time {
namespace {

bool IsOpcode(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
    return std::islower(c) != 0 || std::isdigit(c) != 0 || c == '-';
  });
}

std::string_view FirstOperand(std::string_view operands) {
  size_t at = 0, depth = 1;  // depth includes the brackets of its shape
  for (; at < operands.size() && depth > 0 && operands[at] != '%'; ++at) {
    if (operands[at] == '(') ++depth;
    if (operands[at] == ')') --depth;
  }
  if (at == operands.size() || operands[at] != '%') return {};
  operands.remove_prefix(at + 1);
  return operands.substr(0, operands.find_first_of(" ,()"));
}

}  // namespace

HloText ParseHloText(std::string_view text) {
  const size_t equals = text.find(" = ");
  if (!text.starts_with('%') || equals == std::string_view::npos) return {};
  text.remove_prefix(equals + 3);
  size_t depth = 0, word = 0;  // beginning of a word outside of brackets
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (depth == 0 && c == '(' && IsOpcode(text.substr(word, i - word))) {
      return {text.substr(word, i - word), FirstOperand(text.substr(i + 1))};
    }
    if (c == '(' || c == '[' || c == '{') ++depth;
    if ((c == ')' || c == ']' || c == '}') && depth > 0) --depth;
    if (c == ' ' && depth == 0) word = i + 1;
  }
  return {};
}

std::optional<int64_t> HbmBytes(std::string_view memory_access_breakdown) {
  constexpr int64_t kHbm = 1;
  int64_t bytes = 0;
  bool known = true;
  Damage ignored;
  const bool sound =
      ReadMessage(memory_access_breakdown, 0, 0, &ignored, [&](const WireField& access) {
        if (access.key() != Length(1)) return true;
        int64_t space = 0, moved = 0;
        const bool read = ReadMessage(access, 1, &ignored, [&](const WireField& field) {
          if (field.key() == Varint(2)) space = field.whole();
          if (field.key() == Varint(3)) moved = field.whole();
          return true;
        });
        if (space != kHbm) return read;
        known &= moved >= 0 && !__builtin_add_overflow(bytes, moved, &bytes);
        return read && known;
      });
  return sound ? std::optional(bytes) : std::nullopt;
}

}  // namespace xplane_time
