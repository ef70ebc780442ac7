#include "insight/slow_runs.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "insight/variation.h"
#include "insight/where_watch.h"
#include "saturate.h"
#include "stats/distributions.h"
#include "stats/order_statistics.h"

namespace xplane_time::insight {
namespace {

constexpr double kMinComparedShare = 0.01;  // of the device's time
constexpr size_t kMostRuns = 10'000;        // of a function that peers are compared by

struct RunTime {
  uint64_t ordinal = 0;
  uint32_t id = kNone;
  int64_t compute_ps = 0, collective_ps = 0;
  int64_t idle_ps = 0;  // of the device, up to the next run
};

// The runs of one program on one device that may be compared, or its steps, in their order.
struct Series {
  size_t device = 0;
  uint32_t program = kNone;  // kNone: steps, or rounds of a loop
  bool are_steps = false;
  std::vector<RunTime> runs;
};

// The same function on devices of one kind in one capture.
struct Peers {
  std::vector<const Series*> series;
  std::vector<std::vector<RunTime>> runs;  // by series: those that all have
  std::vector<PeerTest> tests;             // by series

  // The times of the other devices, at one run.
  double MedianOfOthers(size_t at, size_t run) const {
    std::vector<double> others;
    for (size_t i = 0; i < runs.size(); ++i) {
      if (i != at) others.push_back(static_cast<double>(runs[i][run].compute_ps));
    }
    return stats::Median(others);
  }
};

// Runs with as many kernels as most have.
void KeepAlike(const std::vector<uint64_t>& kernels, std::vector<RunTime>* runs) {
  std::map<uint64_t, size_t> counts;
  for (const uint64_t count : kernels) ++counts[count];
  const auto modal =
      std::ranges::max_element(counts, {}, [](const auto& each) { return each.second; });
  size_t kept = 0;
  for (size_t i = 0; i < runs->size(); ++i) {
    if (kernels[i] == modal->first) (*runs)[kept++] = (*runs)[i];
  }
  runs->resize(kept);
}

class SlowFinder {
 public:
  explicit SlowFinder(std::span<const DeviceAnalysis* const> devices) : devices_(devices) {
    found_.claims.resize(devices.size());
    for (size_t i = 0; i < devices.size(); ++i) AddSeries(i);
  }

  SlowRuns Find() {
    FindPeers();
    std::vector<double> p_values;
    for (const Peers& peers : peers_) {
      for (const PeerTest& test : peers.tests) p_values.push_back(test.p_value);
    }
    std::vector<std::optional<SlowedTest>> slowed;
    for (const Series& series : series_) {
      slowed.push_back(GotSlower(Times(series.runs)));
      if (slowed.back().has_value()) p_values.push_back(slowed.back()->p_value);
    }
    adjusted_ = stats::HolmAdjusted(p_values);
    size_t next = 0;
    for (const Peers& peers : peers_) AddSlowDevices(peers, &next);
    for (size_t i = 0; i < series_.size(); ++i) {
      if (slowed[i].has_value()) AddSlowed(series_[i], *slowed[i], adjusted_[next++]);
    }
    return std::move(found_);
  }

 private:
  static const PartitionSweep& SweepOf(const DeviceAnalysis& device) {
    return static_cast<const WhereWatch&>(*device.watcher).sweep();
  }

  static std::vector<double> Times(std::span<const RunTime> runs) {
    std::vector<double> times;
    for (const RunTime& run : runs) times.push_back(static_cast<double>(run.compute_ps));
    return times;
  }

  void AddSeries(size_t index) {
    const DeviceAnalysis& device = *devices_[index];
    if (RulesOf(device.plane.kind).is_host) return;
    const PartitionSweep& sweep = SweepOf(device);
    const size_t known = series_.size();
    std::map<uint32_t, std::pair<std::vector<RunTime>, std::vector<uint64_t>>> by_program;
    for (const RunSample& sample : device.samples) {
      if (sample.suspect || !sample.has_active || sample.id >= sweep.runs().size()) continue;
      const RunState& run = sweep.runs()[sample.id];
      if (!run.extent.begun() || run.times[kComputePart] <= 0) continue;
      auto& [runs, kernels] = by_program[sample.program];
      runs.push_back(
          {sample.ordinal, sample.id, run.times[kComputePart], run.times[kCollectiveExposed]});
      kernels.push_back(sample.kernels);
    }
    for (auto& [program, times] : by_program) {
      int64_t compute_ps = 0;
      for (const RunTime& run : times.first) compute_ps = SaturatingAdd(compute_ps, run.compute_ps);
      const auto span_ps = static_cast<double>(sweep.span_ps());
      if (static_cast<double>(compute_ps) < kMinComparedShare * span_ps) continue;
      KeepAlike(times.second, &times.first);
      for (size_t i = 0; i + 1 < times.first.size(); ++i) {
        times.first[i].idle_ps = IdleBetween(sweep.runs()[times.first[i].id].extent,
                                             sweep.runs()[times.first[i + 1].id].extent);
      }
      series_.push_back({.device = index, .program = program, .runs = std::move(times.first)});
    }
    if (series_.size() == known) AddSteps(index, sweep);
    if (series_.size() == known) AddLoop(index, sweep);
  }

