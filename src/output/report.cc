// The report: devices, functions and kernels at a glance.
#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "output/results.h"
#include "output/trace_views.h"
#include "status.h"

namespace xplane_time::output {
namespace {

using result::FieldSink, result::TableOf;

constexpr size_t kBarWidth = 20;
constexpr size_t kReportRows = 10;
constexpr ptrdiff_t kReportLines = 46;  // two screens of 24 lines, with their prompts

// First start and last end of the devices of one input's axis.
struct Window {
  int64_t first_ps = INT64_MAX, last_ps = INT64_MIN;
  double length_ps() const {
    return last_ps > first_ps ? static_cast<double>(last_ps) - static_cast<double>(first_ps) : 0;
  }
};

// By capture: hosts of one run share an axis, repeated captures do not.
class Windows {
 public:
  explicit Windows(const Report& report) : report_(report) {
    for (const DeviceRow& row : report.devices) {
      if (!row.first_ps || !row.last_ps) continue;
      Window& window = windows_[CaptureOf(row)];
      window.first_ps = std::min(window.first_ps, *row.first_ps);
      window.last_ps = std::max(window.last_ps, *row.last_ps);
    }
  }
  // Busy time over the window; empty where there is no window.
  std::optional<double> Utilization(const DeviceRow& row) const {
    const auto it = windows_.find(CaptureOf(row));
    if (it == windows_.end() || it->second.length_ps() <= 0) return std::nullopt;
    return static_cast<double>(row.busy_ps) / it->second.length_ps();
  }
  std::optional<double> OnlyLengthPs() const {
    if (windows_.size() != 1) return std::nullopt;
    return windows_.begin()->second.length_ps();
  }

 private:
  uint32_t CaptureOf(const DeviceRow& row) const {
    const uint32_t input = row.device.input;
    return input < report_.inputs.size() ? report_.inputs[input].capture : input;
  }
  const Report& report_;
  std::map<uint32_t, Window> windows_;
};

std::string Bar(std::optional<double> share, const Signs& signs) {
  const double known = std::clamp(share.value_or(0), 0.0, 1.0);
  const auto full = static_cast<size_t>(known * static_cast<double>(kBarWidth) + 0.5);
  std::string bar;
  for (size_t i = 0; i < kBarWidth; ++i) bar.append(i < full ? signs.full : signs.empty);
  return bar;
}

// "GPU:1-3,7" from devices that differ in their ordinals only; else the names.
std::string IdleNames(const std::vector<const DeviceRow*>& idle, const DeviceNames& names) {
  std::map<std::string, std::set<int64_t>> ordinals;  // by name without the number
  std::vector<std::string> parts;
  for (const DeviceRow* row : idle) {
    const std::string name = names.Name(row->device);
    const std::string number = std::to_string(row->device.ordinal.value_or(-1));
    const size_t prefix = name.size() - std::min(name.size(), number.size());
    if (row->device.ordinal && name.substr(prefix) == number) {
      ordinals[name.substr(0, prefix)].insert(*row->device.ordinal);
    } else {
      parts.push_back(name);
    }
  }
  for (const auto& [prefix, numbers] : ordinals) {
    std::vector<std::string> ranges;
    for (auto it = numbers.begin(); it != numbers.end();) {
      const int64_t first = *it;
      int64_t last = first;
      while (++it != numbers.end() && *it == last + 1) ++last;
      ranges.push_back(first == last ? absl::StrCat(first) : absl::StrCat(first, "-", last));
    }
    parts.push_back(prefix + absl::StrJoin(ranges, ","));
  }
  return absl::StrJoin(parts, ", ");
}

Grid DeviceGrid(const std::vector<const DeviceRow*>& active, const DeviceNames& names,
                const Windows& windows, const OutputOptions& options) {
  RowGrid grid(active);
  grid.Name("device", 12, [&](const DeviceRow& row) { return names.Name(row.device); });
  grid.Text("kind", [](const DeviceRow& row) { return DeviceKindName(row.kind); });
  grid.Number("executions", &DeviceRow::executions);
  grid.Times("busy", options.unit, &DeviceRow::busy_ps);
  grid.Number("busy %",
              [&](const DeviceRow& row) { return FormatPercent(windows.Utilization(row)); });
  if (options.format == Format::kTable) {
    const Signs signs = Signs::For(options);
    grid.Text("", [&](const DeviceRow& row) { return Bar(windows.Utilization(row), signs); })
        .Drop(1);
  }
  return std::move(grid).Take();
}

// Active devices, busiest first; the idle ones on a line of their own.
Section DeviceSection(const Report& report, const OutputOptions& options, size_t most) {
  std::vector<const DeviceRow*> active, idle;
  for (const DeviceRow& row : report.devices) {
    (row.executions > 0 ? active : idle).push_back(&row);
  }
  const auto names = DeviceNames::Of(report.devices);
  const Windows windows(report);
  if (active.size() > most) {
    std::stable_sort(active.begin(), active.end(), [](const DeviceRow* a, const DeviceRow* b) {
      return a->busy_ps > b->busy_ps;
    });
  }
  const size_t hidden = active.size() - std::min(active.size(), most);
  active.resize(active.size() - hidden);
  Section section;
  const std::optional<double> window_ps = windows.OnlyLengthPs();
  section.title = "devices";
  if (window_ps) section.title.append(" over " + FormatTime(*window_ps, options.unit));
  section.grid = DeviceGrid(active, names, windows, options);
  if (hidden > 0) section.notes.push_back(MoreNote(hidden, "devices", "--format json"));
  if (!idle.empty()) section.notes.push_back("idle: " + IdleNames(idle, names));
  if (report.devices.empty()) section.notes.emplace_back("none");
  return section;
}

// How many rows of each kind the report shows.
struct Budget {
  size_t devices = 8, functions = kReportRows, kernels = kReportRows, diagnostics = 8;

