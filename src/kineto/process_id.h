// Parses a pid. Kineto writes numbers: of a process of the host, or of a device. Programs that
// merge or rewrite traces write other forms:
//
//   0, 0.0, "0", "GPU 0"         number 0
//   "[TP00] 0", "0 [TP00]"       number 0 of the rank "TP00"
//   "rank3"                      no number, rank "rank3"
//   "stream 7"                   no number, stream 7 of a device (Proton)
//   null, none, -1, 0.5, 1e30    no number
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "json/json_cursor.h"

namespace xplane_time::kineto {

struct ProcessId {
  std::string text;  // text to show; equal for all forms of one number
  std::optional<int64_t> number = {}, stream = {};
  std::string rank = {};  // empty: no rank
};

ProcessId ParseProcessId(const json::JsonValue& pid);

// A whole number, or a text with one, in any form. nullopt: it has a fraction, or is too large.
std::optional<int64_t> WholeOf(const json::JsonValue& value);

}  // namespace xplane_time::kineto