  // Idle time of the device between two runs.
  static int64_t IdleBetween(const Extent& run, const Extent& next) {
    return std::max(int64_t{0}, IdlePs(next.at_start) - IdlePs(run.at_last_end));
  }

  void AddSteps(size_t index, const PartitionSweep& sweep) {
    Series steps = {.device = index, .program = kNone, .are_steps = true, .runs = {}};
    for (size_t i = 0; i < sweep.step_order().size(); ++i) {
      const uint32_t id = sweep.step_order()[i];
      const Extent& own = sweep.steps()[id];
      const PartTimes times = own.at_last_end - own.at_start;
      if (times[kComputePart] <= 0) continue;
      steps.runs.push_back({.ordinal = id,
                            .id = id,
                            .compute_ps = times[kComputePart],
                            .collective_ps = times[kCollectiveExposed]});
      if (i + 1 < sweep.step_order().size()) {
        steps.runs.back().idle_ps = IdleBetween(own, sweep.steps()[sweep.step_order()[i + 1]]);
      }
    }
    if (!steps.runs.empty()) series_.push_back(std::move(steps));
  }

  // The ops of a loop, which all ran a multiple of `rounds` times.
  struct Loop {
    size_t rounds = 0;
    int64_t time_ps = 0;
    std::vector<uint32_t> ops = {};
  };
  Loop FindLoop(const DeviceAnalysis& device) const {
    const auto& durations_ps = static_cast<const WhereWatch&>(*device.watcher).durations_ps();
    std::map<size_t, std::pair<std::vector<uint32_t>, int64_t>> by_count;  // ops and their time
    for (const auto& [op, of_op_ps] : durations_ps) {
      if (device.tables->ops[op].category != Category::kCompute) continue;
      if (of_op_ps.size() > WhereWatch::kMaxDurations) continue;
      auto& [ops, time_ps] = by_count[of_op_ps.size()];
      ops.push_back(op);
      time_ps = std::accumulate(of_op_ps.begin(), of_op_ps.end(), time_ps, SaturatingAdd);
    }
    Loop best;
    size_t tried = 0;
    for (const auto& [rounds, unused] : by_count) {
      constexpr size_t kMaxTried = 256;
      if (rounds < kLeastRuns || tried++ >= kMaxTried) continue;
      Loop loop = {.rounds = rounds};
      for (const auto& [count, of_count] : by_count) {
        if (count % rounds != 0) continue;
        loop.ops.insert(loop.ops.end(), of_count.first.begin(), of_count.first.end());
        loop.time_ps = SaturatingAdd(loop.time_ps, of_count.second);
      }
      if (loop.time_ps >= best.time_ps) best = std::move(loop);
    }
    std::ranges::sort(best.ops);
    return best;
  }

  void AddLoop(size_t index, const PartitionSweep& sweep) {
    const DeviceAnalysis& device = *devices_[index];
    const Loop loop = FindLoop(device);
    if (loop.rounds == 0 || loop.time_ps < sweep.times()[kComputePart] / 2) return;
    const auto& durations_ps = static_cast<const WhereWatch&>(*device.watcher).durations_ps();
    Series rounds = {.device = index, .program = kNone, .are_steps = false, .runs = {}};
    for (size_t round = 0; round < loop.rounds; ++round) {
      RunTime& run = rounds.runs.emplace_back();
      run.ordinal = round;
      run.id = static_cast<uint32_t>(round);
      for (const auto& [op, of_op_ps] : durations_ps) {
        const bool computes = std::ranges::binary_search(loop.ops, op);
        if (!computes && (device.tables->ops[op].category != Category::kCollective ||
                          of_op_ps.size() % loop.rounds != 0)) {
          continue;
        }
        int64_t& ps = computes ? run.compute_ps : run.collective_ps;
        const size_t each = of_op_ps.size() / loop.rounds;
        for (size_t i = round * each; i < (round + 1) * each; ++i) {
          ps = SaturatingAdd(ps, of_op_ps[i]);
        }
      }
    }
    series_.push_back(std::move(rounds));
  }

