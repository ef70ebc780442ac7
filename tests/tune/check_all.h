// Checks all of a store.
#pragma once

#include "xplane_time/store.h"

namespace xplane_time::testing {

// Of all of the file, and of all rows.
inline absl::Status CheckAll(const TuneStore& store) {
  const absl::Status file = store.CheckFile();
  return file.ok() ? store.CheckRows() : file;
}

}  // namespace xplane_time::testing
