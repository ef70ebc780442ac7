// The step time and its limiting cause, as the first lines of a report.
#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "insight/brief_words.h"
#include "output/trace_views.h"
#include "timing/step_summary.h"

namespace xplane_time::output {
namespace {

using insight::CountText, insight::ShareText, insight::TimeText;

// "12 marks have no execution".
std::string EmptyText(const StepSummary& steps) {
  const uint64_t all = steps.steps + steps.steps_empty;
  return absl::StrCat(steps.steps_empty, " of ", CountText(all, "mark"),
                      steps.steps_empty == 1 ? " has" : " have", " no execution");
}

// ", one step every 40.1 ms", if that is clearly more than the step time. Runs of a function follow
// each other without time between them.
std::string PeriodText(const StepSummary& steps) {
  constexpr double kClearlyMore = 1.05;
  if (steps.source == StepSource::kFunction) return "";
  const double period_ps = steps.step_period_ps.value_or(0);
  if (period_ps <= kClearlyMore * steps.step_median_ps.value_or(0)) return "";
  return absl::StrCat(", one step every ", TimeText(period_ps));
}

// "9 of 10 runs of jit_step; the start of the first is unknown".
std::string CountedSteps(const StepSummary& steps) {
  const bool are_runs = steps.source == StepSource::kFunction;
  std::string text = absl::StrCat(steps.steps_timed);
  if (steps.steps_timed < steps.steps) absl::StrAppend(&text, " of ", steps.steps);
  if (are_runs) {
    absl::StrAppend(&text, steps.steps == 1 ? " run of " : " runs of ",
                    Printable(insight::ShortName(steps.function.value_or(""))));
  }
  if (steps.steps_timed < steps.steps) {
    absl::StrAppend(&text, steps.steps - steps.steps_timed == 1
                               ? "; the start of the first is unknown"
                               : "; the starts of the first are unknown");
  }
  return text;
}

// "step time 37.2 ms (median of 10; 12 ms of it the device waits for the host, 32 %)". `names`: the
// options that choose other steps.
std::string TimeLine(const StepSummary& steps, const char* names) {
  if (steps.has_no_steps()) {
    return absl::StrCat("no step time: ", steps.reason, "; ", names);
  }
  if (steps.step_median_ps.value_or(0) <= 0) {
    return absl::StrCat("step time unknown: ", steps.reason,
                        steps.steps_empty > 0 ? absl::StrCat("; ", EmptyText(steps)) : "");
  }
  std::string text = absl::StrCat("step time ", TimeText(*steps.step_median_ps), PeriodText(steps),
                                  " (median of ", CountedSteps(steps));
  if (steps.steps_empty > 0) absl::StrAppend(&text, "; ", EmptyText(steps));
  if (steps.shares.has_value() && steps.shares->waits_for_host.has_value()) {
    const double share = *steps.shares->waits_for_host;
    absl::StrAppend(&text, "; the device waits ", TimeText(share * *steps.step_median_ps),
                    " of it for the host, ", ShareText(share));
  }
  return text + ")";
}

// The longest step time of each capture.
using CaptureTimes = std::map<uint32_t, double>;

template <typename Row>
CaptureTimes TimesByCapture(std::span<const Row> devices, std::span<const InputRow> inputs) {
  CaptureTimes longest_ps;
  for (const Row& row : devices) {
    if (!row.steps.has_value() || row.device.input >= inputs.size()) continue;
    double& of_capture_ps = longest_ps[inputs[row.device.input].capture];
    of_capture_ps = std::max(of_capture_ps, row.steps->step_median_ps.value_or(0));
  }
  return longest_ps;
}

// "step times by capture: #1 45.9 ms, #2 46.1 ms".
std::string CapturesText(const CaptureTimes& longest_ps) {
  constexpr size_t kMost = 12;
  std::string text = "step times by capture: ";
  size_t shown = 0;
  for (const auto& [capture, ps] : longest_ps) {
    if (++shown > kMost) break;
    absl::StrAppend(&text, shown > 1 ? ", " : "", "#", capture + 1, " ",
                    ps > 0 ? TimeText(ps) : "unknown");
  }
  if (longest_ps.size() > kMost) {
    absl::StrAppend(&text, ", and ", longest_ps.size() - kMost, " more");
  }
  return text;
}

template <typename Row>
std::vector<std::string> LinesOf(std::span<const Row> devices, std::span<const InputRow> inputs,
                                 const char* names) {
  const auto longest = FindLongestSteps(devices);
  if (longest == devices.end()) return {};
  const auto count = static_cast<size_t>(
      std::ranges::count_if(devices, [](const Row& row) { return row.steps.has_value(); }));
  std::vector<std::string> lines = {TimeLine(*longest->steps, names)};
  // Several captures are repeated ones of the same program.
  const CaptureTimes captures = TimesByCapture(devices, inputs);
  if (count > 1 && !longest->steps->has_no_steps()) {
    const std::vector<Row> rows(devices.begin(), devices.end());
    absl::StrAppend(
        &lines[0], " on ", DeviceNames(rows).Name(longest->device), ", the longest of ",
        captures.size() > 1 ? CountText(captures.size(), "capture") : CountText(count, "device"));
  }
  if (longest->steps->step_median_ps.value_or(0) > 0) {
    lines.push_back(absl::StrCat(std::string(StepVerdictName(longest->steps->verdict)), ": ",
                                 longest->steps->reason));
    if (captures.size() > 1) lines.push_back(CapturesText(captures));
  }
  return lines;
}

}  // namespace

std::vector<std::string> StepLines(const Report& report) {
  return LinesOf(std::span<const DeviceRow>(report.devices), report.inputs,
                 "--function names one, --step-re makes host events steps");
}
std::vector<std::string> StepLines(const BriefReport& report) {
  return LinesOf(std::span<const BriefDevice>(report.devices), report.inputs,
                 "--step-re makes host events steps");
}

}  // namespace xplane_time::output
