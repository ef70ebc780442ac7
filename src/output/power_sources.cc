// What `power sources` prints.
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "output/power.h"
#include "output/view.h"
#include "result/rows_power.h"

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
  const std::vector<SensorRow> rows = SensorRows(inventory);
  RowGrid grid(rows);
  grid.Text("source", [](const SensorRow& row) { return Printable(row.source); });
  grid.Text("domain", [](const SensorRow& row) { return Printable(row.domain); });
  grid.Text("device", [](const SensorRow& row) { return Printable(row.device); });
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
    view.remarks.push_back({"not there", Tone::kBold});
  }
  for (const PowerAbsence& each : inventory.absences) {
    view.remarks.push_back({AbsenceLine(each), Tone::kWarning});
  }
  return view;
}

}  // namespace

Output PowerSourcesOutput(const PowerInventory& inventory) {
  Output out{.result = result::Result("xplane-time.power-sources.v1")};
  VisitInventory(inventory, &out.result);
  out.view = [&inventory](const OutputOptions&) { return SourcesView(inventory); };
  return out;
}

}  // namespace xplane_time::output
