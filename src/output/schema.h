// Schema: the JSON Schema (draft 2020-12) of each command's output.
//
// The schemas are files in schemas/, put into the program when it is built. They are
// strict on what is there and tolerant of more: new fields and new enum values pass.
#ifndef XPLANE_TIME_SRC_OUTPUT_SCHEMA_H_
#define XPLANE_TIME_SRC_OUTPUT_SCHEMA_H_

#include <string_view>

namespace xplane_time::output {

// "report", "functions", "kernels", "tree", "planes", "events", "compare", "pick",
// "compat", "tune", "power" or "power-run", "power-sources"; null for others.
const char* JsonSchema(std::string_view command);

}  // namespace xplane_time::output

#endif  // XPLANE_TIME_SRC_OUTPUT_SCHEMA_H_
