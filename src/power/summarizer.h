// Summarizer: a log's lines in, a PowerSummary out. docs/power.md has the definitions.
//
// Lines of several sources are not in the order of time, and a mark may be written after
// readings that are later than it. So readings wait for kLag before they are folded; a mark
// that is later still counts from there on, and is named.
//
//   lines -> queue of each channel -> (older than kLag) -> ChannelFold -> estimates
#pragma once

#include <memory>

#include "power/log.h"
#include "xplane_time/power.h"

namespace xplane_time::power {

class Summarizer : public LogSink {
 public:
  static std::unique_ptr<Summarizer> New(const PowerSummaryOptions& options);
  // After the last line.
  virtual PowerSummary Finish(const LogEnd& end) = 0;
};

}  // namespace xplane_time::power
