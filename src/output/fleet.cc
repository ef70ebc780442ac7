// Many captures: devices that differ from the others, the use of time of each host, totals.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "output/results.h"
#include "output/text.h"
#include "output/view.h"
#include "status.h"

namespace xplane_time::output {
namespace {

using result::FieldSink, result::KnownText, result::TableOf;

constexpr size_t kHostWidth = 12, kFleetNameWidth = 26;

// Empty: the value does not fit.
std::optional<int64_t> Whole(Int128 ps) {
  const bool fits = ps <= std::numeric_limits<int64_t>::max();
  return fits ? std::optional(static_cast<int64_t>(ps)) : std::nullopt;
}
std::optional<int64_t> Whole(std::optional<Int128> ps) {
  return ps.has_value() ? Whole(*ps) : std::nullopt;
}
std::optional<double> ComputeShare(Int128 part_ps, Int128 span_ps) {
  if (span_ps <= 0) return std::nullopt;
  return static_cast<double>(part_ps) / static_cast<double>(span_ps);
}
std::optional<double> MedianOf(const CaptureCentres& ascending_ps) {
  if (ascending_ps.empty()) return std::nullopt;
  return Percentile(ascending_ps, 0.5);
}

// The rows of a summary, field by field.
class FleetRows {
 public:
  explicit FleetRows(const FleetSummary& summary) : names_(summary.names) {}

  std::string_view Name(NameId id) const { return names_[id]; }

  void operator()(const FleetDevice& row, FieldSink* sink) const {
    Place(row, sink);
    sink->Field("model", KnownText(Name(row.model)));
    XPLANE_TIME_FIELDS(sink, DeviceKindName(row.kind));
    XPLANE_TIME_FIELDS(sink, row.captures, row.executions);
    sink->Field("busy_ps", Whole(row.busy_ps));
    sink->Field("span_ps", Whole(row.span_ps));
    Parts(row, sink);
  }
  void operator()(const FleetFunction& row, FieldSink* sink) const {
    Place(row, sink);
    sink->Field("model", KnownText(Name(row.model)));
    sink->Field("function", Name(row.function));
    XPLANE_TIME_FIELDS(sink, row.is_range);
    Centres(row.centres_ps, sink);
    XPLANE_TIME_FIELDS(sink, row.runs, row.left_out);
    Time(row.active, sink);
    sink->Field("span_ps", Whole(row.span_ps));
  }
  void operator()(const FleetKernel& row, FieldSink* sink) const {
    Place(row, sink);
    sink->Field("kernel", Name(row.kernel));
    sink->Field("function", KnownText(Name(row.function)));
    XPLANE_TIME_FIELDS(sink, CategoryName(row.category));
    XPLANE_TIME_FIELDS(sink, row.captures);
    sink->Field("count", row.time.count);
    Time(row.time, sink);
    const bool known = row.self_known == row.captures;
    sink->Field("self_ps", known ? Whole(row.self_ps) : std::nullopt);
  }
  void operator()(const FleetSteps& row, FieldSink* sink) const {
    Place(row, sink);
    sink->Field("model", KnownText(Name(row.model)));
    Centres(row.centres_ps, sink);
    sink->Field("steps", row.span.count);
    Time(row.span, sink);
    Parts(row, sink);
  }
  void operator()(const FleetCollective& row, FieldSink* sink) const {
    Place(row, sink);
    sink->Field("kernel", Name(row.kernel));
    XPLANE_TIME_FIELDS(sink, row.count);
    sink->Field("exposed_ps", Whole(row.exposed_ps));
    sink->Field("hidden_ps", Whole(row.hidden_ps));
    sink->Field("in_flight_ps", Whole(row.in_flight_ps));
  }

