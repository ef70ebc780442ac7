// power.h and power_run.h for Python; python/xplane_time/power.py gives it names.
#pragma once

#include <nanobind/nanobind.h>

#include <functional>

#include "arrow/table.h"

namespace xplane_time::python {

// `to_python` makes a table the module's own.
void AddPower(nanobind::module_* module, nanobind::object (*to_python)(arrow::Table table));

void AddPowerRun(nanobind::module_* module, nanobind::object (*to_python)(arrow::Table table));

}  // namespace xplane_time::python
