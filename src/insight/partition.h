// PartitionSweep: splits one device's time among its executions, in one pass from left to right.
//
// At each instant, the highest running class owns the time: compute, collective, copy, other;
// otherwise the device is idle. A gap ends with the executions that start at its end. Their
// earliest launch L splits the gap into time without launched work and time after the launch:
//
//   compute      |-----|              |---|
//   copy            |------|      |-|
//                |comp.|copy|gap  |c| gap|.
//   host                      L                [start of the gap, L) host, [L, its end) launch
//
// Input: executions in order of start. Output: times of the device, of each run among its own
// executions, of each step, and of each kind of transfer. Runs, steps and transfers are updated
// only when one of their own executions begins or ends. So an execution costs O(log of the number
// of running executions), however much runs beside it.
//
// With TellOwners, each picosecond also has one owner: an op of a program. If several ops of the
// highest class run, the owner is the one that began or resumed last. The owner of a gap is the
// longest execution that ends it. So the times of owners add up to those of the device.
//
// Memory: runs, steps and recorded instants (ScratchVector), kinds of transfers, owners, and the
// running executions.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <queue>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "devices/device_kind.h"
#include "scratch.h"
#include "timing/device_parts.h"
#include "xplane_time/intervals.h"

namespace xplane_time::insight {

// As kCategoryRanks.
enum Rank : uint8_t { kCompute, kCollective, kCopy, kOther, kRankCount };

// Picoseconds of an interval, by part. The first four follow Rank; the parts up to kIdleUnknown add
// up to the interval.
enum Part : uint8_t {
  kComputePart,
  kCollectiveExposed,
  kCopyExposed,
  kOtherPart,
  kIdleHost,
  kIdleLaunch,
  kIdleUnknown,
  kCollectiveInFlight,
  kCollectiveHidden,
  kCopyInFlight,
  kCopyHidden,
  kPartCount,
};
using PartTimes = std::array<int64_t, kPartCount>;
PartTimes operator-(const PartTimes& a, const PartTimes& b);
void operator+=(PartTimes& sum, const PartTimes& more);  // saturates
int64_t IdlePs(const PartTimes& times);

// An execution, on the clock of its device.
struct Piece {
  Interval interval;
  int64_t profile_start_ps = 0;
  int64_t launch_id = 0;     // 0: unknown
  int64_t copied_bytes = 0;  // 0: unknown
  uint32_t op = kNone, program = kNone, run = kNone, line = 0;
  uint32_t step = kNone;
  uint32_t done_op = kNone;   // of a -start: the op of its -done
  uint32_t start_op = kNone;  // of a -done: the op of its -start
};

// The running executions of a device or of one run.
struct Activity {
  std::array<uint32_t, kRankCount> running = {};
  std::array<uint32_t, kRankCount> pairs = {};  // transfers between a -start and its -done
  int64_t since_ps = 0;

  bool idle() const {
    return std::ranges::all_of(running, [](uint32_t n) { return n == 0; });
  }
  // Does not add idle time.
  void AdvanceTo(int64_t time_ps, PartTimes* times);
};

// The members of a step or a run: from the first start to the last end. Times are the device's,
// since its beginning.
struct Extent {
  static constexpr int64_t kNotYet = std::numeric_limits<int64_t>::max();
  int64_t start_ps = kNotYet, last_end_ps = 0;
  PartTimes at_start = {}, at_last_end = {};

  bool begun() const { return start_ps != kNotYet; }
};

struct RunState {
  Extent extent;
  Activity own;
  PartTimes times = {};  // of its own executions; idle time of the device
  int64_t foreign_ps = 0;
};

// Executions of one kernel in one program that are collectives or copies.
struct TransferState {
  Rank rank = kCopy;
  uint32_t op = kNone, program = kNone;  // the first op
  uint64_t count = 0;
  int64_t bytes = 0;
  bool bytes_known = true, bytes_modelled = false;
  int64_t exposed_ps = 0, hidden_ps = 0, in_flight_ps = 0;

