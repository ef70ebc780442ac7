// LaunchOwners: finds the process that launched the executions of each device, in a file into which
// several ranks were merged. Each process numbers its launches independently, so one correlation id
// may belong to a launch of each process:
//
//   process 1000    launch 1   launch 2              device 0    |--1--|  |-2-|
//   process 2000       launch 1   launch 2           device 1       |--1--|  |-2-|
//
// If several processes have the ids of a device, its owner is
// - the process whose part of the file contains the executions, if the events of the processes
//   follow each other in the file (traces that were joined end to end);
// - otherwise the only process that has a launch before nearly all executions. Processes that own
//   another device with executions of the same ids are excluded.
//
// If neither rule decides, the device has no owner: it is unknown who launched its executions.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace xplane_time::kineto {

class LaunchOwners {
 public:
  // Processes and devices are given by index. Calls must follow the order of the file. `place`:
  // position of the event in the file.
  void AddEvent(uint32_t process, uint64_t place);
  void AddLaunch(uint32_t process, int64_t id, int64_t start_ps, uint64_t place);
  void AddExecution(uint32_t device, int64_t id, int64_t start_ps, uint64_t place);

  struct Owner {
    std::optional<uint32_t> process;  // one of the processes that belong together
    uint64_t undecided = 0;           // executions with an id that several processes have
  };
  // Owners by device, after the last Add call; empty if no id is shared. If several processes with
  // different ids launched the executions of one device, these processes belong together.
  std::vector<Owner> Decide();
  // After Decide(): the first of the processes that belong together with `process`.
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
    uint64_t first = ~uint64_t{0}, last = 0;  // positions in the file
    bool launches = false;
    bool begins_anew = false;  // its first launch is earlier than an event before it in the file
    uint32_t parent = 0;       // the process itself, or another process to which it belongs
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
  int64_t latest_ps_ = std::numeric_limits<int64_t>::min();  // latest start so far
  // processes with launches in file order, if their events do not overlap in the file
  std::vector<uint32_t> in_order_;
};

}  // namespace xplane_time::kineto
