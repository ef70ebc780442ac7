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
#include "absl/strings/str_format.h"

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

void AdaptToTerminal(Printing* printing) {
  constexpr int kUsual = 80;
  const bool prints = printing->path.empty(), terminal = prints && isatty(STDOUT_FILENO) == 1;
  winsize size = {};
  int columns = 0;
  if (terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) columns = size.ws_col;
  if (!terminal && prints) columns = ColumnsVariable();
  output::OutputOptions& how = printing->how;
  how.width = columns > 0 ? columns : kUsual;
  const bool plain = !Environment("NO_COLOR").empty() || Environment("TERM") == "dumb";
  how.color =
      printing->color == When::kAlways || (printing->color == When::kAuto && terminal && !plain);
  how.unicode = LocaleIsUtf8();
}

namespace {

using How = ProgressDisplay::How;

bool IsUnwanted(const Printing& printing) {
  return printing.quiet || printing.progress == When::kNever;
}

bool OnTerminal() { return isatty(STDERR_FILENO) == 1; }

}  // namespace

ProgressDisplay::ProgressDisplay(const Printing& printing)
    : how_(IsUnwanted(printing) ? How::kNothing
           : OnTerminal()       ? How::kLive
                                : How::kLog) {}

void ProgressDisplay::Log(const std::string& text) {
  if (how_ == How::kNothing) return;
  Erase();
  std::fprintf(stderr, "%s\n", text.c_str());
}

void ProgressDisplay::Draw(const std::string& lines) {
  if (how_ == How::kNothing) return;
  Erase();
  std::fputs(lines.c_str(), stderr);
  std::fflush(stderr);
  drawn_ = lines;
}

void ProgressDisplay::Erase() {
  if (!drawn_.empty() && drawn_.back() != '\n') std::fputs("\r\x1b[K", stderr);
  for (const char c : drawn_) {
    if (c == '\n') std::fputs("\x1b[1A\x1b[2K", stderr);
  }
  drawn_.clear();
}

bool ProgressDisplay::IsDue(std::chrono::milliseconds live_period,
                            std::chrono::milliseconds least) {
  constexpr std::chrono::milliseconds kLogPeriod(10'000);
  const auto period = std::max(live() ? live_period : kLogPeriod, least);
  const auto now = std::chrono::steady_clock::now();
  if (how_ == How::kNothing || now - last_ < period) return false;
  last_ = now;
  return true;
}

ReadingProgress::ReadingProgress(const Printing& printing, uint64_t total_events,
                                 const std::atomic<uint64_t>* done)
    : display_(How::kLive), total_events_(total_events), done_(done) {
  if (IsUnwanted(printing) || (printing.progress == When::kAuto && !OnTerminal())) return;
  try {
    thread_ = std::jthread([this](std::stop_token stop) { Show(stop); });
  } catch (const std::system_error&) {  // no more threads: no progress shown
  }
}

ReadingProgress::~ReadingProgress() {
  thread_.request_stop();
  wake_.notify_all();
}

void ReadingProgress::Show(std::stop_token stop) {
  using std::chrono::milliseconds;
  std::unique_lock lock(mutex_);
  for (milliseconds pause(1000); !wake_.wait_for(lock, stop, pause, [] { return false; });
       pause = milliseconds(100)) {
    if (stop.stop_requested()) break;
    const double part = static_cast<double>(done_->load()) /
                        static_cast<double>(std::max<uint64_t>(1, total_events_));
    display_.Draw(absl::StrFormat("reading events: %3.0f %% of %.1f million", 100 * part,
                                  static_cast<double>(total_events_) / 1e6));
  }
}

}  // namespace xplane_time::tools
