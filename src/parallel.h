// ParallelFor: runs independent tasks on a few threads. Each task writes its result to a slot of
// its index, so that the result does not depend on the number of threads.
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

// Runs work on a thread that starts on another processor than its creator, if there is one. Without
// this, the system may start the thread on the same processor. It would wait there for some
// milliseconds until the system spreads the threads, and the creator alone could have done the work
// in that time. The thread stays on its processor for about as long.
class HelperThread {
 public:
  // `index`: number of the helper among those of its creator. `work` must not throw, and must
  // outlive the helper.
  HelperThread(size_t index, absl::FunctionRef<void()> work);
  ~HelperThread();  // waits for the end of the work
  HelperThread(const HelperThread&) = delete;
  HelperThread& operator=(const HelperThread&) = delete;

  // Tasks call this now and then. Some time after the start of a helper thread, it lets the thread
  // run on any processor. No effect on other threads.
  static void LetMove();
  // From now on, the helper threads of the calling thread are kept until the process ends. They
  // wait for more work, spinning for a moment. Starting and joining a thread takes about 60 us,
  // which matters for phases of a few milliseconds.
  static void KeepThreads();

  // False: the system has no more threads.
  bool runs() const { return thread_ != nullptr; }

 private:
  class Thread;
  using Kept = std::vector<std::unique_ptr<Thread>>;
  static thread_local Thread* self_;  // the helper that runs on this thread, if any
  static thread_local Kept* kept_;    // the kept helpers of this thread; null: they are not kept

  const absl::FunctionRef<void()> work_;
  std::unique_ptr<Thread> own_;  // set unless the thread is kept
  Thread* thread_ = nullptr;
  uint32_t work_number_ = 0;  // number of the work on the thread
};

// Calls `work` once on each of `threads` threads, including this one; on fewer if the system has no
// more threads. `work` must be safe to call concurrently and must not throw. Returns when all calls
// are done.
void RunOnThreads(size_t threads, absl::FunctionRef<void()> work);

// Calls task(0) ... task(count - 1), each once, on up to `threads` threads, including this one; on
// fewer if the system has no more threads. `task` must be safe to call concurrently. If it throws
// (out of memory), the remaining tasks are dropped, and the exception is rethrown here when all
// threads are done.
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

// Like ParallelFor, for tasks with known sizes. Longest tasks start first, so that the threads end
// at about the same time. If the longest task is nearly all of the work, everything runs on this
// thread.
template <typename Task>
void ParallelForLongestFirst(std::span<const uint64_t> sizes, int threads, const Task& task) {
  const uint64_t all = std::accumulate(sizes.begin(), sizes.end(), uint64_t{0});
  if (!sizes.empty() && all - std::ranges::max(sizes) < all / 32) threads = 1;
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](size_t i) { return sizes[i]; });
  ParallelFor(order.size(), threads, [&](size_t i) { task(order[i]); });
}

// Like ParallelFor, and also calls next(0) ... next(count - 1) in this order, one at a time.
// next(i) runs once the tasks 0 to i are done, in parallel with the remaining tasks. It is for the
// part of the work that must be sequential.
template <typename Task, typename Next>
void ParallelForThenInOrder(size_t count, int threads, const Task& task, const Next& next) {
  std::mutex mutex;
  std::vector<bool> done(count);
  size_t reached = 0;
  bool at_it = false;  // whether some thread is calling `next`
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
