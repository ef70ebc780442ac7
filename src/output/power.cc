#include "output/power.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "output/view.h"
#include "result/rows_power.h"

namespace xplane_time::output {
namespace {

using result::FieldSink, result::KindOf, result::KnownText, result::TableOf;

constexpr size_t kWindows = 20, kNameWidth = 8, kDomainWidth = 18;
constexpr double kNsPerS = 1e9, kJPerKwh = 3.6e6, kWhPerKwh = 1e3;

std::string Number(const std::optional<double>& value) {
  if (!value.has_value()) return "-";
  if (*value == 0) return "0";
  const double size = std::abs(*value);
  if (size < 0.00005) return "0";  // as all that is smaller than the last digit
  return FormatFixed(*value, size >= 1000 ? 0 : size >= 100 ? 1 : size >= 1 ? 2 : 4);
}

// What is not 0 does not look like it.
std::string EnergyText(const std::optional<double>& energy_j) {
  const std::string text = Number(energy_j);
  return text == "0" && *energy_j > 0 ? "<0.0001" : text;
}

// Why there is no energy, or of a part only; not that little is missing at the edges.
std::string_view WhyPart(PowerReason reason, double coverage) {
  const bool edges = reason == PowerReason::kNoSamples && coverage >= kNearlyWholeCoverage;
  return reason == PowerReason::kKnown || edges ? "" : PowerReasonName(reason);
}

// What a reader of the row must know, in a word or two.
std::string Remark(const EnergyEstimate& energy) {
  std::string remark;
  const auto add = [&](std::string_view what) {
    remark.append(remark.empty() ? "" : ", ").append(what);
  };
  if (const auto why = WhyPart(energy.reason, energy.coverage); !why.empty()) add(why);
  // Not that it has not been updated yet: the readings are for that.
  if (energy.reason == PowerReason::kKnown && energy.counter_reason != PowerReason::kKnown &&
      energy.counter_reason != PowerReason::kNoSamples) {
    add(absl::StrCat("counter ", std::string(PowerReasonName(energy.counter_reason))));
  }
  if (energy.estimator == EnergyEstimator::kTrapezoid ||
      energy.estimator == EnergyEstimator::kEndpointMean) {
    add(EnergyEstimatorName(energy.estimator));  // knows no gaps
  }
  if (energy.inconsistent) add("inconsistent");
  if (energy.shared) add("shared");
  return remark;
}

constexpr std::string_view kAbout = "~";  // before an interval

std::string LimitsText(const EnergyEstimate& energy) {
  if (!energy.energy_j) return "-";
  if (IsUnbounded(energy.limits)) return "unbounded";
  const std::string_view about = energy.limits == EnergyLimits::kInterval ? kAbout : "";
  return absl::StrCat(std::string(about), Number(energy.lo_j), " .. ", Number(energy.hi_j));
}

std::string_view WhyUnbounded(EnergyLimits limits) {
  switch (limits) {
    case EnergyLimits::kBetweenReadings:
      return "readings of power say nothing of the time between them";
    case EnergyLimits::kBrokenCounter:
      return "its counter was reset, jumped, or the machine slept";
    case EnergyLimits::kFewUpdates:
      return "its counter was not updated after the window, and too seldom before";
    default:
      return "its counter and its readings of power cover different parts of the window";
  }
}

// What the limits of the rows that are shown mean, and which totals are of different times.
std::vector<std::string> EnergyNotes(std::span<const WindowSummary> windows) {
  std::set<EnergyLimits> there;
  for (const WindowSummary& window : windows) {
    for (const EnergyEstimate& each : window.energies) {
      if (each.energy_j) there.insert(each.limits);
    }
  }
  std::vector<std::string> notes;
  for (const EnergyLimits limits : there) {
    if (limits == EnergyLimits::kInterval) {
      notes.push_back(absl::StrCat(std::string(kAbout), ": estimated, right in ",
                                   FormatFixed(kIntervalShare * 100, 0), " % of cases"));
    } else if (IsUnbounded(limits)) {
      notes.push_back(absl::StrCat("unbounded: ", std::string(WhyUnbounded(limits))));
    }
  }
  std::vector<std::string> differing;
  for (const WindowSummary& window : windows) {
    if (window.total.differing_coverage) differing.push_back(Printable(WindowName(window)));
  }
  if (!differing.empty()) {
    notes.push_back("parts of the total cover different times: " + absl::StrJoin(differing, ", "));
  }
  return notes;
}

// Which kinds of energies there are.
std::string_view KindOfAll(std::span<const WindowSummary> windows) {
  PowerTotal kinds;
  for (const WindowSummary& window : windows) {
    for (const EnergyEstimate& each : window.energies) {
      (each.modelled ? kinds.modelled : kinds.measured) = true;
    }
  }
  return kinds.modelled ? KindOf(kinds) : "measured";
}

// A sensor's energy in a window, or the window's total.
struct EnergyLine {
  const WindowSummary& window;
  std::string sensor;
  EnergyEstimate energy;
  std::optional<double> coverage;
  std::string remark;
};

// What a line shows of it.
EnergyEstimate AsEnergy(const PowerTotal& total) {
  EnergyEstimate energy;
  energy.energy_j = total.energy_j;
  energy.lo_j = total.lo_j;
  energy.hi_j = total.hi_j;
  energy.limits = total.limits;
  energy.mean_w = total.mean_w;
  energy.active_j = total.active_j;
  return energy;
}

std::vector<EnergyLine> EnergyLines(const PowerSummary& summary,
                                    std::span<const WindowSummary> windows, std::string_view kind) {
  std::vector<EnergyLine> lines;
  for (const WindowSummary& window : windows) {
    size_t in_total = 0;
    for (const EnergyEstimate& energy : window.energies) {
      std::string remark = Remark(energy);
      if (energy.modelled && kind != "modelled") {  // where the title does not say it
        remark.insert(0, remark.empty() ? "modelled" : "modelled, ");
      }
      lines.push_back({window, DomainName(summary, energy.source, energy.device, energy.domain),
                       energy, energy.coverage, std::move(remark)});
      in_total += energy.in_total ? 1 : 0;
    }
    if (in_total < 2) continue;
    const PowerTotal& total = window.total;
    std::string remark(WhyPart(total.reason, total.coverage));
    if (total.energy_j && !total.missing.empty()) remark = "without " + Printable(total.missing);
    const auto coverage = total.energy_j ? std::optional(total.coverage) : std::nullopt;
    lines.push_back({window, "total", AsEnergy(total), coverage, std::move(remark)});
  }
  return lines;
}

double Seconds(const WindowSummary& window) {
  return static_cast<double>(window.end_ns - window.begin_ns) / kNsPerS;
}

Grid EnergyGrid(const std::vector<EnergyLine>& lines) {
  RowGrid grid(lines);
  grid.Name("window", kNameWidth, [](const auto& line) { return WindowName(line.window); });
  grid.Name("sensor", kDomainWidth, &EnergyLine::sensor);
  grid.Number("s", [](const auto& line) { return Number(Seconds(line.window)); });
  grid.Number("energy J", [](const auto& line) { return EnergyText(line.energy.energy_j); });
  grid.Number("bounds J", [](const auto& line) { return LimitsText(line.energy); });
  grid.Number("mean W", [](const auto& line) { return Number(line.energy.mean_w); }).drop = 2;
  grid.Number("peak W", [](const auto& line) { return Number(line.energy.peak_w); }).drop = 3;
  grid.Number("covered %", [](const auto& line) { return FormatPercent(line.coverage); });
  Column& active =
      grid.Number("above idle J", [](const auto& line) { return Number(line.energy.active_j); });
  active.drop = 1;
  active.hidden = !AnyKnown(active.cells);
  Column& remark = grid.Text("remark", &EnergyLine::remark);
  remark.hidden = lines.empty() || (!Varies(remark.cells) && remark.cells[0].empty());
  return std::move(grid).Take();
}

Section EnergySection(const PowerSummary& summary, size_t most) {
  const size_t shown = std::min(most, summary.windows.size());
  const std::span windows(summary.windows.data(), shown);
  const std::string_view kind = KindOfAll(windows);
  const std::vector<EnergyLine> lines = EnergyLines(summary, windows, kind);
  Section section = {.title = absl::StrCat("energy, ", std::string(kind)),
                     .grid = EnergyGrid(lines),
                     .notes = EnergyNotes(windows)};
  if (summary.windows.empty()) section.notes.push_back("no window");
  const auto has_none = [](const WindowSummary& each) { return each.energies.empty(); };
  if (std::all_of(summary.windows.begin(), summary.windows.end(), has_none)) {
    section.notes.push_back("unknown: no sensor of power or energy");
  }
  if (shown < summary.windows.size()) {
    section.notes.push_back(MoreNote(summary.windows.size() - shown, "windows", "--format json"));
  }
  return section;
}

// Of windows of one name.
Section RepeatSection(const PowerSummary& summary, size_t most) {
  const size_t shown = std::min(most, summary.repeats.size());
  const std::span rows(summary.repeats.data(), shown);
  RowGrid grid(rows);
  grid.Name("window", kNameWidth, &RepeatedEnergy::window);
  grid.Name("sensor", kDomainWidth, [&](const RepeatedEnergy& row) {
    return DomainName(summary, row.source, row.device, row.domain);
  });
  grid.Number("windows", [](const auto& row) {
    return row.known == row.windows ? absl::StrCat(row.windows)
                                    : absl::StrCat(row.known, " of ", row.windows);
  });
  grid.Number("mean J", [](const auto& row) { return Number(row.mean_j); });
  grid.Number("std J", [](const auto& row) { return Number(row.std_j); });
  Column& active =
      grid.Number("above idle", [](const auto& row) { return Number(row.mean_active_j); });
  active.drop = 2;
  active.hidden = !AnyKnown(active.cells);
  grid.Number("mean s", [](const auto& row) { return Number(row.mean_s); });
  grid.Number("std s", [](const auto& row) { return Number(row.std_s); }).drop = 1;
  Section section = {.title = "energy, windows of one name", .grid = std::move(grid).Take()};
  if (shown < summary.repeats.size()) {
    section.notes.push_back(MoreNote(summary.repeats.size() - shown, "rows", "--format json"));
  }
  return section;
}

// Of any size: a short window's is far below what Number shows.
std::string ThreeDigits(double value) {
  return std::abs(value) < 1 ? absl::StrFormat("%.3g", value) : Number(value);
}

// What the energies mean for the climate, of each window that is shown.
Section CarbonSection(const PowerSummary& summary, const CarbonModel& carbon, size_t most) {
  std::vector<std::pair<const WindowSummary*, ModelledCarbon>> rows;
  for (size_t i = 0; i < std::min(most, summary.windows.size()); ++i) {
    const auto modelled = CarbonOf(summary.windows[i].total.energy_j, carbon);
    if (modelled.has_value()) rows.emplace_back(&summary.windows[i], *modelled);
  }
  RowGrid grid(rows);
  grid.Name("window", kNameWidth, [](const auto& row) { return WindowName(*row.first); });
  grid.Number("Wh", [](const auto& row) { return ThreeDigits(row.second.kwh * kWhPerKwh); });
  grid.Number("CO2e g", [](const auto& row) { return ThreeDigits(row.second.co2e_g); });
  return {.title = absl::StrCat("modelled, ", Number(carbon.g_per_kwh), " g CO2e/kWh, PUE ",
                                Number(carbon.pue)),
          .grid = std::move(grid).Take()};
}

// How a quantity is shown: by the unit that ends its name.
struct Shown {
  std::string name;
  double per_unit = 1;
};

Shown ShownAs(const std::string& quantity) {
  struct Unit {
    std::string_view suffix, shown;
    double per_unit;
  };
  for (const Unit& unit :
       {Unit{"_bytes", " MB", 1e6}, Unit{"_mw", " W", 1e3}, Unit{"_mc", " degrees C", 1e3},
        Unit{"_mhz", " MHz", 1}, Unit{"_ppm", " %", 1e4}}) {
    if (!quantity.ends_with(unit.suffix)) continue;
    return {quantity.substr(0, quantity.size() - unit.suffix.size()).append(unit.shown),
            unit.per_unit};
  }
  return {quantity};
}

// Bits or steps: a mean of them says nothing.
bool HasMean(std::string_view quantity) {
  return quantity != "throttle_reasons" && quantity != "pstate";
}

// Of the first window: what is read besides power and energy. What never changed is a note.
Section GaugeSection(const PowerSummary& summary) {
  if (summary.windows.empty()) return {};
  struct Row {
    const GaugeSummary& gauge;
    std::string sensor;
    Shown shown;
    bool has_mean;
  };
  std::vector<Row> rows;
  std::vector<std::string> constant;
  const auto cell = [](const Row& row, const std::optional<double>& value) {
    return value ? Number(*value / row.shown.per_unit) : "-";
  };
  for (const GaugeSummary& gauge : summary.windows[0].gauges) {
    const PowerChannel& channel = summary.inventory.channels[gauge.channel];
    if (IsPowerOrEnergy(channel)) continue;
    if (gauge.n == 0 && gauge.unknown == 0) continue;  // of what was not there
    const Row row = {gauge, DomainName(summary, channel.source, channel.device, channel.domain),
                     ShownAs(channel.quantity), HasMean(channel.quantity)};
    if (gauge.n > 1 && gauge.min == gauge.max) {
      constant.push_back(absl::StrCat(Printable(row.sensor), " ", Printable(row.shown.name), " ",
                                      cell(row, gauge.max)));
    } else {
      rows.push_back(row);
    }
  }
  RowGrid grid(rows);
  grid.Name("sensor", kDomainWidth, [](const Row& row) { return row.sensor; });
  grid.Text("quantity", [](const Row& row) { return Printable(row.shown.name); });
  grid.Number("n", [](const Row& row) { return absl::StrCat(row.gauge.n); }).drop = 1;
  grid.Number("mean",
              [&](const Row& row) { return row.has_mean ? cell(row, row.gauge.avg) : "-"; });
  grid.Number("median",
              [&](const Row& row) { return row.has_mean ? cell(row, row.gauge.median) : "-"; });
  grid.Number("min", [&](const Row& row) { return cell(row, row.gauge.min); });
  grid.Number("max", [&](const Row& row) { return cell(row, row.gauge.max); });
  Section section = {
      .title = absl::StrCat("other readings, ", Printable(WindowName(summary.windows[0]))),
      .grid = std::move(grid).Take()};
  if (!constant.empty()) section.notes.push_back("unchanged: " + absl::StrJoin(constant, "; "));
  return section;
}

Section ReaderSection(const PowerSummary& summary) {
  const auto microseconds = [](const std::optional<int64_t>& ns) {
    return ns ? Number(static_cast<double>(*ns) / 1e3) : "-";
  };
  RowGrid grid(summary.readers);
  grid.Text("source", [](const auto& row) { return Printable(row.source); });
  grid.Number("reads/s", [](const auto& row) { return FormatFixed(row.effective_hz, 2); });
  grid.Number("missed", [](const auto& row) { return absl::StrCat(row.missed); });
  grid.Number("longest gap ms", [](const auto& row) {
    return Number(static_cast<double>(row.longest_gap_ns) / 1e6);
  });
  grid.Number("read p50 us", [&](const auto& row) { return microseconds(row.latency_p50_ns); });
  grid.Number("p99 us", [&](const auto& row) { return microseconds(row.latency_p99_ns); });
  return {.title = "readers", .grid = std::move(grid).Take()};
}

// Those that have something to say.
std::vector<Section> Sections(const PowerSummary& summary, size_t most, const CarbonModel& carbon) {
  std::vector<Section> sections = {EnergySection(summary, most)};
  for (Section& section :
       std::array{RepeatSection(summary, most), CarbonSection(summary, carbon, most),
                  GaugeSection(summary), ReaderSection(summary)}) {
    if (section.grid.rows() > 0 || !section.notes.empty()) sections.push_back(std::move(section));
  }
  return sections;
}

View PowerView(const PowerSummary& summary, const OutputOptions& options,
               const CarbonModel& carbon) {
  View view;
  if (!summary.complete) {
    view.lines.push_back({"the log ends early: what follows is up to there", Tone::kWarning});
  }
  for (const PowerFinding& each : summary.findings) {
    if (each.code != "damaged_lines") continue;
    view.lines.push_back({Printable(absl::StrCat("lines of the log that are damaged and left out: ",
                                                 each.count, "; the first: ", each.message)),
                          Tone::kWarning});
  }
  const size_t most = options.format == Format::kTable ? kWindows : SIZE_MAX;
  view.sections = Sections(summary, options.top.value_or(most), carbon);
  const auto remark = [&](std::string text) {
    view.remarks.push_back({std::move(text), Tone::kDim, ViewLine::kItem});
  };
  for (const PowerAbsence& absence : summary.inventory.absences) {
    remark("not there: " + AbsenceLine(absence));
  }
  for (const PowerFinding& finding : summary.findings) {
    remark(Printable(absl::StrCat(finding.code, " (", finding.count, "): ", finding.message)));
  }
  return view;
}

void VisitWindow(const WindowSummary& window, const CarbonModel& model, FieldSink* sink) {
  sink->Field("name", KnownText(window.name));
  XPLANE_TIME_FIELDS(sink, window.number, window.begin_ns, window.end_ns, window.begin_unix_ns,
                     window.suspended_ns, window.cut);
  sink->BeginGroup("total", true);
  VisitRow(window.total, sink);
  sink->EndGroup();
  const auto carbon = CarbonOf(window.total.energy_j, model);
  sink->BeginGroup("modelled", carbon.has_value());
  sink->Field("kind", std::string_view("modelled"));
  sink->Field("kwh", carbon.value_or(ModelledCarbon()).kwh);
  sink->Field("co2e_g", carbon.value_or(ModelledCarbon()).co2e_g);
  sink->Field("g_per_kwh", model.g_per_kwh);
  sink->Field("pue", model.pue);
  sink->EndGroup();
  sink->Rows(TableOf("energies", std::span(window.energies)));
  sink->Rows(
      TableOf("gauges", std::span(window.gauges), [](const GaugeSummary& gauge, FieldSink* of) {
        of->Field("channel", uint64_t{gauge.channel});
        VisitRow(gauge, of);
      }));
}

void VisitSeries(const PowerSeries& series, FieldSink* sink) {
  XPLANE_TIME_FIELDS(sink, series.source, series.device, series.domain, series.begin_ns,
                     series.column_ns);
  for (const auto& [name, power] : {std::pair("min_w", &PowerColumn::min_w),
                                    {"mean_w", &PowerColumn::mean_w},
                                    {"max_w", &PowerColumn::max_w}}) {
    std::vector<std::optional<double>> values;
    for (const PowerColumn& column : series.columns) values.push_back(column.*power);
    sink->Numbers(name, values);
  }
}

result::Result PowerResult(const PowerSummary& summary, const CarbonModel& carbon) {
  result::Result result("xplane-time.power.v1");
  result.Say([&summary](FieldSink* sink) {
    sink->Field("complete", summary.complete);
    sink->Field("host", KnownText(summary.host));
    sink->Field("command", KnownText(summary.command));
    sink->Field("start_unix_ns", summary.start_unix_ns);
    sink->Raw("machine", summary.machine_json);
  });
  VisitInventory(summary.inventory, &result);
  result.Add(TableOf("windows", std::span(summary.windows),
                     [carbon](const WindowSummary& window, FieldSink* sink) {
                       VisitWindow(window, carbon, sink);
                     }));
  result.Add(TableOf("repeats", std::span(summary.repeats)));
  result.Add(TableOf("readers", std::span(summary.readers)));
  result.Add(TableOf("series", std::span(summary.series), VisitSeries));
  result.Add(TableOf("findings", std::span(summary.findings),
                     [](const PowerFinding& finding, FieldSink* sink) {
                       XPLANE_TIME_FIELDS(sink, finding.code, finding.count, finding.message);
                     }));
  result.csv = TableOf(
      "", result::PowerRows(summary), [carbon](const result::PowerRow& row, FieldSink* sink) {
        VisitRow(row, sink);
        if (!carbon.g_per_kwh.has_value()) return;
        const auto modelled = CarbonOf(row.energy.energy_j, carbon);
        sink->Field("modelled_kwh", modelled ? std::optional(modelled->kwh) : std::nullopt);
        sink->Field("modelled_co2e_g", modelled ? std::optional(modelled->co2e_g) : std::nullopt);
      });
  return result;
}

}  // namespace

std::optional<ModelledCarbon> CarbonOf(const std::optional<double>& energy_j,
                                       const CarbonModel& model) {
  if (!energy_j.has_value() || !model.g_per_kwh.has_value()) return std::nullopt;
  const double kwh = *energy_j / kJPerKwh * model.pue;
  return ModelledCarbon{kwh, kwh * *model.g_per_kwh};
}

std::string DomainName(const PowerSummary& summary, const std::string& source,
                       const std::string& device, const std::string& domain) {
  std::string name = device;
  for (const PowerDevice& each : summary.inventory.devices) {
    if (each.id == device && each.source == source && each.index.has_value()) {
      name = absl::StrCat(*each.index);
    }
  }
  std::string all = source;
  for (const std::string& part : {name, domain}) {
    if (!part.empty() && !all.ends_with(part)) absl::StrAppend(&all, " ", part);
  }
  return all;
}

std::string WindowName(const WindowSummary& window) {
  if (window.name.empty()) return "whole run";
  return window.number == 1 ? window.name : absl::StrCat(window.name, " #", window.number);
}

std::string AbsenceLine(const PowerAbsence& absence) {
  std::string line =
      absl::StrCat(absence.source, absence.source.empty() ? "" : ": ",
                   std::string(PowerReasonName(absence.reason)), ": ", absence.message);
  if (!absence.fix.empty()) absl::StrAppend(&line, "; ", absence.fix);
  return Printable(line);
}

Output PowerOutput(const PowerSummary& summary, const CarbonModel& carbon) {
  Output out{.result = PowerResult(summary, carbon)};
  out.view = [&summary, carbon](const OutputOptions& how) {
    return PowerView(summary, how, carbon);
  };
  out.others[Format::kOpenMetrics] = [&summary, carbon] {
    return PowerOpenMetrics(summary, carbon);
  };
  return out;
}

}  // namespace xplane_time::output
