// JSON that holds texts of others, made safe to print.
//
//   EscapeInvisibleInJson("[\"a\u202eb\"]")   "[\"a\\u202eb\"]"
#pragma once

#include <string>
#include <string_view>

namespace xplane_time::output {

// A valid document with \u escapes for the characters that a terminal acts on or that turn the
// direction of reading: the same values. For documents that are not built name by name (JsonUtf8).
std::string EscapeInvisibleInJson(std::string_view json);

}  // namespace xplane_time::output
