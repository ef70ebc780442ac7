// Parses the op metadata of a TPU beyond simple stats: the HLO text in the name of an op, and the
// bytes that it moves by kind of memory.
//
//   %copy-done.1 = bf16[8,128]{1,0:T(8,128)} copy-done((bf16[8,128], u32[]) %copy-start.1)
//
//   ParseHloText(...)   {"copy-done", "copy-start.1"}
//
// Results are views into the text. A text that is not an instruction gives empty parts.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace xplane_time {

struct HloText {
  std::string_view opcode;
  std::string_view first_operand;  // without its %; empty: unknown
};
HloText ParseHloText(std::string_view text);

// Bytes of HBM in a stat `memory_access_breakdown`. nullopt if it is damaged, or if a number in it
// is not a valid count of bytes.
std::optional<int64_t> HbmBytes(std::string_view memory_access_breakdown);

}  // namespace xplane_time
