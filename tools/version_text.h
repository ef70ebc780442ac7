// --version: the version and what was compiled in.
#ifndef XPLANE_TIME_TOOLS_VERSION_TEXT_H_
#define XPLANE_TIME_TOOLS_VERSION_TEXT_H_

#include <string>

namespace xplane_time::tools {

std::string VersionText();

}  // namespace xplane_time::tools

#endif  // XPLANE_TIME_TOOLS_VERSION_TEXT_H_
