// FindingList: what findings share: the devices, whose time each finding takes, and the commands
// that show the same.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "insight/brief_words.h"
#include "insight/slow_runs.h"
#include "insight/where_watch.h"
#include "saturate.h"
#include "status.h"
#include "xplane_time/brief.h"

namespace xplane_time::insight {

double AsDouble(auto number) { return static_cast<double>(number); }

// The time of a finding, by device and by name.
class Tally {
 public:
  explicit Tally(size_t devices) : by_device_(devices) {}
  void Add(size_t device, const std::string& name, int64_t ps, uint64_t count = 0) {
    if (ps <= 0) return;
    by_device_[device] = SaturatingAdd(by_device_[device], ps);
    int64_t& of_both_ps = by_both_[{device, name}];
    of_both_ps = SaturatingAdd(of_both_ps, ps);
    auto& [of_name_ps, of_name_count] = by_name_[name];
    of_name_ps = SaturatingAdd(of_name_ps, ps);
    of_name_count += count;
    count_ += count;
  }
  // The time added for a name on a device, without the part that was taken.
  int64_t of(size_t device, const std::string& name) const {
    const auto found = by_both_.find({device, name});
    return found == by_both_.end() ? 0 : std::min(found->second, by_device_[device]);
  }
  // Takes what others have of a device's time.
  void Take(size_t device, int64_t ps) { by_device_[device] -= std::min(ps, by_device_[device]); }

  int64_t total_ps() const {
    return std::accumulate(by_device_.begin(), by_device_.end(), int64_t{0}, SaturatingAdd);
  }
  const std::vector<int64_t>& by_device() const { return by_device_; }
  uint64_t count() const { return count_; }
  size_t names() const { return by_name_.size(); }
  struct Most {
    std::string name;
    int64_t ps = 0;
    uint64_t count = 0;
  };
  Most most() const {
    Most most;
    for (const auto& [name, of_name] : by_name_) {
      if (of_name.first > most.ps) most = {name, of_name.first, of_name.second};
    }
    return most;
  }
  // The share of most() in the total: "mostly", or "32 %".
  std::string MostlyText() const {
    const double share = static_cast<double>(most().ps) / static_cast<double>(total_ps());
    return share > 0.5 ? "mostly" : ShareText(share);
  }
  // The device with the largest part.
  size_t device() const {
    return static_cast<size_t>(std::ranges::max_element(by_device_) - by_device_.begin());
  }

 private:
  std::vector<int64_t> by_device_;
  std::map<std::string, std::pair<int64_t, uint64_t>> by_name_;
  std::map<std::pair<size_t, std::string>, int64_t> by_both_;
  uint64_t count_ = 0;
};

struct OfDevice {
  const DeviceAnalysis* analysis;
  const PartitionSweep* sweep;
  const WhereDevice* row;
  Claims claims;
};

// "dot.1 of jit_f".
inline std::string OfFunction(std::string_view op, std::string_view function) {
  return Cat(op, " of ", function);
}
// The same; without a function, the op alone.
inline std::string NameOp(const std::string& op, const std::optional<std::string>& function) {
  return function.has_value() ? OfFunction(op, *function) : op;
}

class FindingList {
 public:
  // `analysis` needs WhereWatch watchers; `where` is its report.
  FindingList(const Trace& trace, const BriefOptions& options, const Analysis& analysis,
              const WhereReport& where);

  // Picoseconds by device; absent: 0. Sparse, because there may be many ops, each on few devices.
  using SparseTimes = std::map<size_t, int64_t>;

