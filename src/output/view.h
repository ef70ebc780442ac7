// Views: the parts of a text for people, before they become a table or Markdown.
//
// Input: rows in their final order. Output: titled grids of printable cells, with notes on omitted
// rows. Columns with the same text in every row (one device, one clock) are hidden; the title
// has this text.
//
//   RowGrid grid(rows);                                       // std::vector<KernelRow>
//   grid.Name("kernel", 26, &KernelRow::kernel);
//   grid.Number("share %", &KernelRow::share, FormatPercent);
//   grid.Times("mean", unit, &KernelRow::mean_ps).Drop(2);
#pragma once

#include <algorithm>
#include <concepts>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

#include "output/output.h"

namespace xplane_time::output {

inline constexpr double kNsPerS = 1e9, kPsPerS = 1e12, kPsPerUs = 1e6;

// How to see the other rows: "--top 12".
inline constexpr std::string_view kByTop = "--top";
inline constexpr size_t kDefaultRows = 10;  // of most tables, without --top
// A note about executions, functions or kernels: "2 more kernels: xplane-time kernels".
std::string MoreNote(size_t hidden, std::string_view what, std::string_view where);

// The same below rows, of which `all` are more than are `shown`.
void NoteMore(size_t all, size_t shown, std::string_view what, std::string_view where,
              std::vector<std::string>* notes);
// The first `top` rows.
template <typename Row>
std::span<const Row> Top(const std::vector<Row>& rows, std::optional<size_t> top) {
  return std::span(rows).first(std::min(rows.size(), top.value_or(SIZE_MAX)));
}
// The same; a note has the number of other rows.
template <typename Row>
std::span<const Row> TopRows(const std::vector<Row>& rows, std::optional<size_t> top,
                             std::string_view what, std::string_view where,
                             std::vector<std::string>* notes) {
  const std::span<const Row> shown = Top(rows, top);
  NoteMore(rows.size(), shown.size(), what, where, notes);
  return shown;
}

// "3 captures", "1 capture".
std::string Counted(uint64_t count, std::string_view what);

// Names that distinguish the devices.
using DeviceKey = std::tuple<uint32_t, std::string, std::string, int64_t, uint32_t>;
inline DeviceKey KeyOf(const DeviceRef& device) {
  return {device.input, device.host, device.plane, device.ordinal.value_or(-1), device.twin};
}

// "GPU:0" for "/device:GPU:0"; with the host or input if there are several.
class DeviceNames {
 public:
  explicit DeviceNames(const auto& rows) {  // that have or may have a `device`
    for (const auto& row : rows) {
      const std::optional<DeviceRef>& device = row.device;
      if (!device) continue;
      devices_.insert(KeyOf(*device));
      hosts_.insert(device->host);
      inputs_.insert(device->input);
    }
  }
  std::string Name(const DeviceRef& device) const;
  size_t count() const { return devices_.size(); }  // different devices

