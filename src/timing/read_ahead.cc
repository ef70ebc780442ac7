#include "timing/read_ahead.h"

#include <thread>
#include <utility>

namespace xplane_time {

ReadAhead::ReadAhead(ReadChunk read, bool ahead) : read_(read) {
  if (ahead) thread_.emplace(0, work_);
}

ReadAhead::~ReadAhead() {
  const std::lock_guard<std::mutex> lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

absl::Status ReadAhead::Next(ExecutionChunk* chunk) {
  if (!thread_.has_value() || !thread_->runs()) return read_(chunk);
  std::unique_lock<std::mutex> lock(mutex_);
  Wait(&lock, [&] { return !ready_.empty() || ended_; });
  if (!ready_.empty()) {
    *chunk = std::move(ready_.front());
    ready_.pop_front();
    changed_.notify_all();
    return absl::OkStatus();
  }
  if (thrown_ != nullptr) std::rethrow_exception(thrown_);
  return status_;
}

void ReadAhead::Wait(std::unique_lock<std::mutex>* lock, absl::FunctionRef<bool()> over) {
  constexpr int kMostYields = 1000;
  for (int yields = 0; yields < kMostYields && !over(); ++yields) {
    lock->unlock();
    std::this_thread::yield();
    lock->lock();
  }
  changed_.wait(*lock, over);
}

void ReadAhead::Work() {
  try {
    for (bool goes_on = true; goes_on;) {
      ExecutionChunk chunk;
      const absl::Status status = read_(&chunk);
      goes_on = HandOver(&chunk, status);
      HelperThread::LetMove();
    }
  } catch (...) {
    const std::lock_guard<std::mutex> lock(mutex_);
    thrown_ = std::current_exception();
    ended_ = true;
    changed_.notify_all();
  }
}

bool ReadAhead::HandOver(ExecutionChunk* chunk, const absl::Status& status) {
  std::unique_lock<std::mutex> lock(mutex_);
  Wait(&lock, [&] { return ready_.size() < kMostReady || stopped_; });
  if (stopped_) return false;
  ended_ = !status.ok() || chunk->rows.empty();
  status_ = status;
  if (status.ok()) ready_.push_back(std::move(*chunk));
  changed_.notify_all();
  return !ended_;
}

}  // namespace xplane_time
