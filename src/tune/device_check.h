// Checks whether several devices agree on the decision, in separate rounds.
//
//   input    the rounds and the verdict of the race on all devices together
//   output   rounds to run on each device, then their analysis (DeviceCheck)
//
//   DevicePlan plan({"gpu 0", "gpu 1"}, config, *verdict.pick, race);
//   while (!(next = plan.Next()).empty()) ...       // measure each, and Take() it
//   plan.Found(id_of).classes                       // one, or several
//
// The pick and at most kRivals rivals run on every device. Rivals are those that did best against
// the pick on any single device, if they are at most kFar worse. The rounds are fresh ones, because
// the race's rounds chose the pick, and luck on one device would look like a difference. The first
// kFirst rounds on each device show the noise. Then follow as many rounds as are needed to detect a
// difference of kShown with a probability of 95 %, up to kMost.
//
// For each variant and round, the value is the logarithm of its time over the median of the other
// variants' times. Each device has the mean of these values without outliers. All cuts of the
// devices into those with low and those with high means are tested by Scheffe's method, which is
// valid for cuts chosen after seeing the data: (|difference| - delta)^2 / (variance (D - 1))
// against F with D - 1 and Welch's degrees of freedom. p-values are adjusted for all variants
// (Holm), at the decision's alpha. The strongest cut makes two classes, and each class is examined
// again with half of the alpha.
//
// A device is slow or fast if its log times, relative to the median of all devices (with two
// devices, to the other one), are outside [-delta, delta]. The intervals hold for all devices
// together. The value of a round is the median over variants, so a single variant that does
// differently well on a device does not make the device slow.
//
// A device on which the pick gave no time is a class by itself. A device without rounds is in no
// class.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "stats/location.h"
#include "xplane_time/decide.h"
#include "xplane_time/tune.h"

namespace xplane_time {

class DevicePlan {
 public:
  static constexpr size_t kRivals = 5, kFirst = 8, kMost = 48;
  static constexpr double kShown = 0.025, kFar = 0.1;

  struct Round {
    int64_t round = 0;
    std::string device;
    std::vector<uint32_t> order;  // indices in the decider's space
  };

  // Log times of a round of the race, by index in the decider's space.
  using LogTimes = std::map<uint32_t, double>;
  struct RaceRound {
    std::string device;
    LogTimes log_times;
  };

  DevicePlan(std::vector<std::string> devices, const DecideConfig& config, uint32_t pick,
             std::span<const RaceRound> race);

  std::span<const uint32_t> variants() const { return variants_; }
  // Empty when all rounds have been planned.
  std::vector<Round> Next();
  // Takes a round of Next that was run and not discarded; any order.
  void Take(const std::string& device, LogTimes log_times) {
    rounds_[device].push_back(std::move(log_times));
  }
  DeviceCheck Found(absl::FunctionRef<std::string(uint32_t place)> id_of) const;

 private:
  // Some devices, as indices in devices_.
  using Places = std::vector<size_t>;
  struct Cut {
    size_t variant = 0;  // index in variants_
    Places low = {}, high = {};
    double p = 1;
  };

  std::vector<double> ValuesOf(size_t device, absl::FunctionRef<double(const LogTimes&)> of) const;
  size_t first_tested() const { return variants_.size() > 2 ? 0 : 1; }
  double LogRatio(const LogTimes& round, size_t variant) const;
  std::vector<stats::Centre> CentresOf(const Places& devices, size_t variant) const;
  Cut BestCut(const Places& devices, size_t variant) const;
  Cut StrongestCut(const Places& devices) const;
  void Divide(const Places& devices, double alpha, std::vector<Places>* classes,
              std::vector<Cut>* cuts) const;
  std::optional<double> MdeWith(double more) const;
  DeviceCheck::Split SplitOf(const Cut& cut) const;
  std::vector<stats::Centre> SpeedsOf(const Places& devices) const;
  void JudgeSpeeds(const Places& devices, DeviceCheck* check) const;
  std::vector<std::string> NamesOf(const Places& devices) const;
  Places Measured() const;
  Places WithoutPick() const;

  std::vector<std::string> devices_;
  double alpha_, delta_;
  std::vector<uint32_t> variants_;                       // the pick first
  size_t planned_ = 0;                                   // rounds on each device
  std::map<std::string, std::vector<LogTimes>> rounds_;  // by device
};

}  // namespace xplane_time
