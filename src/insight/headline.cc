// The headline of a brief: what a reader in a hurry should know.
//
//   step time 36.8 ms, input-bound: the device is idle while its host waits for input: 226 ms of
//   429 ms (53 %)
//   step time 36.8 ms, device-bound: the device is busy 98 % of the time; largest op: dot.3 of
//   jit_step, 7.1 ms of 12.3 ms (58 %); doubtful, see warnings
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>

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

// The longest step time among devices with representative steps, and how many captures have one if
// not all do; empty: no such device.
std::string StepText(const BriefReport& report) {
  std::map<uint32_t, double> longest_ps;  // by capture
  for (const BriefDevice& device : report.devices) {
    double& of_capture_ps = longest_ps[report.inputs[device.device.input].capture];
    if (!device.steps.has_value() || device.steps->steps_empty > device.steps->steps) continue;
    of_capture_ps = std::max(of_capture_ps, device.steps->step_median_ps.value_or(0));
  }
  double most_ps = 0;
  size_t known = 0;
  for (const auto& [capture, ps] : longest_ps) {
    most_ps = std::max(most_ps, ps);
    known += ps > 0 ? 1 : 0;
  }
  if (most_ps <= 0) return "";
  return Cat("step time ", TimeText(most_ps),
             known < longest_ps.size()
                 ? Cat(" in ", known, " of ", CountText(longest_ps.size(), "capture"))
                 : std::string(),
             ", ");
}

bool IsMainCause(const BriefReport& report, const BriefFinding& finding) {
  if (!finding.recoverable_ps.has_value()) return false;
  const bool is_fault = finding.code == "slow_device" || finding.code == "slowing_down" ||
                        finding.code == "recompilation";
  const double least_share = is_fault ? kLeastFaultShare : kMinHeadlineShare;
  if (finding.share.value_or(0) >= least_share) return true;
  return std::ranges::any_of(finding.parts, [&](const BriefPart& part) {
    const auto device = std::ranges::find_if(
        report.devices, [&](const BriefDevice& each) { return each.device == part.device; });
    return device != report.devices.end() &&
           AsDouble(part.recoverable_ps) >= least_share * AsDouble(device->span_ps);
  });
}

double BusyShare(const WhereReport& where) {
  double idle_ps = 0, span_ps = 0;
  for (const WhereDevice& device : where.devices) {
    idle_ps += AsDouble(device.time.idle_ps.value_or(0));
    span_ps += AsDouble(device.time.span_ps.value_or(0));
  }
  return span_ps > 0 ? 1 - idle_ps / span_ps : 0;
}

std::string BusyText(const WhereReport& where) {
  return Cat(where.devices.size() == 1 ? "the device is" : "the devices are", " busy ",
             ShareText(BusyShare(where)), " of the time");
}

// The steps whose verdict the lines below the headline and a report state; null: no step has a
// time.
const StepSummary* FindJudgedSteps(const BriefReport& report) {
  const auto longest = FindLongestSteps(report.devices);
  const bool is_judged =
      longest != report.devices.end() && longest->steps->step_median_ps.value_or(0) > 0;
  return is_judged ? &*longest->steps : nullptr;
}

// "device-bound: ", or the verdict on the steps and its reason. Without steps, a device that is
// mostly busy is the limit.
std::string VerdictText(const StepSummary* steps, const WhereReport& where) {
  constexpr double kMostlyBusy = 0.8;
  if (steps == nullptr) return BusyShare(where) >= kMostlyBusy ? "device-bound: " : "unclear: ";
  if (steps->verdict == StepVerdict::kDeviceBound) return "device-bound: ";
  return Cat(std::string(StepVerdictName(steps->verdict)), ": ", steps->reason, "; ");
}

// Whether the finding names another limit than the verdict on the steps. A finding covers all of
// the trace, the verdict only the steps.
bool Contradicts(const BriefFinding& finding, const StepSummary* steps) {
  if (steps == nullptr || steps->verdict == StepVerdict::kUnclear) return false;
  if (finding.code == "input_bound") return steps->verdict != StepVerdict::kInputBound;
  if (finding.code == "host_bound") return steps->verdict != StepVerdict::kHostBound;
  return finding.code == "idle" &&
         (steps->verdict == StepVerdict::kInputBound || steps->verdict == StepVerdict::kHostBound);
}

// "the device is idle and its host has launched no work".
std::string_view WithoutLimit(std::string_view what) {
  const size_t colon = what.find(": ");
  return colon == what.npos ? what : what.substr(colon + 2);
}

std::string DescribeCause(const BriefReport& report, const WhereReport& where) {
  if (report.devices.empty()) return "unclear: no device executed a kernel";
  const std::string steps = StepText(report);
  const BriefFinding* const first = report.findings.empty() ? nullptr : &report.findings[0];
  const bool has_cause = first != nullptr && IsMainCause(report, *first);
  const StepSummary* const judged = FindJudgedSteps(report);
  if (has_cause && first->code != "largest_op") {
    const std::string amount =
        AmountText(*first->recoverable_ps, report.span_ps, report.devices.size());
    if (!Contradicts(*first, judged)) return Cat(steps, first->what, ": ", amount);
    return Cat(steps, std::string(StepVerdictName(judged->verdict)), ": ", judged->reason,
               "; largest finding: ", WithoutLimit(first->what), ": ", amount);
  }
  const std::string busy = Cat(steps, VerdictText(judged, where), BusyText(where));
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
