// Definitions of rows.h: one VisitRow() per row type lists its fields in the order of the output
// contract. Fields of a missing part are passed as unknown (PartSink), so that every row has the
// same columns.
#include "result/rows.h"

#include <algorithm>

#include "power/inventory.h"

namespace xplane_time::result {
namespace {

// Passes fields on; with unknown values if the part is missing.
class PartSink : public FieldSink {
 public:
  PartSink(bool known, FieldSink* sink) : known_(known), sink_(sink) {}
  void Field(std::string_view name, const FieldValue& value) override {
    sink_->Field(name, known_ ? value : FieldValue::Unknown(value.type()));
  }

 private:
  bool known_;
  FieldSink* sink_;
};

// The object that `part` points to; for null an empty one, for the names of its fields.
template <typename Part>
const Part& PartOrNone(const Part* part) {
  static const Part kNone{};
  return part != nullptr ? *part : kNone;
}

void VisitJoules(std::string_view name, const std::optional<Joules>& joules, FieldSink* sink) {
  sink->Field(name, joules ? std::optional(joules->value) : std::nullopt);
  const auto end = [&](size_t i) {
    return joules && joules->ci95 ? std::optional((*joules->ci95)[i]) : std::nullopt;
  };
  sink->Interval(std::string(name) + "_ci95", end(0), end(1));
}

void VisitSummary(std::string_view name, const std::optional<Summary>& summary, FieldSink* sink) {
  const Summary s = summary.value_or(Summary());
  sink->BeginGroup(name, summary.has_value());
  XPLANE_TIME_FIELDS(sink, s.n, s.mean, s.std, s.std_sample, s.min, s.max, s.median, s.mad, s.p50,
                     s.p95, s.p99);
  sink->Interval("median_ci95", s.median_ci95_lo, s.median_ci95_hi);
  sink->EndGroup();
}

void VisitPlane(const PlaneRow& plane, FieldSink* sink) {
  sink->Field("input", plane.input);
  sink->Field("plane", plane.name);
  sink->Field("host", KnownText(plane.host));
  sink->Field("kind", KnownText(plane.kind ? DeviceKindName(*plane.kind) : ""));
}

// `with_bare`: planes without parts also get a row.
template <typename Row>
Table PlaneParts(const PlanesReport& report, std::vector<Row> PlaneRow::*parts, bool with_bare) {
  std::vector<std::pair<const PlaneRow*, const Row*>> rows;
  for (const PlaneRow& plane : report.planes) {
    for (const Row& part : plane.*parts) rows.emplace_back(&plane, &part);
    if (with_bare && (plane.*parts).empty()) rows.emplace_back(&plane, nullptr);
  }
  return TableOf("", std::move(rows), [](const auto& row, FieldSink* sink) {
    VisitPlane(PartOrNone(row.first), sink);
    PartSink part(row.second != nullptr, sink);
    VisitRow(PartOrNone(row.second), &part);
  });
}

// Passes the bounds of an energy or a total, or unknown values if it has no bounds.
void VisitBounds(const auto& of, FieldSink* sink) {
  const bool bounds = of.limits != EnergyLimits::kInterval;
  sink->Interval("bounds_j", bounds ? of.lo_j : std::nullopt, bounds ? of.hi_j : std::nullopt);
}

// Passes the kind of the limits and, if it is an interval, the interval with its probability
// `share`.
void VisitLimits(const auto& of, std::optional<double> share, FieldSink* sink) {
  const bool known = of.energy_j.has_value(), interval = of.limits == EnergyLimits::kInterval;
  sink->Field("limits", KnownText(known ? LimitsName(of.limits) : ""));
  sink->Field("unbounded_reason",
              KnownText(known && IsUnbounded(of.limits) ? UnboundedReasonName(of.limits) : ""));
  sink->Interval("interval_j", interval ? of.lo_j : std::nullopt,
                 interval ? of.hi_j : std::nullopt);
  sink->Field("interval_share", interval ? share : std::nullopt);
}

FieldValue InventoryValue(ReadingKind kind) { return ReadingKindName(kind); }
FieldValue InventoryValue(PowerReason reason) { return PowerReasonName(reason); }
FieldValue InventoryValue(const FieldValue& value) { return value; }

template <typename Row>
Table InventoryTable(std::string name, const std::vector<Row>& rows) {
  return TableOf(std::move(name), std::span(rows), [](const Row& row, FieldSink* sink) {
    json::VisitFields(row, [sink](std::string_view field, const auto& value) {
      constexpr std::string_view kOrNull[] = {"pci_bus_id", "driver", "note", "fix"};
      constexpr std::string_view kOnlyInLogs[] = {"slow", "max_plausible_mw"};
      if (std::ranges::count(kOnlyInLogs, field) > 0) return;
      const FieldValue told = InventoryValue(value);
      const bool is_null =
          told == FieldValue(std::string_view()) && std::ranges::count(kOrNull, field) > 0;
      sink->Field(field, is_null ? FieldValue::Unknown(FieldType::kText) : told);
    });
  });
}

}  // namespace

void VisitDevice(const DeviceRef* device, FieldSink* sink) {
  const DeviceRef& of = PartOrNone(device);
  PartSink part(device != nullptr, sink);
  XPLANE_TIME_FIELDS(&part, of.input, of.plane, of.ordinal, KnownText(of.host));
}

void VisitRow(const InputRow& row, FieldSink* sink) {
  XPLANE_TIME_FIELDS(sink, row.path, row.bytes, KnownText(row.host), row.capture, row.base_ns);
}

void VisitRow(const DeviceRow& row, FieldSink* sink) {
  VisitDevice(&row.device, sink);
  XPLANE_TIME_FIELDS(sink, DeviceKindName(row.kind), row.executions, row.busy_ps, row.sum_ps,
                     row.first_ps, row.last_ps);
  VisitSteps(row.steps, sink);
}

void VisitSteps(const std::optional<StepSummary>& steps, FieldSink* sink) {
  const StepSummary of = steps.value_or(StepSummary());
  sink->BeginGroup("steps", steps.has_value());
  XPLANE_TIME_FIELDS(sink, of.steps, of.steps_empty);
  sink->Field("step_source", StepSourceName(of.source));
  sink->Field("step_function", of.function);
  sink->Field("step_program_id", of.program_id);
  XPLANE_TIME_FIELDS(sink, of.steps_timed, of.step_median_ps, of.step_period_ps);
  sink->Field("verdict", StepVerdictName(of.verdict));
  sink->Field("reason", KnownText(of.reason));
  const auto share = [&](std::string_view name, auto part) {
    const auto value = [&]() -> std::optional<double> {
      if (!of.shares.has_value()) return std::nullopt;
      return (*of.shares).*part;
    };
    sink->Field(name, value());
  };
  share("compute_share", &StepShares::compute);
  share("collective_exposed_share", &StepShares::collective_exposed);
  share("copy_exposed_share", &StepShares::copy_exposed);
  share("other_share", &StepShares::other);
  share("idle_host_share", &StepShares::idle_host);
  share("idle_launch_share", &StepShares::idle_launch);
  share("idle_unknown_share", &StepShares::idle_unknown);
  share("waits_for_host_share", &StepShares::waits_for_host);
  share("waits_for_input_share", &StepShares::waits_for_input);
  XPLANE_TIME_FIELDS(sink, of.waits_for_input_ps);
  sink->EndGroup();
}

void VisitRow(const FunctionRow& row, bool with_device, FieldSink* sink) {
  if (with_device) VisitDevice(row.device ? &*row.device : nullptr, sink);
  sink->Field("function", row.function);
  if (with_device) sink->Field("program_id", row.program_id);
  sink->Field("variant_id", row.variant_id);
  sink->Field("clock", KnownText(row.clock ? ClockName(*row.clock) : ""));
  XPLANE_TIME_FIELDS(sink, row.runs, row.suspect_runs, row.dropped_samples, row.kernels_total,
                     row.kernels_per_run);
  VisitSummary("active_ps", row.active_ps, sink);
  VisitSummary("span_ps", row.span_ps, sink);
  VisitSummary("gap_ps", row.gap_ps, sink);
  VisitSummary("sum_ps", row.sum_ps, sink);
  sink->Field("status", RowStatusName(row.status));
}

void VisitRow(const KernelRow& row, FieldSink* sink) {
  VisitDevice(&row.device, sink);
  XPLANE_TIME_FIELDS(sink, row.kernel, row.function, row.program_id, CategoryName(row.category),
                     row.scope, row.source, ClockName(row.clock), row.count, row.total_ps,
                     row.self_ps, row.mean_ps, row.median_ps, row.std_ps, row.min_ps, row.max_ps,
                     row.share, row.flops, row.bytes_accessed, row.flops_per_s, row.bytes_per_s,
                     row.roof_share, row.impossible_count);
  const LaunchConfig launch = row.launch.value_or(LaunchConfig());
  XPLANE_TIME_FIELDS(sink, launch.registers, launch.static_shared_bytes,
                     launch.dynamic_shared_bytes, launch.shared_bytes, launch.theoretical_occupancy,
                     launch.estimated_occupancy, KnownText(launch.grid), KnownText(launch.block));
  XPLANE_TIME_FIELDS(sink, row.launch_count, row.launch_configs);
}

void VisitRow(const EnergyDevice& row, FieldSink* sink) {
  VisitDevice(&row.device, sink);
  XPLANE_TIME_FIELDS(sink, KnownText(row.sensor));
  sink->Field("status", row.reason.empty() ? "ok" : "unknown");
  XPLANE_TIME_FIELDS(sink, KnownText(row.reason), KnownText(row.message), row.poor_fit, row.shared,
                     KnownText(row.clock ? EnergyClockName(*row.clock) : ""));
  XPLANE_TIME_FIELDS(sink, row.coverage, row.windows, row.measured_j, row.residual_j, row.unseen_j,
                     row.residual_share);
  VisitJoules("active_j", row.active_j, sink);
  VisitJoules("idle_j", row.idle_j, sink);
  XPLANE_TIME_FIELDS(sink, row.lag_ns, row.window_ns, row.period_ns);
}

void VisitRow(const EnergyGroup& row, FieldSink* sink) {
  VisitDevice(&row.device, sink);
  sink->Field("group", row.group);
  sink->Texts("kernels", row.kernels);
  VisitJoules("energy_j", row.energy_j, sink);
}

void VisitRow(const EnergyFinding& row, FieldSink* sink) {
  XPLANE_TIME_FIELDS(sink, row.code, row.severity, row.message);
  sink->Field("plane", KnownText(row.device.plane));
  sink->Field("ordinal", row.device.ordinal);
}

Table EnergyTable(std::string table, std::string name, std::span<const EnergyRow> rows) {
  return TableOf(std::move(table), rows,
                 [name = std::move(name)](const EnergyRow& row, FieldSink* sink) {
                   VisitDevice(&row.device, sink);
                   sink->Field(name, row.name);
                   if (name == "kernel") sink->Field("function", row.function);
                   const bool has_program = name == "kernel" || name == "function";
                   if (has_program) XPLANE_TIME_FIELDS(sink, row.program_id, row.variant_id);
                   XPLANE_TIME_FIELDS(sink, row.count, row.busy_ps);
                   sink->Field("kind", KnownText(row.kind ? EnergyKindName(*row.kind) : ""));
                   VisitJoules("energy_j", row.energy_j, sink);
                   VisitJoules("active_j", row.active_j, sink);
                   XPLANE_TIME_FIELDS(sink, row.mean_w, row.per_execution_j, row.edp_js);
                   if (name == "function") {
                     XPLANE_TIME_FIELDS(sink, row.runs);
                     VisitJoules("per_run_j", row.per_run_j, sink);
                   }
                   XPLANE_TIME_FIELDS(sink, row.share, row.windows, row.group);
                   sink->Field("status", row.reason.empty() ? "ok" : "unknown");
                   sink->Field("reason", KnownText(row.reason));
                 });
}

void VisitRow(const SampleRow& row, FieldSink* sink) {
  VisitDevice(&row.device, sink);
  XPLANE_TIME_FIELDS(sink, row.function, row.program_id, row.variant_id, row.run, row.start_ps,
                     row.active_ps, row.span_ps, row.sum_ps, row.kernels, ClockName(row.clock),
                     row.suspect);
}

void VisitRow(const TreeRow& row, FieldSink* sink) {
  VisitDevice(&row.device, sink);
  XPLANE_TIME_FIELDS(sink, KnownText(row.line), row.name, row.depth, row.parent, row.count,
                     row.total_ps, row.self_ps, row.child_ps, row.status);
  sink->RowTexts("lines", row.lines);
  sink->Field("lines_cut", row.lines_cut);
}

void VisitRow(const PlaneRow& row, FieldSink* sink) {
  VisitPlane(row, sink);
  XPLANE_TIME_FIELDS(sink, row.events, row.first_ps, row.last_ps);
}

void VisitRow(const LineRow& row, FieldSink* sink) {
  sink->Field("id", std::to_string(row.id));
  sink->Field("line", row.name);
  XPLANE_TIME_FIELDS(sink, KnownText(row.role), row.events, row.first_ps, row.last_ps, row.sum_ps);
}

void VisitRow(const StatRow& row, FieldSink* sink) {
  XPLANE_TIME_FIELDS(sink, row.name, row.type, row.owner, row.count);
}

void VisitRow(const DiagnosticRow& row, FieldSink* sink) {
  XPLANE_TIME_FIELDS(sink, row.code, row.severity, row.count, row.message, KnownText(row.plane),
                     KnownText(row.line), row.event, row.byte_offset);
}

Table PlaneLines(const PlanesReport& report) {
  return PlaneParts(report, &PlaneRow::lines, /*with_bare=*/true);
}
Table PlaneStats(const PlanesReport& report) {
  return PlaneParts(report, &PlaneRow::stats, /*with_bare=*/false);
}

FieldValue ReasonOrUnknown(PowerReason reason) {
  return KnownText(reason == PowerReason::kKnown ? "" : PowerReasonName(reason));
}

std::string_view LimitsName(EnergyLimits limits) {
  if (IsUnbounded(limits)) return "unbounded";
  return limits == EnergyLimits::kBounds ? "bounds" : "interval";
}

std::string_view KindOf(const PowerTotal& total) {
  if (total.measured && total.modelled) return "measured and modelled";
  return total.measured ? "measured" : total.modelled ? "modelled" : "";
}

void VisitRow(const EnergyEstimate& energy, FieldSink* sink) {
  XPLANE_TIME_FIELDS(sink, energy.source, energy.device, energy.domain, energy.in_total);
  sink->Field("kind", energy.modelled ? "modelled" : "measured");
  XPLANE_TIME_FIELDS(sink, EnergyEstimatorName(energy.estimator), energy.energy_j);
  VisitBounds(energy, sink);
  XPLANE_TIME_FIELDS(sink, energy.coverage, energy.mean_w, energy.peak_w, energy.idle_j,
                     energy.active_j, ReasonOrUnknown(energy.reason));
  sink->Field("shared_device", energy.shared);
  XPLANE_TIME_FIELDS(sink, energy.counter_j, ReasonOrUnknown(energy.counter_reason),
                     energy.integral_j, energy.inconsistent, energy.readings, energy.resets,
                     energy.wraps, energy.jumps, energy.longest_gap_ns);
  VisitLimits(energy, kIntervalShare, sink);
}

void VisitRow(const PowerTotal& total, FieldSink* sink) {
  XPLANE_TIME_FIELDS(sink, total.energy_j, total.mean_w, total.active_j, total.coverage,
                     ReasonOrUnknown(total.reason), KnownText(total.missing));
  sink->Field("kind", KnownText(KindOf(total)));
  XPLANE_TIME_FIELDS(sink, total.least_coverage, total.differing_coverage);
  VisitBounds(total, sink);
  VisitLimits(total, total.interval_share, sink);
}

void VisitRow(const PowerRow& row, FieldSink* sink) {
  const WindowSummary& window = PartOrNone(row.window);
  sink->Field("window", KnownText(window.name));
  XPLANE_TIME_FIELDS(sink, window.number, window.begin_ns, window.end_ns, window.cut);
  VisitRow(PartOrNone(row.energy), sink);
}

void VisitRow(const GaugeSummary& gauge, FieldSink* sink) {
  XPLANE_TIME_FIELDS(sink, gauge.n, gauge.unknown, gauge.avg, gauge.max, gauge.median, gauge.min,
                     ReasonOrUnknown(gauge.reason));
}

void VisitRow(const PowerGaugeRow& row, FieldSink* sink) {
  const WindowSummary& window = PartOrNone(row.window);
  const PowerChannel& channel = PartOrNone(row.channel);
  sink->Field("window", KnownText(window.name));
  XPLANE_TIME_FIELDS(sink, window.number, channel.source, channel.device, channel.domain,
                     channel.quantity, ReadingKindName(channel.kind));
  VisitRow(PartOrNone(row.gauge), sink);
}

void VisitRow(const RepeatedEnergy& row, FieldSink* sink) {
  XPLANE_TIME_FIELDS(sink, row.window, row.source, row.device, row.domain, row.windows, row.known,
                     row.mean_j, row.std_j, row.min_j, row.max_j, row.mean_active_j,
                     row.std_active_j, row.mean_s, row.std_s);
}

void VisitRow(const ReaderQuality& reader, FieldSink* sink) {
  XPLANE_TIME_FIELDS(sink, reader.source, reader.period_ns, reader.reads, reader.missed,
                     reader.effective_hz, reader.longest_gap_ns, reader.latency_p50_ns,
                     reader.latency_p99_ns, reader.own_cpu_ns, reader.hung);
}

std::vector<PowerRow> PowerRows(const PowerSummary& summary) {
  std::vector<PowerRow> rows;
  for (const WindowSummary& window : summary.windows) {
    for (const EnergyEstimate& energy : window.energies) rows.push_back({&window, &energy});
  }
  return rows;
}

std::vector<PowerGaugeRow> PowerGaugeRows(const PowerSummary& summary) {
  std::vector<PowerGaugeRow> rows;
  for (const WindowSummary& window : summary.windows) {
    for (const GaugeSummary& gauge : window.gauges) {
      rows.push_back({&window, &summary.inventory.channels[gauge.channel], &gauge});
    }
  }
  return rows;
}

void VisitInventory(const PowerInventory& inventory, Result* result) {
  result->Add(InventoryTable("devices", inventory.devices));
  result->Add(InventoryTable("channels", inventory.channels));
  result->Add(InventoryTable("absent", inventory.absences));
}

}  // namespace xplane_time::result
