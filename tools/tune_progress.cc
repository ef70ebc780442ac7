#include "tune_progress.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "output/text.h"
#include "terminal.h"

namespace xplane_time::tools {
namespace {

using output::Printable;
using std::chrono::milliseconds;

constexpr milliseconds kPeriod(200);
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

class TuneProgress : public TuneWatcher {
 public:
  TuneProgress(const Printing& printing, std::optional<int64_t> budget_runs)
      : display_(printing),
        width_(static_cast<size_t>(printing.how.width)),
        budget_runs_(budget_runs) {}

  void OnHello(const HarnessInfo& harness, const TuneSession& session) override {
    display_.Log(absl::StrCat(session.resumed ? "resumes" : "begins", " session ", session.id,
                              " on ", Printable(harness.device_class), " (",
                              Printable(harness.device), "), by the ", harness.clock, " clock"));
  }

  void OnAnother(int64_t unfinished, std::span<const std::string> differs) override {
    display_.Log(absl::StrCat(
        "this is a new session: session ", unfinished, " has decided nothing, but ",
        differs.empty() ? "cannot go on" : "differs in ", absl::StrJoin(differs, ", ")));
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
    if (!display_.IsDue(kPeriod)) return;
    display_.Show(absl::StrCat("searches (", search.strategy, "): stage ", search.stages, ", ",
                               in_stage, " configurations in it; ", search.searched, " so far, ",
                               search.runs, " runs"));
  }

  void OnRound(const Decider& decider, std::span<const TunedVariant> variants) override {
    constexpr int kShare = 20;  // a look may take one part in so many of the time
    if (!display_.IsDue(kPeriod, kShare * look_took_)) return;
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
    for (size_t i = 0; i < std::min(left.size(), kShown); ++i) {
      const TunedVariant* variant = Measured(variants, left[i].variant);
      if (variant == nullptr) continue;
      absl::StrAppendFormat(
          &lines, "%+7.2f%%  %s  %s\n", (left[i].est - 1) * 100, Bar(left[i], span, bar_width),
          Params(variant->configuration, width_ - std::min(width_, bar_width + 13)));
    }
    if (left.size() > kShown) absl::StrAppend(&lines, "and ", left.size() - kShown, " more\n");
    absl::StrAppend(
        &lines, output::ShortenMiddle("o: against the leader |, -: may be within", width_, "..."),
        "\n");
    display_.Draw(lines);
  }

  void OnConfirming(uint64_t done, uint64_t of) override {
    const std::string text =
        absl::StrCat("compares the pick with the baseline: round ", done, " of ", of);
    if (display_.live() || done == of) display_.Show(text);
  }

 private:
  ProgressDisplay display_;
  size_t width_;
  std::optional<int64_t> budget_runs_;
  milliseconds look_took_{0};  // at how the race stands
};

}  // namespace

std::unique_ptr<TuneWatcher> NewTuneProgress(const Printing& printing,
                                             std::optional<int64_t> budget_runs) {
  return std::make_unique<TuneProgress>(printing, budget_runs);
}

}  // namespace xplane_time::tools
