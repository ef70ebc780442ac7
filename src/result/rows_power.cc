#include "result/rows_power.h"

namespace xplane_time::result {
namespace {

// Of an energy or a total: between what it lies for certain, or nothing where that is not known.
void VisitBounds(const auto& of, FieldSink* sink) {
  const bool bounds = of.limits != EnergyLimits::kInterval;
  sink->Interval("bounds_j", bounds ? of.lo_j : std::nullopt, bounds ? of.hi_j : std::nullopt);
}

// What its limits are; the interval, where they are one, that holds with `share`.
void VisitLimits(const auto& of, std::optional<double> share, FieldSink* sink) {
  const bool known = of.energy_j.has_value(), interval = of.limits == EnergyLimits::kInterval;
  sink->Field("limits", KnownText(known ? LimitsName(of.limits) : ""));
  sink->Field("unbounded_reason",
              KnownText(known && IsUnbounded(of.limits) ? UnboundedReasonName(of.limits) : ""));
  sink->Interval("interval_j", interval ? of.lo_j : std::nullopt,
                 interval ? of.hi_j : std::nullopt);
  sink->Field("interval_share", interval ? share : std::nullopt);
}

std::optional<int64_t> Whole(const std::optional<int32_t>& value) {
  return value ? std::optional<int64_t>(*value) : std::nullopt;
}

}  // namespace

FieldValue ReasonOrUnknown(PowerReason reason) {
  return reason == PowerReason::kKnown ? FieldValue::Unknown(FieldType::kText)
                                       : FieldValue(PowerReasonName(reason));
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
  sink->Field("source", std::string_view(energy.source));
  sink->Field("device", std::string_view(energy.device));
  sink->Field("domain", std::string_view(energy.domain));
  sink->Field("in_total", energy.in_total);
  sink->Field("kind", std::string_view(energy.modelled ? "modelled" : "measured"));
  sink->Field("estimator", EnergyEstimatorName(energy.estimator));
  sink->Field("energy_j", energy.energy_j);
  VisitBounds(energy, sink);
  sink->Field("coverage", energy.coverage);
  sink->Field("mean_w", energy.mean_w);
  sink->Field("peak_w", energy.peak_w);
  sink->Field("idle_j", energy.idle_j);
  sink->Field("active_j", energy.active_j);
  sink->Field("reason", ReasonOrUnknown(energy.reason));
  sink->Field("shared_device", energy.shared);
  sink->Field("counter_j", energy.counter_j);
  sink->Field("counter_reason", ReasonOrUnknown(energy.counter_reason));
  sink->Field("integral_j", energy.integral_j);
  sink->Field("inconsistent", energy.inconsistent);
  sink->Field("readings", energy.readings);
  sink->Field("resets", energy.resets);
  sink->Field("wraps", energy.wraps);
  sink->Field("jumps", energy.jumps);
  sink->Field("longest_gap_ns", energy.longest_gap_ns);
  VisitLimits(energy, kIntervalShare, sink);
}

void VisitRow(const PowerTotal& total, FieldSink* sink) {
  sink->Field("energy_j", total.energy_j);
  sink->Field("mean_w", total.mean_w);
  sink->Field("active_j", total.active_j);
  sink->Field("coverage", total.coverage);
  sink->Field("reason", ReasonOrUnknown(total.reason));
  sink->Field("missing", KnownText(total.missing));
  sink->Field("kind", KnownText(KindOf(total)));
  sink->Field("least_coverage", total.least_coverage);
  sink->Field("differing_coverage", total.differing_coverage);
  VisitBounds(total, sink);
  VisitLimits(total, total.interval_share, sink);
}

void VisitRow(const PowerRow& row, FieldSink* sink) {
  const WindowSummary none;
  const WindowSummary& window = row.window == nullptr ? none : *row.window;
  sink->Field("window", KnownText(window.name));
  sink->Field("number", window.number);
  sink->Field("begin_ns", window.begin_ns);
  sink->Field("end_ns", window.end_ns);
  sink->Field("cut", window.cut);
  VisitRow(row.energy, sink);
}

void VisitRow(const PowerGaugeRow& row, FieldSink* sink) {
  const WindowSummary no_window;
  const PowerChannel no_channel;
  const WindowSummary& window = row.window == nullptr ? no_window : *row.window;
  const PowerChannel& channel = row.channel == nullptr ? no_channel : *row.channel;
  sink->Field("window", KnownText(window.name));
  sink->Field("number", window.number);
  sink->Field("source", std::string_view(channel.source));
  sink->Field("device", std::string_view(channel.device));
  sink->Field("domain", std::string_view(channel.domain));
  sink->Field("quantity", std::string_view(channel.quantity));
  sink->Field("kind", ReadingKindName(channel.kind));
  sink->Field("n", row.gauge.n);
  sink->Field("unknown", row.gauge.unknown);
  sink->Field("avg", row.gauge.avg);
  sink->Field("max", row.gauge.max);
  sink->Field("median", row.gauge.median);
  sink->Field("min", row.gauge.min);
  sink->Field("reason", ReasonOrUnknown(row.gauge.reason));
}

void VisitRow(const RepeatedEnergy& row, FieldSink* sink) {
  sink->Field("window", std::string_view(row.window));
  sink->Field("source", std::string_view(row.source));
  sink->Field("device", std::string_view(row.device));
  sink->Field("domain", std::string_view(row.domain));
  sink->Field("windows", row.windows);
  sink->Field("known", row.known);
  sink->Field("mean_j", row.mean_j);
  sink->Field("std_j", row.std_j);
  sink->Field("min_j", row.min_j);
  sink->Field("max_j", row.max_j);
  sink->Field("mean_active_j", row.mean_active_j);
  sink->Field("std_active_j", row.std_active_j);
  sink->Field("mean_s", row.mean_s);
  sink->Field("std_s", row.std_s);
}

void VisitRow(const ReaderQuality& reader, FieldSink* sink) {
  sink->Field("source", std::string_view(reader.source));
  sink->Field("period_ns", reader.period_ns);
  sink->Field("reads", reader.reads);
  sink->Field("missed", reader.missed);
  sink->Field("effective_hz", reader.effective_hz);
  sink->Field("longest_gap_ns", reader.longest_gap_ns);
  sink->Field("latency_p50_ns", reader.latency_p50_ns);
  sink->Field("latency_p99_ns", reader.latency_p99_ns);
  sink->Field("own_cpu_ns", reader.own_cpu_ns);
  sink->Field("hung", reader.hung);
}

std::vector<PowerRow> PowerRows(const PowerSummary& summary) {
  std::vector<PowerRow> rows;
  for (const WindowSummary& window : summary.windows) {
    for (const EnergyEstimate& energy : window.energies) rows.push_back({&window, energy});
  }
  return rows;
}

std::vector<PowerGaugeRow> PowerGaugeRows(const PowerSummary& summary) {
  std::vector<PowerGaugeRow> rows;
  for (const WindowSummary& window : summary.windows) {
    for (const GaugeSummary& gauge : window.gauges) {
      rows.push_back({&window, &summary.inventory.channels[gauge.channel], gauge});
    }
  }
  return rows;
}

void VisitInventory(const PowerInventory& inventory, Result* result) {
  result->Add(TableOf("devices", std::span(inventory.devices),
                      [](const PowerDevice& device, FieldSink* sink) {
                        sink->Field("id", std::string_view(device.id));
                        sink->Field("name", std::string_view(device.name));
                        sink->Field("source", std::string_view(device.source));
                        sink->Field("index", Whole(device.index));
                        sink->Field("ordinal", Whole(device.ordinal));
                        sink->Field("pci_bus_id", KnownText(device.pci_bus_id));
                        sink->Field("driver", KnownText(device.driver));
                        sink->Field("mig", device.mig);
                        sink->Field("shared", device.shared);
                        sink->Field("note", KnownText(device.note));
                      }));
  result->Add(TableOf("channels", std::span(inventory.channels),
                      [](const PowerChannel& channel, FieldSink* sink) {
                        sink->Field("source", std::string_view(channel.source));
                        sink->Field("device", std::string_view(channel.device));
                        sink->Field("domain", std::string_view(channel.domain));
                        sink->Field("quantity", std::string_view(channel.quantity));
                        sink->Field("kind", ReadingKindName(channel.kind));
                        sink->Field("in_total", channel.in_total);
                        sink->Field("wrap_range", channel.wrap_range);
                        sink->Field("prior_period_ns", channel.prior_period_ns);
                        sink->Field("prior_window_ns", channel.prior_window_ns);
                        sink->Field("note", KnownText(channel.note));
                      }));
  result->Add(TableOf("absent", std::span(inventory.absences),
                      [](const PowerAbsence& absence, FieldSink* sink) {
                        sink->Field("source", std::string_view(absence.source));
                        sink->Field("what", std::string_view(absence.what));
                        sink->Field("reason", PowerReasonName(absence.reason));
                        sink->Field("message", std::string_view(absence.message));
                        sink->Field("fix", KnownText(absence.fix));
                      }));
}

}  // namespace xplane_time::result
