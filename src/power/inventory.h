// The fields of a device, a channel and an absence, in the order of every JSON that has them: the
// log writes and reads them by these lists, and `power sources` and summaries print them.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "xplane_time/power.h"

namespace xplane_time::power {

enum class Told : uint8_t {
  kAlways,
  kOrNull,  // printed as null where it is an empty text
  kInLogs,  // not printed
};

template <typename Row, typename Of>
concept IsRow = std::same_as<std::remove_const_t<Row>, Of>;

// `visit(name, field, told)` for each field; the row may be const.
void VisitFields(IsRow<PowerDevice> auto& device, auto visit) {
  visit("id", device.id, Told::kAlways);
  visit("name", device.name, Told::kAlways);
  visit("source", device.source, Told::kAlways);
  visit("index", device.index, Told::kAlways);
  visit("ordinal", device.ordinal, Told::kAlways);
  visit("pci_bus_id", device.pci_bus_id, Told::kOrNull);
  visit("driver", device.driver, Told::kOrNull);
  visit("mig", device.mig, Told::kAlways);
  visit("shared", device.shared, Told::kAlways);
  visit("note", device.note, Told::kOrNull);
}

void VisitFields(IsRow<PowerChannel> auto& channel, auto visit) {
  visit("source", channel.source, Told::kAlways);
  visit("device", channel.device, Told::kAlways);
  visit("domain", channel.domain, Told::kAlways);
  visit("quantity", channel.quantity, Told::kAlways);
  visit("kind", channel.kind, Told::kAlways);
  visit("slow", channel.slow, Told::kInLogs);
  visit("in_total", channel.in_total, Told::kAlways);
  visit("wrap_range", channel.wrap_range, Told::kAlways);
  visit("max_plausible_mw", channel.max_plausible_mw, Told::kInLogs);
  visit("prior_period_ns", channel.prior_period_ns, Told::kAlways);
  visit("prior_window_ns", channel.prior_window_ns, Told::kAlways);
  visit("note", channel.note, Told::kOrNull);
}

void VisitFields(IsRow<PowerAbsence> auto& absence, auto visit) {
  visit("source", absence.source, Told::kAlways);
  visit("what", absence.what, Told::kAlways);
  visit("reason", absence.reason, Told::kAlways);
  visit("message", absence.message, Told::kAlways);
  visit("fix", absence.fix, Told::kOrNull);
}

}  // namespace xplane_time::power
