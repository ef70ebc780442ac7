// Asking: a search whose configurations come from an optimizer in a process of its own.
//
// The proposer (docs/space.md; python -m xplane_time.propose_optuna is one) is asked for up to
// eight configurations at a time and told what they gave, until `count` were measured. What
// it proposes is looked at: what is no point of the space is refused, what was measured
// already is told again at once; neither counts, and both are reported. It ends early where
// the proposer has nothing more to say, or nothing new many times in a row.
//
// The process is started when it is first asked. One that goes away, or does not answer, ends
// the tuning: what is stored is told to another one by a resumed run.
#ifndef XPLANE_TIME_SRC_TUNE_SEARCH_ASK_H_
#define XPLANE_TIME_SRC_TUNE_SEARCH_ASK_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/process.h"
#include "tune/proposer_protocol.h"
#include "xplane_time/tune.h"

namespace xplane_time {

class AskSearcher : public Searcher {
 public:
  static constexpr uint64_t kFinalists = 8, kAtOnce = 8;
  static constexpr uint32_t kRounds = 3;

  struct Options {
    std::string command;  // for a shell
    uint64_t count = 0, seed = 0;
    std::function<bool()> stopped = [] { return false; };
    std::chrono::milliseconds answer_timeout{600'000};
  };
  // `space` outlives it.
  AskSearcher(Options options, const SearchSpace& space)
      : options_(std::move(options)), space_(space) {}

  std::string Name() const override;
  void Begin(std::span<const Configuration> known) override;
  absl::StatusOr<SearchStage> Next() override;
  void Tell(std::span<const Searched> stage) override;
  std::vector<std::string> Finalists() const override;

 private:
  struct Result {
    std::string id, params_json, status;
    std::optional<double> value;
    bool is_alias = false;
  };

  bool Enough() const { return results_.size() >= listed_ + options_.count; }
  void Finish();
  absl::Status Start();
  absl::StatusOr<std::string> Receive();
  absl::Status Send(const std::string& line);
  absl::Status Say(const Told& told);
  absl::Status SayWhatIsNew();
  absl::Status Broken(const absl::Status& status);
  absl::StatusOr<std::vector<std::string>> Ask(int64_t request, uint64_t count);
  absl::Status Sort(int64_t request, const std::vector<std::string>& proposals, SearchStage* stage);

  Options options_;
  const SearchSpace& space_;
  std::optional<HarnessProcess> process_;
  std::vector<Configuration> known_;             // to be measured first
  size_t listed_ = 0;                            // how many these were
  std::vector<Result> results_;                  // in the order in which they were told
  std::map<std::string, size_t> at_;             // into results_, by id
  std::map<std::string, Proposal> proposed_as_;  // by id, of the stage that is measured
  size_t said_ = 0;                              // of results_, to the process
  int64_t next_request_ = 1;
};

}  // namespace xplane_time

#endif  // XPLANE_TIME_SRC_TUNE_SEARCH_ASK_H_
