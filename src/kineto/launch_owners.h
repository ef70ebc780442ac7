// LaunchOwners: which process launched what a device executed, in a file that several ranks were
// merged into. Each process numbers its launches by itself, so the same correlation id may stand
// for a launch of each of them:
//
//   process 1000    launch 1   launch 2              device 0    |--1--|  |-2-|
//   process 2000       launch 1   launch 2           device 1       |--1--|  |-2-|
//
// Of a device whose ids several processes have, the owner is the process
//   - in whose part of the file the executions are, if the events of the processes follow each
//     other in the file (traces that were joined end to end);
//   - else the only one that has a launch before nearly all executions, of those that do not own
//     another device that executed the same ids.
// If nothing decides, the device has no owner: it cannot be known who launched its executions.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace xplane_time::kineto {

class LaunchOwners {
 public:
  // Processes and devices by index; calls in the order of the file. `place`: of the event in it.
  void AddEvent(uint32_t process, uint64_t place);
  void AddLaunch(uint32_t process, int64_t id, int64_t start_ps, uint64_t place);
  void AddExecution(uint32_t device, int64_t id, int64_t start_ps, uint64_t place);

  struct Owner {
    std::optional<uint32_t> process;  // one of those that belong together
    uint64_t undecided = 0;           // executions whose id several processes have
  };
  // By device, after the last call of Add; empty if no id is shared. Devices whose executions
  // several processes launched, with different ids, make these processes belong together.
  std::vector<Owner> Decide();
  // After Decide(): by process, the first of those that belong together.
  uint32_t FindFirst(uint32_t process) const;

 private:
  struct Launch {
    int64_t id, start_ps;
    uint32_t process;
  };
  struct Execution {
    int64_t id, start_ps;
    uint64_t place;
    uint32_t device;
  };
  struct Extent {
    uint64_t first = ~uint64_t{0}, last = 0;  // places
    bool launches = false;
    bool begins_anew = false;  // its first launch is earlier than something before it in the file
    uint32_t parent = 0;       // the process itself, or another one that it belongs to
  };
  struct Votes;

  void Join(uint32_t a, uint32_t b);
  std::optional<uint32_t> ProcessAt(uint64_t place) const;
  std::vector<std::optional<uint32_t>> ElectByPlace(std::span<const Votes> votes) const;
  static std::optional<uint32_t> ElectByTime(const Votes& votes);
  void ElectByElimination(std::vector<Votes>* votes, std::vector<Owner>* owners) const;

  std::vector<Launch> launches_;
  std::vector<Execution> executions_;
  std::vector<Extent> processes_;
  int64_t latest_ps_ = std::numeric_limits<int64_t>::min();  // start, so far
  std::vector<uint32_t> in_order_;  // those that launch, if they follow each other in the file
};

}  // namespace xplane_time::kineto
