// ParallelFor: independent tasks on a few threads. Results go to slots of the caller's
// by task index, so nothing depends on the number of threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

namespace xplane_time {

// Calls task(0) ... task(count - 1), each once, on up to `threads` threads, this one
// included; on fewer where the system has no more. `task` must be safe to call
// concurrently. What it throws (out of memory) is thrown here, once all threads are done;
// some tasks are then left out.
template <typename Task>
void ParallelFor(size_t count, int threads, const Task& task) {
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::exception_ptr thrown;
  const auto work = [&] {
    try {
      for (size_t i = next++; i < count; i = next++) task(i);
    } catch (...) {
      next = count;
      const std::lock_guard<std::mutex> lock(mutex);
      if (thrown == nullptr) thrown = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> helpers;
    try {
      for (size_t i = 1; i < count && i < static_cast<size_t>(threads); ++i) {
        helpers.emplace_back(work);
      }
    } catch (const std::system_error&) {  // no more threads
    } catch (const std::bad_alloc&) {
    }
    work();
  }
  if (thrown != nullptr) std::rethrow_exception(thrown);
}

}  // namespace xplane_time
