// The fields of a device, a channel and an absence, in the order of every JSON that contains them.
// The log is written and read by these lists; `power sources` and summaries print them.
#pragma once

#include <span>
#include <string_view>

#include "json/described.h"
#include "power/log.h"
#include "xplane_time/power.h"

namespace xplane_time {

std::span<const std::string_view> NamesOf(PowerReason);
std::span<const std::string_view> NamesOf(ReadingKind);
std::span<const std::string_view> NamesOf(EnergyEstimator);

XPLANE_TIME_JSON_FIELDS(PowerDevice, id, name, source, index, ordinal, pci_bus_id, driver, mig,
                        shared, note)
XPLANE_TIME_JSON_FIELDS(PowerChannel, source, device, domain, quantity, kind, slow, in_total,
                        wrap_range, max_plausible_mw, prior_period_ns, prior_window_ns, note)
// As in the last line of a log.
XPLANE_TIME_JSON_FIELDS(ReaderQuality, source, reads, missed, own_cpu_ns, hung)
XPLANE_TIME_JSON_FIELDS(PowerAbsence, source, what, reason, message, fix)

namespace power {

XPLANE_TIME_JSON_FIELDS(Clocks, monotonic_ns, realtime_ns, boottime_ns)

}  // namespace power
}  // namespace xplane_time
