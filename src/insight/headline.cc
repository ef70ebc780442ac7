// The headline of a brief: what a reader in a hurry should know.
//
//   step time 36.8 ms, input-bound: the device is idle while its host waits for input: 226 ms of
//   429 ms (53 %)
//   step time 36.8 ms, device-bound: the device is busy 98 % of the time; largest op: dot.3 of
//   jit_step, 7.1 ms of 12.3 ms (58 %); doubtful, see warnings
#include <algorithm>
#include <optional>
#include <string>

#include "insight/brief_words.h"
#include "insight/findings.h"
#include "status.h"
#include "timing/step_summary.h"

namespace xplane_time::insight {
namespace {

// The least share of a headline, of the time of all devices or of one. The lower limit is for
// faults: slow devices, slow runs and compilation.
constexpr double kMinHeadlineShare = 0.05, kLeastFaultShare = 0.02;

std::string AmountText(int64_t ps, int64_t span_ps, size_t devices) {
  return Cat(TimeText(AsDouble(ps)), " of ", TimeText(AsDouble(span_ps)), " (",
             ShareText(AsDouble(ps) / AsDouble(span_ps)), ")",
             devices > 1 ? Cat(" on ", devices, " devices") : std::string());
}

// The longest step time among devices with representative steps; empty: no such device.
std::string StepText(const BriefReport& report) {
  double longest_ps = 0;
  for (const BriefDevice& device : report.devices) {
    if (!device.steps.has_value() || device.steps->steps_empty > device.steps->steps) continue;
    longest_ps = std::max(longest_ps, device.steps->step_median_ps.value_or(0));
  }
  return longest_ps > 0 ? Cat("step time ", TimeText(longest_ps), ", ") : "";
}

bool IsMainCause(const BriefReport& report, const BriefFinding& finding) {
  if (!finding.recoverable_ps.has_value()) return false;
  const bool is_fault = finding.code == "slow_device" || finding.code == "slowing_down" ||
                        finding.code == "recompilation";
  const double least_share = is_fault ? kLeastFaultShare : kMinHeadlineShare;
  if (finding.share.value_or(0) >= least_share) return true;
  return std::ranges::any_of(finding.parts, [&](const BriefPart& part) {
    const auto device = std::ranges::find_if(report.devices, [&](const BriefDevice& each) {
      return SameDevice(each.device, part.device);
    });
    return device != report.devices.end() &&
           AsDouble(part.recoverable_ps) >= least_share * AsDouble(device->span_ps);
  });
}

std::string BusyText(const WhereReport& where) {
  double idle_ps = 0, span_ps = 0;
  for (const WhereDevice& device : where.devices) {
    idle_ps += AsDouble(device.time.idle_ps.value_or(0));
    span_ps += AsDouble(device.time.span_ps.value_or(0));
  }
  return Cat(where.devices.size() == 1 ? "the device is" : "the devices are", " busy ",
             ShareText(span_ps > 0 ? 1 - idle_ps / span_ps : 0), " of the time");
}

// "device-bound: ", or what the steps show, as in the lines below the headline and in a report.
std::string VerdictText(const BriefReport& report) {
  const auto longest = FindLongestSteps(report.devices);
  const bool is_judged =
      longest != report.devices.end() && longest->steps->step_median_ps.value_or(0) > 0;
  if (!is_judged || longest->steps->verdict == StepVerdict::kDeviceBound) return "device-bound: ";
  return Cat(std::string(StepVerdictName(longest->steps->verdict)), ": ", longest->steps->reason,
             "; ");
}

std::string DescribeCause(const BriefReport& report, const WhereReport& where) {
  if (report.devices.empty()) return "unclear: no device executed a kernel";
  const std::string steps = StepText(report);
  const BriefFinding* const first = report.findings.empty() ? nullptr : &report.findings[0];
  const bool has_cause = first != nullptr && IsMainCause(report, *first);
  if (has_cause && first->code != "largest_op") {
    return Cat(steps, first->what, ": ",
               AmountText(*first->recoverable_ps, report.span_ps, report.devices.size()));
  }
  const std::string busy = Cat(steps, VerdictText(report), BusyText(where));
  if (report.ops.empty()) return busy;
  const BriefOp* largest = &report.ops[0];
  int64_t largest_ps = largest->time_ps;
  if (has_cause) {
    const auto found = std::ranges::find_if(report.ops, [&](const BriefOp& op) {
      return op.op == first->op && op.function == first->function;
    });
    if (found != report.ops.end()) {
      largest = &*found;
      largest_ps = *first->recoverable_ps;
    }
  }
  return Cat(busy, "; largest op: ", ShortName(NameOp(largest->op, largest->function)),
             largest->source ? Cat(" (", *largest->source, ")") : "", ", ",
             AmountText(largest_ps, report.span_ps, report.devices.size()));
}

}  // namespace

bool IsDoubtful(const BriefReport& report) {
  return std::ranges::any_of(report.diagnostics, &DiagnosticRow::is_doubt);
}

std::string DescribeMainCause(const BriefReport& report, const WhereReport& where) {
  return Cat(DescribeCause(report, where), IsDoubtful(report) ? "; doubtful, see warnings" : "");
}

}  // namespace xplane_time::insight
