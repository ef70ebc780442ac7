// The data of a page's timeline: single executions if they are few or long, otherwise the finest
// level of bins. The format is in page.js, which draws it.
//
//   60,000 executions or fewer   each of them                                  8 bytes each
//   more                         lanes with few: complete; other lanes: bins
//                                and the longest executions                    at most 4 MB
//   host events                  likewise, from 30,000 on                      at most 1 MB
//
// Each nesting level of a host thread is a lane: eight levels of eight threads of each host. The
// data has the number of omitted lanes and events. The name of a host event is empty if the data
// does not use it.
#pragma once

#include <string>

#include "insight/timeline.h"

namespace xplane_time::output {

// A JSON object.
std::string TimelineData(insight::Timeline timeline);

}  // namespace xplane_time::output