 private:
  void Place(const auto& row, FieldSink* sink) const {
    sink->Field("host", KnownText(Name(row.host)));
    sink->Field("device", KnownText(Name(row.device)));
  }
  static void Centres(const CaptureCentres& centres_ps, FieldSink* sink) {
    sink->Field("captures", centres_ps.size());
    sink->Field("median_of_captures_ps", MedianOf(centres_ps));
  }
  static void Time(const TimeSum& time, FieldSink* sink) {
    sink->Field("total_ps", Whole(time.total_ps));
    sink->Field("total_s", static_cast<double>(time.total_ps) / 1e12);
    sink->Field("mean_ps", time.MeanPs());
    sink->Field("p50_ps", time.QuantilePs(0.5));
    sink->Field("p95_ps", time.QuantilePs(0.95));
    sink->Field("p99_ps", time.QuantilePs(0.99));
    sink->Field("min_ps", time.min_ps);
    sink->Field("max_ps", time.max_ps);
  }
  static void Parts(const auto& row, FieldSink* sink) {
    sink->Field("compute_ps", Whole(row.compute_ps));
    sink->Field("collective_exposed_ps", Whole(row.collective_exposed_ps));
    sink->Field("copy_exposed_ps", Whole(row.copy_exposed_ps));
    sink->Field("other_ps", Whole(row.other_ps));
    sink->Field("idle_ps", Whole(row.idle_ps));
  }

