#include "output/json_document.h"
#include "output/power.h"
#include "output/power_inventory_json.h"

namespace xplane_time::output {
namespace {

Json ReasonOrNull(PowerReason reason) {
  return reason == PowerReason::kKnown ? Json() : Json(PowerReasonName(reason));
}

Json GaugeJson(const GaugeSummary& gauge) {
  return {{"channel", gauge.channel}, {"n", gauge.n},
          {"unknown", gauge.unknown}, {"avg", OrNull(gauge.avg)},
          {"max", OrNull(gauge.max)}, {"median", OrNull(gauge.median)},
          {"min", OrNull(gauge.min)}, {"reason", ReasonOrNull(gauge.reason)}};
}

Json WindowJson(const WindowSummary& window, const CarbonModel& model) {
  Json energies = Json::array(), gauges = Json::array(), modelled;
  for (const EnergyEstimate& energy : window.energies) {
    JsonRow row;
    VisitRow(energy, &row);
    energies.push_back(row.Take());
  }
  for (const GaugeSummary& gauge : window.gauges) gauges.push_back(GaugeJson(gauge));
  if (const auto carbon = CarbonOf(window.total.energy_j, model); carbon.has_value()) {
    modelled = {{"kind", "modelled"},
                {"kwh", carbon->kwh},
                {"co2e_g", carbon->co2e_g},
                {"g_per_kwh", OrNull(model.g_per_kwh)},
                {"pue", model.pue}};
  }
  JsonRow total;
  VisitRow(window.total, &total);
  return {{"name", TextOrNull(window.name)},
          {"number", window.number},
          {"begin_ns", window.begin_ns},
          {"end_ns", window.end_ns},
          {"begin_unix_ns", OrNull(window.begin_unix_ns)},
          {"suspended_ns", window.suspended_ns},
          {"cut", window.cut},
          {"total", total.Take()},
          {"modelled", std::move(modelled)},
          {"energies", std::move(energies)},
          {"gauges", std::move(gauges)}};
}

Json ReaderJson(const ReaderQuality& reader) {
  return {{"source", ValidUtf8(reader.source)},
          {"period_ns", reader.period_ns},
          {"reads", reader.reads},
          {"missed", reader.missed},
          {"effective_hz", ToJson()(reader.effective_hz)},
          {"longest_gap_ns", reader.longest_gap_ns},
          {"latency_p50_ns", OrNull(reader.latency_p50_ns)},
          {"latency_p99_ns", OrNull(reader.latency_p99_ns)},
          {"own_cpu_ns", OrNull(reader.own_cpu_ns)},
          {"hung", reader.hung}};
}

Json SeriesJson(const PowerSeries& series) {
  Json mean = Json::array(), least = Json::array(), most = Json::array();
  for (const PowerColumn& column : series.columns) {
    mean.push_back(OrNull(column.mean_w));
    least.push_back(OrNull(column.min_w));
    most.push_back(OrNull(column.max_w));
  }
  return {{"source", ValidUtf8(series.source)}, {"device", ValidUtf8(series.device)},
          {"domain", ValidUtf8(series.domain)}, {"begin_ns", series.begin_ns},
          {"column_ns", series.column_ns},      {"min_w", std::move(least)},
          {"mean_w", std::move(mean)},          {"max_w", std::move(most)}};
}

}  // namespace

std::string PowerJson(const PowerSummary& summary, const CarbonModel& carbon) {
  Document document("xplane-time.power.v1");
  document.Member("complete", summary.complete);
  document.Member("host", TextOrNull(summary.host));
  document.Member("command", TextOrNull(summary.command));
  document.Member("start_unix_ns", OrNull(summary.start_unix_ns));
  const Json machine = Json::parse(summary.machine_json, nullptr, /*allow_exceptions=*/false);
  document.Member("machine", machine.is_object() ? machine : Json::object());
  AddInventory(summary.inventory, &document);
  document.Section("windows", summary.windows,
                   [&](const WindowSummary& window) { return WindowJson(window, carbon); });
  document.Section("repeats", summary.repeats, [](const RepeatedEnergy& repeat) {
    JsonRow row;
    VisitRow(repeat, &row);
    return row.Take();
  });
  document.Section("readers", summary.readers, ReaderJson);
  document.Section("series", summary.series, SeriesJson);
  document.Section("findings", summary.findings, [](const PowerFinding& finding) -> Json {
    return {{"code", ValidUtf8(finding.code)},
            {"count", finding.count},
            {"message", ValidUtf8(finding.message)}};
  });
  return std::move(document).Finish();
}

}  // namespace xplane_time::output
