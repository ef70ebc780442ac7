#include "output/sections.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "output/text.h"
#include "output/units.h"

namespace xplane_time::output {

Signs Signs::For(const OutputOptions& options) {
  if (options.unicode) return {"…", "±", "█", "░"};
  return {"...", "+-", "#", "."};
}

std::string MoreNote(size_t hidden, std::string_view what, std::string_view where) {
  std::string note = "... " + std::to_string(hidden) + " more " + std::string(what);
  if (hidden == 1 && note.back() == 's') note.pop_back();
  if (!where.empty()) note.append(": ").append(where);
  return note;
}

DeviceNames::DeviceNames(const std::vector<const DeviceRef*>& devices) {
  std::set<std::string_view> hosts;
  std::set<uint32_t> inputs;
  std::set<std::tuple<uint32_t, std::string_view, std::string_view, int64_t>> different;
  for (const DeviceRef* device : devices) {
    hosts.insert(device->host);
    inputs.insert(device->input);
    different.emplace(device->input, device->host, device->plane, device->ordinal.value_or(-1));
  }
  several_hosts_ = hosts.size() > 1;
  several_inputs_ = inputs.size() > 1 && !several_hosts_;
  count_ = different.size();
}

std::string DeviceNames::Name(const DeviceRef& device) const {
  constexpr std::string_view kPrefix = "/device:";
  std::string_view plane = device.plane;
  if (plane.substr(0, kPrefix.size()) == kPrefix) plane.remove_prefix(kPrefix.size());
  constexpr std::string_view kHostCpu = "/host:CPU";
  if (plane == kHostCpu) plane.remove_prefix(kHostCpu.find("CPU"));
  std::string name(plane);
  // Planes that hold several devices do not have the ordinal in their names.
  if (device.ordinal) {
    const std::string ordinal = ":" + std::to_string(*device.ordinal);
    if (name.find(ordinal) == std::string::npos) name.append(ordinal);
  }
  if (several_hosts_ && !device.host.empty()) name.append("@").append(device.host);
  if (several_inputs_) name.append(" #").append(std::to_string(device.input + 1));
  return Printable(name);
}

Column TextColumn(std::string header, std::vector<std::string> cells) {
  Column column;
  column.header = std::move(header);
  column.cells = std::move(cells);
  return column;
}

Column NameColumn(std::string header, std::vector<std::string> cells, size_t flex_width) {
  Column column = TextColumn(std::move(header), std::move(cells));
  column.name = true;
  column.flex_width = flex_width;
  return column;
}

Column NumberColumn(std::string header, std::vector<std::string> cells, int drop) {
  Column column = TextColumn(std::move(header), std::move(cells));
  column.right = true;
  column.drop = drop;
  return column;
}

Column TimesColumn(const std::string& header, const std::vector<std::optional<double>>& values_ps,
                   Unit unit, int drop) {
  TimeColumn times = FormatTimes(values_ps, unit);
  return NumberColumn(header + " " + std::string(times.unit), std::move(times.cells), drop);
}

bool Varies(const std::vector<std::string>& cells) {
  return std::any_of(cells.begin(), cells.end(),
                     [&](const std::string& cell) { return cell != cells.front(); });
}

}  // namespace xplane_time::output
