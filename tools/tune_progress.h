// What tune says on standard error while it runs: live on a terminal, a log elsewhere.
#ifndef XPLANE_TIME_TOOLS_TUNE_PROGRESS_H_
#define XPLANE_TIME_TOOLS_TUNE_PROGRESS_H_

#include <chrono>
#include <cstdint>
#include <string>

#include "options_tune.h"
#include "xplane_time/tune.h"

namespace xplane_time::tools {

class TuneProgress : public TuneWatcher {
 public:
  enum class How : uint8_t { kNothing, kLog, kLive };
  TuneProgress(How how, size_t width, std::optional<int64_t> budget_runs)
      : how_(how), width_(width), budget_runs_(budget_runs) {}
  ~TuneProgress() override;
  static How Chosen(const TuneCommand& command);

  void OnHello(const HarnessInfo& harness, const TuneSession& session) override;
  void OnAnother(int64_t unfinished, std::span<const std::string> differs) override;
  void OnPrepared(const TunedVariant& variant, size_t done, size_t of) override;
  void OnSearching(const SearchReport& search, size_t in_stage) override;
  void OnRound(const Decider& decider, std::span<const TunedVariant> variants) override;
  void OnConfirming(uint64_t done, uint64_t of) override;

 private:
  void Log(const std::string& text);
  // Replaces what was drawn before.
  void Draw(const std::string& lines);
  void Erase();
  bool Soon(std::chrono::milliseconds least);

  How how_;
  size_t width_;
  std::optional<int64_t> budget_runs_;
  size_t drawn_lines_ = 0;
  std::chrono::milliseconds look_took_{0};  // at how the race stands
  std::chrono::steady_clock::time_point last_ = {};
};

}  // namespace xplane_time::tools

#endif  // XPLANE_TIME_TOOLS_TUNE_PROGRESS_H_
