#include "output/power_inventory_json.h"

namespace xplane_time::output {
namespace {

Json DeviceJson(const PowerDevice& device) {
  return {{"id", ValidUtf8(device.id)},
          {"name", ValidUtf8(device.name)},
          {"source", ValidUtf8(device.source)},
          {"index", OrNull(device.index)},
          {"ordinal", OrNull(device.ordinal)},
          {"pci_bus_id", TextOrNull(device.pci_bus_id)},
          {"driver", TextOrNull(device.driver)},
          {"mig", device.mig},
          {"shared", device.shared},
          {"note", TextOrNull(device.note)}};
}

Json ChannelJson(const PowerChannel& channel) {
  return {{"source", ValidUtf8(channel.source)},
          {"device", ValidUtf8(channel.device)},
          {"domain", ValidUtf8(channel.domain)},
          {"quantity", ValidUtf8(channel.quantity)},
          {"kind", ReadingKindName(channel.kind)},
          {"in_total", channel.in_total},
          {"wrap_range", OrNull(channel.wrap_range)},
          {"prior_period_ns", OrNull(channel.prior_period_ns)},
          {"prior_window_ns", OrNull(channel.prior_window_ns)},
          {"note", TextOrNull(channel.note)}};
}

Json AbsenceJson(const PowerAbsence& absence) {
  return {{"source", ValidUtf8(absence.source)},
          {"what", ValidUtf8(absence.what)},
          {"reason", PowerReasonName(absence.reason)},
          {"message", ValidUtf8(absence.message)},
          {"fix", TextOrNull(absence.fix)}};
}

}  // namespace

void AddInventory(const PowerInventory& inventory, Document* document) {
  document->Section("devices", inventory.devices, DeviceJson);
  document->Section("channels", inventory.channels, ChannelJson);
  document->Section("absent", inventory.absences, AbsenceJson);
}

}  // namespace xplane_time::output
