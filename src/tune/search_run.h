// SearchRun: the stages of a Searcher, measured and stored, until it has its finalists.
//
// Enters: the variants known at the start, prepared. Leaves: the same and those that the
// searcher came up with, with `searched` and `dropped`, and the report. A stage is stored in
// a batch of its own: its head says what it is of, then come its rounds. After a kill, stored
// heads are taken as they are, stored rounds are not measured again, and the searcher is told
// of them again; a search that ended asks its searcher nothing.
//
// A stage of r rounds goes over its configurations until each has r times or failed, at most
// r + 2 times: in a seeded order, split into rounds of at most 20 runs. One failure that the
// variant is to blame for is enough to leave the search.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "harness/process.h"
#include "json/described.h"
#include "tune/measuring.h"
#include "tune/proposer_protocol.h"
#include "xplane_time/tune.h"

namespace xplane_time {

// The first round of a stage: what it is of, and the states of those that are new.
struct StageHead {
  std::vector<std::string> ids = {};  // none: the search is over
  uint32_t rounds = 1;
  uint64_t proposed = 0, refused = 0, repeated = 0;
  std::vector<std::string> finalists = {};  // of a search that is over
};
XPLANE_TIME_JSON_FIELDS(StageHead, ids, rounds, proposed, refused, repeated, finalists)
std::string StageHeadJson(const StageHead& head, std::span<const TunedVariant> fresh);
// Errors: DataLoss.
absl::StatusOr<StageHead> StageHeadFromJson(std::string_view json);

// All but the finalists, and what they are aliases of, are dropped.
void DropAllBut(std::span<const std::string> finalists, std::vector<TunedVariant>* variants);

class SearchRun {
 public:
  SearchRun(const TuneOptions& options, Measuring* measuring, TuneWatcher* watcher,
            std::vector<TunedVariant>* variants, SearchReport* report);

  // The incumbent and the baseline are finalists, whatever the searcher says. Errors: of the
  // searcher, of measuring, DataLoss (what is stored).
  absl::Status Run();

 private:
  // Of a configuration, over all stages.
  struct Known {
    std::vector<double> values = {};
    std::string failure = {};
    size_t in_stage = 0;  // values of this stage
  };

  absl::StatusOr<StageHead> HeadOf(int64_t batch);
  absl::StatusOr<StageHead> AskForStage(int64_t batch);
  absl::Status MeasureStage(int64_t batch, const StageHead& head);
  absl::Status MeasurePass(int64_t batch, uint32_t pass, std::vector<size_t> due, int64_t* round);
  void Take(const RoundRecord& record);
  void TellSearcher(const StageHead& head);
  absl::Status End(int64_t batch, StageHead head);
  size_t Original(size_t variant) const;

  const TuneOptions& options_;
  Measuring* measuring_;
  TuneWatcher* watcher_;
  std::vector<TunedVariant>* variants_;
  SearchReport* report_;
  absl::flat_hash_map<std::string, size_t> at_;  // into variants, by id
  std::vector<Known> known_;                     // of each of the variants
};

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
  absl::Status SayWhatIsNew();
  absl::Status Broken(const absl::Status& status);
  absl::StatusOr<std::vector<std::string>> Ask(int64_t request, uint64_t count);
  absl::Status Sort(int64_t request, const std::vector<std::string>& proposals, SearchStage* stage);

  Options options_;
  const SearchSpace& space_;
  std::unique_ptr<HarnessProcess> process_;
  std::vector<Configuration> known_;             // to be measured first
  size_t listed_ = 0;                            // how many these were
  std::vector<Result> results_;                  // in the order in which they were told
  std::map<std::string, size_t> at_;             // into results_, by id
  std::map<std::string, Proposal> proposed_as_;  // by id, of the stage that is measured
  size_t said_ = 0;                              // of results_, to the process
  int64_t next_request_ = 1;
};

// Halving: all are measured in few rounds, the better half in more, until few are left
// (successive halving; Jamieson and Talwalkar 2016).
//
//   rung    rounds each      kept
//   0       1                the better half of those that gave a value
//   1       2                the better half of these, by all samples so far
//   2, ...  4, then 8        ... but never fewer than asked for
//
// A function of what it is told: no state of its own survives but the list of those left.

class HalvingSearcher : public Searcher {
 public:
  static constexpr uint32_t kMostRounds = 8;  // of a stage
  // `finalists` of at least 1: how many are left at the end, or all where there are no more.
  explicit HalvingSearcher(uint64_t finalists) : finalists_(finalists) {}

  std::string Name() const override;
  void Begin(std::span<const Configuration> known) override;
  absl::StatusOr<SearchStage> Next() override;
  void Tell(std::span<const Searched> stage) override;
  std::vector<std::string> Finalists() const override;

 private:
  uint64_t finalists_;
  uint32_t rounds_ = 1;              // of the next stage
  std::vector<Configuration> left_;  // after the first rung, best first
};

}  // namespace xplane_time
