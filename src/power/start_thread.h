// A thread, or why there is none.
#ifndef XPLANE_TIME_SRC_POWER_START_THREAD_H_
#define XPLANE_TIME_SRC_POWER_START_THREAD_H_

#include <system_error>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace xplane_time::power {

template <typename Function>
absl::StatusOr<std::thread> StartThread(Function&& function) {
  try {
    return std::thread(std::forward<Function>(function));
  } catch (const std::system_error& error) {
    return absl::UnavailableError(absl::StrCat("cannot start a thread: ", error.what(),
                                               "; see ulimit -u, -s and -v, and the container's "
                                               "limit of processes"));
  }
}

}  // namespace xplane_time::power

#endif  // XPLANE_TIME_SRC_POWER_START_THREAD_H_
