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

// "step time 37.2 ms (median of 10; 12 ms of it the device waits for the host, 32 %)".
// `can_name`: the command has --function.
std::string TimeLine(const StepSummary& steps, bool can_name) {
  if (steps.has_no_steps()) {
    return absl::StrCat(
        "no step time: ", steps.reason,
        can_name && !steps.needs_marks ? "; choose a function with --function, or " : "; ",
        "use host events as steps with --step-re");
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

// The longest step time of each capture; 0: unknown.
using CaptureTimes = std::map<uint32_t, double>;

// 0: unknown.
double StepTimePs(const auto& row) {
  return row.steps.has_value() ? row.steps->step_median_ps.value_or(0) : 0;
}

template <typename Row>
CaptureTimes TimesByCapture(std::span<const Row> devices, std::span<const InputRow> inputs) {
  CaptureTimes longest_ps;
  for (const Row& row : devices) {
    if (row.device.input >= inputs.size()) continue;
    double& of_capture_ps = longest_ps[inputs[row.device.input].capture];
    of_capture_ps = std::max(of_capture_ps, StepTimePs(row));
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

// A brief has only devices that executed something.
template <typename Row>
size_t CountExecuting(std::span<const Row> devices) {
  return static_cast<size_t>(std::ranges::count_if(devices, [](const Row& row) {
    if constexpr (requires { row.executions; }) return row.executions > 0;
    return true;
  }));
}

// ", the longest of 3 captures; partial: 1 of 4 captures has no step time".
std::string AmongText(size_t known, size_t all, const char* what) {
  std::string text =
      known > 1 ? absl::StrCat(", the longest of ", CountText(known, what)) : std::string();
  if (const size_t unknown = all - known; unknown > 0) {
    absl::StrAppend(&text, "; partial: ", unknown, " of ", CountText(all, what),
                    unknown == 1 ? " has" : " have", " no step time");
  }
  return text;
}

template <typename Row>
std::vector<std::string> LinesOf(std::span<const Row> devices, std::span<const InputRow> inputs,
                                 bool can_name) {
  const auto longest = FindLongestSteps(devices);
  if (longest == devices.end()) return {};
  std::vector<std::string> lines = {TimeLine(*longest->steps, can_name)};
  // Several captures are repeated ones of the same program.
  const CaptureTimes captures = TimesByCapture(devices, inputs);
  if (devices.size() > 1 && StepTimePs(*longest) > 0) {
    const std::vector<Row> rows(devices.begin(), devices.end());
    const auto is_known = [](double ps) { return ps > 0; };
    const auto known_captures = static_cast<size_t>(
        std::ranges::count_if(captures, is_known, &CaptureTimes::value_type::second));
    const auto known_devices = static_cast<size_t>(
        std::ranges::count_if(devices, is_known, [](const Row& row) { return StepTimePs(row); }));
    absl::StrAppend(&lines[0], " on ", DeviceNames(rows).Name(longest->device),
                    captures.size() > 1
                        ? AmongText(known_captures, captures.size(), "capture")
                        : AmongText(known_devices, CountExecuting(devices), "device"));
  }
  if (StepTimePs(*longest) > 0) {
    lines.push_back(absl::StrCat(std::string(StepVerdictName(longest->steps->verdict)), ": ",
                                 longest->steps->reason));
    if (captures.size() > 1) lines.push_back(CapturesText(captures));
  }
  return lines;
}

}  // namespace

std::vector<std::string> StepLines(const Report& report) {
  return LinesOf(std::span<const DeviceRow>(report.devices), report.inputs,
                 /*can_name=*/true);
}
std::vector<std::string> StepLines(const BriefReport& report) {
  return LinesOf(std::span<const BriefDevice>(report.devices), report.inputs,
                 /*can_name=*/false);
}

}  // namespace xplane_time::output
