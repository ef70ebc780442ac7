// ParallelFor: independent tasks on a few threads. Results go to slots of the caller's
// by task index, so nothing depends on the number of threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"

namespace xplane_time {

// Work on a thread that begins on another processor than its creator where there is one. Left to
// itself it may begin on the same one, and wait there until the system spreads its threads: some
// milliseconds, in which the creator alone could have done the work. For so long it stays there.
class HelperThread {
 public:
  // The `index`-th of its creator. `work` does not throw, and outlives the helper.
  HelperThread(size_t index, absl::FunctionRef<void()> work);
  ~HelperThread();  // waits for the work to be done
  HelperThread(const HelperThread&) = delete;
  HelperThread& operator=(const HelperThread&) = delete;

  // To be called by what a thread runs, now and then: from a while after its beginning on it may
  // run on any processor. Does nothing on other threads.
  static void LetMove();
  // From now on the threads of helpers that this thread creates wait for more work, awake for a
  // moment, until the process ends. To begin a thread and to wait for its end takes some 60 us,
  // else for each phase of what is over in a few milliseconds.
  static void KeepThreads();

  // False: the system has no more threads.
  bool runs() const { return thread_ != nullptr; }

 private:
  class Thread;
  using Kept = std::vector<std::unique_ptr<Thread>>;
  static thread_local Thread* self_;  // where this is one
  static thread_local Kept* kept_;    // of a thread that keeps them

  const absl::FunctionRef<void()> work_;
  std::unique_ptr<Thread> own_;  // where it is not kept
  Thread* thread_ = nullptr;
  uint32_t work_number_ = 0;  // on the thread
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

// As ParallelFor, for tasks of these sizes: the longest first, so that threads end together. All on
// this thread where next to nothing is left beside the longest.
template <typename Task>
void ParallelForLongestFirst(std::span<const uint64_t> sizes, int threads, const Task& task) {
  const uint64_t all = std::accumulate(sizes.begin(), sizes.end(), uint64_t{0});
  if (!sizes.empty() && all - std::ranges::max(sizes) < all / 32) threads = 1;
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](size_t i) { return sizes[i]; });
  ParallelFor(order.size(), threads, [&](size_t i) { task(order[i]); });
}

// As ParallelFor; and next(0) ... next(count - 1), one after the other in this order, each once
// the task of its number and all before it are done: what can't be done at once is done beside
// the tasks that are left.
template <typename Task, typename Next>
void ParallelForThenInOrder(size_t count, int threads, const Task& task, const Next& next) {
  std::mutex mutex;
  std::vector<bool> done(count);
  size_t reached = 0;
  bool at_it = false;  // some thread
  ParallelFor(count, threads, [&](size_t i) {
    task(i);
    std::unique_lock<std::mutex> lock(mutex);
    done[i] = true;
    if (at_it) return;
    at_it = true;
    for (; reached < count && done[reached]; ++reached) {
      lock.unlock();
      next(reached);
      lock.lock();
    }
    at_it = false;
  });
}

}  // namespace xplane_time
