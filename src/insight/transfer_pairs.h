// TransferPairs: which -start and -done are one transfer, on a device that runs other ops between
// them.
//
//   copy-start.1 |-|                          a -done names its -start; of the executions of that
//   fusion          |-----| |----|            op in the same run it is the latest before it that no
//   copy-done.1                    |--|       other -done has
//                <--- in flight ------>
//
// Enters and leaves: executions in order of start. A -start waits here until its -done is seen or
// its run is over, and with it all that come after: memory, at most what a run executes.
#pragma once

#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "insight/partition.h"

namespace xplane_time::insight {

class TransferPairs {
 public:
  // `modules`: by run.
  TransferPairs(std::shared_ptr<const ExecutionTables> tables, std::span<const ModuleEvent> modules)
      : tables_(std::move(tables)), modules_(modules) {}

  // Appends executions to `ready` if they no longer wait for a partner.
  void Add(std::span<const Piece> pieces, std::vector<Piece>* ready);
  void Finish(std::vector<Piece>* ready);

  uint64_t lone_dones() const { return lone_dones_; }  // that name a missing -start

 private:
  struct Waiting {
    Piece piece;
    bool is_open;  // a -start without a -done so far
  };
  struct OpenRun {
    uint32_t run;
    absl::flat_hash_map<uint32_t, std::vector<uint64_t>> starts;  // numbers, by name
  };

  void LearnOps();
  uint32_t NameOf(const std::string& op);
  void Look(Piece* piece);
  void CloseRuns(int64_t profile_ps);
  OpenRun* RunOf(uint32_t run);
  Waiting* Numbered(uint64_t number) { return &waiting_[number - first_]; }

  const std::shared_ptr<const ExecutionTables> tables_;
  const std::span<const ModuleEvent> modules_;
  absl::flat_hash_map<std::string, uint32_t> names_;
  std::vector<uint32_t> start_of_, done_of_;  // by op: the name of the -start that it is, or ends
  std::deque<Waiting> waiting_;
  uint64_t first_ = 0;  // the number of waiting_[0]
  std::vector<OpenRun> open_runs_;
  uint64_t lone_dones_ = 0;
};

}  // namespace xplane_time::insight