  // By its kernels; of rounds of a loop.
  std::optional<KernelsAlike> CompareRounds(const Series& series, const SlowedTest& test) const {
    const DeviceAnalysis& device = *devices_[series.device];
    const auto& durations_ps = static_cast<const WhereWatch&>(*device.watcher).durations_ps();
    const Loop loop = FindLoop(device);
    KernelTimes kernels;
    for (const uint32_t op : loop.ops) {
      const std::vector<int64_t>& of_op_ps = durations_ps.at(op);
      for (size_t i = 0; i < of_op_ps.size(); ++i) {
        const bool slow = test.slow[i / (of_op_ps.size() / loop.rounds)];
        MarkedTimes& times = kernels[op][slow ? MarkedRuns::kSlow : MarkedRuns::kFast];
        times.count += 1;
        times.sum_ps += static_cast<double>(of_op_ps[i]);
      }
    }
    return CompareKernels(*device.tables, kernels);
  }

  RunsOf Describe(const Series& series) const {
    if (series.program == kNone) return {.are_steps = series.are_steps};
    return {.function = devices_[series.device]->tables->programs[series.program].function};
  }
  std::string NameOf(const Series& series) const { return Describe(series).function.value_or(""); }

  void FindPeers() {
    // Ids of programs may differ between devices, because each device may have its own program.
    std::map<std::tuple<size_t, std::string>, size_t> namesakes;
    for (const Series& each : series_) ++namesakes[{each.device, NameOf(each)}];
    std::map<std::tuple<uint32_t, DeviceKind, std::string, std::string>, Peers> groups;
    for (const Series& each : series_) {
      const DeviceAnalysis& device = *devices_[each.device];
      const std::string name = NameOf(each);
      const bool several = namesakes[{each.device, name}] > 1;
      groups[{device.capture, device.plane.kind, name,
              several ? device.tables->programs[each.program].program_id.value_or("") : ""}]
          .series.push_back(&each);
    }
    for (auto& [key, peers] : groups) {
      if (peers.series.size() < 2) continue;
      Align(&peers);
      std::vector<std::vector<double>> times;
      for (const std::vector<RunTime>& runs : peers.runs) times.push_back(Times(runs));
      auto tests = SlowerThanPeers(times);
      if (!tests.has_value()) continue;
      peers.tests = std::move(*tests);
      peers_.push_back(std::move(peers));
    }
  }

  // Runs that all have.
  static void Align(Peers* peers) {
    std::map<uint64_t, size_t> having;
    for (const Series* series : peers->series) {
      for (const RunTime& run : series->runs) ++having[run.ordinal];
    }
    for (const Series* series : peers->series) {
      std::vector<RunTime>& runs = peers->runs.emplace_back();
      for (const RunTime& run : series->runs) {
        if (having[run.ordinal] == peers->series.size() && runs.size() < kMostRuns) {
          runs.push_back(run);
        }
      }
    }
  }

  void AddSlowDevices(const Peers& peers, size_t* next) {
    for (size_t at = 0; at < peers.tests.size(); ++at) {
      const PeerTest& test = peers.tests[at];
      const double p_value = adjusted_[(*next)++];
      if (p_value > kFalseAlarms || test.ratio < kLeastRatio) continue;
      const Series& own = *peers.series[at];
      SlowDevice slow = {.device = own.device,
                         .peers = peers.series.size() - 1,
                         .of = Describe(own),
                         .ratio = test.ratio,
                         .p_value = p_value,
                         .runs = peers.runs[at].size(),
                         .by_device = std::vector<int64_t>(devices_.size())};
      if (slow.peers > 1) Claim(peers, at, &slow);
      Merge(std::move(slow));
    }
  }

  // The time it took longer, and the time that others waited for it.
  void Claim(const Peers& peers, size_t at, SlowDevice* slow) {
    const std::vector<RunTime>& own = peers.runs[at];
    std::vector<int64_t> idle_of(devices_.size());
    for (size_t run = 0; run < own.size(); ++run) {
      const auto others_ps = static_cast<int64_t>(peers.MedianOfOthers(at, run));
      slow->by_device[slow->device] += std::max(own[run].compute_ps - others_ps, int64_t{0});
      for (size_t other = 0; other < peers.runs.size(); ++other) {
        const RunTime& time = peers.runs[other][run];
        if (other == at) continue;
        // Who comes last to a collective, or to the end of a step, waits least.
        const int64_t later_ps = std::max(int64_t{0}, own[run].compute_ps - time.compute_ps);
        const int64_t waits_ps =
            std::clamp(time.collective_ps - own[run].collective_ps, int64_t{0}, later_ps);
        const int64_t idle_ps =
            std::clamp(time.idle_ps - own[run].idle_ps, int64_t{0}, later_ps - waits_ps);
        slow->by_device[peers.series[other]->device] += waits_ps;
        idle_of[peers.series[other]->device] += idle_ps;
      }
    }
    ClaimCompute(*peers.series[at], &slow->by_device[slow->device]);
    for (const Series* series : peers.series) {
      if (series->device == slow->device) continue;
      int64_t& ps = slow->by_device[series->device];
      Claims& claims = found_.claims[series->device];
      const int64_t all_ps = SweepOf(*devices_[series->device]).times()[kCollectiveExposed];
      ps = std::min(ps, all_ps - claims.waits_ps);
      claims.waits_ps += ps;
      const int64_t all_idle_ps = IdleWithoutCompilingPs(SweepOf(*devices_[series->device]));
      const int64_t idle_ps = std::min(idle_of[series->device], all_idle_ps - claims.idle_ps);
      claims.idle_ps += idle_ps;
      ps += idle_ps;
    }
  }

