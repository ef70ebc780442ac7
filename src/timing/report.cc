#include "xplane_time/report.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "devices/device_kind.h"
#include "read/damaged_hosts.h"
#include "saturate.h"
#include "status.h"
#include "timing/analysis.h"
#include "timing/device_parts.h"
#include "timing/step_summary.h"
#include "xplane_time/read.h"

namespace xplane_time {
namespace {

// In the order of their enums.
constexpr const char* kMetrics[] = {"active", "span", "sum"};
constexpr const char* kClockChoices[] = {"auto", "device", "profile"};
constexpr const char* kClocks[] = {"profile", "device"};
constexpr const char* kTreesBy[] = {"nesting", "scope", "source", "module"};
constexpr const char* kCategories[] = {"compute", "copy", "collective", "other"};
constexpr const char* kStepSources[] = {"step_line", "host_launch", "host_time", "function"};
constexpr const char* kStepVerdicts[] = {"input-bound", "host-bound", "device-bound",
                                         "communication-bound", "unclear"};
constexpr const char* kRowStatuses[] = {"ok", "no_ops", "runs_uncertain", "devices_unmatched",
                                        "lost_executions"};

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

std::string_view TypeName(StatType type) {
  constexpr std::string_view kNames[] = {"absent", "double", "uint64", "int64",
                                         "str",    "bytes",  "ref",    "compressed_str"};
  return kNames[static_cast<size_t>(type)];
}

// (owner, name, type) -> count
using StatCounts = std::map<std::tuple<std::string, std::string, std::string>, uint64_t>;

void CountStats(const Plane& plane, std::string_view owner, std::span<const Stat> stats,
                StatCounts* counts) {
  for (const Stat& stat : stats) {
    const uint32_t at = plane.stat_metadata.Find(stat.metadata_id);
    const std::string name = at == kNoMetadata
                                 ? "(stat metadata " + std::to_string(stat.metadata_id) + ")"
                                 : std::string(plane.stat_metadata.entries[at].name);
    ++(*counts)[{std::string(owner), name, std::string(TypeName(stat.value.type))}];
  }
}

void CountEventStats(const EventBatch& batch, std::span<const std::string_view> names,
                     StatCounts* counts) {
  for (size_t column = 0; column < names.size(); ++column) {
    for (const StatType type : batch.stats[column].type) {
      if (type == StatType::kAbsent) continue;
      ++(*counts)[{"event", std::string(names[column]), std::string(TypeName(type))}];
    }
  }
}

// Reads the events once for every kMaxColumns names: a column of a batch takes about 20 kB.
absl::Status DescribeLine(const Trace& trace, uint32_t index,
                          std::span<const std::string_view> stat_names, Diagnostics* diagnostics,
                          LineRow* row, StatCounts* counts) {
  constexpr size_t kMaxColumns = 2048;
  const std::span<const std::string_view> first =
      stat_names.first(std::min(kMaxColumns, stat_names.size()));
  const Line& line = trace.lines[index];
  row->id = line.display_id != 0 ? line.display_id : line.id;
  row->name = line.shown_name();
  row->events = line.event_count;
  RETURN_IF_ERROR(VisitEvents(trace, index, first, diagnostics, [&](const EventBatch& batch) {
    for (size_t i = 0; i < batch.size(); ++i) {
      row->sum_ps = SaturatingAdd(row->sum_ps, batch.duration_ps[i]);
      if (batch.start_ps[i] == kNoTimePs) continue;
      const int64_t end_ps = batch.start_ps[i] + batch.duration_ps[i];
      row->first_ps = std::min(row->first_ps.value_or(batch.start_ps[i]), batch.start_ps[i]);
      row->last_ps = std::max(row->last_ps.value_or(end_ps), end_ps);
    }
    CountEventStats(batch, first, counts);
    return absl::OkStatus();
  }));
  Diagnostics counted;  // by the first pass
  for (size_t at = first.size(); at < stat_names.size(); at += kMaxColumns) {
    const std::span<const std::string_view> names =
        stat_names.subspan(at, std::min(kMaxColumns, stat_names.size() - at));
    RETURN_IF_ERROR(VisitEvents(trace, index, names, &counted, [&](const EventBatch& batch) {
      CountEventStats(batch, names, counts);
      return absl::OkStatus();
    }));
  }
  return absl::OkStatus();
}

absl::StatusOr<PlaneRow> DescribePlane(const Trace& trace, uint32_t index, bool with_stats,
                                       Diagnostics* diagnostics) {
  const Plane& plane = trace.planes[index];
  PlaneRow row;
  row.input = plane.file;
  row.name = plane.name;
  row.host = plane.host;
  std::optional<int64_t> ordinal;
  const KindRules* const rules = FindKindOfPlane(plane.name, &ordinal);
  if (rules != nullptr) row.kind = rules->kind;
  StatCounts counts;
  std::vector<std::string_view> names;
  if (with_stats) {
    for (const StatMetadata& stat : plane.stat_metadata.entries) names.push_back(stat.name);
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    CountStats(plane, "plane", plane.stats, &counts);
    for (const EventMetadata& entry : plane.event_metadata.entries) {
      const std::span<const Stat> stats(plane.metadata_stats);
      CountStats(plane, "event_metadata", stats.subspan(entry.first_stat, entry.stat_count),
                 &counts);
    }
  }
  for (uint32_t line = plane.first_line; line < plane.first_line + plane.line_count; ++line) {
    LineRow& line_row = row.lines.emplace_back();
    const bool on_host = rules == nullptr || rules->is_host;
    line_row.role = LineRoleName(on_host ? LineRole::kHost : rules->role(trace.lines[line].name));
    RETURN_IF_ERROR(DescribeLine(trace, line, names, diagnostics, &line_row, &counts));
    row.events += line_row.events;
    if (!line_row.first_ps.has_value()) continue;
    row.first_ps = std::min(row.first_ps.value_or(*line_row.first_ps), *line_row.first_ps);
    row.last_ps = std::max(row.last_ps.value_or(*line_row.last_ps), *line_row.last_ps);
  }
  for (const auto& [key, count] : counts) {
    row.stats.push_back({std::get<1>(key), std::get<2>(key), std::get<0>(key), count});
  }
  return row;
}

}  // namespace

absl::StatusOr<Metric> ParseMetric(std::string_view text) {
  return Parse<Metric>(kMetrics, text, "metric is active, span or sum");
}

absl::StatusOr<ClockChoice> ParseClockChoice(std::string_view text) {
  return Parse<ClockChoice>(kClockChoices, text, "clock is auto, device or profile");
}

absl::StatusOr<TreeBy> ParseTreeBy(std::string_view text) {
  return Parse<TreeBy>(kTreesBy, text, "a tree is by nesting, scope, source or module");
}

std::string_view StepSourceName(StepSource source) { return NameOf(kStepSources, source); }
std::string_view StepVerdictName(StepVerdict verdict) { return NameOf(kStepVerdicts, verdict); }
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

namespace {

// Whether the name contains ":1", which is not in "GPU:10".
bool NamesOrdinal(std::string_view name, std::string_view ordinal) {
  for (size_t at = name.find(ordinal); at != name.npos; at = name.find(ordinal, at + 1)) {
    const size_t end = at + ordinal.size();
    if (end == name.size() || name[end] < '0' || name[end] > '9') return true;
  }
  return false;
}

}  // namespace

std::string DeviceName(const DeviceRef& device) {
  std::string name(device.plane == "/host:CPU" ? "CPU"
                                               : absl::StripPrefix(device.plane, "/device:"));
  if (device.ordinal) {
    const std::string ordinal = absl::StrCat(":", *device.ordinal);
    if (!NamesOrdinal(name, ordinal)) name += ordinal;
  }
  if (device.twin > 0) absl::StrAppend(&name, " (plane ", device.twin + 1, ")");
  return name;
}

std::vector<InputRow> DescribeInputs(const Trace& trace) {
  std::vector<InputRow> rows;
  for (const TraceFile& file : trace.files) {
    const std::string host(file.hostnames.size() == 1 ? file.hostnames[0] : std::string_view());
    rows.push_back({file.path, file.bytes, host, file.capture, file.base_ns});
  }
  return rows;
}

CaptureInfo DescribeCapture(const Trace& trace) {
  CaptureInfo info;
  info.planes = trace.planes.size();
  info.lines = trace.lines.size();
  info.events = trace.event_count;
  info.base_ns = trace.files[0].base_ns;
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
    row.is_of_completeness = ConcernsCompleteness(found.code);
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
  text("exclude_kernel", options.exclude_kernel, "");
  text("scope", options.scope, "");
  text("collective_re", options.categories.collective, "");
  text("copy_re", options.categories.copy, "");
  text("step_re", options.step, "");
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

absl::StatusOr<Analysis> AnalyzeForReport(const Trace& trace, const ReportOptions& options,
                                          const Diagnostics& reading) {
  return options.parts ? AnalyzeAndWatch(trace, options, reading, PartsWatch::Make)
                       : Analyze(trace, options, reading);
}

absl::StatusOr<Report> BuildReport(const Trace& trace, const ReportOptions& options,
                                   const Diagnostics& reading) {
  ASSIGN_OR_RETURN(Analysis analysis, AnalyzeForReport(trace, options, reading));
  return ReportOf(trace, options, &analysis);
}

Report ReportOf(const Trace& trace, const ReportOptions& options, Analysis* analysis,
                const CompleteKernels& complete) {
  Report report;
  report.inputs = DescribeInputs(trace);
  report.capture = DescribeCapture(trace);
  for (const DeviceAnalysis& device : analysis->devices) {
    report.devices.push_back(device.row);
    if (device.watcher == nullptr) continue;
    const auto& watch = static_cast<const PartsWatch&>(*device.watcher);
    report.devices.back().parts = watch.parts();
    report.devices.back().steps = SummarizeSteps(device, watch, analysis->filters);
  }
  FunctionTables tables = FunctionTablesOf(*analysis, options);
  report.functions = std::move(tables.functions);
  report.combined = std::move(tables.combined);
  report.variants = std::move(tables.variants);
  for (const FunctionRow& row : report.combined) {
    if (row.status != RowStatus::kDevicesUnmatched) continue;
    analysis->diagnostics.Note(DiagnosticCode::kDevicesUnmatched, row.function);
  }
  for (const DeviceAnalysis& device : analysis->devices) {
    std::vector<KernelOfCells> kernels = KernelsOf(device);
    if (options.sources) FillSources(device, kernels);
    if (complete) complete(device, kernels);
    for (KernelOfCells& kernel : kernels) report.kernels.push_back(std::move(kernel.row));
  }
  if (options.samples) report.samples = SampleRows(*analysis, options);
  report.diagnostics = DescribeDiagnostics(trace, analysis->diagnostics);
  report.launches_compared = analysis->launches_compared;
  return report;
}

absl::StatusOr<PlanesReport> DescribePlanes(const Trace& trace, const PlanesOptions& options,
                                            const Diagnostics& reading) {
  ASSIGN_OR_RETURN(const std::vector<uint32_t> planes,
                   SelectPlanes(trace, options.device.empty() ? "all" : options.device));
  PlanesReport report;
  report.inputs = DescribeInputs(trace);
  report.capture = DescribeCapture(trace);
  Diagnostics diagnostics = reading;
  DamagedHosts damaged(trace);
  for (const uint32_t plane : planes) {
    RETURN_IF_ERROR(damaged.Read(trace.planes[plane].file, [&]() -> absl::Status {
      ASSIGN_OR_RETURN(PlaneRow row, DescribePlane(trace, plane, options.with_stats, &diagnostics));
      report.planes.push_back(std::move(row));
      return absl::OkStatus();
    }));
  }
  std::erase_if(report.planes, [&](const PlaneRow& of) { return damaged.Has(of.input); });
  if (report.planes.empty()) RETURN_IF_ERROR(damaged.First());
  damaged.Note(&diagnostics);
  report.diagnostics = DescribeDiagnostics(trace, diagnostics);
  return report;
}

}  // namespace xplane_time
