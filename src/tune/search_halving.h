// Halving: all are measured in few rounds, the better half in more, until few are left
// (successive halving; Jamieson and Talwalkar 2016).
//
//   rung    rounds each      kept
//   0       1                the better half of those that gave a value
//   1       2                the better half of these, by all samples so far
//   2, ...  4, then 8        ... but never fewer than asked for
//
// A function of what it is told: no state of its own survives but the list of those left.
#ifndef XPLANE_TIME_SRC_TUNE_SEARCH_HALVING_H_
#define XPLANE_TIME_SRC_TUNE_SEARCH_HALVING_H_

#include <string>
#include <vector>

#include "xplane_time/tune.h"

namespace xplane_time {

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

#endif  // XPLANE_TIME_SRC_TUNE_SEARCH_HALVING_H_
