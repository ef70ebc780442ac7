// The numbers of earlier tools.
#include "absl/strings/str_cat.h"
#include "output/results.h"
#include "output/trace_views.h"

namespace xplane_time::output {
namespace {

using compat::Answer;
using compat::Tool;
using result::FieldSink, result::TableOf;

constexpr double kPsPerNs = 1e3;

std::string_view ToolName(Tool tool) {
  return tool == Tool::kEjkernel ? "ejkernel" : tool == Tool::kTuneJax ? "tune-jax" : "xprof";
}

void VisitKey(const Answer::KeyRow& row, FieldSink* sink) {
  XPLANE_TIME_FIELDS(sink, row.input, row.plane, row.time.key, row.time.time_s);
}

void VisitVariantTime(const compat::VariantTime& row, FieldSink* sink) {
  sink->Field("variant_id", row.id);
  XPLANE_TIME_FIELDS(sink, row.n, row.mean_s, row.std_s);
}

void VisitXprofKernel(const compat::XprofKernel& row, FieldSink* sink) {
  sink->Field("kernel_name", row.name);
  sink->Field("total_duration_us", row.total_us);
  sink->Field("execution_count", row.count);
  sink->Field("avg_duration_us", row.mean_us);
  sink->Field("is_intra_kernel_region", row.intra_kernel_region);
}

void VisitXprof(const compat::XprofTimes& times, FieldSink* sink) {
  sink->Field("total_device_duration_ns", times.total_device_ns);
  sink->BeginGroup("by_line_duration_ns", true);
  for (const auto& line : times.lines) sink->Field(line.line, line.covered_ns);
  sink->EndGroup();
  sink->Field("custom_call_duration_us", times.custom_call_us);
  sink->Field("custom_call_share_pct", times.custom_call_percent);
}

void VisitXprofTotals(const compat::XprofTimes& times, FieldSink* sink) {
  sink->Numbers("step_durations_us",
                std::vector<std::optional<double>>(times.steps_us.begin(), times.steps_us.end()));
  sink->BeginGroup("stats", true);
  XPLANE_TIME_FIELDS(sink, times.mean_us, times.std_us);
  sink->EndGroup();
  sink->Field("total_records", times.kernel_count);
  sink->Field("total_duration_us_all_records", times.outermost_us);
  sink->Texts("excluded_intra_kernel_region_lines", times.excluded_lines);
}

constexpr size_t kCompatNameWidth = 26;

// A time in other units, as picoseconds.
template <typename Row, typename T>
auto InPs(T Row::*time, double ps_per_unit) {
  return [=](const Row& row) { return static_cast<double>(row.*time) * ps_per_unit; };
}

Section KeySection(const Answer& answer, Unit unit) {
  RowGrid grid(answer.keys);
  grid.Name("key", kCompatNameWidth, [](const Answer::KeyRow& row) { return row.time.key; });
  grid.Name("plane", 0, &Answer::KeyRow::plane);
  grid.Times("time", unit, [](const Answer::KeyRow& row) { return row.time.time_s * kPsPerS; });
  Section section = {.title = absl::StrCat("planes with \"", Printable(answer.device), "\""),
                     .grid = std::move(grid).Take()};
  if (answer.keys.empty()) section.notes.push_back("no keys");
  return section;
}

Section VariantSection(const Answer& answer, Unit unit) {
  using Row = compat::VariantTime;
  RowGrid grid(answer.variants);
  grid.Name("variant", kCompatNameWidth, &Row::id);
  grid.Number("n", &Row::n);
  grid.Times("mean", unit, InPs(&Row::mean_s, kPsPerS));
  grid.Times("std", unit, InPs(&Row::std_s, kPsPerS));
  return {.title = "variants", .grid = std::move(grid).Take()};
}

Section XprofKernelSection(const compat::XprofTimes& times, Unit unit) {
  using Row = compat::XprofKernel;
  RowGrid grid(times.kernels);
  grid.Name("kernel", kCompatNameWidth, &Row::name);
  grid.Number("count", &Row::count);
  grid.Times("total", unit, InPs(&Row::total_us, kPsPerUs));
  grid.Times("mean", unit, InPs(&Row::mean_us, kPsPerUs));
  Section section = {.title = absl::StrCat(
                         "kernels of all devices; together they cover ",
                         FormatTime(static_cast<double>(times.total_device_ns) * kPsPerNs, unit)),
                     .grid = std::move(grid).Take()};
  if (times.kernel_count > times.kernels.size()) {
    section.notes.push_back(
        absl::StrCat(times.kernel_count - times.kernels.size(), " more: --top N"));
  }
  return section;
}

Section XprofLineSection(const compat::XprofTimes& times, Unit unit) {
  using Row = compat::XprofTimes::LineTime;
  RowGrid grid(times.lines);
  grid.Name("line", kCompatNameWidth, &Row::line);
  grid.Times("covered", unit, InPs(&Row::covered_ns, kPsPerNs));
  return {.title = "lines", .grid = std::move(grid).Take()};
}

View CompatView(const Answer& answer, Unit unit) {
  View view = {.lines = {{absl::StrCat("definition of ", std::string(ToolName(answer.tool)),
                                       "; docs/migrating.md describes the differences"),
                          Tone::kDim}}};
  if (answer.xprof.has_value()) {
    view.sections = {XprofKernelSection(*answer.xprof, unit),
                     XprofLineSection(*answer.xprof, unit)};
  } else {
    view.sections = {KeySection(answer, unit)};
    if (!answer.variants.empty()) view.sections.push_back(VariantSection(answer, unit));
  }
  return view;
}

}  // namespace

Output CompatOutput(const Answer& answer, const OutputOptions& options) {
  Output out{.result = result::Result("xplane-time.compat.v1")};
  out.result.Say([&answer](FieldSink* sink) { sink->Field("compat", ToolName(answer.tool)); });
  AddOptions(options.given, &out.result);
  if (answer.xprof.has_value()) {
    const compat::XprofTimes& times = *answer.xprof;
    out.result.Say([&times](FieldSink* sink) { VisitXprof(times, sink); });
    out.result.Add(TableOf("kernel_records", std::span(times.kernels), VisitXprofKernel));
    out.result.Say([&times](FieldSink* sink) { VisitXprofTotals(times, sink); });
    out.result.csv = TableOf("", std::span(times.kernels), VisitXprofKernel);
  } else {
    out.result.Say([&answer](FieldSink* sink) { sink->Field("device", answer.device); });
    out.result.Add(TableOf("keys", std::span(answer.keys), VisitKey));
    out.result.Add(TableOf("variants", std::span(answer.variants), VisitVariantTime));
    out.result.csv = TableOf("", std::span(answer.keys), VisitKey);
  }
  out.view = [&answer](const OutputOptions& how) { return CompatView(answer, how.unit); };
  return out;
}

}  // namespace xplane_time::output
