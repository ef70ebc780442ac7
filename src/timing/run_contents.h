// RunContents: which ops each run executed, and which runs lack some.
//
// Runs of a program mostly execute the same ops: contents are kept once, as counts, and a
// run holds the number of its content. The ops of runs that may go on are kept as they
// come, as far as those of all runs are few.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace xplane_time {

class RunContents {
 public:
  // The ops of a run so far, for appending `more`: symbols, equal for ops that are the
  // same to the program. Valid until the next call.
  std::vector<uint32_t>* Open(uint32_t run, size_t more) {
    if (run != current_run_ || buffered_ >= kMostBuffered) SwitchTo(run);
    buffered_ += more;
    return current_;
  }

  // Marks the runs, all of one program, that lack ops: those whose ops are a strict subset
  // of the modal run's, where the mode covers at least 3/4 of at least 4 runs; of tied
  // modes the larger.
  std::vector<bool> Suspects(std::span<const uint32_t> runs);

 private:
  using Symbols = std::vector<uint32_t>;
  using Counts = std::vector<std::pair<uint32_t, uint64_t>>;  // by symbol
  static constexpr uint32_t kNoRun = ~uint32_t{0};
  static constexpr uint64_t kMostBuffered = uint64_t{1} << 21;

  void SwitchTo(uint32_t run);
  void CloseAll();
  void GoOn(uint32_t run, const Symbols& more);
  uint32_t NumberOf(const Symbols& in_order);
  uint32_t NumberOf(Counts counts);

  struct OpenRun {
    uint32_t run = kNoRun;
    Symbols symbols;  // since it was opened
  };
  std::deque<OpenRun> open_;  // the first open_count_ of them; the others wait for reuse
  size_t open_count_ = 0;
  std::vector<uint32_t> open_of_run_;  // + 1; 0: not open
  uint32_t current_run_ = kNoRun;
  Symbols* current_ = nullptr;  // in open_
  uint64_t buffered_ = 0;
  std::vector<uint32_t> content_of_run_;  // + 1; 0: none yet
  // Runs that went on after they were closed, and all that is in them.
  absl::flat_hash_map<uint32_t, absl::flat_hash_map<uint32_t, uint64_t>> growing_;
  std::map<Counts, uint32_t> number_of_content_;
  std::vector<const Counts*> contents_;
  absl::flat_hash_map<Symbols, uint32_t> number_of_order_;  // as executed: a shortcut
};

}  // namespace xplane_time
