// Whether several devices agree on what was decided, from rounds of their own.
//
//   enters   the rounds and the verdict of the race on all devices together
//   leaves   rounds to run on each device, then what they say (DeviceCheck)
//
//   DevicePlan plan({"gpu 0", "gpu 1"}, config, *verdict.pick, race);
//   while (!(next = plan.Next()).empty()) ...       // measure each, and Take() it
//   plan.Found(id_of).classes                       // one, or several
//
// The pick and at most kRivals rivals, those that did best against it on any one device and at most
// kFar worse, run on every device, in fresh rounds: those of the race chose the pick, and its luck
// on one device would look like a difference. First kFirst rounds a device tell the noise; then as
// many more, up to kMost, as show a difference of kShown with 95 % probability.
//
// Of each variant: in each round the logarithm of its time over the median of the others', the mean
// of each device without outliers, and all cuts of the devices into those with low and with high
// means. A cut is tested by Scheffe's method, which holds for cuts chosen after the data were seen:
// (|difference| - delta)^2 / (variance (D - 1)) against F with D - 1 and Welch's degrees of
// freedom. p-values are adjusted for all variants (Holm), at the decision's alpha. The strongest
// cut makes two classes, and each is looked at again by itself, with half of the alpha.
//
// A device is slow, or fast, where its log times against the median of all devices', or of two
// against the other's, leave [-delta, delta], with intervals that hold for all devices together. In
// a round that is the median over variants: one that does differently well there makes no device
// slow.
//
// A device on which the pick gave no time is a class of its own. One without rounds is in none.
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
    std::vector<uint32_t> order;  // places of the decider's space
  };

  // What a round of the race took, as logarithms by place of the decider's space.
  using LogTimes = std::map<uint32_t, double>;
  struct RaceRound {
    std::string device;
    LogTimes log_times;
  };

  DevicePlan(std::vector<std::string> devices, const DecideConfig& config, uint32_t pick,
             std::span<const RaceRound> race);

  std::span<const uint32_t> variants() const { return variants_; }
  // None: that is all.
  std::vector<Round> Next();
  // A round of Next that was run, and not discarded, in any order.
  void Take(const std::string& device, LogTimes log_times) {
    rounds_[device].push_back(std::move(log_times));
  }
  DeviceCheck Found(absl::FunctionRef<std::string(uint32_t place)> id_of) const;

 private:
  // Of one device, and of some devices: places in devices_.
  using Places = std::vector<size_t>;
  struct Cut {
    size_t variant = 0;  // in variants_
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
  size_t planned_ = 0;                                   // rounds of each device
  std::map<std::string, std::vector<LogTimes>> rounds_;  // by device
};

}  // namespace xplane_time
