#include "parallel.h"

#include <pthread.h>
#include <sched.h>

#include <chrono>
#include <deque>
#include <utility>

namespace xplane_time {
namespace {

// The processor for a helper: one of `allowed`, counted from the current one, which comes last.
size_t Other(const cpu_set_t& allowed, size_t index) {
  size_t left = index % static_cast<size_t>(CPU_COUNT(&allowed));
  auto at = static_cast<size_t>(std::max(sched_getcpu(), 0));
  do {
    at = (at + 1) % CPU_SETSIZE;
  } while (!CPU_ISSET(at, &allowed) || left-- > 0);
  return at;
}

}  // namespace

// A thread that runs one piece of work after another.
class HelperThread::Thread {
 public:
  // `index`: number of the helper among those of its creator.
  explicit Thread(size_t index) : index_(index) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    CPU_ZERO(&allowed_);
    if (sched_getaffinity(0, sizeof allowed_, &allowed_) == 0) {
      stays_ = true;
      const cpu_set_t only = ChooseProcessor();
      pthread_attr_setaffinity_np(&attributes, sizeof only, &only);
    }
    const auto run = [](void* thread) -> void* {
      self_ = static_cast<Thread*>(thread);
      self_->Run();
      return nullptr;
    };
    runs_ = pthread_create(&thread_, &attributes, run, this) == 0;
    pthread_attr_destroy(&attributes);
  }
  // Call it only when the thread is idle.
  ~Thread() {
    if (!runs_) return;
    Begin(nullptr);
    pthread_join(thread_, nullptr);
  }
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;

  bool runs() const { return runs_; }
  bool is_idle() const { return done_ == begun_; }
  // Starts work on the idle thread; null ends the thread. Returns the number of the work.
  uint32_t Begin(const absl::FunctionRef<void()>* work) {
    if (stays_ && processor_ == static_cast<size_t>(sched_getcpu())) {
      const cpu_set_t only = ChooseProcessor();
      pthread_setaffinity_np(thread_, sizeof only, &only);
    }
    work_ = work;
    Count(&begun_);
    return begun_;
  }
  void AwaitDone(uint32_t number) {
    for (uint32_t done = done_; done < number; done = done_) AwaitOtherThan(done, &done_);
  }

  // Called by the thread itself.
  void LetMove() {
    if (!stays_ || std::chrono::steady_clock::now() < until_) return;
    sched_setaffinity(0, sizeof allowed_, &allowed_);
    stays_ = false;
  }

 private:
  using Counter = std::atomic<uint32_t>;

  // Chooses the processor on which the thread stays at first.
  cpu_set_t ChooseProcessor() {
    processor_ = Other(allowed_, index_);
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(processor_, &only);
    return only;
  }
  void Run() {
    for (;;) {
      AwaitOtherThan(done_, &begun_);
      if (work_ == nullptr) return;
      (*work_)();
      Count(&done_);
    }
  }
  static void Count(Counter* counter) {
    ++*counter;
    counter->notify_all();
  }
  // Spins for a while before it sleeps, because waking a thread takes long.
  static void AwaitOtherThan(uint32_t count, Counter* counter) {
    constexpr std::chrono::microseconds kWhile(200);
    const auto until = std::chrono::steady_clock::now() + kWhile;
    while (*counter == count && std::chrono::steady_clock::now() < until) sched_yield();
    counter->wait(count);
  }

  const size_t index_;
  bool runs_ = false;
  cpu_set_t allowed_;     // the processors of the creator
  size_t processor_ = 0;  // valid while it stays there
  std::atomic<bool> stays_ = false;
  const std::chrono::steady_clock::time_point until_ =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
  const absl::FunctionRef<void()>* work_ = nullptr;
  Counter begun_ = 0, done_ = 0;
  pthread_t thread_ = {};
};

thread_local HelperThread::Thread* HelperThread::self_ = nullptr;
thread_local HelperThread::Kept* HelperThread::kept_ = nullptr;

void HelperThread::LetMove() {
  if (self_ != nullptr) self_->LetMove();
}

void HelperThread::KeepThreads() {
  if (kept_ == nullptr) kept_ = new Kept();
}

HelperThread::HelperThread(size_t index, absl::FunctionRef<void()> work) : work_(work) {
  if (kept_ != nullptr) {
    const auto idle =
        std::ranges::find_if(*kept_, [](const auto& each) { return each->is_idle(); });
    if (idle != kept_->end()) thread_ = idle->get();
  }
  if (thread_ == nullptr) {
    own_ = std::make_unique<Thread>(index);
    if (!own_->runs()) return;
    thread_ = own_.get();
    if (kept_ != nullptr) kept_->push_back(std::move(own_));
  }
  work_number_ = thread_->Begin(&work_);
}

HelperThread::~HelperThread() {
  if (thread_ != nullptr) thread_->AwaitDone(work_number_);
}

void RunOnThreads(size_t threads, absl::FunctionRef<void()> work) {
  std::deque<HelperThread> helpers;  // a deque does not move its elements
  for (size_t i = 1; i < threads; ++i) helpers.emplace_back(i - 1, work);
  work();
}

}  // namespace xplane_time
