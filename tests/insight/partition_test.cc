// The sweep against the slow and obvious partition: one picosecond after the other.
#include "insight/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "tests/support/random.h"

namespace xplane_time::insight {
namespace {

using xplane_time::testing::Random;

constexpr int64_t kEndPs = 40;

// An op a class, numbered as Rank.
std::shared_ptr<ExecutionTables> Tables() {
  auto tables = std::make_shared<ExecutionTables>();
  for (const Category category :
       {Category::kCompute, Category::kCollective, Category::kCopy, Category::kOther}) {
    OpInfo op;
    op.kernel = std::string(CategoryName(category));
    op.category = category;
    tables->ops.push_back(op);
  }
  tables->programs.push_back({"jit_f", "1"});
  return tables;
}

struct Found {
  int64_t span_ps = 0;
  PartTimes times = {};
  friend bool operator==(const Found&, const Found&) = default;
};

// Of executions in order, up to an instant; `launch_id`: the launch, plus one.
Found Slow(const std::vector<Piece>& pieces,
           int64_t until_ps = std::numeric_limits<int64_t>::max()) {
  int64_t last_ps = pieces[0].interval.start_ps;
  for (const Piece& piece : pieces) last_ps = std::max(last_ps, piece.interval.end_ps);
  Found found = {last_ps - pieces[0].interval.start_ps, {}};
  for (int64_t t = pieces[0].interval.start_ps; t < std::min(last_ps, until_ps); ++t) {
    bool runs[kRankCount] = {};
    int64_t next_ps = last_ps;  // the end of the gap, if this is one
    for (const Piece& piece : pieces) {
      if (piece.interval.start_ps <= t && t < piece.interval.end_ps) runs[piece.op] = true;
      if (piece.interval.start_ps > t) next_ps = std::min(next_ps, piece.interval.start_ps);
    }
    if (runs[kCollective]) ++found.times[kCollectiveInFlight];
    if (runs[kCollective] && runs[kCompute]) ++found.times[kCollectiveHidden];
    if (runs[kCopy]) ++found.times[kCopyInFlight];
    if (runs[kCopy] && (runs[kCompute] || runs[kCollective])) ++found.times[kCopyHidden];
    const auto* const highest = std::find(std::begin(runs), std::end(runs), true);
    if (highest != std::end(runs)) {
      ++found.times[static_cast<size_t>(highest - runs)];
      continue;
    }
    int64_t launch_ps = kNoTimePs;
    for (const Piece& piece : pieces) {
      if (piece.interval.start_ps != next_ps || piece.launch_id == 0) continue;
      const int64_t of_piece_ps = piece.launch_id - 1;
      launch_ps = launch_ps == kNoTimePs ? of_piece_ps : std::min(launch_ps, of_piece_ps);
    }
    ++found.times[launch_ps == kNoTimePs ? kIdleUnknown : t < launch_ps ? kIdleHost : kIdleLaunch];
  }
  return found;
}

void Sort(std::vector<Piece>* pieces) {
  std::stable_sort(pieces->begin(), pieces->end(), [](const Piece& a, const Piece& b) {
    return a.interval.start_ps != b.interval.start_ps ? a.interval.start_ps < b.interval.start_ps
                                                      : a.interval.end_ps > b.interval.end_ps;
  });
}

PartitionSweep Sweep(const std::vector<Piece>& pieces, size_t steps = 0) {
  PartitionSweep sweep(Tables(), /*nests=*/false, steps, [](const Piece& piece) {
    return piece.launch_id == 0 ? kNoTimePs : piece.launch_id - 1;
  });
  sweep.Add(pieces);
  sweep.Finish();
  return sweep;
}

Piece MakePiece(int64_t start_ps, int64_t duration_ps, int64_t rank) {
  Piece piece;
  piece.interval = {start_ps, start_ps + duration_ps};
  piece.op = static_cast<uint32_t>(rank);
  return piece;
}

Piece RandomPiece(Random* random) {
  Piece piece = MakePiece(random->Below(kEndPs), random->Below(8), random->Below(kRankCount));
  piece.launch_id = random->OneIn(3) ? 0 : 1 + random->Below(kEndPs);
  piece.program = 0;
  piece.run = static_cast<uint32_t>(random->Below(3));
  piece.step = static_cast<uint32_t>(random->Below(3));
  return piece;
}

struct SlowGap {
  Interval interval;
  int64_t launch_id = 0;
  uint32_t op_before = kNone, op_after = kNone;
  friend bool operator==(const SlowGap&, const SlowGap&) = default;
};

// All gaps, the longest first: one picosecond after the other.
std::vector<SlowGap> SlowGaps(const std::vector<Piece>& pieces) {
  const auto runs = [&](int64_t t) {
    return std::ranges::any_of(pieces, [&](const Piece& piece) {
      return piece.interval.start_ps <= t && t < piece.interval.end_ps;
    });
  };
  const auto touches = [&](int64_t t) {  // something starts or ends, be it as short as it may
    return std::ranges::any_of(pieces, [&](const Piece& piece) {
      return piece.interval.start_ps == t || piece.interval.end_ps == t;
    });
  };
  std::vector<SlowGap> gaps;
  int64_t last_ps = 0;
  for (const Piece& piece : pieces) last_ps = std::max(last_ps, piece.interval.end_ps);
  for (int64_t t = pieces[0].interval.start_ps; t < last_ps; ++t) {
    if (runs(t)) continue;
    SlowGap gap = {.interval = {t, t + 1}};
    while (!runs(gap.interval.end_ps) && !touches(gap.interval.end_ps)) ++gap.interval.end_ps;
    t = gap.interval.end_ps - 1;
    int64_t longest_before_ps = -1, longest_after_ps = -1, launch_ps = kNoTimePs;
    for (const Piece& piece : pieces) {
      const int64_t length_ps = piece.interval.end_ps - piece.interval.start_ps;
      if (piece.interval.end_ps == gap.interval.start_ps && length_ps > longest_before_ps) {
        longest_before_ps = length_ps;
        gap.op_before = piece.op;
      }
      if (piece.interval.start_ps != gap.interval.end_ps) continue;
      if (length_ps > longest_after_ps) {
        longest_after_ps = length_ps;
        gap.op_after = piece.op;
      }
      if (piece.launch_id == 0) continue;
      if (launch_ps == kNoTimePs || piece.launch_id - 1 < launch_ps) {
        launch_ps = piece.launch_id - 1;
        gap.launch_id = piece.launch_id;
      }
    }
    gaps.push_back(gap);
  }
  std::ranges::stable_sort(gaps, std::ranges::greater(), [](const SlowGap& gap) {
    return gap.interval.end_ps - gap.interval.start_ps;
  });
  return gaps;
}

TEST(PartitionTest, TheLongestGapsOfRandomExecutions) {
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    Random random(seed);
    std::vector<Piece> pieces(static_cast<size_t>(1 + random.Below(10)));
    for (Piece& piece : pieces) piece = RandomPiece(&random);
    // Ops of one kind, so that of two that begin or end together either may be named.
    for (Piece& piece : pieces) {
      piece.op = static_cast<uint32_t>((piece.interval.end_ps - piece.interval.start_ps) % 4);
    }
    Sort(&pieces);
    const std::vector<SlowGap> all = SlowGaps(pieces);
    for (const size_t kept : {size_t{0}, size_t{1}, size_t{3}, size_t{100}}) {
      PartitionSweep sweep(Tables(), /*nests=*/false, 3, [](const Piece& piece) {
        return piece.launch_id == 0 ? kNoTimePs : piece.launch_id - 1;
      });
      sweep.KeepGaps(kept);
      sweep.Add(pieces);
      sweep.Finish();
      EXPECT_EQ(sweep.gap_count(), all.size()) << seed;
      std::vector<SlowGap> found;
      for (const Gap& gap : sweep.largest_gaps()) {
        found.push_back({gap.interval, gap.launch_id, gap.before.op, gap.after.op});
      }
      std::vector<SlowGap> expected = all;
      expected.resize(std::min(kept, all.size()));
      ASSERT_EQ(found, expected) << seed << ", " << kept;
    }
  }
}

int64_t Sum(const PartTimes& times) {
  int64_t sum_ps = IdlePs(times);
  for (size_t rank = 0; rank < kRankCount; ++rank) sum_ps += times[rank];
  return sum_ps;
}

TEST(PartitionTest, AllPairsOfShortExecutions) {
  constexpr int64_t kStarts = 4, kDurations = 4, kEach = kStarts * kDurations * kRankCount;
  for (int64_t a = 0; a < kEach; ++a) {
    for (int64_t b = 0; b < kEach; ++b) {
      std::vector<Piece> pieces;
      for (const int64_t i : {a, b}) {
        pieces.push_back(
            MakePiece(i % kStarts, i / kStarts % kDurations, i / (kStarts * kDurations)));
        pieces.back().launch_id = 1 + i % 3;
      }
      Sort(&pieces);
      const PartitionSweep sweep = Sweep(pieces, /*steps=*/3);
      ASSERT_EQ((Found{sweep.span_ps(), sweep.times()}), Slow(pieces)) << a << ", " << b;
    }
  }
}

TEST(PartitionTest, RandomExecutionsAndWhatMustHold) {
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    Random random(seed);
    std::vector<Piece> pieces(static_cast<size_t>(1 + random.Below(12)));
    for (Piece& piece : pieces) piece = RandomPiece(&random);
    Sort(&pieces);
    const PartitionSweep sweep = Sweep(pieces, /*steps=*/3);
    ASSERT_EQ((Found{sweep.span_ps(), sweep.times()}), Slow(pieces)) << seed;
    ASSERT_EQ(Sum(sweep.times()), sweep.span_ps()) << seed;
    for (const Extent& step : sweep.steps()) {
      if (!step.begun()) continue;
      ASSERT_EQ(step.at_start, Slow(pieces, step.start_ps).times) << seed;
      ASSERT_EQ(step.at_last_end, Slow(pieces, step.last_end_ps).times) << seed;
    }
    for (const RunState& run : sweep.runs()) {
      if (!run.extent.begun()) continue;
      ASSERT_EQ(Sum(run.times) + run.foreign_ps, run.extent.last_end_ps - run.extent.start_ps)
          << seed;
    }
    for (const TransferState& transfer : sweep.transfers()) {
      ASSERT_EQ(transfer.exposed_ps + transfer.hidden_ps, transfer.in_flight_ps) << seed;
    }
  }
}

