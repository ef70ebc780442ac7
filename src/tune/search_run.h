// RunSearch: the stages of a Searcher, measured and stored, until it has its finalists.
//
// Enters: the variants known at the start, prepared. Leaves: the same and those that the
// searcher came up with, with `searched` and `dropped`, and the report. A stage is stored in
// a batch of its own: its head says what it is of, then come its rounds. After a kill, stored
// heads are taken as they are, stored rounds are not measured again, and the searcher is told
// of them again; a search that ended asks its searcher nothing.
//
// A stage of r rounds goes over its configurations until each has r times or failed, at most
// r + 2 times: in a seeded order, split into rounds of at most 20 runs. One failure that the
// variant is to blame for is enough to leave the search (StageRules of a searcher may say more).
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

// The incumbent and the baseline are finalists, whatever the searcher says. Errors: of the
// searcher, of measuring, DataLoss (what is stored).
absl::Status RunSearch(Measuring* measuring, std::vector<TunedVariant>* variants,
                       SearchReport* report);

// Of a stage, or of the end: what was proposed.
void CountStage(const StageHead& head, SearchReport* report);

// All but the finalists, and what they are aliases of, are dropped.
void DropAllBut(std::span<const std::string> finalists, std::vector<TunedVariant>* variants);

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
inline constexpr uint64_t kAskFinalists = 8;
inline constexpr uint32_t kAskRounds = 3;

struct AskOptions {
  std::string command;  // for a shell
  uint64_t count = 0, seed = 0;
  std::function<bool()> stopped = [] { return false; };
  std::chrono::milliseconds answer_timeout{600'000};
};
// `space` outlives it.
std::unique_ptr<Searcher> NewAskSearcher(AskOptions options, const SearchSpace& space);

// Counting: no search. All are measured the same number of times, those that compile to one program
// too, and nobody leaves but who fails twice; then there is nothing to race. For grids.
std::unique_ptr<Searcher> NewCountingSearcher(uint32_t samples);

// Halving: all are measured in few rounds, the better half in more, until few are left
// (successive halving; Jamieson and Talwalkar 2016).
//
//   rung    rounds each      kept
//   0       1                the better half of those that gave a value
//   1       2                the better half of these, by all samples so far
//   2, ...  4, then 8        ... but never fewer than asked for
//
// A function of what it is told: no state of its own survives but the list of those left.
inline constexpr uint32_t kMostHalvingRounds = 8;  // of a stage

// `finalists` of at least 1: how many are left at the end, or all where there are no more.
std::unique_ptr<Searcher> NewHalvingSearcher(uint64_t finalists);

}  // namespace xplane_time
