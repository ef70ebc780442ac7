// Headroom: the recoverable time of each op.
#include <algorithm>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "output/results.h"
#include "output/trace_views.h"
#include "result/rows.h"

namespace xplane_time::output {
namespace {

using result::FieldSink, result::FieldValue, result::KnownText, result::TableOf;

using HeadroomRows = std::span<const HeadroomRow>;

// Null if the value is empty.
template <typename Enum>
FieldValue NameOr(const std::optional<Enum>& value, std::string_view (*name)(Enum)) {
  return KnownText(value.has_value() ? name(*value) : std::string_view());
}

void VisitRow(const HeadroomDevice& row, FieldSink* sink) {
  result::VisitDevice(&row.device, sink);
  const DevicePeaks& peaks = row.peaks;
  sink->Field("kind", DeviceKindName(row.kind));
  sink->Field("peak_flops_per_s", peaks.flops_per_s);
  sink->Field("peak_f8_flops_per_s", peaks.f8_flops_per_s);
  sink->Field("flops_source", NameOr(peaks.flops_source, PeakSourceName));
  sink->Field("peak_bytes_per_s", peaks.bytes_per_s);
  sink->Field("bytes_source", NameOr(peaks.bytes_source, PeakSourceName));
  XPLANE_TIME_FIELDS(sink, row.self_ps, row.roofed_ps, row.roofed_share, row.recoverable_ps);
}

void VisitRow(const HeadroomRow& row, FieldSink* sink) {
  result::VisitDevice(&row.device, sink);
  XPLANE_TIME_FIELDS(sink, row.function, row.program_id, row.op, row.kernel,
                     CategoryName(row.category), ClockName(row.clock), row.kernels, row.executions,
                     row.total_ps, row.flops);
  sink->Field("flops_source", NameOr(row.flops_source, FigureSourceName));
  XPLANE_TIME_FIELDS(sink, row.flops_per_s, row.flops_share, row.bytes);
  sink->Field("bytes_source", NameOr(row.bytes_source, FigureSourceName));
  XPLANE_TIME_FIELDS(sink, row.bytes_per_s, row.bytes_share);
  sink->Field("roof", NameOr(row.roof, RoofName));
  XPLANE_TIME_FIELDS(sink, row.roof_ps, row.above_peak, row.recoverable_ps);
  sink->Field("bound", NameOr(row.bound, BoundName));
  sink->Field("reason", NameOr(row.reason, NoRoofName));
  XPLANE_TIME_FIELDS(sink, row.op_name, row.source);
}

std::string PeakText(const char* what, const std::optional<double>& peak,
                     const std::optional<PeakSource>& source) {
  if (!peak.has_value()) return absl::StrCat("peak ", what, " unknown");
  return absl::StrCat("peak ", FormatRate(peak), what, " (", Printable(PeakSourceName(*source)),
                      ")");
}

// "GPU:0: peak 1307 TFLOP/s (table), peak 5.32 TB/s (table); 97.1 % of its kernel time has a roof,
// and at most 1.6 ms of it is recoverable".
ViewLine DeviceLine(const HeadroomDevice& row, const DeviceNames& names, Unit unit) {
  std::string text =
      absl::StrCat(names.Name(row.device), ": ",
                   PeakText("FLOP/s", row.peaks.flops_per_s, row.peaks.flops_source), ", ",
                   PeakText("B/s", row.peaks.bytes_per_s, row.peaks.bytes_source), "; ",
                   FormatPercent(row.roofed_share), " % of its kernel time has a roof");
  if (row.recoverable_ps.has_value()) {
    absl::StrAppend(&text, ", and at most ", FormatTime(*row.recoverable_ps, unit),
                    " of it is recoverable");
  }
  return {.text = std::move(text), .as = ViewLine::kItem};
}

std::string ReasonText(NoRoof reason) {
  std::string text(NoRoofName(reason));
  std::ranges::replace(text, '_', ' ');
  return text;
}

// The bound, or the reason why it is unknown.
std::string BoundOrReason(const HeadroomRow& row) {
  if (row.reason.has_value()) return "(" + ReasonText(*row.reason) + ")";
  return row.bound.has_value() ? std::string(BoundName(*row.bound)) : "-";
}

// "52 ops without an answer, 304 s: pair 302 s, no program 2.1 s".
void NoteUnanswered(HeadroomRows rows, Unit unit, std::vector<std::string>* notes) {
  std::map<NoRoof, double> times_ps;
  double all_ps = 0;
  size_t ops = 0;
  for (const HeadroomRow& row : rows) {
    if (row.recoverable_ps.has_value() || !row.reason.has_value()) continue;
    times_ps[*row.reason] += static_cast<double>(row.total_ps);
    all_ps += static_cast<double>(row.total_ps);
    ++ops;
  }
  if (ops == 0) return;
  std::vector<std::string> reasons;
  for (const auto& [reason, ps] : times_ps) {
    reasons.push_back(ReasonText(reason) + " " + FormatTime(ps, unit));
  }
  notes->push_back(absl::StrCat(Counted(ops, "op"), " without an estimate, ",
                                FormatTime(all_ps, unit), ": ", absl::StrJoin(reasons, ", ")));
  if (times_ps.contains(NoRoof::kNoProgram)) {
    notes->emplace_back(
        "no program: the FLOPs and bytes of an op are taken from its compiled program (XLA), which "
        "the trace lacks; PyTorch records none; --work FILE declares them");
  }
}

void AddShare(const char* header, std::optional<double> HeadroomRow::*rate,
              std::optional<double> HeadroomRow::*share, RowGrid<HeadroomRows>* grid) {
  grid->Number(header, rate, FormatRate).Drop(5).HideIfUnknown();
  grid->Number(absl::StrCat("% ", header), share, FormatPercent).Drop(3).HideIfUnknown();
}

Section OpSection(const HeadroomReport& report, const OutputOptions& options) {
  constexpr size_t kOpWidth = 24, kFunctionWidth = 14, kSourceWidth = 16;
  Section section = {.title = "ops, by recoverable time"};
  if (report.ops.empty()) section.notes.emplace_back("none");
  const HeadroomRows rows =
      TopRows(report.ops, options.top.value_or(kDefaultRows), "ops", kByTop, &section.notes);
  NoteUnanswered(report.ops, options.unit, &section.notes);
  const auto is_on_host = [](const HeadroomRow& row) { return row.reason == NoRoof::kHost; };
  if (std::ranges::any_of(rows, is_on_host)) {
    section.notes.emplace_back(
        "(host): a CPU has no roof, because thunks return before their work is done; FLOP/s and "
        "B/s can be too high for the same reason");
  }
  const auto lacks_flops = [](const HeadroomRow& row) {
    return row.roof == Roof::kMemory && row.has_unknown_side();
  };
  if (std::ranges::any_of(rows, lacks_flops)) {
    section.notes.emplace_back(
        "(no peak), (flops unknown): only the bytes have a roof, so the recoverable time is "
        "unknown");
  }
  const DeviceNames names(rows);
  RowGrid grid(rows);
  const Unit unit = CommonUnit(grid.Values(&HeadroomRow::total_ps), options.unit);
  grid.Name("op", kOpWidth, &HeadroomRow::op);
  grid.Name("device", 7, [&](const HeadroomRow& row) { return names.Name(row.device); })
      .HideIf(names.count() < 2);
  grid.Name("function", kFunctionWidth, &HeadroomRow::function).Drop(2).HideIfUnknown();
  grid.Id("program", 7, &HeadroomRow::program_id).HideIf(!ProgramTellsApart(rows)).Drop(2);
  grid.Times("back", unit, &HeadroomRow::recoverable_ps);
  grid.Times("total", unit, &HeadroomRow::total_ps);
  grid.Times("roof", unit, &HeadroomRow::roof_ps).Drop(4).HideIfUnknown();
  AddShare("FLOP/s", &HeadroomRow::flops_per_s, &HeadroomRow::flops_share, &grid);
  AddShare("B/s", &HeadroomRow::bytes_per_s, &HeadroomRow::bytes_share, &grid);
  grid.Text("bound", BoundOrReason).Drop(1);
  grid.Name("source", kSourceWidth, &HeadroomRow::source).Drop(6).HideIfUnknown();
  grid.Name("kernel", kOpWidth, &HeadroomRow::kernel).Drop(7).HideIf(true);
  section.grid = std::move(grid).Take();
  return section;
}

View HeadroomView(const HeadroomReport& report, const OutputOptions& options) {
  const DeviceNames names(report.devices);
  View view = {.lines = FilterLines(options, /*with_devices=*/false),
               .sections = {OpSection(report, options)},
               .diagnostics = DiagnosticLines(report.diagnostics, /*with_infos=*/true)};
  for (const HeadroomDevice& device : report.devices) {
    view.lines.push_back(DeviceLine(device, names, options.unit));
  }
  return view;
}

}  // namespace

Output HeadroomOutput(const HeadroomReport& report, const OutputOptions& options) {
  const HeadroomRows rows = Top(report.ops, options.top);
  const auto ops = [](const HeadroomRow& row, FieldSink* sink) { VisitRow(row, sink); };
  Output out{.result = result::Result("xplane-time.headroom.v1")};
  AddHead(report.inputs, &report.capture, options.given, &out.result);
  out.result.Add(TableOf("devices", std::span(report.devices),
                         [](const HeadroomDevice& row, FieldSink* sink) { VisitRow(row, sink); }));
  out.result.Add(TableOf("ops", rows, ops));
  out.result.Add(TableOf("diagnostics", std::span(report.diagnostics)));
  out.result.csv = TableOf("", rows, ops);
  out.view = [&report](const OutputOptions& how) { return HeadroomView(report, how); };
  return out;
}

}  // namespace xplane_time::output
