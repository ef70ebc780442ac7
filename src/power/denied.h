// What may not be read and would be in a total.
#ifndef XPLANE_TIME_SRC_POWER_DENIED_H_
#define XPLANE_TIME_SRC_POWER_DENIED_H_

#include <span>
#include <string>
#include <string_view>

#include "xplane_time/power.h"

namespace xplane_time::power {

// The first thing of `domain` ("gpu", "package" with its memory; empty: any), as "rapl package-0",
// that is denied and that no channel in the total stands in for; empty: nothing.
std::string DeniedPart(std::span<const PowerChannel> channels,
                       std::span<const PowerAbsence> absences, std::string_view domain);

}  // namespace xplane_time::power

#endif  // XPLANE_TIME_SRC_POWER_DENIED_H_