TEST(PartitionTest, RecordsTheTimesAtGivenInstants) {
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    Random random(seed);
    std::vector<Piece> pieces(static_cast<size_t>(1 + random.Below(12)));
    for (Piece& piece : pieces) piece = RandomPiece(&random);
    Sort(&pieces);
    std::vector<int64_t> instants_ps(static_cast<size_t>(random.Below(8)));
    for (int64_t& instant_ps : instants_ps) instant_ps = random.Below(kEndPs + 10);
    std::ranges::sort(instants_ps);
    PartitionSweep sweep(Tables(), /*nests=*/false, 3, [](const Piece& piece) {
      return piece.launch_id == 0 ? kNoTimePs : piece.launch_id - 1;
    });
    sweep.RecordAt(instants_ps);
    sweep.Add(pieces);
    sweep.Finish();
    ASSERT_EQ((Found{sweep.span_ps(), sweep.times()}), Slow(pieces)) << seed;
    for (size_t i = 0; i < instants_ps.size(); ++i) {
      if (instants_ps[i] > sweep.first_ps() + sweep.span_ps()) break;
      ASSERT_LT(i, sweep.recorded().size()) << seed;
      ASSERT_EQ(sweep.recorded()[i], Slow(pieces, instants_ps[i]).times) << seed << ", " << i;
    }
  }
}