  uint32_t running = 0, pairs = 0;
  int64_t since_ps = 0, higher_since_ps = 0;
};

// The activity of the host while a device was idle.
enum HostDoing : uint8_t { kHostCompiles, kHostWaitsForInput, kHostWorks, kHostDoingCount };
struct HostInterval {
  Interval interval;
  HostDoing doing;
};
using HostTimes = std::array<int64_t, kHostDoingCount>;

// The time that an op of a program owns: while it ran, and idle before it ran.
struct OwnedTimes {
  uint32_t op = kNone, program = kNone;
  Rank rank = kOther;
  int64_t busy_ps = 0;  // of its class, exposed
  int64_t idle_host_ps = 0, idle_launch_ps = 0, idle_unknown_ps = 0;
  // The parts of the first and the last in which the host was seen to do something.
  HostTimes host_doing_ps = {}, unknown_doing_ps = {};
  uint64_t count = 0, gaps = 0;  // executions; gaps that one of them ended
};

// The own time of an execution, or of a part of it: no higher class ran, on the device and among
// the executions of its run.
struct OwnTime {
  uint32_t op = kNone, program = kNone, run = kNone;
  uint32_t steps_begun = 0;
  int64_t of_device_ps = 0, hidden_ps = 0;  // together: how long it ran itself
  int64_t of_run_ps = 0;
  uint32_t executions = 0;  // 1 in the first part of each
};

// An op of a program; of several that begin or end together, the longest.
struct GapNeighbour {
  uint32_t op = kNone, program = kNone;
};

struct Gap {
  Interval interval;
  int64_t launch_ps = kNoTimePs;  // within the gap; kNoTimePs: no launch is known
  int64_t launch_id = 0;          // of that launch
  int64_t profile_end_ps = 0;
  GapNeighbour before = {}, after = {};  // the executions that end and start next to the gap

  int64_t length_ps() const { return interval.end_ps - interval.start_ps; }
};

class PartitionSweep {
 public:
  // When an execution was launched; kNoTimePs: unknown. Asked for those that end a gap.
  using LaunchOf = std::function<int64_t(const Piece&)>;
  // `nests`: executions of a line contain each other, and have their own time only.
  PartitionSweep(std::shared_ptr<const ExecutionTables> tables, bool nests, size_t steps,
                 LaunchOf launch_of);

  // Before the first execution: records the device's times at these instants, which are in order
  // and on the device's clock.
  void RecordAt(std::vector<int64_t> instants_ps) { instants_ps_ = std::move(instants_ps); }

  // Before the first execution: what the host did when, on the profile clock, disjoint and in
  // order. `waits_unlaunched`: whether a device may wait for its host until an execution of which
  // no launch is known.
  void WatchHost(std::vector<HostInterval> host, bool waits_unlaunched) {
    watches_host_ = true;
    host_ = std::move(host);
    waits_unlaunched_ = waits_unlaunched;
  }
  void TellOwners() { tells_owners_ = true; }
  // Call before the first execution: keeps own_times(), 48 bytes per execution and change of the
  // running set.
  void KeepOwnTimes() { own_times_ = std::make_unique<ScratchVector<OwnTime>>(); }

  // Before the first execution: how many of the longest gaps are kept [3].
  void KeepGaps(size_t count) { max_gaps_ = count; }

  // In order of start over all calls; those that start together come in one call.
  void Add(std::span<const Piece> pieces);
  void Finish();

  // After Finish().
  bool any() const { return begun_; }
  int64_t first_ps() const { return first_ps_; }
  int64_t span_ps() const { return last_ps_ - first_ps_; }
  const PartTimes& times() const { return times_; }
  // With WatchHost: idle time in which the host waited for input; also, before the first execution
  // of a step, idle time without other known activity of the host.
  int64_t input_ps() const { return input_ps_; }
  std::span<const RunState> runs() const { return runs_.values(); }        // by id; some not begun
  std::span<const Extent> steps() const { return steps_.values(); }        // likewise
  const std::vector<uint32_t>& step_order() const { return step_order_; }  // as they began
  // At each instant of RecordAt() up to the last execution's end.
  std::span<const PartTimes> recorded() const { return recorded_.values(); }
  const std::vector<TransferState>& transfers() const { return transfers_; }
  const std::vector<OwnedTimes>& owners() const { return owners_; }
  // The longest first; of several of one length the earliest.
  const std::vector<Gap>& largest_gaps() const { return gaps_; }
  uint64_t gap_count() const { return gap_count_; }  // of all gaps
  // With KeepOwnTimes. The times of a part of the axis, minus their overlaps, are its busy time.
  std::span<const OwnTime> own_times() const { return std::as_const(*own_times_).values(); }

