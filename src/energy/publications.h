// When a sensor published what was read: from polls to instants.
//
// A sensor publishes on a grid of its own, every U; we poll it at other times. A value that did not
// change between two polls says nothing of the power; one that changed was published between them:
//
//   polls        |     |     |     |     |
//   values       7     7     8     8     9
//   published             (--]        (--]      brackets: between the polls, not at them
//   grid        ^           ^           ^       one phase and one period that lie in all of them
//
// 680 brackets of 50 ms tell the period to some 10 us and the phase to 1 ms, which no bracket does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "xplane_time/power.h"

namespace xplane_time::energy {

// One answer of the sensor, in seconds of the capture's axis.
struct Poll {
  double before_s = 0, after_s = 0;  // around the call
  int64_t value = 0;                 // uJ or mW
};

// What is known of one publication: in (low_s, high_s] of it; the value is new.
struct Update {
  double low_s = 0, high_s = 0;
  int64_t value = 0;
};

struct Publications {
  std::vector<Update> updates;
  // Between these nothing was published that would have been seen: of counters, which always grow.
  struct Quiet {
    double from_s = 0, to_s = 0;
  };
  std::vector<Quiet> quiet;
};
// The first value was there before the first poll, and is no update.
Publications FindPublications(std::span<const Poll> polls, ReadingKind kind);

struct Grid {
  double phase_s = 0, period_s = 0;
  std::vector<int64_t> number = {};  // of each update: published at phase_s + number x period_s
  double period_slack_s = 0;         // how far the period may be off, by the brackets
  double middle_slack_s = 0;         // and the instants in the middle of the updates
  size_t misfits = 0;                // updates whose brackets it does not meet

  double InstantS(size_t update) const {
    return phase_s + static_cast<double>(number[update]) * period_s;
  }
  double MiddleNumber() const {
    return (static_cast<double>(number.front()) + static_cast<double>(number.back())) / 2;
  }
};

// Grids that fit, the best first: polls at a multiple of the period fit several, and only the power
// tells which is the sensor's. Empty below `kLeastUpdates` updates. O(candidates x n log n).
inline constexpr size_t kLeastUpdates = 8;
std::vector<Grid> FindGrids(const Publications& publications, int threads = 1);

}  // namespace xplane_time::energy