  // Gives up one row, of what is missed least; false: nothing is left to give.
  bool Tighten() {
    const Budget steps[] = {{8, 7, 7, 8}, {8, 7, 7, 4}, {5, 5, 5, 3}, {3, 3, 3, 2}};
    for (const Budget& least : steps) {
      size_t* given = kernels > least.kernels && kernels >= functions ? &kernels
                      : functions > least.functions                   ? &functions
                      : diagnostics > least.diagnostics               ? &diagnostics
                      : devices > least.devices                       ? &devices
                                                                      : nullptr;
      if (given == nullptr) continue;
      --*given;
      return true;
    }
    return false;
  }
};

View ReportView(const Report& report, const OrderedReport& rows, const OutputOptions& options) {
  const std::vector<KernelRow> merged = MergeKernels(report.kernels);
  std::vector<const KernelRow*> kernels;
  for (const KernelRow& row : merged) kernels.push_back(&row);
  SortKernels(options.sort, &kernels);
  const bool table = options.format == Format::kTable;
  Budget budget;
  if (!table) budget.devices = ~size_t{0};
  if (options.top) budget.functions = budget.kernels = *options.top;
  while (true) {
    const View view = {.lines = CaptureLines(report.inputs, report.capture, options),
                       .sections = {DeviceSection(report, options, budget.devices),
                                    OverviewSection(report, rows, options, budget.functions),
                                    TopKernelSection(kernels, options, budget.kernels)},
                       .diagnostics = DiagnosticLines(report.diagnostics, /*or_infos=*/true),
                       .most_diagnostics = budget.diagnostics};
    if (!table || options.top) return view;
    const std::string text = TableText(view, options);
    if (std::count(text.begin(), text.end(), '\n') <= kReportLines || !budget.Tighten())
      return view;
  }
}

}  // namespace

std::vector<ViewLine> CaptureLines(const std::vector<InputRow>& inputs, const CaptureInfo& capture,
                                   const OutputOptions& options) {
  const size_t most = options.format == Format::kTable ? 3 : inputs.size();
  std::vector<ViewLine> lines;
  const auto add = [&](std::string text) {
    lines.push_back({std::move(text), Tone::kPlain, ViewLine::kItem});
  };
  uint64_t bytes = 0;
  for (const InputRow& input : inputs) {
    bytes += input.bytes;
    if (lines.size() + 1 >= most && inputs.size() > most) continue;
    add(Printable(input.path) + "  " + FormatBytes(input.bytes));
  }
  if (lines.size() < inputs.size()) {
    add("... " + std::to_string(inputs.size() - lines.size()) + " more files; all together " +
        FormatBytes(bytes));
  }
  std::string counts = Counted(capture.planes, "plane") + ", " + Counted(capture.lines, "line") +
                       ", " + Counted(capture.events, "event");
  if (capture.hostnames.size() == 1) counts.append(", host " + Printable(capture.hostnames[0]));
  if (capture.hostnames.size() > 1) counts.append(", " + Counted(capture.hostnames.size(), "host"));
  add(std::move(counts));
  if (capture.start_unix_ns) {
    std::string when = "captured " + FormatUtc(*capture.start_unix_ns);
    const bool one_capture =  // else no length is told
        std::all_of(inputs.begin(), inputs.end(),
                    [&](const InputRow& input) { return input.capture == inputs[0].capture; });
    if (one_capture && capture.stop_unix_ns && *capture.stop_unix_ns > *capture.start_unix_ns) {
      const uint64_t length_ns = *capture.stop_unix_ns - *capture.start_unix_ns;
      when.append(", for " + FormatTime(static_cast<double>(length_ns) * 1e3, Unit::kAuto));
    }
    add(std::move(when));
  }
  return lines;
}

void AddHead(const std::vector<InputRow>& inputs, const CaptureInfo* capture,
             const std::vector<GivenOption>& given, result::Result* result) {
  result->Add(TableOf("inputs", std::span(inputs)));
  if (capture != nullptr) {
    result->Say([capture](FieldSink* sink) {
      sink->BeginGroup("capture", true);
      sink->Field("planes", capture->planes);
      sink->Field("lines", capture->lines);
      sink->Field("events", capture->events);
      sink->Field("base_ns", capture->base_ns);
      sink->Field("start_unix_ns", capture->start_unix_ns);
      sink->Field("stop_unix_ns", capture->stop_unix_ns);
      sink->Texts("hostnames", capture->hostnames);
      sink->Texts("warnings", capture->warnings);
      sink->Texts("errors", capture->errors);
      sink->EndGroup();
    });
  }
  AddOptions(given, result);
}

void AddOptions(const std::vector<GivenOption>& given, result::Result* result) {
  if (given.empty()) return;
  result->Say([given](FieldSink* sink) {
    sink->BeginGroup("options", true);
    for (const GivenOption& option : given) {
      const auto* text = std::get_if<std::string>(&option.value);
      sink->Field(option.name, text != nullptr ? result::FieldValue(std::string_view(*text))
                                               : std::get<int64_t>(option.value));
    }
    sink->EndGroup();
  });
}

absl::StatusOr<Output> ReportOutput(const Report& report, const OutputOptions& options) {
  ASSIGN_OR_RETURN(const OrderedReport rows, OrderReport(report, options, SortKeys::kReport));
  Output out{.result = result::Result("xplane-time.report.v1")};
  AddHead(report.inputs, &report.capture, options.given, &out.result);
  out.result.Add(TableOf("devices", std::span(report.devices)));
  out.result.Add(FunctionRows("functions", rows.functions));
  out.result.Add(FunctionRows("combined", rows.combined));
  if (!rows.variants.empty()) out.result.Add(FunctionRows("variants", rows.variants));
  out.result.Add(TableOf("kernels", rows.kernels));
  if (!report.samples.empty()) out.result.Add(TableOf("samples", std::span(report.samples)));
  out.result.Add(TableOf("diagnostics", std::span(report.diagnostics)));
  out.result.csv = FlatFunctionRows(rows.functions);
  out.view = [&report, rows](const OutputOptions& how) { return ReportView(report, rows, how); };
  return out;
}

}  // namespace xplane_time::output
