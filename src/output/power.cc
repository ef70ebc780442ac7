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
#include "output/page.h"
#include "output/power_sources.h"
#include "output/sections.h"
#include "output/text.h"
#include "output/units.h"

namespace xplane_time::output {
namespace {

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

bool AnyKnown(const std::vector<std::string>& cells) {
  return std::any_of(cells.begin(), cells.end(), [](const auto& each) { return each != "-"; });
}

constexpr std::string_view kAbout = "~";  // before an interval

// Of an EnergyEstimate or a PowerTotal.
template <typename Energy>
std::string LimitsText(const Energy& energy) {
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

struct Cells {
  std::vector<std::string> window, domain, seconds, energy, bounds, mean, peak, covered, active,
      remark;
};

void AddRow(const PowerSummary& summary, const WindowSummary& window, const EnergyEstimate& energy,
            Cells* cells) {
  cells->window.push_back(Printable(WindowName(window)));
  cells->domain.push_back(
      Printable(DomainName(summary, energy.source, energy.device, energy.domain)));
  cells->seconds.push_back(Number(static_cast<double>(window.end_ns - window.begin_ns) / kNsPerS));
  cells->energy.push_back(EnergyText(energy.energy_j));
  cells->bounds.push_back(LimitsText(energy));
  cells->mean.push_back(Number(energy.mean_w));
  cells->peak.push_back(Number(energy.peak_w));
  cells->covered.push_back(FormatPercent(energy.coverage));
  cells->active.push_back(Number(energy.active_j));
  cells->remark.push_back(Remark(energy));
}

void AddTotal(const WindowSummary& window, Cells* cells) {
  cells->window.push_back(Printable(WindowName(window)));
  cells->domain.push_back("total");
  cells->seconds.push_back(Number(static_cast<double>(window.end_ns - window.begin_ns) / kNsPerS));
  cells->energy.push_back(EnergyText(window.total.energy_j));
  cells->bounds.push_back(LimitsText(window.total));
  cells->mean.push_back(Number(window.total.mean_w));
  cells->peak.push_back("-");
  cells->covered.push_back(window.total.energy_j ? FormatPercent(window.total.coverage) : "-");
  cells->active.push_back(Number(window.total.active_j));
  const PowerTotal& total = window.total;
  std::string remark(WhyPart(total.reason, total.coverage));
  if (total.energy_j && !total.missing.empty()) remark = "without " + Printable(total.missing);
  cells->remark.push_back(std::move(remark));
}

std::vector<Column> EnergyColumns(Cells cells) {
  const bool remarks = Varies(cells.remark) || (!cells.remark.empty() && !cells.remark[0].empty());
  const bool active = AnyKnown(cells.active);
  std::vector<Column> columns = {NameColumn("window", std::move(cells.window), kNameWidth),
                                 NameColumn("sensor", std::move(cells.domain), kDomainWidth),
                                 NumberColumn("s", std::move(cells.seconds)),
                                 NumberColumn("energy J", std::move(cells.energy)),
                                 NumberColumn("bounds J", std::move(cells.bounds)),
                                 NumberColumn("mean W", std::move(cells.mean), /*drop=*/2),
                                 NumberColumn("peak W", std::move(cells.peak), /*drop=*/3),
                                 NumberColumn("covered %", std::move(cells.covered))};
  if (active) {
    columns.push_back(NumberColumn("above idle J", std::move(cells.active), /*drop=*/1));
  }
  if (remarks) columns.push_back(TextColumn("remark", std::move(cells.remark)));
  return columns;
}

Section EnergySection(const PowerSummary& summary, size_t most) {
  Cells cells;
  const size_t shown = std::min(most, summary.windows.size());
  const std::span windows(summary.windows.data(), shown);
  const std::string_view kind = KindOfAll(windows);
  for (const WindowSummary& window : windows) {
    for (const EnergyEstimate& energy : window.energies) {
      AddRow(summary, window, energy, &cells);
      // Where the title does not say it.
      std::string& remark = cells.remark.back();
      if (energy.modelled && kind != "modelled") {
        remark.insert(0, remark.empty() ? "modelled" : "modelled, ");
      }
    }
    const auto in_total = [](const EnergyEstimate& each) { return each.in_total; };
    if (std::count_if(window.energies.begin(), window.energies.end(), in_total) > 1) {
      AddTotal(window, &cells);
    }
  }
  Section section;
  section.title = absl::StrCat("energy, ", std::string(kind));
  section.grid.columns = EnergyColumns(std::move(cells));
  section.notes = EnergyNotes(windows);
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
  std::vector<std::string> names, sensors, windows, energy, spread, active, seconds, seconds_spread;
  const size_t shown = std::min(most, summary.repeats.size());
  for (size_t i = 0; i < shown; ++i) {
    const RepeatedEnergy& row = summary.repeats[i];
    names.push_back(Printable(row.window));
    sensors.push_back(Printable(DomainName(summary, row.source, row.device, row.domain)));
    windows.push_back(row.known == row.windows ? absl::StrCat(row.windows)
                                               : absl::StrCat(row.known, " of ", row.windows));
    energy.push_back(Number(row.mean_j));
    spread.push_back(Number(row.std_j));
    active.push_back(Number(row.mean_active_j));
    seconds.push_back(Number(row.mean_s));
    seconds_spread.push_back(Number(row.std_s));
  }
  Section section;
  section.title = "energy, windows of one name";
  section.grid.columns = {NameColumn("window", std::move(names), kNameWidth),
                          NameColumn("sensor", std::move(sensors), kDomainWidth),
                          NumberColumn("windows", std::move(windows)),
                          NumberColumn("mean J", std::move(energy)),
                          NumberColumn("std J", std::move(spread)),
                          NumberColumn("mean s", std::move(seconds)),
                          NumberColumn("std s", std::move(seconds_spread), /*drop=*/1)};
  if (AnyKnown(active)) {
    section.grid.columns.insert(section.grid.columns.begin() + 5,
                                NumberColumn("above idle", std::move(active), /*drop=*/2));
  }
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
  std::vector<std::string> windows, wh, grams;
  for (size_t i = 0; i < std::min(most, summary.windows.size()); ++i) {
    const auto modelled = CarbonOf(summary.windows[i].total.energy_j, carbon);
    if (!modelled.has_value()) continue;
    windows.push_back(Printable(WindowName(summary.windows[i])));
    wh.push_back(ThreeDigits(modelled->kwh * kWhPerKwh));
    grams.push_back(ThreeDigits(modelled->co2e_g));
  }
  Section section;
  section.title =
      absl::StrCat("modelled, ", Number(carbon.g_per_kwh), " g CO2e/kWh, PUE ", Number(carbon.pue));
  section.grid.columns = {NameColumn("window", std::move(windows), kNameWidth),
                          NumberColumn("Wh", std::move(wh)),
                          NumberColumn("CO2e g", std::move(grams))};
  return section;
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
  std::vector<std::string> sensors, names, n, avg, max, median, min, constant;
  Section section;
  if (summary.windows.empty()) return section;
  for (const GaugeSummary& gauge : summary.windows[0].gauges) {
    const PowerChannel& channel = summary.inventory.channels[gauge.channel];
    if (IsPowerOrEnergy(channel)) continue;
    if (gauge.n == 0 && gauge.unknown == 0) continue;  // of what was not there
    const Shown shown = ShownAs(channel.quantity);
    const std::string sensor =
        Printable(DomainName(summary, channel.source, channel.device, channel.domain));
    const auto cell = [&](const std::optional<double>& value) {
      return value ? Number(*value / shown.per_unit) : std::string("-");
    };
    if (gauge.n > 1 && gauge.min == gauge.max) {
      constant.push_back(absl::StrCat(sensor, " ", Printable(shown.name), " ", cell(gauge.max)));
      continue;
    }
    sensors.push_back(sensor);
    names.push_back(Printable(shown.name));
    n.push_back(absl::StrCat(gauge.n));
    const bool has_mean = HasMean(channel.quantity);
    avg.push_back(has_mean ? cell(gauge.avg) : "-");
    median.push_back(has_mean ? cell(gauge.median) : "-");
    min.push_back(cell(gauge.min));
    max.push_back(cell(gauge.max));
  }
  section.title = absl::StrCat("other readings, ", Printable(WindowName(summary.windows[0])));
  section.grid.columns = {NameColumn("sensor", std::move(sensors), kDomainWidth),
                          TextColumn("quantity", std::move(names)),
                          NumberColumn("n", std::move(n), /*drop=*/1),
                          NumberColumn("mean", std::move(avg)),
                          NumberColumn("median", std::move(median)),
                          NumberColumn("min", std::move(min)),
                          NumberColumn("max", std::move(max))};
  if (!constant.empty()) section.notes.push_back("unchanged: " + absl::StrJoin(constant, "; "));
  return section;
}

Section ReaderSection(const PowerSummary& summary) {
  std::vector<std::string> sources, rates, missed, gaps, p50, p99;
  for (const ReaderQuality& reader : summary.readers) {
    sources.push_back(Printable(reader.source));
    rates.push_back(FormatFixed(reader.effective_hz, 2));
    missed.push_back(absl::StrCat(reader.missed));
    gaps.push_back(Number(static_cast<double>(reader.longest_gap_ns) / 1e6));
    const auto microseconds = [](const std::optional<int64_t>& ns) {
      return ns ? Number(static_cast<double>(*ns) / 1e3) : std::string("-");
    };
    p50.push_back(microseconds(reader.latency_p50_ns));
    p99.push_back(microseconds(reader.latency_p99_ns));
  }
  Section section;
  section.title = "readers";
  section.grid.columns = {
      TextColumn("source", std::move(sources)),    NumberColumn("reads/s", std::move(rates)),
      NumberColumn("missed", std::move(missed)),   NumberColumn("longest gap ms", std::move(gaps)),
      NumberColumn("read p50 us", std::move(p50)), NumberColumn("p99 us", std::move(p99))};
  return section;
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

// What is missing or wrong.
std::vector<std::string> Remarks(const PowerSummary& summary) {
  std::vector<std::string> lines;
  for (const PowerAbsence& absence : summary.inventory.absences) {
    lines.push_back(absl::StrCat("not there: ", AbsenceLine(absence)));
  }
  for (const PowerFinding& finding : summary.findings) {
    lines.push_back(
        Printable(absl::StrCat(finding.code, " (", finding.count, "): ", finding.message)));
  }
  return lines;
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

std::string PowerTable(const PowerSummary& summary, const OutputOptions& options,
                       const CarbonModel& carbon) {
  Page page(options);
  if (!summary.complete) page.Line("the log ends early: what follows is up to there", kYellow);
  for (const PowerFinding& each : summary.findings) {
    if (each.code != "damaged_lines") continue;
    page.Wrapped(Printable(absl::StrCat("lines of the log that are damaged and left out: ",
                                        each.count, "; the first: ", each.message)),
                 kYellow);
  }
  for (const Section& section : Sections(summary, options.top.value_or(kWindows), carbon)) {
    page.Add(section);
  }
  const std::vector<std::string> remarks = Remarks(summary);
  if (!remarks.empty()) page.Line("");
  for (const std::string& remark : remarks) page.Wrapped(remark, kDim);
  return std::move(page).Take();
}

std::string PowerMarkdown(const PowerSummary& summary, const OutputOptions& options,
                          const CarbonModel& carbon) {
  std::string out;
  const size_t all = std::max(summary.windows.size(), summary.repeats.size());
  for (const Section& section : Sections(summary, options.top.value_or(all), carbon)) {
    out.append(out.empty() ? "### " : "\n### ").append(MarkdownCell(section.title)).append("\n");
    if (section.grid.rows() > 0) out.append("\n").append(MarkdownGrid(section.grid));
    for (const std::string& note : section.notes) out.append("\n").append(note).append("\n");
  }
  const std::vector<std::string> remarks = Remarks(summary);
  if (!remarks.empty()) out.push_back('\n');
  for (const std::string& remark : remarks) {
    out.append("- ").append(MarkdownCell(remark)).append("\n");
  }
  return out;
}

std::string RenderPower(const PowerSummary& summary, const OutputOptions& options,
                        PowerFormat format, const CarbonModel& carbon) {
  switch (format) {
    case PowerFormat::kJson:
      return PowerJson(summary, carbon);
    case PowerFormat::kCsv:
      return PowerCsv(summary, carbon);
    case PowerFormat::kMarkdown:
      return PowerMarkdown(summary, options, carbon);
    case PowerFormat::kOpenMetrics:
      return PowerOpenMetrics(summary, carbon);
    case PowerFormat::kTable:
      break;
  }
  return PowerTable(summary, options, carbon);
}

}  // namespace xplane_time::output
