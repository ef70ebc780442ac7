#include "timing/read_ahead.h"

#include <thread>
#include <utility>

#include "status.h"

namespace xplane_time {

ReadAhead::ReadAhead(ChunkFunction read, ChunkFunction prepare, bool ahead)
    : read_(read), prepare_(prepare) {
  if (ahead) thread_.emplace(0, work_);
}

ReadAhead::~ReadAhead() {
  const std::lock_guard<std::mutex> lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

absl::Status ReadAhead::Next(ExecutionChunk* chunk) {
  if (!thread_.has_value() || !thread_->runs()) {
    RETURN_IF_ERROR(read_(chunk));
    return prepare_(chunk);
  }
  Lock lock(mutex_);
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

absl::Status ReadAhead::Prepare(Lock* lock, ExecutionChunk* chunk) {
  *chunk = std::move(unprepared_.front());
  unprepared_.pop_front();
  preparing_ = true;
  changed_.notify_all();
  const auto done = [&](bool is_right) {
    lock->lock();
    preparing_ = false;
    if (!is_right) {  // nothing comes after it
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
    thrown_ = std::current_exception();  // before anybody sees that there is nothing left
    throw;
  }
}

void ReadAhead::Wait(Lock* lock, absl::FunctionRef<bool()> over) {
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
    ReadAll();
  } catch (...) {
    const std::lock_guard<std::mutex> lock(mutex_);
    thrown_ = std::current_exception();
    End(absl::OkStatus());
  }
}

void ReadAhead::End(const absl::Status& status) {
  status_ = status;
  ended_ = true;
  changed_.notify_all();
}

void ReadAhead::ReadAll() {
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
    lock.unlock();
    ExecutionChunk chunk;
    const absl::Status status = read_(&chunk);
    HelperThread::LetMove();
    lock.lock();
    const bool is_last = !status.ok() || chunk.rows.empty();
    if (status.ok()) unprepared_.push_back(std::move(chunk));
    if (is_last) End(status);
    changed_.notify_all();
  }
}

void ReadAhead::PrepareForCaller(Lock* lock) {
  ExecutionChunk chunk;
  const absl::Status status = Prepare(lock, &chunk);
  if (status.ok()) {
    prepared_.push_back(std::move(chunk));
  } else {
    End(status);
  }
}

}  // namespace xplane_time
