// trackers.h for Python, as plain functions; python/xplane_time/trackers.py gives them names.
#ifndef XPLANE_TIME_PYTHON_CORE_TRACKERS_H_
#define XPLANE_TIME_PYTHON_CORE_TRACKERS_H_

#include <nanobind/nanobind.h>

namespace xplane_time::python {

void AddTrackers(nanobind::module_* module);

}  // namespace xplane_time::python

#endif  // XPLANE_TIME_PYTHON_CORE_TRACKERS_H_
