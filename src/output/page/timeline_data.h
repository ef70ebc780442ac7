// What a page carries of a timeline: single executions where they are few or long, and else the
// finest level of bins. The format is in page.js, which draws it.
//
//   60,000 executions or fewer   each of them                                  8 bytes each
//   more                         lanes with few whole; of the others bins and
//                                the longest executions                        4 MB at the most
#pragma once

#include <string>

#include "insight/timeline.h"

namespace xplane_time::output {

// A JSON object.
std::string TimelineData(insight::Timeline timeline);

}  // namespace xplane_time::output
