// One record of a run as JSON, and what the run as a whole adds up from it.
#ifndef XPLANE_TIME_SRC_POWER_RUN_RESULT_JSON_H_
#define XPLANE_TIME_SRC_POWER_RUN_RESULT_JSON_H_

#include <nlohmann/json.hpp>

#include "xplane_time/power_run.h"

namespace xplane_time::power {

using Json = nlohmann::ordered_json;

Json ResultJson(const RunResult& result);

// Whether what was read back is one.
bool IsRunRecord(const Json& json);
void AddToTotals(const Json& record, PowerRunTotals* totals);

}  // namespace xplane_time::power

#endif  // XPLANE_TIME_SRC_POWER_RUN_RESULT_JSON_H_
