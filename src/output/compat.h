// The numbers of earlier tools (compat.h) as text.
#ifndef XPLANE_TIME_SRC_OUTPUT_COMPAT_H_
#define XPLANE_TIME_SRC_OUTPUT_COMPAT_H_

#include <string>

#include "output/output.h"
#include "xplane_time/compat.h"

namespace xplane_time::output {

// JSON: schema xplane-time.compat.v1, with the tool's own names and units. CSV: keys and
// their times, or kernels. Tables and Markdown say whose definition it is.
std::string RenderCompat(const compat::Answer& answer, const OutputOptions& options);

}  // namespace xplane_time::output

#endif  // XPLANE_TIME_SRC_OUTPUT_COMPAT_H_
