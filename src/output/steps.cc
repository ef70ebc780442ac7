// The step time and its limiting cause, as the first lines of a report.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "insight/brief_words.h"
#include "output/trace_views.h"

namespace xplane_time::output {
namespace {

using insight::CountText, insight::ShareText, insight::TimeText;

// "12 marks have no execution".
std::string EmptyText(const StepSummary& steps) {
  const uint64_t all = steps.steps + steps.steps_empty;
  return absl::StrCat(steps.steps_empty, " of ", CountText(all, "mark"),
                      steps.steps_empty == 1 ? " has" : " have", " no execution");
}

// ", one step every 40.1 ms", if that is clearly more than the step time.
std::string PeriodText(const StepSummary& steps) {
  constexpr double kClearlyMore = 1.05;
  const double period_ps = steps.step_period_ps.value_or(0);
  if (period_ps <= kClearlyMore * steps.step_median_ps.value_or(0)) return "";
  return absl::StrCat(", one step every ", TimeText(period_ps));
}

// "step time 37.2 ms (median of 10; 12 ms of it the device waits for the host, 32 %)".
std::string TimeLine(const StepSummary& steps) {
  if (steps.step_median_ps.value_or(0) <= 0) {
    return absl::StrCat("step time unknown: ", steps.reason,
                        steps.steps_empty > 0 ? absl::StrCat("; ", EmptyText(steps)) : "");
  }
  std::string text =
      absl::StrCat("step time ", TimeText(*steps.step_median_ps), PeriodText(steps), " (median of ",
                   steps.source == StepSource::kFunction
                       ? absl::StrCat(CountText(steps.steps_timed, "run"), " of ",
                                      Printable(insight::ShortName(steps.function.value_or(""))))
                       : absl::StrCat(steps.steps_timed));
  if (steps.steps_empty > 0) absl::StrAppend(&text, "; ", EmptyText(steps));
  if (steps.shares.has_value() && steps.shares->waits_for_host.has_value()) {
    const double share = *steps.shares->waits_for_host;
    absl::StrAppend(&text, "; the device waits ", TimeText(share * *steps.step_median_ps),
                    " of it for the host, ", ShareText(share));
  }
  return text + ")";
}

template <typename Row>
std::vector<std::string> LinesOf(std::span<const Row> devices) {
  const Row* longest = nullptr;
  size_t count = 0;
  const auto median_ps = [](const Row& row) { return row.steps->step_median_ps.value_or(-1); };
  for (const Row& row : devices) {
    if (!row.steps.has_value()) continue;
    ++count;
    if (longest == nullptr || median_ps(row) > median_ps(*longest)) longest = &row;
  }
  if (longest == nullptr) return {};
  std::vector<std::string> lines = {TimeLine(*longest->steps)};
  if (count > 1) {
    const std::vector<Row> rows(devices.begin(), devices.end());
    absl::StrAppend(&lines[0], " on ", DeviceNames(rows).Name(longest->device), ", the longest of ",
                    count, " devices");
  }
  if (longest->steps->step_median_ps.value_or(0) > 0) {
    lines.push_back(absl::StrCat(std::string(StepVerdictName(longest->steps->verdict)), ": ",
                                 longest->steps->reason));
  }
  return lines;
}

}  // namespace

std::vector<std::string> StepLines(std::span<const DeviceRow> devices) { return LinesOf(devices); }
std::vector<std::string> StepLines(std::span<const BriefDevice> devices) {
  return LinesOf(devices);
}

}  // namespace xplane_time::output
