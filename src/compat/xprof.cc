// xprof/cli/internal/oss/kernel_stats_tools.py, get_kernel_stats with its summary: the output of
// the command get_device_time_attribution.
//
// Each line of a device plane is classified by its name (LineKind). Lines with kernels give the
// records by name; other lines give regions, steps or only their covered time. Covered times are
// unions of intervals in whole nanoseconds, merged in the original's order.
#include <re2/re2.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compat/python.h"
#include "read/file_events.h"
#include "status.h"
#include "xplane_time/compat.h"

namespace xplane_time::compat {
namespace {

using Nanoseconds = absl::int128;

// Merges intervals that are sorted by start alone, as xprof does.
int64_t CoveredNs(Spans intervals) {
  std::ranges::stable_sort(intervals, {}, &Spans::value_type::first);
  return static_cast<int64_t>(Covered(intervals));
}

// xprof's names pass through C strings.
std::string_view UpToNul(std::string_view text) { return text.substr(0, text.find('\0')); }

std::string Upper(std::string_view text) {
  return absl::AsciiStrToUpper({text.data(), text.size()});
}

std::string NameOf(const Plane& plane, int64_t metadata_id) {
  const uint32_t at = plane.event_metadata.Find(metadata_id);
  if (at == kNoMetadata) return absl::StrCat(metadata_id);
  return std::string(UpToNul(plane.event_metadata.entries[at].name));
}

std::string_view StatNameOf(const Plane& plane, int64_t metadata_id) {
  const uint32_t at = plane.stat_metadata.Find(metadata_id);
  return at == kNoMetadata ? std::string_view() : UpToNul(plane.stat_metadata.entries[at].name);
}

// A reference is shown as its number, not as the text it refers to.
std::string StatText(const StatValue& value) {
  switch (value.type) {
    case StatType::kDouble:
      return absl::StrFormat("%f", std::bit_cast<double>(value.bits));
    case StatType::kInt64:
      return absl::StrCat(static_cast<int64_t>(value.bits));
    case StatType::kUint64:
    case StatType::kRef:
      return absl::StrCat(value.bits);
    case StatType::kString:
      return std::string(UpToNul(value.text));
    case StatType::kBytes:
      return "<bytes>";
    default:
      return "";
  }
}

enum class LineKind { kKernels, kRegions, kOther };

LineKind LineKindOf(bool is_tpu, std::string_view upper) {
  static const RE2 excluded("COUNTER|MODULES|OVERLAY|SYNC FLAG|SENSOR"), kernels("XLA OPS|PALLAS"),
      regions("^LLO OPS$|^PALLAS PRIMITIVES$| INSTRUCTIONS$");
  const bool is_kernels =
      is_tpu ? RE2::FullMatch(upper, kernels) : !RE2::PartialMatch(upper, excluded);
  if (is_kernels) return LineKind::kKernels;
  return is_tpu && RE2::PartialMatch(upper, regions) ? LineKind::kRegions : LineKind::kOther;
}

struct NamedEvent {
  std::string name;
  Nanoseconds start_ns = 0;  // rounded down
  double duration_ns = 0;

  Nanoseconds end_ns() const { return start_ns + Nanoseconds(duration_ns); }
};

class Attribution {
 public:
  explicit Attribution(const XprofOptions& options) : options_(options) {}

