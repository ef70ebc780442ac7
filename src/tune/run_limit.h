// The run limit: how long a slot may take, from how long slots took.
//
// Enters: durations of slots as the driver sees them, which is what a limit by the driver's
// clock must be made of: calls, argument handling and all. Leaves: `times` the typical
// duration of the fastest variant, at least a second (kFloor) and at most the slot's timeout;
// the timeout alone until a round is complete.
//
//   RunLimit limit(10, 60s);
//   limit.Of("", "a", ...)                       // 60 s: nothing is known
//   limit.Took("", "b", 200ms); limit.EndRound();
//   limit.Of("", "a", ...)                       // 2 s
//
// Not handled here: what an overrun means. docs/tuning.md says what is done so that a machine
// that stood still blames nobody.
#ifndef XPLANE_TIME_SRC_TUNE_RUN_LIMIT_H_
#define XPLANE_TIME_SRC_TUNE_RUN_LIMIT_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace xplane_time {

class RunLimit {
 public:
  using Duration = std::chrono::nanoseconds;
  static constexpr Duration kFloor = std::chrono::seconds(1);

  // `times` 0: there is no limit but the timeout.
  RunLimit(double times, Duration timeout) : times_(times), timeout_(timeout) {}

  // Of a complete round: a slot that another followed, but not the first, which has the
  // untimed run in it.
  void Took(const std::string& workload, const std::string& variant, Duration duration);
  // The last slot of it, with all that comes after: reading a trace, say.
  void Ended(const std::string& workload, Duration duration);
  void EndRound();

  // What a slot may take. The first one runs its variant once more; after the last one comes
  // what ends a round, which may take `times` the shortest end seen. None: no more than the
  // timeout says.
  enum class Place : uint8_t { kFirst, kWithin, kLast };
  std::optional<Duration> Of(const std::string& workload, const std::string& variant,
                             Place place) const;
  // The same for a round of this variant alone, of which it is the second try: twice that of
  // a first slot, and the end of a round.
  Duration Alone(const std::string& workload, const std::string& variant) const;
  // It was within the limit when it ran alone: it is slow, and not stuck.
  void Exempt(const std::string& variant) { exempt_.insert(variant); }

  double times() const { return times_; }
  // Typical of the fastest.
  Duration Fastest(const std::string& workload) const;

 private:
  struct OfWorkload {
    std::map<std::string, std::vector<Duration>> slots = {};  // sorted, the first few of each
    std::optional<Duration> fastest = {};
    std::optional<Duration> shortest_end = {};
  };
  Duration EndOf(const OfWorkload& workload) const;

  double times_;
  Duration timeout_;
  std::map<std::string, OfWorkload> workloads_;
  std::set<std::string> exempt_;
};

}  // namespace xplane_time

#endif  // XPLANE_TIME_SRC_TUNE_RUN_LIMIT_H_