TEST(PartitionTest, AnotherExecutionNeverLowersBusyTime) {
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    Random random(seed);
    std::vector<Piece> pieces(static_cast<size_t>(1 + random.Below(8)));
    for (Piece& piece : pieces) piece = RandomPiece(&random);
    Sort(&pieces);
    const PartitionSweep before = Sweep(pieces, /*steps=*/3);
    pieces.push_back(RandomPiece(&random));
    Sort(&pieces);
    const PartitionSweep after = Sweep(pieces, /*steps=*/3);
    ASSERT_GE(after.span_ps() - IdlePs(after.times()), before.span_ps() - IdlePs(before.times()))
        << seed;
  }
}

// By op: while it ran as the highest class, and began last; and before it, where it ended a gap.
struct SlowOwned {
  int64_t busy_ps = 0, host_ps = 0, launch_ps = 0, unknown_ps = 0, host_busy_ps = 0;
  friend bool operator==(const SlowOwned&, const SlowOwned&) = default;
};
using SlowOwners = std::array<SlowOwned, kRankCount>;

SlowOwners FindSlowOwners(const std::vector<Piece>& pieces, const std::vector<Interval>& busy) {
  SlowOwners owners = {};
  int64_t last_ps = 0;
  for (const Piece& piece : pieces) last_ps = std::max(last_ps, piece.interval.end_ps);
  for (int64_t t = pieces[0].interval.start_ps; t < last_ps; ++t) {
    const Piece* owner = nullptr;
    const Piece* next = nullptr;
    int64_t launch_ps = kNoTimePs;
    for (const Piece& piece : pieces) {
      const auto [start_ps, end_ps] = piece.interval;
      if (start_ps <= t && t < end_ps && (owner == nullptr || piece.op <= owner->op)) {
        owner = &piece;
      }
      if (start_ps > t && (next == nullptr || start_ps < next->interval.start_ps)) next = &piece;
    }
    if (owner != nullptr) {
      ++owners[owner->op].busy_ps;
      continue;
    }
    for (const Piece& piece : pieces) {
      if (piece.interval.start_ps != next->interval.start_ps || piece.launch_id == 0) continue;
      const int64_t of_piece_ps = piece.launch_id - 1;
      launch_ps = launch_ps == kNoTimePs ? of_piece_ps : std::min(launch_ps, of_piece_ps);
    }
    SlowOwned& before = owners[next->op];
    const bool known = launch_ps != kNoTimePs;
    const bool launched = known && t >= launch_ps;
    ++(!known ? before.unknown_ps : launched ? before.launch_ps : before.host_ps);
    before.host_busy_ps += !launched && std::ranges::any_of(busy, [t](const Interval& each) {
      return each.start_ps <= t && t < each.end_ps;
    });
  }
  return owners;
}

