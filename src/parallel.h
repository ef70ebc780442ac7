// ParallelFor: independent tasks on a few threads. Results go to slots of the caller's
// by task index, so nothing depends on the number of threads.
#pragma once

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>

#include "absl/functional/function_ref.h"

namespace xplane_time {

// A thread that begins on another processor than its creator where there is one. Left to itself it
// may begin on the same one, and wait there until the system spreads its threads: some
// milliseconds, in which the creator alone could have done the work. For so long it stays there.
class HelperThread {
 public:
  // The `index`-th of its creator. `work` does not throw, and outlives the thread.
  HelperThread(size_t index, absl::FunctionRef<void()> work);
  ~HelperThread();  // waits for it
  HelperThread(const HelperThread&) = delete;
  HelperThread& operator=(const HelperThread&) = delete;

  // To be called by what a thread runs, now and then: from a while after its beginning on it may
  // run on any processor. Does nothing on other threads.
  static void LetMove();

  // False: the system has no more threads.
  bool runs() const { return runs_; }

 private:
  const absl::FunctionRef<void()> work_;
  cpu_set_t allowed_;  // the creator's
  bool knows_allowed_ = false, runs_ = false;
  pthread_t thread_ = {};
};

// Calls `work` once on each of so many threads, this one included; on fewer where the system has
// no more. `work` must be safe to call concurrently, and does not throw. Returns when all are done.
void RunOnThreads(size_t threads, absl::FunctionRef<void()> work);

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
      for (size_t i = next++; i < count; i = next++) {
        task(i);
        HelperThread::LetMove();
      }
    } catch (...) {
      next = count;
      const std::lock_guard<std::mutex> lock(mutex);
      if (thrown == nullptr) thrown = std::current_exception();
    }
  };
  RunOnThreads(std::min(count, static_cast<size_t>(std::max(threads, 1))), work);
  if (thrown != nullptr) std::rethrow_exception(thrown);
}

}  // namespace xplane_time
