// What tune says on standard error while it runs: live on a terminal, a log elsewhere.
#ifndef XPLANE_TIME_TOOLS_TUNE_PROGRESS_H_
#define XPLANE_TIME_TOOLS_TUNE_PROGRESS_H_

#include <chrono>
#include <cstdint>
#include <optional>

#include "terminal.h"
#include "xplane_time/tune.h"

namespace xplane_time::tools {

class TuneProgress : public TuneWatcher {
 public:
  TuneProgress(const Printing& printing, std::optional<int64_t> budget_runs)
      : display_(printing),
        width_(static_cast<size_t>(printing.how.width)),
        budget_runs_(budget_runs) {}

  void OnHello(const HarnessInfo& harness, const TuneSession& session) override;
  void OnAnother(int64_t unfinished, std::span<const std::string> differs) override;
  void OnPrepared(const TunedVariant& variant, size_t done, size_t of) override;
  void OnSearching(const SearchReport& search, size_t in_stage) override;
  void OnRound(const Decider& decider, std::span<const TunedVariant> variants) override;
  void OnConfirming(uint64_t done, uint64_t of) override;

 private:
  ProgressDisplay display_;
  size_t width_;
  std::optional<int64_t> budget_runs_;
  std::chrono::milliseconds look_took_{0};  // at how the race stands
};

}  // namespace xplane_time::tools

#endif  // XPLANE_TIME_TOOLS_TUNE_PROGRESS_H_
