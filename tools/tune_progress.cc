#include "tune_progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "output/text.h"

namespace xplane_time::tools {
namespace {

using output::Printable;
using std::chrono::milliseconds;

constexpr size_t kShown = 8;      // survivors
constexpr double kBarSpan = 0.1;  // a bar is this much slower than the leader, or less

std::string Params(const Configuration& variant, size_t width) {
  return output::ShortenMiddle(Printable(variant.params_json), width, "...");
}

// "  |--o----  |": the interval of a ratio, on a scale from the leader on.
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

const TunedVariant* Measured(std::span<const TunedVariant> variants, uint32_t place) {
  const auto found = std::find_if(variants.begin(), variants.end(),
                                  [&](const TunedVariant& each) { return each.measured == place; });
  return found == variants.end() ? nullptr : &*found;
}

// Those that are left, fastest first.
std::vector<Ratio> Survivors(const Verdict& verdict) {
  std::vector<Ratio> left;
  for (const Ratio& ratio : verdict.ratios) {
    const bool out =
        std::any_of(verdict.eliminated.begin(), verdict.eliminated.end(),
                    [&](const Elimination& each) { return each.variant == ratio.variant; });
    if (!out) left.push_back(ratio);
  }
  std::stable_sort(left.begin(), left.end(),
                   [](const Ratio& a, const Ratio& b) { return a.est < b.est; });
  return left;
}

// What a failed variant said: its end, where a traceback has the error.
std::string Words(std::string_view message) {
  constexpr size_t kMostBytes = 4000;
  if (message.size() > kMostBytes) message.remove_prefix(message.size() - kMostBytes);
  return output::PrintableLines(message, 2);
}

}  // namespace

TuneProgress::How TuneProgress::Chosen(const TuneCommand& command) {
  if (command.quiet || command.progress == "never") return How::kNothing;
  if (command.progress == "always" || isatty(STDERR_FILENO) != 0) {
    return isatty(STDERR_FILENO) != 0 ? How::kLive : How::kLog;
  }
  return How::kLog;
}

TuneProgress::~TuneProgress() { Erase(); }

void TuneProgress::Log(const std::string& text) {
  if (how_ == How::kNothing) return;
  Erase();
  std::fprintf(stderr, "%s\n", text.c_str());
}

void TuneProgress::Erase() {
  for (; drawn_lines_ > 0; --drawn_lines_) std::fputs("\x1b[1A\x1b[2K", stderr);
}

void TuneProgress::Draw(const std::string& lines) {
  Erase();
  std::fputs(lines.c_str(), stderr);
  drawn_lines_ = static_cast<size_t>(std::count(lines.begin(), lines.end(), '\n'));
  std::fflush(stderr);
}

bool TuneProgress::Soon(milliseconds least) {
  const auto now = std::chrono::steady_clock::now();
  if (now - last_ < least) return true;
  last_ = now;
  return false;
}

void TuneProgress::OnHello(const HarnessInfo& harness, const TuneSession& session) {
  Log(absl::StrCat(session.resumed ? "resumes" : "begins", " session ", session.id, " on ",
                   Printable(harness.device_class), " (", Printable(harness.device), "), by the ",
                   harness.clock, " clock"));
}

void TuneProgress::OnAnother(int64_t unfinished, std::span<const std::string> differs) {
  Log(absl::StrCat("this is a new session: session ", unfinished, " has decided nothing, but ",
                   differs.empty() ? "cannot go on" : "differs in ", absl::StrJoin(differs, ", ")));
}

void TuneProgress::OnPrepared(const TunedVariant& variant, size_t done, size_t of) {
  if (variant.state.status != "ok") {
    Log(absl::StrCat("variant ", variant.configuration.id, " ", Params(variant.configuration, 40),
                     ": ", variant.state.status, " ", Words(variant.state.message)));
  }
  const bool last = done == of;
  if (how_ == How::kLive && (last || !Soon(milliseconds(100)))) {
    Draw(absl::StrCat("prepared ", done, " of ", of, "\n"));
  } else if (how_ == How::kLog && (last || !Soon(milliseconds(10'000)))) {
    Log(absl::StrCat("prepared ", done, " of ", of));
  }
}

void TuneProgress::OnSearching(const SearchReport& search, size_t in_stage) {
  if (how_ == How::kNothing || Soon(milliseconds(how_ == How::kLive ? 200 : 10'000))) return;
  const std::string text =
      absl::StrCat("searches (", search.strategy, "): stage ", search.stages, ", ", in_stage,
                   " configurations in it; ", search.searched, " so far, ", search.runs, " runs");
  how_ == How::kLive ? Draw(text + "\n") : Log(text);
}

void TuneProgress::OnRound(const Decider& decider, std::span<const TunedVariant> variants) {
  constexpr int kShare = 20;  // a look may take one part in so many of the time
  const milliseconds least(how_ == How::kLive ? 200 : 10'000);
  if (how_ == How::kNothing || Soon(std::max(least, kShare * look_took_))) return;
  const Verdict verdict = decider.Judge("running", Detail::kStanding);
  look_took_ = std::chrono::ceil<milliseconds>(std::chrono::steady_clock::now() - last_);
  const std::vector<Ratio> left = Survivors(verdict);
  std::string head = absl::StrCat(left.size(), " of ", decider.space().variants.size(),
                                  " variants left, ", Runs(verdict, budget_runs_));
  if (how_ == How::kLog) return Log(head);
  std::string lines = head + "\n";
  double span = 0.01;
  for (const Ratio& ratio : left) span = std::max(span, ratio.hi.value_or(1) - 1);
  span = std::min(span, kBarSpan);
  const size_t bar_width = std::clamp<size_t>(width_ / 3, 10, 40);
  for (size_t i = 0; i < std::min(left.size(), kShown); ++i) {
    const TunedVariant* variant = Measured(variants, left[i].variant);
    if (variant == nullptr) continue;
    absl::StrAppendFormat(
        &lines, "%+7.2f%%  %s  %s\n", (left[i].est - 1) * 100, Bar(left[i], span, bar_width),
        Params(variant->configuration, width_ - std::min(width_, bar_width + 13)));
  }
  if (left.size() > kShown) absl::StrAppend(&lines, "and ", left.size() - kShown, " more\n");
  absl::StrAppend(&lines,
                  output::ShortenMiddle("o: against the leader |, -: may be within", width_, "..."),
                  "\n");
  Draw(lines);
}

void TuneProgress::OnConfirming(uint64_t done, uint64_t of) {
  const std::string text =
      absl::StrCat("compares the pick with the baseline: round ", done, " of ", of);
  if (how_ == How::kLive) Draw(text + "\n");
  if (how_ == How::kLog && done == of) Log(text);
}

}  // namespace xplane_time::tools
