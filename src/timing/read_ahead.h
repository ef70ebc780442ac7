// ReadAhead: chunks of executions, read by a thread of their own while those before are measured.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>

#include "absl/status/status.h"
#include "parallel.h"
#include "timing/execution_stream.h"

namespace xplane_time {

class ReadAhead {
 public:
  using ReadChunk = absl::FunctionRef<absl::Status(ExecutionChunk*)>;
  // `read` makes each chunk out of the one before it or an empty one, the last without rows; it
  // outlives this. Not `ahead`, or where the system has no more threads: each chunk is read when
  // it is asked for.
  ReadAhead(ReadChunk read, bool ahead);
  ~ReadAhead();

  // As `read`. Not again after an empty chunk or an error.
  absl::Status Next(ExecutionChunk* chunk);

 private:
  static constexpr size_t kMostReady = 4;
  void Work();
  // Awake for a while: the other thread is mostly about to go on, and a thread that is woken up
  // begins on the processor of the one that wakes it.
  void Wait(std::unique_lock<std::mutex>* lock, absl::FunctionRef<bool()> over);
  // False where nobody waits for more.
  bool HandOver(ExecutionChunk* chunk, const absl::Status& status);

  const ReadChunk read_;
  const std::function<void()> work_ = [this] { Work(); };
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<ExecutionChunk> ready_;
  bool ended_ = false;    // the last one is ready, or an error, or what was thrown
  bool stopped_ = false;  // nobody waits
  absl::Status status_;
  std::exception_ptr thrown_;
  std::optional<HelperThread> thread_;
};

}  // namespace xplane_time
