// Formatting of numbers and commands in findings.
//
//   TimeText(3'214'000'000)                       "3.21 ms"
//   ShareText(0.2031)                             "20 %"
//   CommandText({"where", "my trace.pb"})         "xplane-time where 'my trace.pb'"
//   ExactName("jit_f[1]")                         "^jit_f\[1\]$"
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace xplane_time::insight {

// Three digits.
std::string TimeText(double ps);
std::string BytesText(double bytes);
// Two digits, or "<0.1 %".
std::string ShareText(double share);
// At most 60 bytes: of a longer name its two ends, in whole characters.
std::string ShortName(std::string_view name);
// "1 gap", "3 gaps".
std::string CountText(uint64_t count, std::string_view what);
// A command line for a shell (bash if a word has control characters or is not ASCII).
std::string CommandText(const std::vector<std::string>& words);
// A regular expression (RE2) that matches this name alone.
std::string ExactName(std::string_view name);

}  // namespace xplane_time::insight
