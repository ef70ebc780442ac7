// One record of a run as JSON, and the totals of the whole run.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "json/json.h"
#include "xplane_time/power_run.h"

namespace xplane_time::power {

using json::Json;

Json ResultJson(const RunResult& result);

// Whether parsed JSON is a record.
bool IsRunRecord(const Json& record);
void AddToTotals(const Json& record, PowerRunTotals* totals);
// Adds everything except the number of records.
void AddToTotals(const RunSpan& span, SharedWindowTotals* totals);
// The sum of a record's energies that count, with the same members as energy_metrics has for GPUs.
// Known if all of them are known.
Json AllEnergies(const Json& record);

// Returns the energy whose fields begin with `prefix` ("cpu_"), in energy_metrics or AllEnergies.
// Empty if readings cover only a part of the time, for example because a counter was reset.
std::optional<double> WholeEnergy(const Json& energies, const std::string& prefix);

// The message of a failed record in one line. The record keeps the whole message.

// Precedes the last output of a command.
constexpr char kLastWords[] = "; its last words: ";

// Returns the first line of a message and the last line of its last words, which names the error of
// a traceback.
//   "it ended: exit 1; its last words: Traceback ...\n  ...\nValueError: x"
//   "it ended: exit 1; its last words: ValueError: x"
std::string BriefMessage(std::string_view message);

}  // namespace xplane_time::power
