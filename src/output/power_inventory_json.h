// Inventory as JSON: devices, channels and what is not there, alike in power.v1 and
// power-sources.v1.
#ifndef XPLANE_TIME_SRC_OUTPUT_POWER_INVENTORY_JSON_H_
#define XPLANE_TIME_SRC_OUTPUT_POWER_INVENTORY_JSON_H_

#include "output/json_document.h"
#include "xplane_time/power.h"

namespace xplane_time::output {

// Sections `devices`, `channels` and `absent`.
void AddInventory(const PowerInventory& inventory, Document* document);

}  // namespace xplane_time::output

#endif  // XPLANE_TIME_SRC_OUTPUT_POWER_INVENTORY_JSON_H_
