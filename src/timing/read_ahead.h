// ReadAhead: chunks of executions, read by a thread of their own while those before are measured.
//
//   reader    read 0 | read 1 | prepare 1 | read 2 | ...
//   caller           | prepare 0, use it  | use 1  | prepare 2, use it ...
//
// A chunk is prepared between the two: by the caller where it waits, by the reader where the caller
// is busy. So both have about as much to do.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "parallel.h"
#include "timing/execution_stream.h"

namespace xplane_time {

class ReadAhead {
 public:
  using ChunkFunction = absl::FunctionRef<absl::Status(ExecutionChunk*)>;
  // `read` makes one chunk after the other, the last without rows. `prepare` is called for each,
  // in order, one at a time. Both outlive this. Not `ahead`, or where the system has no more
  // threads: each chunk is read and prepared when it is asked for.
  ReadAhead(ChunkFunction read, ChunkFunction prepare, bool ahead);
  ~ReadAhead();

  // The next chunk, prepared. Not again after an empty chunk or an error.
  absl::Status Next(ExecutionChunk* chunk);

 private:
  static constexpr size_t kMostReady = 4;
  using Lock = std::unique_lock<std::mutex>;
  void Work();
  void ReadAll();
  bool MayPrepare() const { return !preparing_ && !waits_ && !unprepared_.empty(); }
  // The first of those that are not prepared; the lock is open meanwhile.
  absl::Status Prepare(Lock* lock, ExecutionChunk* chunk);
  void PrepareForCaller(Lock* lock);
  void End(const absl::Status& status);
  // Awake for a while: the other thread is mostly about to go on, and a thread that is woken up
  // begins on the processor of the one that wakes it.
  void Wait(Lock* lock, absl::FunctionRef<bool()> over);

  const ChunkFunction read_, prepare_;
  const std::function<void()> work_ = [this] { Work(); };
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<ExecutionChunk> prepared_, unprepared_;  // in order
  bool preparing_ = false;                            // one that is in neither
  bool waits_ = false;                                // the caller, for a chunk
  bool ended_ = false;    // all are there, or an error, or what was thrown
  bool stopped_ = false;  // nobody asks for more
  absl::Status status_;
  std::exception_ptr thrown_;
  std::optional<HelperThread> thread_;
};

}  // namespace xplane_time