  std::span<const std::string> names_;
};

void VisitRow(const FleetCapture& row, FieldSink* sink) {
  XPLANE_TIME_FIELDS(sink, row.path, KnownText(row.host), row.bytes, row.events, row.start_unix_ns);
}
void VisitRow(const FleetFailure& row, FieldSink* sink) {
  XPLANE_TIME_FIELDS(sink, row.path, row.message);
}
std::string DoubtText(FleetDoubt doubt) {
  switch (doubt) {
    case FleetDoubt::kFewOthers:
      return "fewer than 3 other devices of the model run the function";
    case FleetDoubt::kFewTypical:
      return "fewer than 3 other devices of the model remain without the outliers";
    case FleetDoubt::kLargeVariation:
      return absl::StrCat("the devices differ so much that a slowdown of ",
                          FormatPercent(kMostFleetMde), " % would not be detected");
    case FleetDoubt::kEarlierSummary:
      return "the function has collectives, and the summary lacks the time outside of them; "
             "summarize the traces again";
  }
  return "";
}
void VisitRow(const FleetOutlier& row, FieldSink* sink) {
  sink->Field("host", KnownText(row.host));
  sink->Field("device", KnownText(row.device));
  sink->Field("model", KnownText(row.model));
  sink->Field("function", KnownText(row.function));
  sink->Field("measure", FleetMeasureName(row.measure));
  XPLANE_TIME_FIELDS(sink, row.captures, row.others, row.ratio);
  sink->Interval("ratio_ci", row.lo, row.hi);
  XPLANE_TIME_FIELDS(sink, row.p_value, row.mde);
  sink->Field("verdict", FleetVerdictName(row.verdict));
  sink->Field("reason", KnownText(row.doubt.has_value() ? DoubtText(*row.doubt) : ""));
}
void VisitRow(const FleetClock& row, FieldSink* sink) {
  sink->Field("host", KnownText(row.host));
  XPLANE_TIME_FIELDS(sink, row.collectives, row.offset_ps, row.lo_ps, row.hi_ps, row.steps);
}
void VisitRow(const FleetWait& row, FieldSink* sink) {
  sink->Field("kernel", row.kernel);
  sink->Field("function", KnownText(row.function));
  sink->Field("host", KnownText(row.host));
  sink->Field("device", KnownText(row.device));
  XPLANE_TIME_FIELDS(sink, row.devices, row.count);
  sink->Field("waited_ps", Whole(row.waited_ps));
  sink->Field("transfer_ps", Whole(row.transfer_ps));
  sink->Field("reason", KnownText(row.reason));
}
// The meaning of a diagnostic code. A code of a later version stands for itself.
std::string_view MeaningOf(std::string_view name) {
  for (size_t at = 0; at < static_cast<size_t>(DiagnosticCode::kCodeCount); ++at) {
    const auto code = static_cast<DiagnosticCode>(at);
    if (DiagnosticName(code) == name) return DiagnosticMeaning(code);
  }
  return name;
}

struct DiagnosticCount {
  std::string_view code, severity;
  uint64_t count = 0;
};
void VisitRow(const DiagnosticCount& row, FieldSink* sink) {
  const std::string_view message = MeaningOf(row.code);
  XPLANE_TIME_FIELDS(sink, row.code, row.severity, row.count, message);
}

size_t DistinctHosts(const FleetSummary& summary) {
  std::set<NameId> hosts;
  for (const FleetDevice& row : summary.devices) hosts.insert(row.host);
  return hosts.size();
}

// "2 slow (host3 GPU:0 +2.1 %)"; the rest in numbers.
std::string Headline(const FleetReport& report) {
  const FleetSummary& summary = report.summary;
  std::string text = absl::StrCat(
      summary.by.host ? absl::StrCat(Counted(DistinctHosts(summary), "host"), ", ") : "",
      summary.by.device ? absl::StrCat(Counted(summary.devices.size(), "device"), ", ") : "",
      Counted(summary.captures.size(), "capture"));
  if (!summary.failures.empty()) {
    absl::StrAppend(&text, "; ", Counted(summary.failures.size(), "file"), " could not be read");
  }
  return text;
}

std::string OutlierPlace(const FleetOutlier& row) {
  return absl::StrJoin({row.host, row.device}, row.host.empty() || row.device.empty() ? "" : " ");
}

Section OutlierSection(const FleetReport& report, const OutputOptions& options) {
  Section section = {.title = "slower or faster than the others of the same model"};
  std::vector<FleetOutlier> proved;
  double largest_mde = 0;
  std::map<FleetDoubt, size_t> doubts;
  bool any_without = false;  // rows without the time in collectives
  for (const FleetOutlier& row : report.outliers) {
    if (row.doubt.has_value()) ++doubts[*row.doubt];
    any_without |= row.measure == FleetMeasure::kWithoutCollectives && row.ratio.has_value();
    if (row.verdict == FleetVerdict::kTypical) largest_mde = std::max(largest_mde, *row.mde);
    if (row.verdict <= FleetVerdict::kFast) proved.push_back(row);
  }
  if (largest_mde > 0) {
    section.notes.push_back(absl::StrCat(
        proved.empty() ? "none; " : "", "a slowdown of ", FormatPercent(largest_mde),
        " % in a row would be detected with 80 % probability; false alarms in at most ",
        FormatPercent(report.options.alpha), " % of fleets"));
  }
  for (const auto& [doubt, count] : doubts) {
    section.notes.push_back(
        absl::StrCat("undecided in ", Counted(count, "row"), ": ", DoubtText(doubt)));
  }
  if (any_without) {
    section.notes.emplace_back(
        "hosts with collectives are compared by their time outside of collectives");
  }
  if (report.outliers.empty()) section.notes.emplace_back("no function has runs with a known time");
  const auto rows =
      TopRows(proved, options.top.value_or(kDefaultRows), "rows", kByTop, &section.notes);
  RowGrid grid(rows);
  grid.Name("host", kHostWidth, OutlierPlace);
  grid.Text("verdict", [](const FleetOutlier& row) { return FleetVerdictName(row.verdict); });
  grid.Name("function", kFleetNameWidth, [](const FleetOutlier& row) {
    return row.function.empty() ? std::string("(steps)") : row.function;
  });
  grid.Number("change %", [](const FleetOutlier& row) { return ChangeOrDash(row.ratio); });
  grid.Number("interval %", [](const FleetOutlier& row) { return IntervalText(row.lo, row.hi); })
      .Drop(2);
  grid.Number("captures", &FleetOutlier::captures).Drop(3);
  grid.Number("others", &FleetOutlier::others).Drop(1);
  grid.Name("model", kFleetNameWidth, &FleetOutlier::model).Drop(4).HideIfUnknown();
  section.grid = std::move(grid).Take();
  return section;
}

// Shown if there are several models.
void AddModel(const auto& rows, const FleetRows& of, auto* grid) {
  const auto is_first = [&](const auto& row) { return row.model == rows[0].model; };
  grid->Name("model", kFleetNameWidth, [&](const auto& row) { return of.Name(row.model); })
      .Drop(4)
      .HideIf(std::ranges::all_of(rows, is_first));
}

// Most idle first.
Section DeviceSection(const FleetSummary& summary, const OutputOptions& options) {
  Section section = {.title = "use of time between first start and last end, most idle first"};
  std::vector<FleetDevice> sorted = summary.devices;
  const size_t quiet =
      std::erase_if(sorted, [](const FleetDevice& row) { return row.executions == 0; });
  if (quiet > 0)
    section.notes.push_back(absl::StrCat(Counted(quiet, "row"), " without executions"));
  const auto idle = [](const FleetDevice& row) { return ComputeShare(row.idle_ps, row.span_ps); };
  std::ranges::stable_sort(sorted, std::greater(), idle);
  const auto rows =
      TopRows(sorted, options.top.value_or(kDefaultRows), "rows", kByTop, &section.notes);
  const FleetRows of(summary);
  RowGrid grid(rows);
  grid.Name("host", kHostWidth, [&](const FleetDevice& row) { return of.Name(row.host); });
  grid.Name("device", 7, [&](const FleetDevice& row) { return of.Name(row.device); })
      .HideIf(!summary.by.device);
  grid.Number("captures", &FleetDevice::captures).Drop(3);
  grid.Times("busy", options.unit, [](const FleetDevice& row) { return Whole(row.busy_ps); });
  const auto add = [&](const char* header, Int128 FleetDevice::*part) {
    return grid.Number(
        header, [part](const FleetDevice& row) { return ComputeShare(row.*part, row.span_ps); },
        FormatPercent);
  };
  add("compute %", &FleetDevice::compute_ps);
  add("collective %", &FleetDevice::collective_exposed_ps).Drop(1);
  add("copy %", &FleetDevice::copy_exposed_ps).Drop(2);
  add("other %", &FleetDevice::other_ps).Drop(5);
  add("idle %", &FleetDevice::idle_ps);
  AddModel(rows, of, &grid);
  section.grid = std::move(grid).Take();
  return section;
}

// With the mean, the quantiles and the total of each.
void AddTimes(const OutputOptions& options, auto time, auto* grid) {
  grid->Times("total", options.unit, [=](const auto& row) { return Whole(time(row).total_ps); });
  grid->Times("mean", options.unit, [=](const auto& row) { return time(row).MeanPs(); });
  grid->Times("p50", options.unit, [=](const auto& row) { return time(row).QuantilePs(0.5); })
      .Drop(2);
  grid->Times("p99", options.unit, [=](const auto& row) { return time(row).QuantilePs(0.99); })
      .Drop(3);
  grid->Times("max", options.unit, [=](const auto& row) { return time(row).max_ps; }).Drop(4);
}

template <typename Row>
std::vector<Row> ByTotal(const std::vector<Row>& rows, auto time) {
  std::vector<Row> sorted = rows;
  std::ranges::stable_sort(sorted, std::greater(),
                           [&](const Row& row) { return time(row).total_ps; });
  return sorted;
}

Section FunctionSection(const FleetSummary& all, const OutputOptions& options) {
  Section section = {.title = "functions, active time, all hosts and devices"};
  const auto time = [](const FleetFunction& row) -> const TimeSum& { return row.active; };
  const auto sorted = ByTotal(all.functions, time);
  const auto rows =
      TopRows(sorted, options.top.value_or(kDefaultRows), "functions", kByTop, &section.notes);
  const FleetRows of(all);
  RowGrid grid(rows);
  grid.Name("function", kFleetNameWidth,
            [&](const FleetFunction& row) { return of.Name(row.function); });
  AddModel(rows, of, &grid);
  grid.Number("runs", &FleetFunction::runs);
  AddTimes(options, time, &grid);
  section.grid = std::move(grid).Take();
  return section;
}

Section KernelSection(const FleetSummary& all, const OutputOptions& options) {
  Section section = {.title = "kernels, all hosts and devices"};
  const auto time = [](const FleetKernel& row) -> const TimeSum& { return row.time; };
  const auto sorted = ByTotal(all.kernels, time);
  const auto rows =
      TopRows(sorted, options.top.value_or(kDefaultRows), "kernels", kByTop, &section.notes);
  const FleetRows of(all);
  RowGrid grid(rows);
  grid.Name("kernel", kFleetNameWidth, [&](const FleetKernel& row) { return of.Name(row.kernel); });
  grid.Name("function", 14, [&](const FleetKernel& row) { return of.Name(row.function); })
      .Drop(1)
      .HideIfUnknown();
  grid.Number("count", [](const FleetKernel& row) { return row.time.count; });
  AddTimes(options, time, &grid);
  section.grid = std::move(grid).Take();
  return section;
}

// Appends how well the clocks of the hosts are known, and why collectives were not compared.
void NoteClocks(const FleetWaits& waits, Unit unit, std::vector<std::string>* notes) {
  int64_t widest_ps = 0;
  std::vector<std::string> steps, unknown;
  for (const FleetClock& clock : waits.clocks) {
    if (clock.steps) {
      steps.push_back(Printable(clock.host));
    } else if (clock.offset_ps.has_value()) {
      widest_ps = std::max(widest_ps, *clock.hi_ps - *clock.lo_ps);
    } else {
      unknown.push_back(Printable(clock.host));
    }
  }
  if (!steps.empty()) {
    notes->push_back(absl::StrCat("no clock offset fits ", absl::StrJoin(steps, ", "),
                                  ": a clock stepped, or the collectives differ"));
  } else if (waits.clocks.size() > unknown.size() + 1) {
    notes->push_back(absl::StrCat("the clocks of the hosts are aligned to within ",
                                  FormatTime(static_cast<double>(widest_ps), unit),
                                  ", from the times of the collectives"));
  }
  if (steps.empty() && !unknown.empty()) {
    notes->push_back(absl::StrCat("the clock offset of ", absl::StrJoin(unknown, ", "),
                                  " is unknown: the collectives do not bound it, or only some of "
                                  "the captures have UNIX start times"));
  }
  std::map<std::string, uint64_t> reasons;  // and the number of collectives
  for (const FleetWait& wait : waits.waits) {
    if (!wait.reason.empty()) reasons[wait.reason] += wait.count;
  }
  for (const auto& [reason, count] : reasons) {
    notes->push_back(
        absl::StrCat("no times of ", Counted(count, "collective"), ": ", Printable(reason)));
  }
  if (!waits.unmatched.empty()) {
    notes->push_back(absl::StrCat("no times of collectives whose counts differ between devices: ",
                                  Printable(absl::StrJoin(waits.unmatched, ", "))));
  }
}

Section WaitSection(const FleetWaits& waits, const OutputOptions& options) {
  Section section = {.title = "devices that collectives waited for"};
  const auto rows =
      TopRows(waits.waits, options.top.value_or(kDefaultRows), "rows", kByTop, &section.notes);
  RowGrid grid(rows);
  grid.Name("host", kHostWidth, [](const FleetWait& row) {
    return row.host.empty() && row.device.empty() ? std::string("(unknown)") : row.host;
  });
  grid.Name("device", 7, &FleetWait::device);
  grid.Name("kernel", kFleetNameWidth, &FleetWait::kernel);
  grid.Name("function", 14, &FleetWait::function).Drop(2).HideIfUnknown();
  grid.Number("count", &FleetWait::count);
  grid.Times("waited", options.unit, [](const FleetWait& row) { return Whole(row.waited_ps); });
  grid.Times("transfer", options.unit, [](const FleetWait& row) { return Whole(row.transfer_ps); })
      .Drop(1);
  grid.Number("devices", &FleetWait::devices).Drop(3);
  section.grid = std::move(grid).Take();
  NoteClocks(waits, options.unit, &section.notes);
  return section;
}

Section FailureSection(const FleetSummary& summary, const OutputOptions& options) {
  Section section = {.title = "files that could not be read"};
  const auto rows = TopRows(summary.failures, options.top.value_or(kDefaultRows), "files", kByTop,
                            &section.notes);
  RowGrid grid(rows);
  grid.Name("file", kFleetNameWidth, &FleetFailure::path);
  grid.Name("why", 48,
            [](const FleetFailure& row) {
              const std::string begin = row.path + ": ";
              return row.message.starts_with(begin) ? row.message.substr(begin.size())
                                                    : row.message;
            })
      .words = true;
  section.grid = std::move(grid).Take();
  return section;
}

View FleetView(const FleetReport& report, const OutputOptions& options) {
  View view;
  view.lines.push_back({Headline(report)});
  if (!report.summary.failures.empty()) {
    view.sections.push_back(FailureSection(report.summary, options));
  }
  view.sections.push_back(OutlierSection(report, options));
  const FleetWaits& waits = report.waits;
  if (!waits.waits.empty() || !waits.clocks.empty() || !waits.unmatched.empty()) {
    view.sections.push_back(WaitSection(waits, options));
  }
  view.sections.push_back(DeviceSection(report.summary, options));
  view.sections.push_back(FunctionSection(report.all, options));
  view.sections.push_back(KernelSection(report.all, options));
  for (const auto& [code, count] : report.summary.diagnostics) {
    if (code.second == "info") continue;
    view.diagnostics.push_back({code.second, Cat(count, " x ", MeaningOf(code.first))});
  }
  return view;
}

}  // namespace

Output FleetOutput(const FleetReport& report, std::string_view csv) {
  const FleetSummary& summary = report.summary;
  Output out{.result = result::Result("xplane-time.fleet.v1")};
  const FleetRows visit(summary);
  std::vector<DiagnosticCount> diagnostics;
  for (const auto& [code, count] : summary.diagnostics) {
    diagnostics.push_back({code.first, code.second, count});
  }
  const auto own = [](const auto& row, FieldSink* sink) { VisitRow(row, sink); };
  out.result.Say([&report](FieldSink* sink) {
    sink->Field("by", FleetByName(report.summary.by));
    sink->Field("alpha", report.options.alpha);
    sink->Field("min_effect", report.options.min_effect);
  });
  const std::array<result::Table, 11> tables = {
      TableOf("captures", std::span(summary.captures), own),
      TableOf("failures", std::span(summary.failures), own),
      TableOf("hosts", std::span(summary.devices), visit),
      TableOf("functions", std::span(summary.functions), visit),
      TableOf("kernels", std::span(summary.kernels), visit),
      TableOf("steps", std::span(summary.steps), visit),
      TableOf("collectives", std::span(summary.collectives), visit),
      TableOf("waits", std::span(report.waits.waits), own),
      TableOf("clocks", std::span(report.waits.clocks), own),
      TableOf("outliers", std::span(report.outliers), own),
      TableOf("diagnostics", std::move(diagnostics), own)};
  for (const result::Table& table : tables) {
    out.result.Add(table);
    if (table.name == (csv.empty() ? "hosts" : csv)) out.result.csv = table;
  }
  out.view = [&report](const OutputOptions& how) { return FleetView(report, how); };
  return out;
}

}  // namespace xplane_time::output