TEST(PartitionTest, EachPicosecondHasOneOwner) {
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    Random random(seed);
    std::vector<Piece> pieces(static_cast<size_t>(1 + random.Below(12)));
    for (Piece& piece : pieces) {
      piece = RandomPiece(&random);
      piece.profile_start_ps = piece.interval.start_ps;
    }
    Sort(&pieces);
    std::vector<Interval> busy;
    for (int i = 0; i < 3; ++i) {
      const int64_t start_ps = random.Below(kEndPs);
      busy.push_back({start_ps, start_ps + random.Below(10)});
    }
    busy = MergeIntervals(std::move(busy));
    PartitionSweep sweep(Tables(), /*nests=*/false, 3, [](const Piece& piece) {
      return piece.launch_id == 0 ? kNoTimePs : piece.launch_id - 1;
    });
    std::vector<HostInterval> host;
    for (const Interval& each : busy) host.push_back({each, kHostCompiles});
    sweep.WatchHost(std::move(host), /*waits_unlaunched=*/true);
    sweep.TellOwners();
    sweep.Add(pieces);
    sweep.Finish();
    SlowOwners found = {};
    for (const OwnedTimes& owner : sweep.owners()) {
      found[owner.op] = {
          owner.busy_ps, owner.idle_host_ps, owner.idle_launch_ps, owner.idle_unknown_ps,
          owner.host_doing_ps[kHostCompiles] + owner.unknown_doing_ps[kHostCompiles]};
    }
    ASSERT_EQ(found, FindSlowOwners(pieces, busy)) << seed;
    int64_t sum_ps = 0;
    for (const SlowOwned& each : found) {
      sum_ps += each.busy_ps + each.host_ps + each.launch_ps + each.unknown_ps;
    }
    ASSERT_EQ(sum_ps, sweep.span_ps()) << seed;
  }
}