  // Whether a finding that takes so much of each device is one.
  bool IsWorthAWord(const SparseTimes& by_device) const;
  bool IsWorthAWord(const std::vector<int64_t>& by_device) const {
    return IsWorthAWord(Sparse(by_device));
  }
  // Fills the members that follow from the time, and adds it. `likely`: the fraction of the time by
  // which the finding is ranked.
  void Add(BriefFinding finding, const SparseTimes& by_device, double likely = 1);
  void Add(BriefFinding finding, const std::vector<int64_t>& by_device) {
    Add(std::move(finding), Sparse(by_device));
  }
  // The recoverable time of ops near their roofs, which is reported separately.
  void AddNearRoof(int64_t ps) { report_.near_roof_ps = SaturatingAdd(report_.near_roof_ps, ps); }
  // Its time is not known.
  void AddUnknown(BriefFinding finding) { findings_.emplace_back(-1, std::move(finding)); }
  // The likeliest first.
  BriefReport Take() &&;

  std::vector<OfDevice>& devices() { return devices_; }
  const std::vector<OfDevice>& devices() const { return devices_; }
  const DeviceRef& RefOf(size_t device) const { return report_.devices[device].device; }
  const std::vector<std::string>& arguments() const { return arguments_; }
  int64_t span_ps() const { return report_.span_ps; }  // of all devices
  const std::optional<StepSummary>& steps(size_t device) const {
    return report_.devices[device].steps;
  }

  // 0: the device has no steps, or its `where` lists runs that are none (StepSummary).
  uint64_t CountSteps(size_t device) const {
    const std::optional<StepSummary>& steps = report_.devices[device].steps;
    return steps.has_value() && steps->has_no_steps() ? 0 : devices_[device].row->steps;
  }

  std::string Command(const char* command, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {command};
    words.insert(words.end(), arguments_.begin(), arguments_.end());
    if (!device_.empty()) words.insert(words.end(), {"--device", device_});
    const bool has_steps = std::string_view(command) == "where";
    if (has_steps && !step_.empty()) words.insert(words.end(), {"--step-re", step_});
    words.insert(words.end(), more.begin(), more.end());
    return CommandText(words);
  }
  std::string FunctionCommand(const char* command, const std::string& function,
                              std::vector<std::string> more) const {
    more.insert(more.begin(), {"--function", ExactName(function)});
    return Command(command, more);
  }

  const ProgramInfo* ProgramOf(const OfDevice& device, uint32_t program) const {
    return program == kNone ? nullptr : &device.analysis->tables->programs[program];
  }
  // "dot.1 of jit_f".
  std::string OpName(const OfDevice& device, const OwnedTimes& owner) const {
    const OpInfo& op = device.analysis->tables->ops[owner.op];
    const ProgramInfo* const program = ProgramOf(device, owner.program);
    return program == nullptr ? op.kernel : OfFunction(op.kernel, program->function);
  }
  std::string FunctionName(const OfDevice& device, const OwnedTimes& owner) const {
    const ProgramInfo* const program = ProgramOf(device, owner.program);
    return program == nullptr ? device.analysis->tables->ops[owner.op].kernel : program->function;
  }

 private:
  static SparseTimes Sparse(const std::vector<int64_t>& by_device) {
    SparseTimes times;
    for (size_t i = 0; i < by_device.size(); ++i) {
      if (by_device[i] != 0) times.emplace_hint(times.end(), i, by_device[i]);
    }
    return times;
  }

  std::vector<std::string> arguments_;
  std::string device_;  // --device
  std::string step_;    // --step-re
  std::vector<OfDevice> devices_;
  std::vector<std::pair<double, BriefFinding>> findings_;  // and the time by which they are ranked
  BriefReport report_;
};

// below_roof, padding, largest_op and roof_unknown: the recoverable time of ops, within the compute
// time that slow devices and slow runs leave.
void AddRoofs(const HeadroomReport& headroom, FindingList* findings);

// The largest ops of all devices. `headroom`: what is known of them.
std::vector<BriefOp> FindLargestOps(const HeadroomReport& headroom, const FindingList& findings);
// Whether the trace is known to lack something, or to hold something that cannot be right.
bool IsDoubtful(const BriefReport& report);
// BriefReport::headline, from all else in the report.
std::string DescribeMainCause(const BriefReport& report, const WhereReport& where);

}  // namespace xplane_time::insight
