#include "result/where_rows.h"

#include "result/rows.h"

namespace xplane_time::result {
namespace {

void VisitParts(const TimeParts& time, FieldSink* sink) {
  XPLANE_TIME_FIELDS(sink, time.span_ps, time.compute_ps, time.collective_exposed_ps,
                     time.copy_exposed_ps, time.other_ps, time.idle_ps, time.idle_host_ps,
                     time.idle_launch_ps, time.idle_unknown_ps, time.collective_ps,
                     time.collective_hidden_ps, time.copy_ps, time.copy_hidden_ps);
}

}  // namespace

void VisitRow(const WhereDevice& row, FieldSink* sink) {
  VisitDevice(&row.device, sink);
  XPLANE_TIME_FIELDS(sink, DeviceKindName(row.kind),
                     KnownText(row.clock ? ClockName(*row.clock) : ""));
  XPLANE_TIME_FIELDS(sink, row.executions);
  VisitParts(row.time, sink);
  XPLANE_TIME_FIELDS(sink, row.steps);
  sink->Field("step_source", KnownText(row.step_source ? StepSourceName(*row.step_source) : ""));
  XPLANE_TIME_FIELDS(sink, row.step_function, row.step_program_id, row.steps_empty,
                     row.step_median_ps, row.steps_span_ps, row.idle_in_steps_ps,
                     row.idle_between_steps_ps, row.gaps);
}

void VisitRow(const WhereFunction& row, FieldSink* sink) {
  VisitDevice(&row.device, sink);
  XPLANE_TIME_FIELDS(sink, row.function, row.program_id, ClockName(row.clock), row.runs,
                     row.suspect_runs);
  VisitParts(row.time, sink);
  XPLANE_TIME_FIELDS(sink, row.foreign_ps);
}

void VisitRow(const WhereStep& row, FieldSink* sink) {
  VisitDevice(&row.device, sink);
  XPLANE_TIME_FIELDS(sink, row.step, row.name, row.start_ps, row.marked_ps);
  VisitParts(row.time, sink);
}

void VisitRow(const WhereTransfer& row, FieldSink* sink) {
  VisitDevice(&row.device, sink);
  XPLANE_TIME_FIELDS(sink, CategoryName(row.category), row.kernel, row.function, row.program_id,
                     row.count, row.exposed_ps, row.hidden_ps, row.in_flight_ps, row.bytes,
                     row.bytes_source);
}

void VisitRow(const WhereHostTime& row, FieldSink* sink) {
  XPLANE_TIME_FIELDS(sink, row.event, row.self_ps);
}

void VisitRow(const WhereGap& row, FieldSink* sink) {
  VisitDevice(&row.device, sink);
  XPLANE_TIME_FIELDS(sink, row.start_ps, row.duration_ps, row.cause, row.idle_host_ps,
                     row.idle_launch_ps, row.kernel_before, row.function_before, row.kernel_after,
                     row.function_after, row.host_thread, row.host_event, row.host_busy_ps);
  // Flat formats have the first of the list alone.
  const bool any = !row.host_events.empty();
  sink->Field("host_self_event",
              any ? FieldValue(row.host_events[0].event) : FieldValue::Unknown(FieldType::kText));
  sink->Field("host_self_ps", any ? FieldValue(row.host_events[0].self_ps)
                                  : FieldValue::Unknown(FieldType::kInt64));
  sink->Rows(TableOf("host_events", std::span(row.host_events)));
}

}  // namespace xplane_time::result
