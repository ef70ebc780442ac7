// Elections of owners (launch_owners.h describes the problem).
//
// 1. Sort all launches by id and process. If no id occurs in two processes, there is nothing to
//    decide.
// 2. For each execution, every process with a launch of its id gets up to two votes: one by time,
//    if the launch is earlier than the execution, and one by place, if the execution is in the
//    process's part of the file.
// 3. A device is given to the process with 80 % of the votes by place (ElectByPlace); otherwise to
//    the process with 99 % of the votes by time, if no other one has over 50 % (ElectByTime).
// 4. Each launch is executed once. A process that owns a device is therefore excluded from other
//    devices with the same ids, and step 3 is repeated (ElectByElimination).
// 5. Processes that launched to one device, with different ids, are joined. If joined processes
//    share ids, the owners
//    are unknown after all.
//
// Time: O(executions x processes with their id), which kMaxProcesses bounds.
#include "kineto/launch_owners.h"

#include <algorithm>
#include <span>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

namespace xplane_time::kineto {
namespace {

// Maximum number of processes in an election, which takes (executions x processes with their id)
// steps.
constexpr size_t kMaxProcesses = 1024;

}  // namespace

// Votes of those executions of one device that have a launch in some process.
struct LaunchOwners::Votes {
  uint64_t executions = 0, shared = 0;  // shared: with launches in several processes
  struct Vote {
    uint64_t earlier = 0;  // executions after the process's launch with their id
    // in its part of the file, which ends at the beginning of the next part
    uint64_t in_place = 0;
    uint64_t in_extent = 0;  // between the first and last event of the process
  };
  absl::flat_hash_map<uint32_t, Vote> by_process;
};

void LaunchOwners::AddEvent(uint32_t process, uint64_t place) {
  while (processes_.size() <= process) {
    processes_.push_back({.parent = static_cast<uint32_t>(processes_.size())});
  }
  Extent& extent = processes_[process];
  extent.first = std::min(extent.first, place);
  extent.last = std::max(extent.last, place);
}

void LaunchOwners::AddLaunch(uint32_t process, int64_t id, int64_t start_ps, uint64_t place) {
  AddEvent(process, place);
  Extent& extent = processes_[process];
  if (!extent.launches) extent.begins_anew = launches_.empty() || start_ps < latest_ps_;
  extent.launches = true;
  latest_ps_ = std::max(latest_ps_, start_ps);
  launches_.push_back({id, start_ps, process});
}

void LaunchOwners::AddExecution(uint32_t device, int64_t id, int64_t start_ps, uint64_t place) {
  latest_ps_ = std::max(latest_ps_, start_ps);
  executions_.push_back({id, start_ps, place, device});
}

uint32_t LaunchOwners::FindFirst(uint32_t process) const {
  if (process >= processes_.size()) return process;
  while (processes_[process].parent != process) process = processes_[process].parent;
  return process;
}

void LaunchOwners::Join(uint32_t a, uint32_t b) {
  const auto [first, second] = std::minmax({FindFirst(a), FindFirst(b)});
  processes_[second].parent = first;
}

// The process in whose part of the file a place is. Events of a rank before its first launch are
// events of its host.
std::optional<uint32_t> LaunchOwners::ProcessAt(uint64_t place) const {
  const auto after = std::ranges::upper_bound(
      in_order_, place, {}, [&](uint32_t process) { return processes_[process].first; });
  if (in_order_.empty()) return std::nullopt;
  return after == in_order_.begin() ? in_order_.front() : *std::prev(after);
}

// If the events of processes follow each other in the file, the executions of each device are in
// the part of its own process. The result is trusted if every process gets a device. Otherwise the
// file may have another order, for example host events before those of all devices. Then only
// devices with executions between the events of a process count.
std::vector<std::optional<uint32_t>> LaunchOwners::ElectByPlace(
    std::span<const Votes> votes) const {
  std::vector<std::optional<uint32_t>> elected(votes.size());
  std::vector<bool> is_among(votes.size());
  absl::flat_hash_set<uint32_t> with_device;
  for (size_t device = 0; device < votes.size(); ++device) {
    const uint64_t n = votes[device].executions;
    for (const auto& [process, vote] : votes[device].by_process) {
      if (n == 0 || vote.in_place * 5 < n * 4) continue;
      elected[device] = process;
      is_among[device] = vote.in_extent * 2 >= n;
      with_device.insert(process);
    }
  }
  if (with_device.size() == in_order_.size()) return elected;
  for (size_t device = 0; device < votes.size(); ++device) {
    if (!is_among[device]) elected[device].reset();
  }
  return elected;
}

std::optional<uint32_t> LaunchOwners::ElectByTime(const Votes& votes) {
  const uint64_t n = votes.executions;
  std::optional<uint32_t> first;
  uint64_t most = 0, second = 0;
  for (const auto& [process, vote] : votes.by_process) {
    if (vote.earlier > most || !first.has_value()) {
      second = std::exchange(most, vote.earlier);
      first = process;
    } else {
      second = std::max(second, vote.earlier);
    }
  }
  // Launches may be lost, so the right process need not have all votes.
  const bool fits = most * 100 >= n * 99, is_only = votes.by_process.size() == 1;
  return fits && (is_only || 2 * second <= n) ? first : std::nullopt;
}

// Excludes, for each device, the processes that own another device with executions of the same ids,
// because a launch is executed once. Each new owner may allow further decisions.
void LaunchOwners::ElectByElimination(std::vector<Votes>* votes, std::vector<Owner>* owners) const {
  constexpr int kMaxRounds = 64;
  std::vector<std::pair<int64_t, uint32_t>> devices_of_id;
  for (const Execution& execution : executions_) {
    devices_of_id.emplace_back(execution.id, execution.device);
  }
  std::ranges::sort(devices_of_id);
  devices_of_id.erase(std::unique(devices_of_id.begin(), devices_of_id.end()), devices_of_id.end());
  bool any_new = true;
  for (int round = 0; round < kMaxRounds && any_new; ++round) {
    any_new = false;
    // By (device without an owner, process): number of ids that another device of the process
    // executed.
    absl::flat_hash_map<std::pair<uint32_t, uint32_t>, uint64_t> taken;
    absl::flat_hash_map<uint32_t, uint64_t> ids;
    for (size_t begin = 0, end = 0; begin < devices_of_id.size(); begin = end) {
      absl::flat_hash_set<uint32_t> owning;
      std::vector<uint32_t> open;
      for (; end < devices_of_id.size() && devices_of_id[end].first == devices_of_id[begin].first;
           ++end) {
        const uint32_t device = devices_of_id[end].second;
        if ((*votes)[device].shared == 0) continue;
        const std::optional<uint32_t> process = (*owners)[device].process;
        if (process.has_value()) {
          owning.insert(*process);
        } else {
          open.push_back(device);
        }
      }
      for (const uint32_t device : open) {
        ++ids[device];
        for (const uint32_t process : owning) ++taken[{device, process}];
      }
    }
    for (const auto& [device_and_process, count] : taken) {
      const auto [device, process] = device_and_process;
      if (2 * count > ids[device]) any_new |= (*votes)[device].by_process.erase(process) > 0;
    }
    if (!any_new) return;
    for (size_t device = 0; device < votes->size(); ++device) {
      if ((*votes)[device].shared == 0 || (*owners)[device].process.has_value()) continue;
      (*owners)[device].process = ElectByTime((*votes)[device]);
    }
  }
}

std::vector<LaunchOwners::Owner> LaunchOwners::Decide() {
  std::ranges::sort(launches_, {}, [](const Launch& launch) {
    return std::tuple(launch.id, launch.process, launch.start_ps);
  });
  // Keep the first launch of each id and process.
  const auto is_repeated = [](const Launch& a, const Launch& b) {
    return a.id == b.id && a.process == b.process;
  };
  launches_.erase(std::unique(launches_.begin(), launches_.end(), is_repeated), launches_.end());

  if (std::ranges::adjacent_find(launches_, {}, &Launch::id) == launches_.end()) return {};
  for (uint32_t i = 0; i < processes_.size(); ++i) {
    if (processes_[i].launches) in_order_.push_back(i);
  }
  const bool too_many = in_order_.size() > kMaxProcesses;
  std::ranges::sort(in_order_, {}, [&](uint32_t process) { return processes_[process].first; });
  // In a file that is sorted by time, the place of an event has no more information than its time.
  const auto overlaps = [&](uint32_t a, uint32_t b) {
    return processes_[b].first <= processes_[a].last || !processes_[b].begins_anew;
  };
  if (std::ranges::adjacent_find(in_order_, overlaps) != in_order_.end()) in_order_.clear();

  std::vector<Votes> votes;
  for (const Execution& execution : executions_) {
    if (votes.size() <= execution.device) votes.resize(execution.device + 1);
    const auto first = std::ranges::lower_bound(launches_, execution.id, {}, &Launch::id);
    const auto last = std::ranges::upper_bound(launches_, execution.id, {}, &Launch::id);
    const std::span<const Launch> candidates(first, last);
    if (candidates.empty()) continue;
    Votes& of_device = votes[execution.device];
    ++of_device.executions;
    of_device.shared += candidates.size() > 1 ? 1 : 0;
    if (too_many) continue;
    const std::optional<uint32_t> at_place = ProcessAt(execution.place);
    for (const Launch& launch : candidates) {
      Votes::Vote& vote = of_device.by_process[launch.process];
      vote.earlier += launch.start_ps <= execution.start_ps ? 1 : 0;
      if (launch.process != at_place) continue;
      ++vote.in_place;
      vote.in_extent += execution.place < processes_[launch.process].last ? 1 : 0;
    }
  }

  const std::vector<std::optional<uint32_t>> by_place = ElectByPlace(votes);
  std::vector<Owner> owners(votes.size());
  for (size_t device = 0; device < votes.size(); ++device) {
    const Votes& of_device = votes[device];
    Owner& owner = owners[device];
    if (of_device.shared > 0) {
      owner.process = by_place[device].has_value() ? by_place[device] : ElectByTime(of_device);
    } else {
      for (const auto& [process, vote] : of_device.by_process) {
        if (owner.process.has_value()) Join(*owner.process, process);
        owner.process = FindFirst(process);
      }
    }
  }
  ElectByElimination(&votes, &owners);
  for (size_t device = 0; device < votes.size(); ++device) {
    if (!owners[device].process.has_value()) owners[device].undecided = votes[device].shared;
  }
  // Processes that belong together must not share ids. Otherwise their owners are unknown.
  absl::flat_hash_set<uint32_t> in_conflict;
  for (size_t begin = 0, end = 0; begin < launches_.size(); begin = end) {
    std::vector<uint32_t> firsts;
    for (; end < launches_.size() && launches_[end].id == launches_[begin].id; ++end) {
      firsts.push_back(FindFirst(launches_[end].process));
    }
    std::ranges::sort(firsts);
    for (auto at = std::ranges::adjacent_find(firsts); at != firsts.end();
         at = std::adjacent_find(at + 1, firsts.end())) {
      in_conflict.insert(*at);
    }
  }
  for (size_t device = 0; device < owners.size(); ++device) {
    Owner& owner = owners[device];
    if (!owner.process.has_value() || !in_conflict.contains(FindFirst(*owner.process))) continue;
    owner = {.process = std::nullopt, .undecided = votes[device].executions};
  }
  return owners;
}

}  // namespace xplane_time::kineto
