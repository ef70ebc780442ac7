// What a device did from its first start to its last end: only its own DeviceParts, without the
// runs, steps and transfers of `where`, so that a report can have them.
//
//   compute      |-----|              |---|
//   copy            |------|      |-|            an instant is that of the highest category that
//                |comp.|copy|idle |c|i|comp.|    runs: compute, collective, copy, other
//
// Memory: what runs at once.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "timing/analysis.h"
#include "timing/device_meter.h"

namespace xplane_time {

// The highest first.
inline constexpr std::array kCategoryRanks = {Category::kCompute, Category::kCollective,
                                              Category::kCopy, Category::kOther};
inline uint32_t RankOfCategory(Category category) {
  return static_cast<uint32_t>(std::ranges::find(kCategoryRanks, category) -
                               kCategoryRanks.begin());
}

// RankedUnion: how long each rank ran while none before it did.
class RankedUnion {
 public:
  // In order of start.
  void Add(uint32_t rank, const Interval& interval) {
    if (!begun_) Begin(interval.start_ps);
    AdvanceTo(interval.start_ps);
    until_ps_[rank] = std::max(until_ps_[rank], interval.end_ps);
  }
  void Finish() { AdvanceTo(*std::ranges::max_element(until_ps_)); }

  // After Finish(). The last is that of none.
  const std::array<int64_t, kCategoryRanks.size() + 1>& times_ps() const { return times_ps_; }

 private:
  void Begin(int64_t time_ps) {
    begun_ = true;
    at_ps_ = time_ps;
    until_ps_.fill(time_ps);
  }
  void AdvanceTo(int64_t time_ps) {
    while (at_ps_ < time_ps) {
      size_t rank = 0;
      while (rank < until_ps_.size() && until_ps_[rank] <= at_ps_) ++rank;
      const int64_t next_ps =
          rank == until_ps_.size() ? time_ps : std::min(time_ps, until_ps_[rank]);
      times_ps_[rank] += next_ps - at_ps_;
      at_ps_ = next_ps;
    }
  }

  bool begun_ = false;
  int64_t at_ps_ = 0;
  std::array<int64_t, kCategoryRanks.size()> until_ps_ = {};  // none runs longer
  std::array<int64_t, kCategoryRanks.size() + 1> times_ps_ = {};
};

class PartsWatch : public ExecutionWatcher {
 public:
  static absl::StatusOr<std::unique_ptr<ExecutionWatcher>> Make(const WatchContext& context) {
    return std::make_unique<PartsWatch>(context);
  }
  explicit PartsWatch(const WatchContext& context)
      : tables_(context.tables),
        nests_(RulesOf(context.plane.kind).line_order == LineOrder::kNested),
        clock_(context.clock) {}

  absl::Status Add(std::span<const Execution> chunk) override;
  void Finish() override;
  // After it; empty: nothing ran, or the device's clock began anew, or it went back and the
  // executions did not come in one chunk. For this no device is read a second time.
  std::optional<DeviceParts> parts() const;

 private:
  struct Piece {
    Interval interval;
    uint32_t rank, line;
  };
  void AddOwn();
  void AddOwnOfOneLine();

  const std::shared_ptr<const ExecutionTables> tables_;
  const bool nests_;
  const Clock clock_;
  std::vector<uint32_t> rank_of_op_;
  std::vector<Piece> pieces_;  // of the chunk
  bool went_back_ = false, one_line_ = true;
  std::optional<int64_t> first_ps_;
  int64_t last_start_ps_ = kNoTimePs, last_end_ps_ = kNoTimePs;
  RankedUnion union_;
  // Where executions of a line contain each other.
  struct Line {
    OwnIntervals own;
    std::vector<Piece> parts;  // of the chunk
  };
  absl::flat_hash_map<uint32_t, Line> lines_;
};

}  // namespace xplane_time