 private:
  struct Open {  // an execution that has not ended
    int64_t end_ps;
    uint32_t run, step, line, transfer, pair;
    Rank rank;
    bool on_stack, ended;
    uint32_t owner = kNone;
    uint32_t before = kNone, after = kNone;  // of its rank, of those that run: slots
    uint32_t op, program;
    int64_t start_ps;
    // With KeepOwnTimes.
    bool runs = false, is_told = false;
    int64_t since_ps = 0, higher_since_ps = 0, higher_of_run_since_ps = 0;
  };
  struct End {
    int64_t end_ps;
    uint32_t slot;
    bool operator>(const End& other) const { return end_ps > other.end_ps; }
  };

  void LearnOps();
  void EndUntil(int64_t time_ps);
  void EndOf(uint32_t slot, int64_t time_ps);
  void Leave(Open* open, uint32_t slot, int64_t time_ps);
  void SettleGap(std::span<const Piece> group);
  void RecordBusy(int64_t until_ps);
  void RecordIdle(const Gap& gap);
  void KeepGap(const Gap& gap);
  void RememberEnd(const Open& open);
  void Start(const Piece& piece);
  void Count(const Piece& piece, TransferState* transfer) const;
  uint32_t Allocate(const Open& open);
  void SetRunning(uint32_t slot, int change, int64_t time_ps);
  void Credit(int64_t time_ps);
  void CreditGap(const Piece& piece, const Gap& gap);
  void AddInput(std::span<const Piece> group, const Gap& gap);
  HostTimes HostTimesIn(const Gap& gap) const;
  void Link(uint32_t slot);
  void Unlink(uint32_t slot);
  uint32_t OwnerOf(uint32_t op, uint32_t program);
  void Resume(Open* open, int64_t time_ps);
  void Tell(Open* open, int64_t time_ps);
  void SetPairs(Rank rank, uint32_t transfer, uint32_t run, int change, int64_t time_ps);
  RunState* RunOf(uint32_t run);
  void BringUp(RunState* run, int64_t time_ps);
  void BringUp(TransferState* transfer, int64_t time_ps);
  void BeginRun(const Piece& piece);
  void BeginStep(uint32_t step, int64_t time_ps);
  void Touch(const Open& open, int64_t time_ps);
  uint32_t TransferOf(uint32_t op, uint32_t program);
  uint32_t FindTransfer(uint32_t op, uint32_t program);
  int64_t HigherPs(Rank rank) const;
  int64_t HigherOfRunPs(const Open& open);

  const std::shared_ptr<const ExecutionTables> tables_;
  const bool nests_;
  const LaunchOf launch_of_;

  bool begun_ = false;
  int64_t first_ps_ = 0, last_ps_ = 0;
  int64_t idle_since_ps_ = 0;  // while the device is idle
  Activity activity_;
  PartTimes times_ = {};
  size_t max_gaps_ = 3;
  uint64_t gap_count_ = 0;
  std::vector<Gap> gaps_;  // before Finish(): a heap, the first to be dropped in front
  GapNeighbour last_ended_;
  int64_t last_ended_start_ps_ = 0, last_ended_end_ps_ = 0;

  std::vector<Open> open_;  // slots
  std::vector<uint32_t> free_;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
  absl::flat_hash_map<uint32_t, std::vector<uint32_t>> stacks_;  // slots, by line

  ScratchVector<RunState> runs_;
  ScratchVector<Extent> steps_;
  std::vector<uint32_t> step_order_;
  std::vector<int64_t> instants_ps_;
  ScratchVector<PartTimes> recorded_;

  std::vector<Rank> rank_of_op_;
  std::vector<uint32_t> kernel_of_op_;
  absl::flat_hash_map<std::string, uint32_t> kernel_ids_;

  bool watches_host_ = false, waits_unlaunched_ = false;
  std::vector<HostInterval> host_;
  int64_t input_ps_ = 0;
  bool tells_owners_ = false;
  std::array<uint32_t, kRankCount> last_of_rank_ = {kNone, kNone, kNone, kNone};  // slots that run
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, uint32_t> owner_of_;         // op, program
  std::vector<std::pair<uint32_t, uint32_t>> last_owner_of_op_;                   // program, owner
  std::vector<OwnedTimes> owners_;

  absl::flat_hash_map<std::tuple<Rank, uint32_t, uint32_t>, uint32_t> transfer_of_;
  std::vector<std::pair<uint32_t, uint32_t>> last_transfer_of_op_;  // program, transfer
  std::vector<TransferState> transfers_;
  std::unique_ptr<ScratchVector<OwnTime>> own_times_;  // null: not requested
};

}  // namespace xplane_time::insight
