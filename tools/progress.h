// Progress: what is told on standard error while work goes on, live on a terminal, a log elsewhere.
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

// What is replaced on a terminal is a log elsewhere.
class ProgressDisplay {
 public:
  // Live on a terminal, else a log.
  explicit ProgressDisplay(const Printing& printing);
  ~ProgressDisplay() { Erase(); }
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

  bool live() const { return how_ == How::kLive; }
  // A line that stays.
  void Log(const std::string& text);
  // Replaces what was drawn before; the last line may have no end.
  void Draw(const std::string& lines);
  // A line that is drawn on a terminal, and stays elsewhere.
  void Show(const std::string& line) { live() ? Draw(line + "\n") : Log(line); }
  // Whether it is time for more: so long after the last time, or 10 s where it is a log; `least`:
  // in both.
  bool IsDue(std::chrono::milliseconds live_period, std::chrono::milliseconds least = {});
  std::chrono::steady_clock::time_point last() const { return last_; }

 private:
  void Erase();

  enum class How : uint8_t { kNothing, kLog, kLive };
  const How how_;
  std::string drawn_;
  std::chrono::steady_clock::time_point last_ = {};
};

// Shows how many events are read, from the first second on, until destroyed.
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
  std::jthread thread_;  // ends first
};

// Of a table as wide as printing.how says.
std::unique_ptr<TuneWatcher> NewTuneProgress(const Printing& printing,
                                             std::optional<int64_t> budget_runs);

}  // namespace xplane_time::tools
