// Progress on standard error: live on a terminal, otherwise a log.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "options.h"
#include "xplane_time/tune.h"

namespace xplane_time::tools {

// Text that is replaced on a terminal; elsewhere it is a log.
class ProgressDisplay {
 public:
  // Live on a terminal, else a log.
  explicit ProgressDisplay(const Printing& printing);
  ~ProgressDisplay() { Erase(); }
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

  bool live() const { return how_ == How::kLive; }
  // Prints a permanent line.
  void Log(const std::string& text);
  // Replaces the previous text; the last line may lack a line end.
  void Draw(const std::string& lines);
  // A temporary line on a terminal, otherwise a permanent one.
  void Show(const std::string& line) { live() ? Draw(line + "\n") : Log(line); }
  // Whether an update is due: after `live_period` or, in a log, after 10 s; in both cases not
  // before `least`.
  bool IsDue(std::chrono::milliseconds live_period, std::chrono::milliseconds least = {});
  std::chrono::steady_clock::time_point last() const { return last_; }

 private:
  void Erase();

  enum class How : uint8_t { kNothing, kLog, kLive };
  const How how_;
  std::string drawn_;
  std::chrono::steady_clock::time_point last_ = {};
};

// Shows the number of events that have been read, from the first second on, until it is destroyed.
class ReadingProgress {
 public:
  ReadingProgress(const Printing& printing, uint64_t total_events,
                  const std::atomic<uint64_t>* done);

 private:
  void Show(const std::stop_token& stop);

  ProgressDisplay display_;
  uint64_t total_events_;
  const std::atomic<uint64_t>* done_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;  // must be destroyed first
};

// A display as wide as printing.how states.
std::unique_ptr<TuneWatcher> NewTuneProgress(const Printing& printing,
                                             std::optional<int64_t> budget_runs);

}  // namespace xplane_time::tools
