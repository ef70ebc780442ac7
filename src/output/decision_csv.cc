// The fields of rows, once for JSON and CSV; and the CSV.
#include <span>

#include "absl/strings/str_cat.h"
#include "output/csv_lines.h"
#include "output/decisions.h"

namespace xplane_time::output {
namespace {

void VisitSide(std::string_view name, const SideEstimate& side, FieldSink* sink) {
  sink->BeginGroup(name, true);
  sink->Field("captures", side.captures);
  sink->Field("samples", side.samples);
  sink->Field("centre_ps", side.centre_ps);
  sink->Interval("ci_ps", side.lo_ps, side.hi_ps);
  sink->EndGroup();
}

constexpr auto kVisitRow = [](const auto& row, FieldSink* sink) { VisitRow(row, sink); };

std::string ParamsText(const std::vector<Fact>& params) {
  std::string text;
  for (const Fact& param : params) {
    absl::StrAppend(&text, text.empty() ? "" : " ", param.name, "=", param.value);
  }
  return text;
}

}  // namespace

void VisitRow(const ComparedRow& row, FieldSink* sink) {
  sink->Field("device", KnownText(row.device));
  sink->Field("function", std::string_view(row.function));
  sink->Field("variant_id", row.variant_id);
  sink->Field("program", static_cast<uint64_t>(row.program));
  sink->Field("metric", KnownText(row.metric));
  sink->Field("clock", KnownText(row.clock));
  sink->Field("verdict", VerdictName(row.verdict));
  sink->Field("ratio", row.ratio);
  sink->Interval("ratio_ci", row.lo, row.hi);
  sink->Field("p_value", row.p_value);
  sink->Field("mde", row.mde);
  sink->Field("spread", row.spread);
  sink->Field("needed_captures", row.needed);
  VisitSide("base", row.base, sink);
  VisitSide("head", row.head, sink);
  sink->Field("uncertain", row.uncertain);
  sink->Field("reason", KnownText(row.reason));
}

void VisitRow(const KernelChange& row, FieldSink* sink) {
  sink->Field("function", std::string_view(row.function));
  sink->Field("kernel", std::string_view(row.kernel));
  sink->Field("base_ps", row.base_ps);
  sink->Field("head_ps", row.head_ps);
}

void VisitRow(const VariantRow& row, FieldSink* sink) {
  sink->Field("variant_id", std::string_view(row.id));
  sink->Field("function", KnownText(row.function));
  sink->Field("status", std::string_view(row.status));
  sink->Field("samples", row.samples);
  sink->Field("units", row.units);
  sink->Field("left_out", row.left_out);
  sink->Field("centre_ps", row.centre_ps);
  sink->Interval("ci_ps", row.lo_ps, row.hi_ps);
  sink->Field("p95_ps", row.p95_ps);
  sink->Field("ratio", row.ratio);
  sink->Interval("ratio_ci", row.lo, row.hi);
  sink->Field("p_best", row.p_best);
  sink->Field("uncertain", row.uncertain);
}

std::string ComparisonCsv(const Comparison& comparison) {
  return CsvLines<ComparedRow>(comparison.rows, kVisitRow);
}

std::string ChoiceCsv(const PickResult& choice) {
  return CsvLines<VariantRow>(choice.variants, [](const VariantRow& row, FieldSink* sink) {
    VisitRow(row, sink);
    const std::string params = ParamsText(row.params);
    sink->Field("params", KnownText(params));
  });
}

}  // namespace xplane_time::output