  static int64_t IdleWithoutCompilingPs(const PartitionSweep& sweep) {
    int64_t idle_ps = IdlePs(sweep.times());
    for (const OwnedTimes& owner : sweep.owners()) {
      idle_ps -= owner.host_doing_ps[kHostCompiles] + owner.unknown_doing_ps[kHostCompiles];
    }
    return idle_ps;
  }

  // As much of `ps` as is not claimed yet.
  void ClaimCompute(const Series& series, int64_t* ps) {
    int64_t compute_ps = 0;
    for (const OwnedTimes& owner : SweepOf(*devices_[series.device]).owners()) {
      const bool is_its = series.program == kNone || owner.program == series.program;
      if (owner.rank == kCompute && is_its) compute_ps += owner.busy_ps;
    }
    int64_t& claimed_ps = found_.claims[series.device].compute_ps[series.program];
    *ps = std::min(*ps, compute_ps - claimed_ps);
    claimed_ps += *ps;
  }

  static int64_t Sum(const std::vector<int64_t>& times_ps) {
    return std::accumulate(times_ps.begin(), times_ps.end(), int64_t{0}, SaturatingAdd);
  }

  // One finding a device, of the function that gives most.
  void Merge(SlowDevice slow) {
    for (SlowDevice& known : found_.devices) {
      if (known.device != slow.device) continue;
      if (Sum(slow.by_device) > Sum(known.by_device)) std::swap(known, slow);
      for (size_t i = 0; i < known.by_device.size(); ++i) known.by_device[i] += slow.by_device[i];
      return;
    }
    found_.devices.push_back(std::move(slow));
  }

  MarkedRuns Marked(const Series& series, const SlowedTest& test) const {
    MarkedRuns marked = {.device = devices_[series.device]->row.device, .by_run = {}};
    if (series.program != kNone) marked.program = series.program;
    for (size_t i = 0; i < series.runs.size(); ++i) {
      const uint32_t id = series.runs[i].id;
      if (marked.by_run.size() <= id) marked.by_run.resize(id + 1, MarkedRuns::kOther);
      marked.by_run[id] = test.slow[i] ? MarkedRuns::kSlow : MarkedRuns::kFast;
    }
    return marked;
  }

  void AddSlowed(const Series& series, const SlowedTest& test, double p_value) {
    if (p_value > kFalseAlarms || test.ratio < kLeastRatio) return;
    int64_t ps = 0;
    SlowedDown slowed = {.of = Describe(series),
                         .ratio = test.ratio,
                         .p_value = p_value,
                         .runs = series.runs.size(),
                         .is_for_good = test.is_for_good,
                         .by_device = std::vector<int64_t>(devices_.size())};
    for (size_t i = 0; i < series.runs.size(); ++i) {
      if (!test.slow[i]) continue;
      if (slowed.slow_runs++ == 0) slowed.first_slow = series.runs[i].ordinal;
      const auto beyond = static_cast<double>(series.runs[i].compute_ps) - test.fast_level;
      ps += static_cast<int64_t>(std::max(beyond, 0.0));
    }
    slowed.marked = Marked(series, test);
    if (series.program == kNone && !series.are_steps) slowed.alike = CompareRounds(series, test);
    ClaimCompute(series, &ps);
    slowed.by_device[series.device] = ps;
    if (!found_.slowed.has_value()) {
      found_.slowed = std::move(slowed);
      most_slowed_ps_ = ps;
      return;
    }
    std::vector<int64_t>& all = found_.slowed->by_device;
    all[series.device] += ps;
    if (ps > most_slowed_ps_) {
      slowed.by_device = std::move(all);
      found_.slowed = std::move(slowed);
      most_slowed_ps_ = ps;
    }
  }

  const std::span<const DeviceAnalysis* const> devices_;
  std::vector<Series> series_;
  std::vector<Peers> peers_;
  std::vector<double> adjusted_;
  int64_t most_slowed_ps_ = 0;
  SlowRuns found_;
};

}  // namespace

SlowRuns FindSlow(std::span<const DeviceAnalysis* const> devices) {
  return SlowFinder(devices).Find();
}

}  // namespace xplane_time::insight
