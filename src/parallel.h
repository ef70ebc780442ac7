// ParallelFor: independent tasks on a few threads. Results go to slots of the caller's
// by task index, so nothing depends on the number of threads.
#ifndef XPLANE_TIME_SRC_PARALLEL_H_
#define XPLANE_TIME_SRC_PARALLEL_H_

#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace xplane_time {

// Calls task(0) ... task(count - 1), each once, on up to `threads` threads, this one
// included. `task` must be safe to call concurrently and must not throw.
template <typename Task>
void ParallelFor(size_t count, int threads, const Task& task) {
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < count; i = next++) task(i);
  };
  std::vector<std::jthread> helpers;
  for (size_t i = 1; i < count && i < static_cast<size_t>(threads); ++i) helpers.emplace_back(work);
  work();
}

}  // namespace xplane_time

#endif  // XPLANE_TIME_SRC_PARALLEL_H_
