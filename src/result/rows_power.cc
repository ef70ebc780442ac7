#include "result/rows_power.h"

#include <algorithm>
#include <utility>

#include "power/inventory.h"

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

FieldValue ValueOf(std::string_view text) { return text; }
FieldValue ValueOf(bool flag) { return flag; }
FieldValue ValueOf(ReadingKind kind) { return ReadingKindName(kind); }
FieldValue ValueOf(PowerReason reason) { return PowerReasonName(reason); }
template <typename Whole>
FieldValue ValueOf(const std::optional<Whole>& value) {
  return value ? std::optional<int64_t>(*value) : std::nullopt;
}

template <typename Row>
Table InventoryTable(std::string name, const std::vector<Row>& rows) {
  return TableOf(std::move(name), std::span(rows), [](const Row& row, FieldSink* sink) {
    json::VisitFields(row, [sink](std::string_view field, const auto& value) {
      constexpr std::string_view kOrNull[] = {"pci_bus_id", "driver", "note", "fix"};
      constexpr std::string_view kOnlyInLogs[] = {"slow", "max_plausible_mw"};
      if (std::ranges::count(kOnlyInLogs, field) > 0) return;
      const FieldValue told = ValueOf(value);
      const bool is_null =
          told == FieldValue(std::string_view()) && std::ranges::count(kOrNull, field) > 0;
      sink->Field(field, is_null ? FieldValue::Unknown(FieldType::kText) : told);
    });
  });
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
  XPLANE_TIME_FIELDS(sink, energy.source, energy.device, energy.domain, energy.in_total);
  sink->Field("kind", std::string_view(energy.modelled ? "modelled" : "measured"));
  sink->Field("estimator", EnergyEstimatorName(energy.estimator));
  sink->Field("energy_j", energy.energy_j);
  VisitBounds(energy, sink);
  XPLANE_TIME_FIELDS(sink, energy.coverage, energy.mean_w, energy.peak_w, energy.idle_j,
                     energy.active_j);
  sink->Field("reason", ReasonOrUnknown(energy.reason));
  sink->Field("shared_device", energy.shared);
  sink->Field("counter_j", energy.counter_j);
  sink->Field("counter_reason", ReasonOrUnknown(energy.counter_reason));
  XPLANE_TIME_FIELDS(sink, energy.integral_j, energy.inconsistent, energy.readings, energy.resets,
                     energy.wraps, energy.jumps, energy.longest_gap_ns);
  VisitLimits(energy, kIntervalShare, sink);
}

void VisitRow(const PowerTotal& total, FieldSink* sink) {
  XPLANE_TIME_FIELDS(sink, total.energy_j, total.mean_w, total.active_j, total.coverage);
  sink->Field("reason", ReasonOrUnknown(total.reason));
  sink->Field("missing", KnownText(total.missing));
  sink->Field("kind", KnownText(KindOf(total)));
  XPLANE_TIME_FIELDS(sink, total.least_coverage, total.differing_coverage);
  VisitBounds(total, sink);
  VisitLimits(total, total.interval_share, sink);
}

void VisitRow(const PowerRow& row, FieldSink* sink) {
  const WindowSummary none;
  const WindowSummary& window = row.window == nullptr ? none : *row.window;
  sink->Field("window", KnownText(window.name));
  XPLANE_TIME_FIELDS(sink, window.number, window.begin_ns, window.end_ns, window.cut);
  VisitRow(row.energy, sink);
}

void VisitRow(const GaugeSummary& gauge, FieldSink* sink) {
  XPLANE_TIME_FIELDS(sink, gauge.n, gauge.unknown, gauge.avg, gauge.max, gauge.median, gauge.min);
  sink->Field("reason", ReasonOrUnknown(gauge.reason));
}

void VisitRow(const PowerGaugeRow& row, FieldSink* sink) {
  const WindowSummary no_window;
  const PowerChannel no_channel;
  const WindowSummary& window = row.window == nullptr ? no_window : *row.window;
  const PowerChannel& channel = row.channel == nullptr ? no_channel : *row.channel;
  sink->Field("window", KnownText(window.name));
  XPLANE_TIME_FIELDS(sink, window.number, channel.source, channel.device, channel.domain,
                     channel.quantity);
  sink->Field("kind", ReadingKindName(channel.kind));
  VisitRow(row.gauge, sink);
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
  result->Add(InventoryTable("devices", inventory.devices));
  result->Add(InventoryTable("channels", inventory.channels));
  result->Add(InventoryTable("absent", inventory.absences));
}

}  // namespace xplane_time::result