 private:
  std::set<DeviceKey> devices_;
  std::set<std::string> hosts_;
  std::set<uint32_t> inputs_;
};

// Whether a function of a device occurs with several programs, so that rows need the program.
bool ProgramTellsApart(const auto& rows) {
  std::map<std::pair<DeviceKey, std::optional<std::string>>, std::optional<std::string>> programs;
  return std::ranges::any_of(rows, [&](const auto& row) {
    const auto [known, is_new] =
        programs.try_emplace({KeyOf(row.device), row.function}, row.program_id);
    return !is_new && known->second != row.program_id;
  });
}

// A line with the filters on functions and kernels; empty: none is given. `with_devices`: the view
// also shows devices and steps, to which they do not apply.
std::vector<ViewLine> FilterLines(const OutputOptions& options, bool with_devices);
// Errors, warnings, then what the arguments and options left out ("note"), then infos if
// `with_infos`.
std::vector<DiagnosticLine> DiagnosticLines(const std::vector<DiagnosticRow>& rows,
                                            bool with_infos);
// Diagnostics that are not among the lines on completeness.
std::vector<DiagnosticRow> OtherDiagnostics(const std::vector<DiagnosticRow>& rows);
// Whether the trace is complete: one line if all is well, otherwise a line for each finding, errors
// and warnings first. If a code has many findings, a last line has their number, so that no other
// code is hidden.
std::vector<ViewLine> CompletenessLines(const Report& report, const OutputOptions& options);
// The title of a line; lines with the same title follow each other.
std::string DiagnosticsTitle(const DiagnosticLine& line);

template <typename T>
std::optional<double> AsDouble(const std::optional<T>& value) {
  return value ? std::optional(static_cast<double>(*value)) : std::nullopt;
}

// For ratios, as changes in percent.
inline std::string ChangeOrDash(const std::optional<double>& ratio) {
  return ratio ? ChangeText(*ratio) : "-";
}
std::string IntervalText(const std::optional<double>& lo, const std::optional<double>& hi);

// A cell: text unchanged, a whole number in digits, "-" for an unknown value.
inline std::string CellText(std::string_view text) { return std::string(text); }
std::string CellText(std::integral auto number) { return std::to_string(number); }
template <typename T>
std::string CellText(const std::optional<T>& value) {
  return value ? CellText(*value) : "-";
}

// A grid column by column, from a vector or span of rows. `get` is a member of a row, or called
// with one.
template <typename Rows>
class RowGrid {
 public:
  explicit RowGrid(const Rows& rows) : rows_(rows) {}

  // Text that is printable already.
  Column& Text(std::string header, auto get) {
    Column& column = Add(std::move(header));
    for (const auto& row : rows_) column.cells.push_back(CellText(std::invoke(get, row)));
    return column;
  }
  // The producer's text, which may be shortened down to `flex_width`; 0: it may not.
  Column& Name(std::string header, size_t flex_width, auto get) {
    Column& column = Text(std::move(header), get);
    for (std::string& cell : column.cells) cell = Printable(cell);
    column.name = flex_width > 0;
    column.flex_width = flex_width;
    return column;
  }
  // A number or hash that the producer gave; as a name, but to the right and no code.
  Column& Id(std::string header, size_t flex_width, auto get) {
    Column& column = Name(std::move(header), flex_width, get);
    column.name = false;
    column.right = true;
    return column;
  }
  Column& Number(std::string header, auto get) {
    Column& column = Text(std::move(header), get);
    column.right = true;
    return column;
  }
  // The value of `get`, formatted and rounded by `format`.
  Column& Number(std::string header, auto get, auto format) {
    Column& column = Add(std::move(header));
    for (const auto& row : rows_) {
      const auto& value = std::invoke(get, row);
      column.cells.push_back(format(value));
      column.exact.emplace_back(value);
    }
    column.right = true;
    return column;
  }
  // Picoseconds, perhaps unknown; the header gets the unit: "median us".
  Column& Times(const std::string& header, Unit unit, auto get) {
    TimeColumn times = FormatTimes(Values(get), unit);
    Column& column = Add(header + " " + std::string(times.unit));
    column.cells = std::move(times.cells);
    for (const auto& row : rows_) column.exact.emplace_back(std::invoke(get, row));
    column.exact_unit = "ps";
    column.right = true;
    return column;
  }
  // The values of several columns, for CommonUnit.
  std::vector<std::optional<double>> Values(auto... get) const {
    std::vector<std::optional<double>> values;
    const auto add = [&](auto of) {
      for (const auto& row : rows_) values.push_back(AsDouble(std::optional(std::invoke(of, row))));
    };
    (add(get), ...);
    return values;
  }
  Grid Take() && { return std::move(grid_); }

 private:
  Column& Add(std::string header) {
    Column& column = grid_.columns.emplace_back();
    column.header = std::move(header);
    column.cells.reserve(rows_.size());
    return column;
  }

  const Rows& rows_;
  Grid grid_;
};

}  // namespace xplane_time::output
