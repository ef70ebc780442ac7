// What a page carries of a timeline: single executions where they are few or long, and else the
// finest level of bins. The format is in page.js, which draws it.
//
//   60,000 executions or fewer   each of them                                  8 bytes each
//   more                         lanes with few whole; of the others bins and
//                                the longest executions                        4 MB at the most
//   host events                  likewise, from 30,000 on                      1 MB at the most
//
// A host thread is a lane for each level of events within events: eight levels of eight threads of
// each host. The data counts the lanes and events that are left out. The name of a host event that
// nothing in the data needs is empty.
#pragma once

#include <string>

#include "insight/timeline.h"

namespace xplane_time::output {

// A JSON object.
std::string TimelineData(insight::Timeline timeline);

}  // namespace xplane_time::output