  absl::Status AddPlane(const Trace& trace, const Plane& plane) {
    const bool is_tpu = absl::StrContains(Upper(UpToNul(plane.name)), "TPU");
    for (uint32_t line = plane.first_line; line < plane.first_line + plane.line_count; ++line) {
      ASSIGN_OR_RETURN(auto events, ReadLine(trace, line));
      AddLine(is_tpu, UpToNul(trace.lines[line].name), &events);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<XprofTimes> Take() {
    if (records_.rows().empty()) {
      return absl::FailedPreconditionError(
          "no kernel on a plane /device:... passes the filters; xplane-time report without "
          "--compat lists all kernels");
    }
    XprofTimes times;
    times.total_device_ns = CoveredNs(std::move(kernels_));
    for (const auto& [line, intervals] : lines_.rows()) {
      times.lines.push_back({line, CoveredNs(intervals)});
    }
    SetCustomCalls(&times);
    SetKernels(&times);
    SetSteps(&times);
    times.outermost_us = PythonRound(outermost_us_, 4);
    times.excluded_lines.assign(excluded_lines_.begin(), excluded_lines_.end());
    return times;
  }

 private:
  static absl::StatusOr<std::vector<NamedEvent>> ReadLine(const Trace& trace, uint32_t line) {
    const Line& at = trace.lines[line];
    const Plane& plane = trace.planes[at.plane];
    std::vector<NamedEvent> events;
    RETURN_IF_ERROR(VisitFileEvents(trace, line, [&](const FileEvent& event) {
      const double start_ns =
          static_cast<double>(at.timestamp_ns) + static_cast<double>(event.offset_ps) / 1000;
      events.push_back({ShownName(plane, event), Nanoseconds(start_ns),
                        static_cast<double>(event.duration_ps) / 1000});
      return true;
    }));
    return events;
  }

  // The text of the first non-empty stat with one of these names.
  static std::string TextOfStat(const Plane& plane, const FileEvent& event,
                                std::span<const std::string_view> names) {
    for (const Stat& stat : event.stats) {
      const std::string_view name = StatNameOf(plane, stat.metadata_id);
      if (std::ranges::find(names, name) == names.end()) continue;
      if (std::string text = StatText(stat.value); !text.empty()) return text;
    }
    return "";
  }

  // The stat tf_op_name, if it is set. A name that only has digits is replaced by a message, if
  // there is one.
  static std::string ShownName(const Plane& plane, const FileEvent& event) {
    constexpr std::string_view kName[] = {"tf_op_name"};
    constexpr std::string_view kMessages[] = {"msg", "message", "annotation", "label"};
    if (std::string text = TextOfStat(plane, event, kName); !text.empty()) return text;
    std::string name = NameOf(plane, event.metadata_id);
    if (name.empty() || name.find_first_not_of("0123456789") != std::string::npos) return name;
    std::string text = TextOfStat(plane, event, kMessages);
    return text.empty() ? name : text;
  }

  void AddLine(bool is_tpu, std::string_view line, std::vector<NamedEvent>* events) {
    AddToLine(line, *events);
    const std::string upper = Upper(line);
    const LineKind kind = LineKindOf(is_tpu, upper);
    if (kind == LineKind::kOther) {
      if (is_tpu && absl::StrContains(upper, "XLA MODULES")) {
        for (const NamedEvent& event : *events) steps_us_.push_back(event.duration_ns / 1000);
      }
      return;
    }
    if (kind == LineKind::kRegions && !options_.intra_kernel_regions) {
      excluded_lines_.emplace(line);
      return;
    }
    std::ranges::stable_sort(*events, {}, [](const NamedEvent& event) {
      return std::pair(event.start_ns, -Nanoseconds(event.duration_ns));
    });
    AddKernels(upper, kind == LineKind::kRegions, *events);
  }

  void AddKernels(std::string_view upper_line, bool region, const std::vector<NamedEvent>& events) {
    Nanoseconds covered_until_ns = -1;
    for (const NamedEvent& event : events) {
      if (options_.kernel_name.has_value() && event.name != *options_.kernel_name) continue;
      if (options_.names && !options_.names(event.name)) continue;
      const double duration_us = event.duration_ns / 1000;
      records_[{event.name, region}].push_back(duration_us);
      if (!region && event.start_ns >= covered_until_ns) outermost_us_ += duration_us;
      covered_until_ns = std::max(covered_until_ns, event.end_ns());
      if (region) continue;
      kernels_.emplace_back(event.start_ns, event.end_ns());
      if (IsCustomCall(event.name, upper_line)) custom_calls_.push_back(kernels_.back());
    }
  }

  static bool IsCustomCall(std::string_view name, std::string_view upper_line) {
    static const RE2 calls("(?i)^custom-call|custom_call|pallas", RE2::Latin1);
    return RE2::PartialMatch(name, calls) || absl::StrContains(Absl(upper_line), "PALLAS");
  }

  // Lines of all planes by name; a line without events is not listed.
  void AddToLine(std::string_view line, const std::vector<NamedEvent>& events) {
    if (events.empty()) return;
    Spans& intervals = lines_[std::string(line)];
    for (const NamedEvent& event : events) intervals.emplace_back(event.start_ns, event.end_ns());
  }

  void SetCustomCalls(XprofTimes* times) {
    const auto custom_ns = static_cast<double>(CoveredNs(std::move(custom_calls_)));
    const auto total_ns = static_cast<double>(times->total_device_ns);
    times->custom_call_us = PythonRound(custom_ns / 1000, 4);
    if (total_ns > 0) times->custom_call_percent = PythonRound(custom_ns / total_ns * 100, 2);
  }

  void SetKernels(XprofTimes* times) const {
    for (const auto& [kernel, durations_us] : records_.rows()) {
      const auto& [name, region] = kernel;
      const auto count = static_cast<double>(durations_us.size());
      const double total_us = std::accumulate(durations_us.begin(), durations_us.end(), 0.0);
      times->kernels.push_back({name, std::string(FirstWord(name)), PythonRound(total_us, 4),
                                PythonRound(total_us / count, 4), durations_us.size(), region});
      times->top_level_kernel_count += region ? 0 : 1;
    }
    times->kernel_count = times->kernels.size();
    std::ranges::stable_sort(times->kernels, std::greater<>(), &XprofKernel::total_us);
    const bool limited = !options_.kernel_name.has_value() && options_.limit > 0;
    if (limited && times->kernels.size() > options_.limit) times->kernels.resize(options_.limit);
  }

  void SetSteps(XprofTimes* times) {
    double mean_us = static_cast<double>(times->total_device_ns) / 1000;
    if (!steps_us_.empty()) {
      mean_us = std::accumulate(steps_us_.begin(), steps_us_.end(), 0.0) /
                static_cast<double>(steps_us_.size());
    }
    times->mean_us = PythonRound(mean_us, 4);
    times->std_us = PythonRound(PythonStdev(steps_us_), 4);
    times->steps_us = std::move(steps_us_);
  }

  const XprofOptions& options_;
  InOrder<std::string, Spans> lines_;
  // by name and whether it is a region
  InOrder<std::pair<std::string, bool>, std::vector<double>> records_;
  Spans kernels_, custom_calls_;
  std::vector<double> steps_us_;
  std::set<std::string> excluded_lines_;
  double outermost_us_ = 0;
};

}  // namespace

absl::StatusOr<XprofTimes> XprofDeviceTimes(const Trace& trace, const XprofOptions& options) {
  Attribution attribution(options);
  for (const Plane& plane : trace.planes) {
    if (!plane.name.starts_with("/device:")) continue;
    RETURN_IF_ERROR(attribution.AddPlane(trace, plane));
  }
  return attribution.Take();
}

}  // namespace xplane_time::compat
