// The built-in parts of every page (page.cmake).
#pragma once

#include <string_view>

namespace xplane_time::output {

extern const std::string_view kPageStyle, kPageScript, kD3Script, kD3Licence;

}  // namespace xplane_time::output
