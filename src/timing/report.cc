#include "xplane_time/report.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "absl/strings/str_cat.h"
#include "status.h"
#include "timing/analysis.h"
#include "timing/given_options.h"
#include "xplane_time/read.h"

namespace xplane_time {
namespace {

// In the order of their enums.
constexpr const char* kMetrics[] = {"active", "span", "sum"};
constexpr const char* kClockChoices[] = {"auto", "device", "profile"};
constexpr const char* kClocks[] = {"profile", "device"};
constexpr const char* kCategories[] = {"compute", "copy", "collective", "other"};
constexpr const char* kRowStatuses[] = {"ok", "no_ops", "runs_uncertain", "devices_unmatched"};

template <typename Names, typename Enum>
const char* NameOf(const Names& names, Enum value) {
  return names[static_cast<size_t>(value)];
}

template <typename Enum, typename Names>
absl::StatusOr<Enum> Parse(const Names& names, std::string_view text, const char* expected) {
  const auto found = std::find(std::begin(names), std::end(names), text);
  if (found != std::end(names)) return static_cast<Enum>(found - std::begin(names));
  return InvalidArgument(expected, ", not '", std::string(text), "'");
}

}  // namespace

absl::StatusOr<Metric> ParseMetric(std::string_view text) {
  return Parse<Metric>(kMetrics, text, "metric is active, span or sum");
}

absl::StatusOr<ClockChoice> ParseClockChoice(std::string_view text) {
  return Parse<ClockChoice>(kClockChoices, text, "clock is auto, device or profile");
}

std::string_view ClockName(Clock clock) { return NameOf(kClocks, clock); }
std::string_view CategoryName(Category category) { return NameOf(kCategories, category); }
std::string_view RowStatusName(RowStatus status) { return NameOf(kRowStatuses, status); }

int64_t RunSample::Metric(xplane_time::Metric which) const {
  const int64_t by_metric[] = {active_ps, span_ps, sum_ps};
  return by_metric[static_cast<size_t>(which)];
}

const std::optional<Summary>& FunctionRow::metric(Metric which) const {
  const std::optional<Summary>* const by_metric[] = {&active_ps, &span_ps, &sum_ps};
  return *by_metric[static_cast<size_t>(which)];
}

std::vector<InputRow> DescribeInputs(const Trace& trace) {
  std::vector<InputRow> rows;
  for (const TraceFile& file : trace.files) {
    const std::string host(file.hostnames.size() == 1 ? file.hostnames[0] : std::string_view());
    rows.push_back({file.path, file.bytes, host, file.capture});
  }
  return rows;
}

CaptureInfo DescribeCapture(const Trace& trace) {
  CaptureInfo info;
  info.planes = trace.planes.size();
  info.lines = trace.lines.size();
  info.events = trace.event_count;
  info.base_ns = trace.base_ns;
  for (const TraceFile& file : trace.files) {
    if (const auto start = file.profile_start_unix_ns; start.has_value()) {
      info.start_unix_ns = std::min(info.start_unix_ns.value_or(*start), *start);
    }
    if (const auto stop = file.profile_stop_unix_ns; stop.has_value()) {
      info.stop_unix_ns = std::max(info.stop_unix_ns.value_or(*stop), *stop);
    }
    const auto append_new = [](const std::vector<std::string_view>& from,
                               std::vector<std::string>* to) {
      std::set<std::string> known(to->begin(), to->end());
      for (std::string_view text : from) {
        if (known.emplace(text).second) to->emplace_back(text);
      }
    };
    append_new(file.hostnames, &info.hostnames);
    append_new(file.warnings, &info.warnings);
    append_new(file.errors, &info.errors);
  }
  return info;
}

std::vector<DiagnosticRow> DescribeDiagnostics(const Trace& trace, const Diagnostics& diagnostics) {
  std::vector<DiagnosticRow> rows;
  for (const Diagnostic& found : diagnostics.List()) {
    DiagnosticRow row;
    row.code = DiagnosticName(found.code);
    row.severity = SeverityName(SeverityOf(found.code));
    row.count = found.count;
    row.message = DiagnosticMeaning(found.code);
    if (!found.text.empty()) absl::StrAppend(&row.message, ": ", found.text);
    const Location& at = found.first;
    if (at.plane != Location::kNowhere) row.plane = trace.planes[at.plane].name;
    if (at.line != Location::kNowhere) row.line = trace.lines[at.line].shown_name();
    if (at.event != Location::kNowhere) {
      row.event = at.event;
      const uint64_t offset = EventByteOffset(trace, static_cast<uint32_t>(at.line), at.event);
      if (offset != Location::kNowhere) row.byte_offset = offset;
    } else if (at.byte_offset != Location::kNowhere) {
      row.byte_offset = at.byte_offset;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<GivenOption> GivenOptions(const ReportOptions& options) {
  const ReportOptions usual;
  std::vector<GivenOption> given;
  const auto text = [&](const char* name, const std::string& value, const std::string& by_default) {
    if (value != by_default) given.push_back({name, value});
  };
  const auto number = [&](const char* name, int64_t value, int64_t by_default) {
    if (value != by_default) given.push_back({name, value});
  };
  text("device", options.device, "");
  text("function", options.function, "");
  text("exclude", options.exclude, "");
  text("prefix", options.prefix, "");
  text("kernel", options.kernel, "");
  text("scope", options.scope, "");
  number("min_duration_ps", options.min_duration_ps.value_or(0), 0);
  if (options.max_events.has_value()) {
    given.push_back({"max_events", static_cast<int64_t>(*options.max_events)});
  }
  text("id_pattern", options.id_pattern, usual.id_pattern);
  text("metric", NameOf(kMetrics, options.metric), kMetrics[0]);
  text("clock", NameOf(kClockChoices, options.clock), kClockChoices[0]);
  text("trim", TrimName(options.trim), TrimName(usual.trim));
  number("skip_runs", static_cast<int64_t>(options.skip_runs), 0);
  number("tolerance_ps", options.tolerance_ps, usual.tolerance_ps);
  number("seed", static_cast<int64_t>(options.seed), static_cast<int64_t>(usual.seed));
  return given;
}

absl::StatusOr<Report> BuildReport(const Trace& trace, const ReportOptions& options,
                                   const Diagnostics& reading) {
  ASSIGN_OR_RETURN(Analysis analysis, Analyze(trace, options, reading));
  Report report;
  report.inputs = DescribeInputs(trace);
  report.capture = DescribeCapture(trace);
  for (const DeviceAnalysis& device : analysis.devices) report.devices.push_back(device.row);
  report.functions = FunctionRows(analysis, options);
  report.combined = CombinedRows(&analysis, options, /*by_variant=*/false);
  if (options.by_variant) {
    report.variants = CombinedRows(&analysis, options, /*by_variant=*/true);
  }
  report.kernels = KernelRows(analysis);
  if (options.samples) report.samples = SampleRows(analysis, options);
  report.diagnostics = DescribeDiagnostics(trace, analysis.diagnostics);
  return report;
}

}  // namespace xplane_time
