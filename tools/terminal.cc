#include "terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>

#include "absl/strings/numbers.h"

namespace xplane_time::tools {
namespace {

std::string_view Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

bool LocaleIsUtf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string_view value = Environment(name);
    if (value.empty()) continue;
    return value.find("UTF-8") != std::string_view::npos ||
           value.find("utf8") != std::string_view::npos;
  }
  return false;
}

// COLUMNS where it is a sane number; 0: not.
int ColumnsVariable() {
  constexpr int kMost = 10'000;
  int columns = 0;
  const std::string_view text = Environment("COLUMNS");
  return absl::SimpleAtoi(absl::string_view(text.data(), text.size()), &columns) && columns > 0
             ? std::min(columns, kMost)
             : 0;
}

}  // namespace

void AdaptToTerminal(const Options& options, output::OutputOptions* output) {
  constexpr int kUsual = 80;
  const bool terminal = options.output_path.empty() && isatty(STDOUT_FILENO) == 1;
  winsize size = {};
  int columns = 0;
  if (terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) columns = size.ws_col;
  if (!terminal && options.output_path.empty()) columns = ColumnsVariable();
  output->width = columns > 0 ? columns : kUsual;
  const bool plain = !Environment("NO_COLOR").empty() || Environment("TERM") == "dumb";
  output->color =
      options.color == When::kAlways || (options.color == When::kAuto && terminal && !plain);
  output->unicode = LocaleIsUtf8();
}

bool WantsProgress(const Options& options) {
  if (options.quiet || options.progress == When::kNever) return false;
  return options.progress == When::kAlways || isatty(STDERR_FILENO) == 1;
}

ProgressLine::ProgressLine(bool show, uint64_t total_events, const std::atomic<uint64_t>* done)
    : total_events_(total_events), done_(done) {
  if (!show) return;
  try {
    thread_ = std::jthread([this](std::stop_token stop) { Show(stop); });
  } catch (const std::system_error&) {  // no more threads: no progress shown
  }
}

ProgressLine::~ProgressLine() {
  thread_.request_stop();
  wake_.notify_all();
}

void ProgressLine::Show(std::stop_token stop) {
  using std::chrono::milliseconds;
  bool shown = false;
  std::unique_lock lock(mutex_);
  for (milliseconds pause(1000); !wake_.wait_for(lock, stop, pause, [] { return false; });
       pause = milliseconds(100)) {
    if (stop.stop_requested()) break;
    const double part = static_cast<double>(done_->load()) /
                        static_cast<double>(std::max<uint64_t>(1, total_events_));
    std::fprintf(stderr, "\rreading events: %3.0f %% of %.1f million", 100 * part,
                 static_cast<double>(total_events_) / 1e6);
    shown = true;
  }
  if (shown) std::fputs("\r\x1b[K", stderr);
}

}  // namespace xplane_time::tools
