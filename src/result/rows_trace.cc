#include "result/rows_trace.h"

namespace xplane_time::result {
namespace {

FieldValue Index(uint32_t value) { return uint64_t{value}; }

// Passes fields on; without values where there is no part.
class PartSink : public FieldSink {
 public:
  PartSink(bool known, FieldSink* sink) : known_(known), sink_(sink) {}
  void Field(std::string_view name, const FieldValue& value) override {
    sink_->Field(name, known_ ? value : FieldValue::Unknown(value.type()));
  }
  void BeginGroup(std::string_view, bool) override {}
  void EndGroup() override {}
  void Interval(std::string_view, std::optional<double>, std::optional<double>) override {}

 private:
  bool known_;
  FieldSink* sink_;
};

void VisitDevice(const DeviceRef* device, FieldSink* sink) {
  const DeviceRef none;
  const DeviceRef& of = device != nullptr ? *device : none;
  PartSink part(device != nullptr, sink);
  part.Field("input", Index(of.input));
  part.Field("plane", std::string_view(of.plane));
  part.Field("ordinal", of.ordinal);
  part.Field("host", KnownText(of.host));
}

void VisitSummary(std::string_view name, const std::optional<Summary>& summary, FieldSink* sink) {
  const Summary s = summary.value_or(Summary());
  sink->BeginGroup(name, summary.has_value());
  sink->Field("n", s.n);
  sink->Field("mean", s.mean);
  sink->Field("std", s.std);
  sink->Field("std_sample", s.std_sample);
  sink->Field("min", s.min);
  sink->Field("max", s.max);
  sink->Field("median", s.median);
  sink->Field("mad", s.mad);
  sink->Field("p50", s.p50);
  sink->Field("p95", s.p95);
  sink->Field("p99", s.p99);
  sink->Interval("median_ci95", s.median_ci95_lo, s.median_ci95_hi);
  sink->EndGroup();
}

template <typename Row>
void VisitPart(const PlanePart<Row>& row, FieldSink* sink) {
  const PlaneRow none;
  const PlaneRow& plane = row.plane != nullptr ? *row.plane : none;
  sink->Field("input", Index(plane.input));
  sink->Field("plane", std::string_view(plane.name));
  sink->Field("host", KnownText(plane.host));
  sink->Field("kind", KnownText(plane.kind ? DeviceKindName(*plane.kind) : ""));
  PartSink part(row.part != nullptr, sink);
  VisitRow(row.part != nullptr ? *row.part : Row(), &part);
}

}  // namespace

void VisitRow(const InputRow& row, FieldSink* sink) {
  sink->Field("path", std::string_view(row.path));
  sink->Field("bytes", row.bytes);
  sink->Field("host", KnownText(row.host));
  sink->Field("capture", Index(row.capture));
}

void VisitRow(const DeviceRow& row, FieldSink* sink) {
  VisitDevice(&row.device, sink);
  sink->Field("kind", DeviceKindName(row.kind));
  sink->Field("executions", row.executions);
  sink->Field("busy_ps", row.busy_ps);
  sink->Field("sum_ps", row.sum_ps);
  sink->Field("first_ps", row.first_ps);
  sink->Field("last_ps", row.last_ps);
}

void VisitRow(const FunctionRow& row, bool with_device, FieldSink* sink) {
  if (with_device) VisitDevice(row.device ? &*row.device : nullptr, sink);
  sink->Field("function", std::string_view(row.function));
  if (with_device) sink->Field("program_id", row.program_id);
  sink->Field("variant_id", row.variant_id);
  sink->Field("clock", KnownText(row.clock ? ClockName(*row.clock) : ""));
  sink->Field("runs", row.runs);
  sink->Field("suspect_runs", row.suspect_runs);
  sink->Field("dropped_samples", row.dropped_samples);
  sink->Field("kernels_total", row.kernels_total);
  sink->Field("kernels_per_run", row.kernels_per_run);
  VisitSummary("active_ps", row.active_ps, sink);
  VisitSummary("span_ps", row.span_ps, sink);
  VisitSummary("gap_ps", row.gap_ps, sink);
  VisitSummary("sum_ps", row.sum_ps, sink);
  sink->Field("status", RowStatusName(row.status));
}

void VisitRow(const KernelRow& row, FieldSink* sink) {
  VisitDevice(&row.device, sink);
  sink->Field("kernel", std::string_view(row.kernel));
  sink->Field("function", row.function);
  sink->Field("program_id", row.program_id);
  sink->Field("category", CategoryName(row.category));
  sink->Field("scope", row.scope);
  sink->Field("clock", ClockName(row.clock));
  sink->Field("count", row.count);
  sink->Field("total_ps", row.total_ps);
  sink->Field("self_ps", row.self_ps);
  sink->Field("mean_ps", row.mean_ps);
  sink->Field("median_ps", row.median_ps);
  sink->Field("std_ps", row.std_ps);
  sink->Field("min_ps", row.min_ps);
  sink->Field("max_ps", row.max_ps);
  sink->Field("share", row.share);
  sink->Field("flops", row.flops);
  sink->Field("bytes_accessed", row.bytes_accessed);
}

void VisitRow(const SampleRow& row, FieldSink* sink) {
  VisitDevice(&row.device, sink);
  sink->Field("function", std::string_view(row.function));
  sink->Field("program_id", row.program_id);
  sink->Field("variant_id", row.variant_id);
  sink->Field("run", row.run);
  sink->Field("start_ps", row.start_ps);
  sink->Field("active_ps", row.active_ps);
  sink->Field("span_ps", row.span_ps);
  sink->Field("sum_ps", row.sum_ps);
  sink->Field("kernels", row.kernels);
  sink->Field("clock", ClockName(row.clock));
  sink->Field("suspect", row.suspect);
}

void VisitRow(const TreeRow& row, FieldSink* sink) {
  VisitDevice(&row.device, sink);
  sink->Field("line", KnownText(row.line));
  sink->Field("name", std::string_view(row.name));
  sink->Field("depth", Index(row.depth));
  sink->Field("parent", row.parent ? Index(*row.parent) : FieldValue::Unknown(FieldType::kUint64));
  sink->Field("count", row.count);
  sink->Field("total_ps", row.total_ps);
  sink->Field("self_ps", row.self_ps);
  sink->Field("child_ps", row.child_ps);
  sink->Field("status", std::string_view(row.status));
}

void VisitRow(const PlaneRow& row, FieldSink* sink) {
  sink->Field("input", Index(row.input));
  sink->Field("plane", std::string_view(row.name));
  sink->Field("host", KnownText(row.host));
  sink->Field("kind", KnownText(row.kind ? DeviceKindName(*row.kind) : ""));
  sink->Field("events", row.events);
  sink->Field("first_ps", row.first_ps);
  sink->Field("last_ps", row.last_ps);
}

void VisitRow(const LineRow& row, FieldSink* sink) {
  const std::string id = std::to_string(row.id);
  sink->Field("id", std::string_view(id));
  sink->Field("line", std::string_view(row.name));
  sink->Field("role", KnownText(row.role));
  sink->Field("events", row.events);
  sink->Field("first_ps", row.first_ps);
  sink->Field("last_ps", row.last_ps);
  sink->Field("sum_ps", row.sum_ps);
}

void VisitRow(const StatRow& row, FieldSink* sink) {
  sink->Field("name", std::string_view(row.name));
  sink->Field("type", std::string_view(row.type));
  sink->Field("owner", std::string_view(row.owner));
  sink->Field("count", row.count);
}

void VisitRow(const DiagnosticRow& row, FieldSink* sink) {
  sink->Field("code", std::string_view(row.code));
  sink->Field("severity", std::string_view(row.severity));
  sink->Field("count", row.count);
  sink->Field("message", std::string_view(row.message));
  sink->Field("plane", KnownText(row.plane));
  sink->Field("line", KnownText(row.line));
  sink->Field("event", row.event);
  sink->Field("byte_offset", row.byte_offset);
}

std::vector<PlanePart<LineRow>> PlaneLines(const PlanesReport& report) {
  std::vector<PlanePart<LineRow>> rows;
  for (const PlaneRow& plane : report.planes) {
    for (const LineRow& line : plane.lines) rows.push_back({&plane, &line});
    if (plane.lines.empty()) rows.push_back({&plane, nullptr});
  }
  return rows;
}

std::vector<PlanePart<StatRow>> PlaneStats(const PlanesReport& report) {
  std::vector<PlanePart<StatRow>> rows;
  for (const PlaneRow& plane : report.planes) {
    for (const StatRow& stat : plane.stats) rows.push_back({&plane, &stat});
  }
  return rows;
}

void VisitRow(const PlanePart<LineRow>& row, FieldSink* sink) { VisitPart(row, sink); }
void VisitRow(const PlanePart<StatRow>& row, FieldSink* sink) { VisitPart(row, sink); }

}  // namespace xplane_time::result
