#include "parallel.h"

#include <sched.h>

#include <chrono>
#include <deque>

namespace xplane_time {
namespace {

// One of those that are allowed: the caller's is the last to come.
cpu_set_t Other(const cpu_set_t& allowed, size_t index) {
  size_t left = index % static_cast<size_t>(CPU_COUNT(&allowed));
  auto at = static_cast<size_t>(std::max(sched_getcpu(), 0));
  do {
    at = (at + 1) % CPU_SETSIZE;
  } while (!CPU_ISSET(at, &allowed) || left-- > 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(at, &one);
  return one;
}

// Where this is a helper that stays where it began.
struct Held {
  const cpu_set_t* allowed = nullptr;  // later
  std::chrono::steady_clock::time_point until;
};
thread_local Held held;

}  // namespace

void HelperThread::LetMove() {
  if (held.allowed == nullptr || std::chrono::steady_clock::now() < held.until) return;
  sched_setaffinity(0, sizeof *held.allowed, held.allowed);
  held.allowed = nullptr;
}

HelperThread::HelperThread(size_t index, absl::FunctionRef<void()> work) : work_(work) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  CPU_ZERO(&allowed_);
  knows_allowed_ = sched_getaffinity(0, sizeof allowed_, &allowed_) == 0;
  if (knows_allowed_) {
    const cpu_set_t first = Other(allowed_, index);
    pthread_attr_setaffinity_np(&attributes, sizeof first, &first);
  }
  const auto run = [](void* helper) -> void* {
    const HelperThread& self = *static_cast<HelperThread*>(helper);
    constexpr std::chrono::milliseconds kWhile(50);
    if (self.knows_allowed_) held = {&self.allowed_, std::chrono::steady_clock::now() + kWhile};
    self.work_();
    return nullptr;
  };
  runs_ = pthread_create(&thread_, &attributes, run, this) == 0;
  pthread_attr_destroy(&attributes);
}

HelperThread::~HelperThread() {
  if (runs_) pthread_join(thread_, nullptr);
}

void RunOnThreads(size_t threads, absl::FunctionRef<void()> work) {
  std::deque<HelperThread> helpers;  // they stay where they are
  for (size_t i = 1; i < threads; ++i) helpers.emplace_back(i - 1, work);
  work();
}

}  // namespace xplane_time
