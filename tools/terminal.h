// What is known about the terminal, and the progress line on standard error.
#ifndef XPLANE_TIME_TOOLS_TERMINAL_H_
#define XPLANE_TIME_TOOLS_TERMINAL_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "options.h"

namespace xplane_time::tools {

// Fills width, color and unicode of `output` for standard output.
void AdaptToTerminal(const Options& options, output::OutputOptions* output);

// Shows how many events are read, from the first second on, until destroyed.
class ProgressLine {
 public:
  ProgressLine(bool show, uint64_t total_events, const std::atomic<uint64_t>* done);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

 private:
  void Show(std::stop_token stop);

  uint64_t total_events_;
  const std::atomic<uint64_t>* done_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;
};

// Whether --progress wants it.
bool WantsProgress(const Options& options);

}  // namespace xplane_time::tools

#endif  // XPLANE_TIME_TOOLS_TERMINAL_H_
