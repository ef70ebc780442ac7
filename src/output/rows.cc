#include "output/rows.h"

namespace xplane_time::output {
namespace {

template <typename T>
FieldValue OrUnknown(const std::optional<T>& value) {
  if (!value) return std::monostate();
  return FieldValue(*value);
}

FieldValue OrUnknown(const std::optional<std::string>& value) {
  if (!value) return std::monostate();
  return std::string_view(*value);
}

// For strings in which empty means unknown.
FieldValue TextOrUnknown(std::string_view text) {
  if (text.empty()) return std::monostate();
  return text;
}

FieldValue Index(uint32_t value) { return uint64_t{value}; }

void VisitDevice(const DeviceRef* device, FieldSink* sink) {
  if (device == nullptr) {
    for (const char* name : {"input", "plane", "ordinal", "host"}) {
      sink->Field(name, std::monostate());
    }
    return;
  }
  sink->Field("input", Index(device->input));
  sink->Field("plane", std::string_view(device->plane));
  sink->Field("ordinal", OrUnknown(device->ordinal));
  sink->Field("host", TextOrUnknown(device->host));
}

void VisitSummary(std::string_view name, const std::optional<Summary>& summary, FieldSink* sink) {
  const Summary s = summary.value_or(Summary());
  sink->BeginGroup(name, summary.has_value());
  sink->Field("n", s.n);
  sink->Field("mean", s.mean);
  sink->Field("std", s.std);
  sink->Field("std_sample", OrUnknown(s.std_sample));
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

}  // namespace

void VisitRow(const InputRow& row, FieldSink* sink) {
  sink->Field("path", std::string_view(row.path));
  sink->Field("bytes", row.bytes);
  sink->Field("host", TextOrUnknown(row.host));
  sink->Field("capture", Index(row.capture));
}

void VisitRow(const DeviceRow& row, FieldSink* sink) {
  VisitDevice(&row.device, sink);
  sink->Field("kind", DeviceKindName(row.kind));
  sink->Field("executions", row.executions);
  sink->Field("busy_ps", row.busy_ps);
  sink->Field("sum_ps", row.sum_ps);
  sink->Field("first_ps", OrUnknown(row.first_ps));
  sink->Field("last_ps", OrUnknown(row.last_ps));
}

void VisitRow(const FunctionRow& row, bool with_device, FieldSink* sink) {
  if (with_device) VisitDevice(row.device ? &*row.device : nullptr, sink);
  sink->Field("function", std::string_view(row.function));
  if (with_device) sink->Field("program_id", OrUnknown(row.program_id));
  sink->Field("variant_id", OrUnknown(row.variant_id));
  sink->Field("clock", row.clock ? FieldValue(ClockName(*row.clock)) : FieldValue());
  sink->Field("runs", row.runs);
  sink->Field("suspect_runs", row.suspect_runs);
  sink->Field("dropped_samples", row.dropped_samples);
  sink->Field("kernels_total", row.kernels_total);
  sink->Field("kernels_per_run", OrUnknown(row.kernels_per_run));
  VisitSummary("active_ps", row.active_ps, sink);
  VisitSummary("span_ps", row.span_ps, sink);
  VisitSummary("gap_ps", row.gap_ps, sink);
  VisitSummary("sum_ps", row.sum_ps, sink);
  sink->Field("status", RowStatusName(row.status));
}

void VisitRow(const KernelRow& row, FieldSink* sink) {
  VisitDevice(&row.device, sink);
  sink->Field("kernel", std::string_view(row.kernel));
  sink->Field("function", OrUnknown(row.function));
  sink->Field("program_id", OrUnknown(row.program_id));
  sink->Field("category", CategoryName(row.category));
  sink->Field("scope", OrUnknown(row.scope));
  sink->Field("clock", ClockName(row.clock));
  sink->Field("count", row.count);
  sink->Field("total_ps", row.total_ps);
  sink->Field("self_ps", OrUnknown(row.self_ps));
  sink->Field("mean_ps", row.mean_ps);
  sink->Field("median_ps", OrUnknown(row.median_ps));
  sink->Field("std_ps", OrUnknown(row.std_ps));
  sink->Field("min_ps", OrUnknown(row.min_ps));
  sink->Field("max_ps", OrUnknown(row.max_ps));
  sink->Field("share", OrUnknown(row.share));
  sink->Field("flops", OrUnknown(row.flops));
  sink->Field("bytes_accessed", OrUnknown(row.bytes_accessed));
}

void VisitRow(const SampleRow& row, FieldSink* sink) {
  VisitDevice(&row.device, sink);
  sink->Field("function", std::string_view(row.function));
  sink->Field("program_id", OrUnknown(row.program_id));
  sink->Field("variant_id", OrUnknown(row.variant_id));
  sink->Field("run", row.run);
  sink->Field("start_ps", row.start_ps);
  sink->Field("active_ps", OrUnknown(row.active_ps));
  sink->Field("span_ps", row.span_ps);
  sink->Field("sum_ps", OrUnknown(row.sum_ps));
  sink->Field("kernels", row.kernels);
  sink->Field("clock", ClockName(row.clock));
  sink->Field("suspect", row.suspect);
}

void VisitRow(const TreeRow& row, FieldSink* sink) {
  VisitDevice(&row.device, sink);
  sink->Field("line", TextOrUnknown(row.line));
  sink->Field("name", std::string_view(row.name));
  sink->Field("depth", Index(row.depth));
  sink->Field("parent", row.parent ? Index(*row.parent) : FieldValue());
  sink->Field("count", row.count);
  sink->Field("total_ps", row.total_ps);
  sink->Field("self_ps", OrUnknown(row.self_ps));
  sink->Field("child_ps", OrUnknown(row.child_ps));
  sink->Field("status", std::string_view(row.status));
}

void VisitRow(const PlaneRow& row, FieldSink* sink) {
  sink->Field("input", Index(row.input));
  sink->Field("plane", std::string_view(row.name));
  sink->Field("host", TextOrUnknown(row.host));
  sink->Field("kind", row.kind ? FieldValue(DeviceKindName(*row.kind)) : FieldValue());
  sink->Field("events", row.events);
  sink->Field("first_ps", OrUnknown(row.first_ps));
  sink->Field("last_ps", OrUnknown(row.last_ps));
}

void VisitRow(const LineRow& row, FieldSink* sink) {
  const std::string id = std::to_string(row.id);
  sink->Field("id", std::string_view(id));
  sink->Field("line", std::string_view(row.name));
  sink->Field("role", TextOrUnknown(row.role));
  sink->Field("events", row.events);
  sink->Field("first_ps", OrUnknown(row.first_ps));
  sink->Field("last_ps", OrUnknown(row.last_ps));
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
  sink->Field("plane", TextOrUnknown(row.plane));
  sink->Field("line", TextOrUnknown(row.line));
  sink->Field("event", OrUnknown(row.event));
  sink->Field("byte_offset", OrUnknown(row.byte_offset));
}

}  // namespace xplane_time::output
