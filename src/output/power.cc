// Power for people: energies of windows, other readings, and the available sensors.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "output/results.h"
#include "output/view.h"
#include "power/sources.h"
#include "result/rows.h"

namespace xplane_time::output {
namespace {

constexpr size_t kWindows = 20, kWindowNameWidth = 8, kDomainWidth = 18, kQuantitiesWidth = 32;
constexpr double kWhPerKwh = 1e3;

std::string NumberText(const std::optional<double>& value) {
  if (!value.has_value()) return "-";
  if (*value == 0) return "0";
  const double size = std::abs(*value);
  if (size < 0.00005) return "0";  // as all that is smaller than the last digit
  return FormatFixed(*value, size >= 1000 ? 0 : size >= 100 ? 1 : size >= 1 ? 2 : 4);
}

// A positive value is never shown as 0.
std::string EnergyText(const std::optional<double>& energy_j) {
  const std::string text = NumberText(energy_j);
  return text == "0" && *energy_j > 0 ? "<0.0001" : text;
}

// Why the energy is unknown or incomplete. A little missing time at the edges is not mentioned.
std::string_view WhyPart(PowerReason reason, double coverage) {
  const bool edges = reason == PowerReason::kNoSamples && coverage >= kNearlyWholeCoverage;
  return reason == PowerReason::kKnown || edges ? "" : PowerReasonName(reason);
}

// A short caveat for the row. `kind`: the kind of all rows, which the title states.
std::string RemarkText(const EnergyEstimate& energy, std::string_view kind) {
  std::vector<std::string> remarks;
  const auto add = [&](std::string_view what) { remarks.emplace_back(what); };
  if (energy.modelled && kind != "modelled") add("modelled");
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
  return absl::StrJoin(remarks, ", ");
}

constexpr char kAbout[] = "~";  // before an interval

std::string LimitsText(const auto& energy) {  // or a total
  if (!energy.energy_j) return "-";
  if (IsUnbounded(energy.limits)) return "unbounded";
  const char* const about = energy.limits == EnergyLimits::kInterval ? kAbout : "";
  return absl::StrCat(about, NumberText(energy.lo_j), " .. ", NumberText(energy.hi_j));
}

constexpr const char* kWhyUnbounded[] = {
    "power between two readings is unknown",
    "the counter was reset or jumped, or the machine slept",
    "the counter was not updated after the window, and too rarely before it",
    "the counter and the power readings cover different parts of the window"};

// Explains the limits of the shown rows, and lists totals of different times.
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
      notes.push_back(absl::StrCat(kAbout, ": estimated, correct in ",
                                   FormatFixed(kIntervalShare * 100, 0), " % of cases"));
    } else if (IsUnbounded(limits)) {
      const auto first = static_cast<size_t>(EnergyLimits::kBetweenReadings);
      notes.push_back(
          absl::StrCat("unbounded: ", kWhyUnbounded[static_cast<size_t>(limits) - first]));
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
  return kinds.modelled ? result::KindOf(kinds) : "measured";
}

// A sensor's energy in a window, or the window's total.
struct EnergyLine {
  const WindowSummary& window;
  std::string sensor;
  std::optional<double> energy_j, mean_w, peak_w, active_j, coverage;
  std::string bounds, remark;
};

std::vector<EnergyLine> EnergyLines(const PowerSummary& summary,
                                    std::span<const WindowSummary> windows, std::string_view kind) {
  const DomainNames names(summary.inventory);
  std::vector<EnergyLine> lines;
  for (const WindowSummary& window : windows) {
    size_t in_total = 0;
    for (const EnergyEstimate& energy : window.energies) {
      lines.push_back({window, names.Of(energy.source, energy.device, energy.domain),
                       energy.energy_j, energy.mean_w, energy.peak_w, energy.active_j,
                       energy.coverage, LimitsText(energy), RemarkText(energy, kind)});
      in_total += energy.in_total ? 1 : 0;
    }
    if (in_total < 2) continue;
    const PowerTotal& total = window.total;
    std::string remark(WhyPart(total.reason, total.coverage));
    if (total.energy_j && !total.missing.empty()) remark = "without " + Printable(total.missing);
    const auto coverage = total.energy_j ? std::optional(total.coverage) : std::nullopt;
    lines.push_back({window, "total", total.energy_j, total.mean_w, std::nullopt, total.active_j,
                     coverage, LimitsText(total), std::move(remark)});
  }
  return lines;
}

Grid EnergyGrid(const std::vector<EnergyLine>& lines) {
  RowGrid grid(lines);
  grid.Name("window", kWindowNameWidth, [](const auto& line) { return WindowName(line.window); });
  grid.Name("sensor", kDomainWidth, &EnergyLine::sensor);
  const auto seconds = [](const EnergyLine& line) {
    return static_cast<double>(line.window.end_ns - line.window.begin_ns) / kNsPerS;
  };
  grid.Number("s", seconds, NumberText);
  grid.Number("energy J", &EnergyLine::energy_j, EnergyText);
  grid.Number("bounds J", &EnergyLine::bounds);
  grid.Number("mean W", &EnergyLine::mean_w, NumberText).Drop(1);
  grid.Number("peak W", &EnergyLine::peak_w, NumberText).Drop(3);
  grid.Number("covered %", &EnergyLine::coverage, FormatPercent).Drop(2);
  grid.Number("above idle J", &EnergyLine::active_j, NumberText).Drop(1).HideIfUnknown();
  grid.Text("remark", &EnergyLine::remark).HideIfSame(/*unless_known=*/true);
  return std::move(grid).Take();
}

Section EnergySection(const PowerSummary& summary, size_t most) {
  std::vector<std::string> more;
  const auto windows = TopRows(summary.windows, most, "windows", "--format json", &more);
  const std::string_view kind = KindOfAll(windows);
  const std::vector<EnergyLine> lines = EnergyLines(summary, windows, kind);
  Section section = {.title = absl::StrCat("energy, ", std::string(kind)),
                     .grid = EnergyGrid(lines),
                     .notes = EnergyNotes(windows)};
  if (summary.windows.empty()) section.notes.push_back("no windows");
  if (std::ranges::all_of(summary.windows,
                          [](const WindowSummary& each) { return each.energies.empty(); })) {
    section.notes.push_back("unknown: no power or energy sensor");
  }
  section.notes.insert(section.notes.end(), more.begin(), more.end());
  return section;
}

// Windows of the same name.
Section RepeatSection(const PowerSummary& summary, size_t most) {
  using Row = RepeatedEnergy;
  Section section = {.title = "energy, windows with the same name"};
  const auto rows = TopRows(summary.repeats, most, "rows", "--format json", &section.notes);
  const DomainNames names(summary.inventory);
  RowGrid grid(rows);
  grid.Name("window", kWindowNameWidth, &Row::window);
  grid.Name("sensor", kDomainWidth,
            [&](const Row& row) { return names.Of(row.source, row.device, row.domain); });
  grid.Number("windows", [](const Row& row) {
    return row.known == row.windows ? absl::StrCat(row.windows)
                                    : absl::StrCat(row.known, " of ", row.windows);
  });
  grid.Number("mean J", &Row::mean_j, NumberText);
  grid.Number("std J", &Row::std_j, NumberText);
  grid.Number("above idle", &Row::mean_active_j, NumberText).Drop(2).HideIfUnknown();
  grid.Number("mean s", &Row::mean_s, NumberText);
  grid.Number("std s", &Row::std_s, NumberText).Drop(1);
  section.grid = std::move(grid).Take();
  return section;
}

// For any magnitude: the value of a short window is far below the digits of NumberText().
std::string ThreeDigits(double value) {
  return std::abs(value) < 1 ? absl::StrFormat("%.3g", value) : NumberText(value);
}

// The climate impact of the energies, for each shown window.
Section CarbonSection(const PowerSummary& summary, const CarbonModel& carbon, size_t most) {
  std::vector<std::pair<const WindowSummary*, ModelledCarbon>> rows;
  for (size_t i = 0; i < std::min(most, summary.windows.size()); ++i) {
    const auto modelled = CarbonOf(summary.windows[i].total.energy_j, carbon);
    if (modelled.has_value()) rows.emplace_back(&summary.windows[i], *modelled);
  }
  RowGrid grid(rows);
  grid.Name("window", kWindowNameWidth, [](const auto& row) { return WindowName(*row.first); });
  grid.Number(
      "Wh", [](const auto& row) { return row.second.kwh * kWhPerKwh; }, ThreeDigits);
  grid.Number(
      "CO2e g", [](const auto& row) { return row.second.co2e_g; }, ThreeDigits);
  return {.title = absl::StrCat("modelled, ", NumberText(carbon.g_per_kwh), " g CO2e/kWh, PUE ",
                                NumberText(carbon.pue)),
          .grid = std::move(grid).Take()};
}

// How a quantity is shown: by the unit that ends its name.
struct ShownQuantity {
  std::string name;
  double per_unit = 1;
};

ShownQuantity ShownAs(const std::string& quantity) {
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

// For the first window: all readings other than power and energy. Readings that never changed are a
// note.
Section GaugeSection(const PowerSummary& summary) {
  if (summary.windows.empty()) return {};
  struct Row {
    const GaugeSummary& gauge;
    std::string sensor;
    ShownQuantity shown;
    bool has_mean;
  };
  const DomainNames names(summary.inventory);
  std::vector<Row> rows;
  std::vector<std::string> constant, unknown;
  const auto cell = [](const Row& row, const std::optional<double>& value) {
    return value ? NumberText(*value / row.shown.per_unit) : "-";
  };
  for (const GaugeSummary& gauge : summary.windows[0].gauges) {
    const PowerChannel& channel = summary.inventory.channels[gauge.channel];
    if (IsPowerOrEnergy(channel)) continue;
    if (gauge.n == 0 && gauge.unknown == 0) continue;  // the reading did not exist
    // Bits and steps have no meaningful mean.
    const bool has_mean = channel.quantity != "throttle_reasons" && channel.quantity != "pstate";
    const Row row = {gauge, names.Of(channel.source, channel.device, channel.domain),
                     ShownAs(channel.quantity), has_mean};
    if (gauge.n == 0) {
      unknown.push_back(absl::StrCat(Printable(row.sensor), " ", Printable(row.shown.name)));
    } else if (gauge.n > 1 && gauge.min == gauge.max) {
      constant.push_back(absl::StrCat(Printable(row.sensor), " ", Printable(row.shown.name), " ",
                                      cell(row, gauge.max)));
    } else {
      rows.push_back(row);
    }
  }
  const auto mean = [&](auto value) {
    return [=](const Row& row) { return row.has_mean ? cell(row, row.gauge.*value) : "-"; };
  };
  RowGrid grid(rows);
  grid.Name("sensor", kDomainWidth, &Row::sensor);
  grid.Text("quantity", [](const Row& row) { return Printable(row.shown.name); });
  grid.Number("n", [](const Row& row) { return row.gauge.n; }).Drop(1);
  grid.Number("mean", mean(&GaugeSummary::avg));
  grid.Number("median", mean(&GaugeSummary::median));
  grid.Number("min", [&](const Row& row) { return cell(row, row.gauge.min); });
  grid.Number("max", [&](const Row& row) { return cell(row, row.gauge.max); });
  Section section = {
      .title = absl::StrCat("other readings, ", Printable(WindowName(summary.windows[0]))),
      .grid = std::move(grid).Take()};
  if (!constant.empty()) section.notes.push_back("unchanged: " + absl::StrJoin(constant, "; "));
  // Without other readings, the section would be a heading without a table.
  if (section.grid.rows() == 0 && constant.empty()) return section;
  if (!unknown.empty()) section.notes.push_back("unknown: " + absl::StrJoin(unknown, "; "));
  return section;
}

struct SensorRow {
  std::string source, device, domain;
  std::vector<std::string> quantities;
};

// A row for all that is read of one domain of one device.
std::vector<SensorRow> SensorRows(const PowerInventory& inventory) {
  std::vector<SensorRow> rows;
  std::map<std::tuple<std::string, std::string, std::string>, size_t> places;
  for (const PowerChannel& each : inventory.channels) {
    const auto [at, is_new] =
        places.try_emplace({each.source, each.device, each.domain}, rows.size());
    if (is_new) rows.push_back({each.source, each.device, each.domain, {}});
    std::string name = each.quantity.substr(0, each.quantity.rfind('_'));  // "power_mw" is power
    if (each.kind == ReadingKind::kAverage) name += " (average)";
    rows[at->second].quantities.push_back(std::move(name));
  }
  return rows;
}

// The sources that were read, their quantities, and how regularly they were read. A power that the
// user stated was not read.
Section ReaderSection(const PowerSummary& summary) {
  using Row = ReaderQuality;
  std::vector<Row> readers = summary.readers;
  std::erase_if(readers, [](const Row& row) { return power::FactsOf(row.source).modelled; });
  std::map<std::string, std::vector<std::string>> quantities;  // by source, each once
  for (const SensorRow& sensor : SensorRows(summary.inventory)) {
    std::vector<std::string>& of_source = quantities[sensor.source];
    for (const std::string& each : sensor.quantities) {
      if (std::ranges::find(of_source, each) == of_source.end()) of_source.push_back(each);
    }
  }
  const auto in = [](double ns_per_unit, auto of) {
    return [=](const Row& row) -> std::optional<double> {
      const auto ns = AsDouble(std::optional(row.*of));
      return ns ? std::optional(*ns / ns_per_unit) : std::nullopt;
    };
  };
  RowGrid grid(readers);
  grid.Name("source", 0, &Row::source);
  grid.Name("reads", kQuantitiesWidth,
            [&](const Row& row) { return absl::StrJoin(quantities[row.source], ", "); });
  grid.Number("reads/s", &Row::effective_hz, [](double hz) { return FormatFixed(hz, 2); });
  grid.Number("missed", &Row::missed);
  grid.Number("longest gap ms", in(1e6, &Row::longest_gap_ns), NumberText);
  grid.Number("read p50 us", in(1e3, &Row::latency_p50_ns), NumberText).Drop(1);
  grid.Number("p99 us", in(1e3, &Row::latency_p99_ns), NumberText).Drop(2);
  return {.title = "sensors that were read", .grid = std::move(grid).Take()};
}

// The sections that are not empty.
std::vector<Section> Sections(const PowerSummary& summary, size_t most, const CarbonModel& carbon) {
  std::vector<Section> sections = {EnergySection(summary, most)};
  for (Section& section :
       std::array{RepeatSection(summary, most), CarbonSection(summary, carbon, most),
                  GaugeSection(summary), ReaderSection(summary)}) {
    if (section.grid.rows() > 0 || !section.notes.empty()) sections.push_back(std::move(section));
  }
  return sections;
}

Section SensorSection(const PowerInventory& inventory) {
  const std::vector<SensorRow> rows = SensorRows(inventory);
  RowGrid grid(rows);
  grid.Name("source", 0, &SensorRow::source);
  grid.Name("domain", 0, &SensorRow::domain);
  grid.Name("device", 0, &SensorRow::device);
  grid.Name("reads", kQuantitiesWidth,
            [](const SensorRow& row) { return absl::StrJoin(row.quantities, ", "); });
  Section section = {.title = "sensors", .grid = std::move(grid).Take()};
  if (rows.empty()) section.notes = {"none"};
  return section;
}

std::string DeviceLine(const PowerDevice& device) {
  std::string line = absl::StrCat(device.id, ": ", device.name);
  if (device.ordinal.has_value()) absl::StrAppend(&line, ", ordinal ", *device.ordinal);
  if (device.mig) line += ", parent of MIG instances";
  if (device.shared) line += ", shared with others";
  if (!device.note.empty()) absl::StrAppend(&line, ", ", device.note);
  return Printable(line);
}

View SourcesView(const PowerInventory& inventory) {
  View view = {.sections = {SensorSection(inventory)}};
  for (const PowerDevice& each : inventory.devices) view.remarks.push_back({DeviceLine(each)});
  if (!inventory.absences.empty()) {
    if (!view.remarks.empty()) view.remarks.push_back({""});
    view.remarks.push_back({"missing", Tone::kBold});
  }
  for (const PowerAbsence& each : inventory.absences) {
    view.remarks.push_back({AbsenceLine(each), Tone::kWarning});
  }
  return view;
}

}  // namespace

DomainNames::DomainNames(const PowerInventory& inventory) {
  for (const PowerDevice& each : inventory.devices) {
    if (each.index.has_value()) indices_[{each.source, each.id}] = *each.index;
  }
}

std::string DomainNames::Of(const std::string& source, const std::string& device,
                            const std::string& domain) const {
  const auto index = indices_.find({source, device});
  std::string all = source;
  for (const std::string& part :
       {index == indices_.end() ? device : absl::StrCat(index->second), domain}) {
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

View PowerView(const PowerSummary& summary, const OutputOptions& options,
               const CarbonModel& carbon) {
  View view;
  if (!summary.complete) {
    view.lines.push_back(
        {"the log ends early; the results cover the time before its end", Tone::kWarning});
  }
  for (const PowerFinding& each : summary.findings) {
    if (each.code != "damaged_lines") continue;
    view.lines.push_back({Printable(absl::StrCat("damaged lines of the log, skipped: ", each.count,
                                                 "; first: ", each.message)),
                          Tone::kWarning});
  }
  const size_t most = options.format == Format::kTable ? kWindows : SIZE_MAX;
  view.sections = Sections(summary, options.top.value_or(most), carbon);
  const auto remark = [&](std::string text) {
    view.remarks.push_back({std::move(text), Tone::kDim, ViewLine::kItem});
  };
  for (const PowerAbsence& absence : summary.inventory.absences) {
    remark("missing: " + AbsenceLine(absence));
  }
  for (const PowerFinding& finding : summary.findings) {
    remark(Printable(absl::StrCat(finding.code, " (", finding.count, "): ", finding.message)));
  }
  return view;
}

Output PowerSourcesOutput(const PowerInventory& inventory) {
  Output out{.result = result::Result("xplane-time.power-sources.v1")};
  VisitInventory(inventory, &out.result);
  out.view = [&inventory](const OutputOptions&) { return SourcesView(inventory); };
  return out;
}

}  // namespace xplane_time::output
