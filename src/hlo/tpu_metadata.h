// What a TPU's op metadata says beside stats of one value each: the HLO text that is its name, and
// how much memory of which kind it moves.
//
//   %copy-done.1 = bf16[8,128]{1,0:T(8,128)} copy-done((bf16[8,128], u32[]) %copy-start.1)
//
//   ParseHloText(...)   {"copy-done", "copy-start.1"}
//
// Views into the text. Text that is no instruction gives empty parts.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace xplane_time {

struct HloText {
  std::string_view opcode;
  std::string_view first_operand;  // without its %; empty: none
};
HloText ParseHloText(std::string_view text);

// Bytes of HBM in a stat `memory_access_breakdown`. Nothing where it is damaged, or a number in
// it is no count of bytes.
std::optional<int64_t> HbmBytes(std::string_view memory_access_breakdown);

}  // namespace xplane_time
