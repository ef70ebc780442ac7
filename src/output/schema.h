// Schema: the JSON Schema (draft 2020-12) of each command's output.
//
// The schemas are files in schemas/, put into the program when it is built; what several of them
// define is a file in schemas/defs/. They are strict on what is there and tolerant of more: new
// fields and new enum values pass.
#pragma once

#include <string_view>

namespace xplane_time::output {

// Of schemas/NAME.v1.json; null where there is none.
const char* JsonSchema(std::string_view name);

}  // namespace xplane_time::output
