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
#ifndef XPLANE_TIME_SRC_TUNE_SEARCH_RUN_H_
#define XPLANE_TIME_SRC_TUNE_SEARCH_RUN_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tune/measuring.h"
#include "xplane_time/tune.h"

namespace xplane_time {

// The first round of a stage: what it is of, and the states of those that are new.
struct StageHead {
  std::vector<std::string> ids = {};  // none: the search is over
  uint32_t rounds = 1;
  uint64_t proposed = 0, refused = 0, repeated = 0;
  std::vector<std::string> finalists = {};  // of a search that is over
};
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

}  // namespace xplane_time

#endif  // XPLANE_TIME_SRC_TUNE_SEARCH_RUN_H_
