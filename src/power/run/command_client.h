// The message of a record that failed, in one line for people. All of it stays in the record.
#ifndef XPLANE_TIME_SRC_POWER_RUN_COMMAND_CLIENT_H_
#define XPLANE_TIME_SRC_POWER_RUN_COMMAND_CLIENT_H_

#include <string>
#include <string_view>

namespace xplane_time::power {

// Before what a command printed at its end.
constexpr char kLastWords[] = "; its last words: ";

// The first line of a message; of last words the last one, which names a traceback's error.
//   "it ended: exit 1; its last words: Traceback ...\n  ...\nValueError: x"
//   "it ended: exit 1; its last words: ValueError: x"
std::string BriefMessage(std::string_view message);

}  // namespace xplane_time::power

#endif  // XPLANE_TIME_SRC_POWER_RUN_COMMAND_CLIENT_H_
