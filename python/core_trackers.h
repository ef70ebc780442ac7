// trackers.h for Python, as plain functions; python/xplane_time/trackers.py gives them names.
#pragma once

#include <nanobind/nanobind.h>

namespace xplane_time::python {

void AddTrackers(nanobind::module_* module);

}  // namespace xplane_time::python
