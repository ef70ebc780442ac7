// Publication instants of a sensor, from polls.
//
// A sensor publishes on its own grid, every U. We poll it at other times. If the value changed
// between two polls, it was published between them. This interval is the bracket of the update:
//
//   polls        |     |     |     |     |
//   values       7     7     8     8     9
//   published             (--]        (--]      brackets
//   grid        ^           ^           ^       one phase and one period that satisfy all brackets
//
// 680 brackets of 50 ms give the period to about 10 us and the phase to 1 ms, much better than a
// single bracket.
//
// Some sensors date their values (NVML's fields have a timestamp). If the dates are consistent with
// the brackets, each update has an exact instant and no grid is needed. That is essential for a
// sensor that is polled about as often as it publishes: then nearly every poll sees a new value,
// all brackets are one period wide, and many grids satisfy all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "xplane_time/power.h"

namespace xplane_time::energy {

// One answer of the sensor. Times are in seconds on the capture's axis.
struct Poll {
  double before_s = 0, after_s = 0;  // around the call
  int64_t value = 0;                 // uJ or mW
  // The date of the value, according to the sensor.
  std::optional<double> sampled_s = {};
  // Grows at each reset of a counter. How much energy a reset hides is unknown.
  uint32_t part = 0;
};

// Readings below 0, which no power or counter can be. They are damage, and are skipped.
struct NegativeReadings {
  uint64_t count = 0;
  int64_t first_value = 0;
  std::string first_place = {};  // where the first one is
};

// A publication. It happened in (low_s, high_s]. If the sensor dated it, both are its instant.
struct Update {
  double low_s = 0, high_s = 0;
  int64_t value = 0;
  double polled_s = 0;  // when the value was read
  uint32_t part = 0;    // of its poll
};

struct Publications {
  std::vector<Update> updates;
  // Intervals without a publication. An unchanged value proves that for a counter, which always
  // grows, and for readings so fine that two in a row are hardly ever equal.
  struct Quiet {
    double from_s = 0, to_s = 0;
  };
  std::vector<Quiet> quiet;
  bool dated = false;  // by the sensor
  // Power: each value may have been published right before it was read.
  bool may_be_instants_of_polls = false;
  // Equal readings are updates: the power may be constant, and each reading momentary.
  bool may_be_momentary = false;
};

// Where polls come from.
enum class PollSource {
  kRecorder,  // reads a sensor, perhaps more often than it publishes
  kTrack,     // samples in a trace: each is a reading of its own, also if values repeat
};

// The first value of a counter, and the first after a reset, was published before its poll and is
// not an update. An equal power is an update if the sensor dates it anew. Without dates, each poll
// is an update, except if the changes show that the sensor is polled faster than it publishes. Then
// an equal power is one update per period. Dates of the sensor are ignored if they contradict the
// brackets or only repeat the time of the poll.
Publications FindPublications(std::span<const Poll> polls, ReadingKind kind,
                              PollSource source = PollSource::kRecorder);

struct Grid {
  double phase_s = 0, period_s = 0;
  std::vector<int64_t> number = {};  // of each update: published at phase_s + number x period_s
  double period_slack_s = 0;         // possible error of the period, by the brackets
  double middle_slack_s = 0;         // possible error of the instants in the middle of the updates
  size_t misfits = 0;                // number of updates that lie outside of their brackets
  std::vector<double> dated_s = {};  // of each update, if the sensor dates them

  double InstantS(size_t update) const {
    if (!dated_s.empty()) return dated_s[update];
    return phase_s + static_cast<double>(number[update]) * period_s;
  }
  double MiddleNumber() const {
    return (static_cast<double>(number.front()) + static_cast<double>(number.back())) / 2;
  }
};

// Returns the grids that fit, the best first. If polls come at a multiple of the period, several
// grids fit; the regression then finds the right one. Empty if there are fewer than `kLeastUpdates`
// updates. O(candidates x n log n).
inline constexpr size_t kLeastUpdates = 8;
std::vector<Grid> FindGrids(const Publications& publications, int threads = 1);

// A range of periods.
struct PeriodRange {
  double shortest_s = 0, longest_s = 0;
};
// The periods that are likely if a sensor without dates is polled about as often as it publishes:
// near the time between updates, then near half of it. Empty if polls are more frequent.
std::vector<PeriodRange> FindPeriodsOfRarePolls(const Publications& publications);

// The grid on which each poll read the last publication before it. The phase and the period may
// move, but not the numbers of the updates.
Grid NumberUpdates(std::span<const Update> updates, double phase_s, double period_s);

}  // namespace xplane_time::energy
