// ReadAhead: a thread reads chunks of rows while the caller uses the previous ones.
//
//   reader    read 0 | read 1 | prepare 1 | read 2 | ...
//   caller           | prepare 0, use it  | use 1  | prepare 2, use it ...
//
// Each chunk is prepared between reading and use. The caller prepares it if it is waiting; the
// reader prepares it if the caller is busy. Both therefore have about the same amount of work.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "parallel.h"
#include "status.h"

namespace xplane_time {

// A chunk has a member `rows`.
template <typename Chunk>
class ReadAhead {
 public:
  using ChunkFunction = absl::FunctionRef<absl::Status(Chunk*)>;
  // `read` makes one chunk after the other; the last one has no rows. `prepare` is called for each
  // chunk in order, one at a time. Both must outlive this object. If `ahead` is false or the system
  // has no more threads, Next() reads and prepares each chunk itself.
  ReadAhead(ChunkFunction read, ChunkFunction prepare, bool ahead)
      : read_(read), prepare_(prepare) {
    if (ahead) thread_.emplace(0, work_);
  }
  ~ReadAhead() {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
  }

  // Returns the next prepared chunk. The memory of the passed chunk is reused. Do not call it after
  // an empty chunk or an error.
  absl::Status Next(Chunk* chunk);

 private:
  static constexpr size_t kMostReady = 4;
  using Lock = std::unique_lock<std::mutex>;
  void Work();
  void ReadAll();
  bool MayPrepare() const { return !preparing_ && !waits_ && !unprepared_.empty(); }
  // Prepares the first unprepared chunk, with the lock released meanwhile.
  absl::Status Prepare(Lock* lock, Chunk* chunk);
  void PrepareForCaller(Lock* lock);
  void End(const absl::Status& status);
  // Spins for a while, because the other thread is usually about to continue. A woken thread starts
  // on the processor of the thread that wakes it.
  void Wait(Lock* lock, absl::FunctionRef<bool()> over);

  const ChunkFunction read_, prepare_;
  const std::function<void()> work_ = [this] { Work(); };
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Chunk> prepared_, unprepared_;  // in order
  std::vector<Chunk> spare_;                 // chunks whose memory is reused
  bool preparing_ = false;                   // a chunk is being prepared; it is in neither list
  bool waits_ = false;                       // the caller waits for a chunk
  // reading has ended: at the last chunk, an error or an exception
  bool ended_ = false;
  bool stopped_ = false;  // the caller needs no more chunks
  absl::Status status_;
  std::exception_ptr thrown_;
  std::optional<HelperThread> thread_;
};

template <typename Chunk>
absl::Status ReadAhead<Chunk>::Next(Chunk* chunk) {
  if (!thread_.has_value() || !thread_->runs()) {
    RETURN_IF_ERROR(read_(chunk));
    return prepare_(chunk);
  }
  Lock lock(mutex_);
  spare_.push_back(std::exchange(*chunk, {}));
  waits_ = true;
  Wait(&lock,
       [&] { return !prepared_.empty() || (!preparing_ && (!unprepared_.empty() || ended_)); });
  waits_ = false;
  if (!prepared_.empty()) {
    *chunk = std::move(prepared_.front());
    prepared_.pop_front();
    changed_.notify_all();
    return absl::OkStatus();
  }
  if (!unprepared_.empty()) return Prepare(&lock, chunk);
  if (thrown_ != nullptr) std::rethrow_exception(thrown_);
  return status_;
}

template <typename Chunk>
absl::Status ReadAhead<Chunk>::Prepare(Lock* lock, Chunk* chunk) {
  *chunk = std::move(unprepared_.front());
  unprepared_.pop_front();
  preparing_ = true;
  changed_.notify_all();
  const auto done = [&](bool is_right) {
    lock->lock();
    preparing_ = false;
    if (!is_right) {  // nothing may follow it
      unprepared_.clear();
      stopped_ = true;
    }
    changed_.notify_all();
  };
  lock->unlock();
  try {
    absl::Status status = prepare_(chunk);
    done(status.ok());
    return status;
  } catch (...) {
    done(false);
    thrown_ = std::current_exception();  // set before another thread can see that no chunk is left
    throw;
  }
}

template <typename Chunk>
void ReadAhead<Chunk>::Wait(Lock* lock, absl::FunctionRef<bool()> over) {
  constexpr int kMostYields = 200;
  for (int yields = 0; yields < kMostYields && !over(); ++yields) {
    lock->unlock();
    std::this_thread::yield();
    lock->lock();
  }
  changed_.wait(*lock, over);
}

template <typename Chunk>
void ReadAhead<Chunk>::Work() {
  try {
    ReadAll();
  } catch (...) {
    const std::lock_guard<std::mutex> lock(mutex_);
    thrown_ = std::current_exception();
    End(absl::OkStatus());
  }
}

template <typename Chunk>
void ReadAhead<Chunk>::End(const absl::Status& status) {
  status_ = status;
  ended_ = true;
  changed_.notify_all();
}

template <typename Chunk>
void ReadAhead<Chunk>::ReadAll() {
  Lock lock(mutex_);
  const auto full = [&] { return prepared_.size() + unprepared_.size() >= kMostReady; };
  while (!stopped_ && !(ended_ && unprepared_.empty())) {
    if (MayPrepare()) {
      PrepareForCaller(&lock);
    } else if (ended_ || full()) {
      Wait(&lock,
           [&] { return stopped_ || MayPrepare() || (ended_ ? unprepared_.empty() : !full()); });
    }
    if (stopped_ || ended_ || full()) continue;
    Chunk chunk;
    if (!spare_.empty()) {
      chunk = std::move(spare_.back());
      spare_.pop_back();
    }
    lock.unlock();
    const absl::Status status = read_(&chunk);
    HelperThread::LetMove();
    lock.lock();
    const bool is_last = !status.ok() || chunk.rows.empty();
    if (status.ok()) unprepared_.push_back(std::move(chunk));
    if (is_last) End(status);
    changed_.notify_all();
  }
}

template <typename Chunk>
void ReadAhead<Chunk>::PrepareForCaller(Lock* lock) {
  Chunk chunk;
  const absl::Status status = Prepare(lock, &chunk);
  if (status.ok()) {
    prepared_.push_back(std::move(chunk));
  } else {
    End(status);
  }
}

}  // namespace xplane_time