// By op: of the device from a start to an end, and of the executions of a run among themselves.
using OwnByOp = std::array<int64_t, kRankCount>;

OwnByOp SlowOwn(const std::vector<Piece>& pieces, int64_t from_ps, int64_t to_ps) {
  OwnByOp own = {};
  for (int64_t t = from_ps; t < to_ps; ++t) {
    OwnByOp running = {};
    for (const Piece& piece : pieces) {
      if (piece.interval.start_ps <= t && t < piece.interval.end_ps) ++running[piece.op];
    }
    const auto* const highest = std::ranges::find_if(running, [](int64_t n) { return n > 0; });
    if (highest != running.end()) own[static_cast<size_t>(highest - running.begin())] += *highest;
  }
  return own;
}

TEST(PartitionTest, OwnTimesAreThoseOfTheHighestClass) {
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    Random random(seed);
    std::vector<Piece> pieces(static_cast<size_t>(1 + random.Below(12)));
    for (Piece& piece : pieces) piece = RandomPiece(&random);
    Sort(&pieces);
    PartitionSweep sweep(Tables(), /*nests=*/false, 3, [](const Piece&) { return kNoTimePs; });
    sweep.KeepOwnTimes();
    sweep.Add(pieces);
    sweep.Finish();

    OwnByOp own = {}, in_steps = {};
    std::array<OwnByOp, 3> of_run = {};
    uint64_t executions = 0;
    const size_t steps = sweep.step_order().size();
    for (const OwnTime& time : sweep.own_times()) {
      own[time.op] += time.of_device_ps;
      of_run[time.run][time.op] += time.of_run_ps;
      executions += time.executions;
      if (time.steps_begun > 0 && time.steps_begun < steps) in_steps[time.op] += time.of_device_ps;
      ASSERT_GE(time.hidden_ps, 0) << seed;
    }
    ASSERT_EQ(executions, pieces.size()) << seed;
    ASSERT_EQ(own, SlowOwn(pieces, 0, 2 * kEndPs)) << seed;
    const Extent &first = sweep.steps()[sweep.step_order().front()],
                 &last = sweep.steps()[sweep.step_order().back()];
    ASSERT_EQ(in_steps, SlowOwn(pieces, first.start_ps, last.start_ps)) << seed;
    for (uint32_t run = 0; run < 3; ++run) {
      std::vector<Piece> members;
      std::ranges::copy_if(pieces, std::back_inserter(members),
                           [run](const Piece& piece) { return piece.run == run; });
      ASSERT_EQ(of_run[run], SlowOwn(members, 0, 2 * kEndPs)) << seed;
    }
  }
}

TEST(PartitionTest, WhatContainsOthersHasItsOwnTime) {
  // A `while` (other) around a collective.
  const std::vector<Piece> pieces = {MakePiece(0, 10, kOther), MakePiece(2, 5, kCollective)};
  PartitionSweep sweep(Tables(), /*nests=*/true, 0, [](const Piece&) { return kNoTimePs; });
  sweep.Add(pieces);
  sweep.Finish();
  EXPECT_EQ(sweep.times()[kCollectiveExposed], 5);
  EXPECT_EQ(sweep.times()[kOtherPart], 5);
  EXPECT_EQ(sweep.span_ps(), 10);
}

}  // namespace
}  // namespace xplane_time::insight
