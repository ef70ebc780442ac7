#include "progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <span>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "output/text.h"

namespace xplane_time::tools {

using output::Printable;
using std::chrono::milliseconds;

ProgressDisplay::ProgressDisplay(const Printing& printing)
    : how_(printing.quiet || printing.progress == When::kNever ? How::kNothing
           : isatty(STDERR_FILENO) == 1                        ? How::kLive
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

bool ProgressDisplay::IsDue(milliseconds live_period, milliseconds least) {
  constexpr milliseconds kLogPeriod(10'000);
  const auto period = std::max(live() ? live_period : kLogPeriod, least);
  const auto now = std::chrono::steady_clock::now();
  if (how_ == How::kNothing || now - last_ < period) return false;
  last_ = now;
  return true;
}

ReadingProgress::ReadingProgress(const Printing& printing, uint64_t total_events,
                                 const std::atomic<uint64_t>* done)
    : display_(printing), total_events_(total_events), done_(done) {
  if (!display_.live() && printing.progress != When::kAlways) return;
  try {
    thread_ = std::jthread([this](const std::stop_token& stop) { Show(stop); });
  } catch (const std::system_error&) {  // no more threads: do not show progress
  }
}

void ReadingProgress::Show(const std::stop_token& stop) {
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

// ---- tune

namespace {

constexpr milliseconds kDrawPeriod(200);
constexpr size_t kShownVariants = 8;  // variants that are still in the race
constexpr double kBarSpan = 0.1;      // a full bar is at most this much slower than the leader

std::string Params(const Configuration& variant, size_t width) {
  return output::ShortenMiddle(Printable(variant.params_json), width, "...");
}

// Draws "  |--o----  |": the interval of a ratio, on a scale that begins at the leader.
std::string Bar(const Ratio& ratio, double span, size_t width) {
  const auto at = [&](double value) {
    const double place = std::clamp((value - 1 + span / 4) / (span * 1.25), 0.0, 1.0);
    return static_cast<size_t>(place * static_cast<double>(width - 1));
  };
  std::string bar(width, ' ');
  bar[at(1)] = '|';
  const size_t from = at(ratio.lo.value_or(0)), to = at(ratio.hi.value_or(10));
  for (size_t i = from; i <= to; ++i) bar[i] = '-';
  bar[at(ratio.est)] = 'o';
  return bar;
}

std::string Runs(const Verdict& verdict, std::optional<int64_t> budget_runs) {
  std::string text = absl::StrCat(verdict.runs, verdict.runs == 1 ? " run in " : " runs in ",
                                  verdict.rounds, verdict.rounds == 1 ? " round" : " rounds");
  if (budget_runs.has_value()) absl::StrAppend(&text, " of at most ", *budget_runs);
  return text;
}

// The variants that are still in the race, fastest first.
std::vector<Ratio> Survivors(const Verdict& verdict) {
  std::vector<Ratio> left;
  for (const Ratio& ratio : verdict.ratios) {
    const auto out = std::ranges::find(verdict.eliminated, ratio.variant, &Elimination::variant);
    if (out == verdict.eliminated.end()) left.push_back(ratio);
  }
  std::ranges::stable_sort(left, {}, &Ratio::est);
  return left;
}

// The end of a failed variant's message, which has the error of a traceback.
std::string Words(std::string_view message) {
  constexpr size_t kMostBytes = 4000;
  if (message.size() > kMostBytes) message.remove_prefix(message.size() - kMostBytes);
  return output::PrintableLines(message, 2);
}

class TuneProgress : public TuneWatcher {
 public:
  TuneProgress(const Printing& printing, std::optional<int64_t> budget_runs)
      : display_(printing),
        width_(static_cast<size_t>(printing.how.width)),
        budget_runs_(budget_runs) {}

  void OnHello(const HarnessInfo& harness, const TuneSession& session) override {
    display_.Log(absl::StrCat(session.resumed ? "resumes" : "starts", " session ", session.id,
                              " on ", Printable(harness.device_class), " (",
                              Printable(harness.device), "), using the ", harness.clock, " clock"));
  }

  void OnAnother(int64_t unfinished, std::span<const std::string> differs) override {
    display_.Log(absl::StrCat(
        "starting a new session: session ", unfinished, " has no decision, but ",
        differs.empty() ? "cannot be continued" : "differs in ", absl::StrJoin(differs, ", ")));
  }

  void OnPrepared(const TunedVariant& variant, size_t done, size_t of) override {
    if (variant.state.status != "ok") {
      display_.Log(absl::StrCat("variant ", variant.configuration.id, " ",
                                Params(variant.configuration, 40), ": ", variant.state.status, " ",
                                Words(variant.state.message)));
    }
    if (done == of || display_.IsDue(milliseconds(100))) {
      display_.Show(absl::StrCat("prepared ", done, " of ", of));
    }
  }

  void OnSearching(const SearchReport& search, size_t in_stage) override {
    if (!display_.IsDue(kDrawPeriod)) return;
    display_.Show(absl::StrCat("searching (", search.strategy, "): stage ", search.stages, ", ",
                               in_stage, " configurations; ", search.searched,
                               " configurations searched so far, ", search.runs, " runs"));
  }

  void OnRound(const Decider& decider, std::span<const TunedVariant> variants) override {
    constexpr int kShare = 20;  // an update may take at most one part in this many of the time
    if (!display_.IsDue(kDrawPeriod, kShare * look_took_)) return;
    const Verdict verdict = decider.Judge("running", Detail::kStanding);
    look_took_ =
        std::chrono::ceil<milliseconds>(std::chrono::steady_clock::now() - display_.last());
    const std::vector<Ratio> left = Survivors(verdict);
    std::string head = absl::StrCat(left.size(), " of ", decider.space().variants.size(),
                                    " variants left, ", Runs(verdict, budget_runs_));
    if (!display_.live()) return display_.Log(head);
    std::string lines = head + "\n";
    double span = 0.01;
    for (const Ratio& ratio : left) span = std::max(span, ratio.hi.value_or(1) - 1);
    span = std::min(span, kBarSpan);
    const size_t bar_width = std::clamp<size_t>(width_ / 3, 10, 40);
    for (size_t i = 0; i < std::min(left.size(), kShownVariants); ++i) {
      const auto variant = std::ranges::find(variants, left[i].variant, &TunedVariant::measured);
      if (variant == variants.end()) continue;
      absl::StrAppendFormat(
          &lines, "%+7.2f%%  %s  %s\n", (left[i].est - 1) * 100, Bar(left[i], span, bar_width),
          Params(variant->configuration, width_ - std::min(width_, bar_width + 13)));
    }
    if (left.size() > kShownVariants)
      absl::StrAppend(&lines, "and ", left.size() - kShownVariants, " more\n");
    absl::StrAppend(&lines,
                    output::ShortenMiddle("o: ratio to the leader |, -: its confidence interval",
                                          width_, "..."),
                    "\n");
    display_.Draw(lines);
  }

  void OnCheckingDevices(uint64_t done, uint64_t of) override {
    const std::string text =
        absl::StrCat("checking whether the devices agree: round ", done, " of ", of);
    if (display_.live() || done == of || done % 32 == 0) display_.Show(text);
  }

  void OnConfirming(uint64_t done, uint64_t of) override {
    const std::string text =
        absl::StrCat("comparing the pick with the baseline: round ", done, " of ", of);
    if (display_.live() || done == of) display_.Show(text);
  }

 private:
  ProgressDisplay display_;
  size_t width_;
  std::optional<int64_t> budget_runs_;
  milliseconds look_took_{0};  // duration of the last update
};

}  // namespace

std::unique_ptr<TuneWatcher> NewTuneProgress(const Printing& printing,
                                             std::optional<int64_t> budget_runs) {
  return std::make_unique<TuneProgress>(printing, budget_runs);
}

}  // namespace xplane_time::tools
