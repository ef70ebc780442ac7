// One record of a run as JSON, and what the run as a whole adds up from it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "json/json.h"
#include "xplane_time/power_run.h"

namespace xplane_time::power {

using json::Json;

Json ResultJson(const RunResult& result);

// Whether what was read back is one.
bool IsRunRecord(const Json& record);
void AddToTotals(const Json& record, PowerRunTotals* totals);
// But for the records of it.
void AddToTotals(const RunSpan& span, SharedWindowTotals* totals);
// The sum of a record's energies that count, as energy_metrics has those of GPUs; known where each
// of them is.
Json AllEnergies(const Json& record);

// Returns the energy whose fields begin with `prefix` ("cpu_"), in energy_metrics or AllEnergies.
// Empty if readings cover only a part of the time, for example because a counter was reset.
std::optional<double> WholeEnergy(const Json& energies, const std::string& prefix);

// The message of a record that failed, in one line for people. All of it stays in the record.

// Before what a command printed at its end.
constexpr char kLastWords[] = "; its last words: ";

// The first line of a message; of last words the last one, which names a traceback's error.
//   "it ended: exit 1; its last words: Traceback ...\n  ...\nValueError: x"
//   "it ended: exit 1; its last words: ValueError: x"
std::string BriefMessage(std::string_view message);

}  // namespace xplane_time::power
