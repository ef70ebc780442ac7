#include "output/power_sources.h"

#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "output/page.h"
#include "output/power_inventory_json.h"
#include "output/sections.h"

namespace xplane_time::output {
namespace {

constexpr size_t kQuantitiesWidth = 20;

// "power_mw" is power.
std::string WithoutUnit(std::string_view quantity) {
  const size_t end = quantity.rfind('_');
  return std::string(end == std::string_view::npos ? quantity : quantity.substr(0, end));
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
    std::string name = WithoutUnit(each.quantity);
    if (each.kind == ReadingKind::kAverage) name += " (average)";
    rows[at->second].quantities.push_back(std::move(name));
  }
  return rows;
}

Section SensorSection(const PowerInventory& inventory) {
  std::vector<std::string> sources, devices, domains, quantities;
  for (const SensorRow& row : SensorRows(inventory)) {
    sources.push_back(Printable(row.source));
    devices.push_back(Printable(row.device));
    domains.push_back(Printable(row.domain));
    quantities.push_back(Printable(absl::StrJoin(row.quantities, ", ")));
  }
  Section section;
  section.title = "sensors";
  section.grid.columns = {TextColumn("source", std::move(sources)),
                          TextColumn("domain", std::move(domains)),
                          TextColumn("device", std::move(devices)),
                          NameColumn("reads", std::move(quantities), kQuantitiesWidth)};
  if (section.grid.rows() == 0) section.notes = {"none"};
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

std::string SourcesText(const PowerInventory& inventory, const OutputOptions& options) {
  Page page(options);
  page.Add(SensorSection(inventory));
  if (!inventory.devices.empty()) page.Line("");
  for (const PowerDevice& each : inventory.devices) page.Wrapped(DeviceLine(each));
  if (!inventory.absences.empty()) {
    page.Line("");
    page.Line("not there", kBold);
  }
  for (const PowerAbsence& each : inventory.absences) page.Wrapped(AbsenceLine(each), kYellow);
  return std::move(page).Take();
}

std::string SourcesJson(const PowerInventory& inventory) {
  Document document("xplane-time.power-sources.v1");
  AddInventory(inventory, &document);
  return std::move(document).Finish();
}

}  // namespace

std::string AbsenceLine(const PowerAbsence& absence) {
  std::string line =
      absl::StrCat(absence.source, absence.source.empty() ? "" : ": ",
                   std::string(PowerReasonName(absence.reason)), ": ", absence.message);
  if (!absence.fix.empty()) absl::StrAppend(&line, "; ", absence.fix);
  return Printable(line);
}

std::string RenderPowerSources(const PowerInventory& inventory, const OutputOptions& options) {
  return options.format == Format::kJson ? SourcesJson(inventory) : SourcesText(inventory, options);
}

}  // namespace xplane_time::output
