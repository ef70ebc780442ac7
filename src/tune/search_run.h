// RunSearch: measures and stores the stages of a Searcher until it has its finalists.
//
// Input: the variants known at the start, prepared. Output: the same and those that the searcher
// proposed, with `searched` and `dropped`, and the report. Each stage is stored in its own batch:
// first its head, which describes the stage, then its rounds. After a kill, stored heads are
// reused, stored rounds are not measured again, and the searcher receives their results again. A
// finished search does not call its searcher.
//
// A stage of r rounds repeats its configurations until each has r times or failed, at most r + 2
// times. Each pass has a seeded order and is split into rounds of at most 20 runs. One failure of a
// variant is enough to exclude it from the search (StageRules of a searcher may allow more).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tune/measuring.h"
#include "tune/outcome_json.h"

namespace xplane_time {

// The incumbent and the baseline are always finalists. Errors: those of the searcher and of
// measuring; DataLoss (stored data).
absl::Status RunSearch(Measuring* measuring, std::vector<TunedVariant>* variants,
                       SearchReport* report);

// Adds the counts of a stage, or of the end, to the report.
void CountStage(const StageHead& head, SearchReport* report);

// Drops all variants except the finalists and the variants that they are aliases of.
void DropAllBut(std::span<const std::string> finalists, std::vector<TunedVariant>* variants);

// Asking: a search whose configurations come from an optimizer in its own process.
//
// The proposer (docs/space.md; for example python -m xplane_time.propose_optuna) is asked for up to
// eight configurations at a time and receives their results, until `count` have been measured. A
// proposal outside the space is refused. For a proposal that was already measured, the proposer
// gets the result again at once. Neither counts, and both are reported. The search ends early if
// the proposer has no more proposals, or no new ones many times in a row.
//
// The process is started when it is first asked. If it ends or does not answer, the tuning ends; a
// resumed run sends the stored results to a new process.
inline constexpr uint64_t kAskFinalists = 8;
inline constexpr uint32_t kAskRounds = 3;

struct AskOptions {
  std::string command;  // run by a shell
  uint64_t count = 0, seed = 0;
  std::function<bool()> stopped = [] { return false; };
  std::chrono::milliseconds answer_timeout{600'000};
};
// `space` must outlive it.
std::unique_ptr<Searcher> NewAskSearcher(AskOptions options, const SearchSpace& space);

// Counting: no search. All variants are measured the same number of times, even those that compile
// to the same program. A variant is only excluded after two failures. There is no race afterwards.
// Used by grids.
std::unique_ptr<Searcher> NewCountingSearcher(uint32_t samples);

// Halving: all variants are measured in few rounds, the better half in more rounds, until few are
// left (successive halving; Jamieson and Talwalkar 2016).
//
//   rung    rounds each      kept
//   0       1                the better half of those with a value
//   1       2                the better half of these, by all samples so far
//   2, ...  4, then 8        ... but never fewer than requested
//
// The next stage depends only on the reported results; the list of remaining variants is the only
// state.
inline constexpr uint32_t kMostHalvingRounds = 8;  // in a stage

// `finalists` (at least 1) variants are left at the end, or all if there are fewer.
std::unique_ptr<Searcher> NewHalvingSearcher(uint64_t finalists);

}  // namespace xplane_time
