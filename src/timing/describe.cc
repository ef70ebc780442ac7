// Rows about the trace itself: inputs, capture, diagnostics.
#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "timing/plane_list.h"
#include "xplane_time/read.h"
#include "xplane_time/report.h"

namespace xplane_time {

std::string ListPlanes(const Trace& trace) {
  std::string list;
  for (const Plane& plane : trace.planes) {
    uint64_t events = 0;
    for (uint32_t i = 0; i < plane.line_count; ++i) {
      events += trace.lines[plane.first_line + i].event_count;
    }
    list.append(list.empty() ? "" : ", ").append(plane.name);
    list.append(" (").append(std::to_string(events)).append(" events)");
  }
  return list;
}

absl::StatusOr<Metric> ParseMetric(std::string_view text) {
  if (text == "active") return Metric::kActive;
  if (text == "span") return Metric::kSpan;
  if (text == "sum") return Metric::kSum;
  return absl::InvalidArgumentError(
      absl::StrCat("metric is active, span or sum, not '", std::string(text), "'"));
}

std::string_view RowStatusName(RowStatus status) {
  constexpr std::string_view kNames[] = {"ok", "no_ops", "runs_uncertain", "devices_unmatched"};
  return kNames[static_cast<size_t>(status)];
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

}  // namespace xplane_time
