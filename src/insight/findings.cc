#include "insight/findings.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "timing/step_summary.h"

namespace xplane_time::insight {
namespace {

// Smaller shares, of the time of all devices or of one device, are not reported.
constexpr double kMinFindingShare = 0.01, kLeastShareOfOne = 0.05;

}  // namespace

FindingList::FindingList(const Trace& trace, const BriefOptions& options, const Analysis& analysis,
                         const WhereReport& where)
    : arguments_(options.arguments), device_(options.device), step_(options.step) {
  for (const TraceFile& file : trace.files) {
    if (options.arguments.empty()) arguments_.push_back(file.path);
  }
  // A path that begins with a dash would be an option.
  for (std::string& path : arguments_) {
    if (path.starts_with('-')) path.insert(0, "./");
  }
  for (const DeviceAnalysis& device : analysis.devices) {
    if (device.watcher == nullptr || device.row.executions == 0) continue;
    const auto& watch = static_cast<const WhereWatch&>(*device.watcher);
    const PartitionSweep& sweep = watch.sweep();
    const WhereDevice& row = where.devices[devices_.size()];
    devices_.push_back({&device, &sweep, &row, {}});
    report_.devices.push_back(
        {.device = row.device, .kind = row.kind, .span_ps = row.time.span_ps.value_or(0)});
    report_.devices.back().steps = SummarizeSteps(device, watch.summary(), analysis.filters);
    report_.span_ps = SaturatingAdd(report_.span_ps, report_.devices.back().span_ps);
  }
}

bool FindingList::IsWorthAWord(const SparseTimes& by_device) const {
  int64_t total_ps = 0;
  bool much_of_one = false;
  for (const auto& [device, ps] : by_device) {
    total_ps = SaturatingAdd(total_ps, ps);
    const double least_ps = kLeastShareOfOne * AsDouble(report_.devices[device].span_ps);
    much_of_one |= ps > 0 && AsDouble(ps) >= least_ps;
  }
  if (total_ps <= 0) return false;
  return much_of_one || AsDouble(total_ps) >= kMinFindingShare * AsDouble(report_.span_ps);
}

void FindingList::Add(BriefFinding finding, const SparseTimes& by_device, double likely) {
  int64_t total_ps = 0;
  for (const auto& [device, ps] : by_device) {
    if (ps <= 0) continue;
    finding.parts.push_back({report_.devices[device].device, ps});
    report_.devices[device].recoverable_ps += ps;
    total_ps = SaturatingAdd(total_ps, ps);
  }
  finding.recoverable_ps = total_ps;
  finding.share = AsDouble(total_ps) / AsDouble(report_.span_ps);
  if (!finding.device.has_value() && finding.parts.size() == 1)
    finding.device = finding.parts[0].device;
  report_.recoverable_ps = SaturatingAdd(report_.recoverable_ps, total_ps);
  findings_.emplace_back(likely * AsDouble(total_ps), std::move(finding));
}

// An op without a roof may be as fast as it can be: it ranks behind devices and runs that are
// proved to be slow.
BriefReport FindingList::Take() && {
  const auto is_slow = [](std::string_view code) {
    return code == "slow_device" || code == "slowing_down";
  };
  double least_ps = std::numeric_limits<double>::max();
  for (auto& [likely_ps, finding] : findings_) {
    if (!is_slow(finding.code) || !finding.recoverable_ps.has_value()) continue;
    // One slow device holds up all others.
    double share = 0;
    for (const BriefPart& part : finding.parts) {
      const auto device = std::ranges::find_if(
          report_.devices, [&](const BriefDevice& each) { return each.device == part.device; });
      share = std::max(share, AsDouble(part.recoverable_ps) / AsDouble(device->span_ps));
    }
    likely_ps = std::max(likely_ps, share * AsDouble(report_.span_ps));
    least_ps = std::min(least_ps, likely_ps);
  }
  for (auto& [likely_ps, finding] : findings_) {
    if (finding.code == "largest_op") likely_ps = std::min(likely_ps, least_ps / 2);
  }
  std::ranges::stable_sort(findings_, std::greater(),
                           [](const auto& finding) { return finding.first; });
  for (auto& [likely_ps, finding] : findings_) report_.findings.push_back(std::move(finding));
  return std::move(report_);
}

}  // namespace xplane_time::insight
