// Configurations 0, 1, 2, ... with {"i": 0} and so on.
#pragma once

#include <string>
#include <vector>

#include "xplane_time/space.h"

namespace xplane_time::testing {

inline std::vector<Configuration> Configurations(size_t count) {
  std::vector<Configuration> list;
  for (size_t i = 0; i < count; ++i) {
    list.push_back({std::to_string(i), R"({"i":)" + std::to_string(i) + "}", {}});
  }
  return list;
}

}  // namespace xplane_time::testing
