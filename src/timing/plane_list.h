// For messages: the planes that are there, "/device:GPU:0 (54 events), ...".
#ifndef XPLANE_TIME_SRC_TIMING_PLANE_LIST_H_
#define XPLANE_TIME_SRC_TIMING_PLANE_LIST_H_

#include <string>

#include "xplane_time/trace.h"

namespace xplane_time {

std::string ListPlanes(const Trace& trace);

}  // namespace xplane_time

#endif  // XPLANE_TIME_SRC_TIMING_PLANE_LIST_H_
