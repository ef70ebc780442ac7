#include "output/view.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_format.h"
#include "status.h"

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

std::string Counted(uint64_t count, std::string_view what) {
  return std::to_string(count) + " " + std::string(what) + (count == 1 ? "" : "s");
}

DeviceNames::DeviceNames(const std::vector<const DeviceRef*>& devices) {
  std::set<std::string_view> hosts;
  std::set<uint32_t> inputs;
  std::set<DeviceKey> different;
  for (const DeviceRef* device : devices) {
    hosts.insert(device->host);
    inputs.insert(device->input);
    different.insert(KeyOf(*device));
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

namespace {

constexpr size_t kPlacedWidth = 140;  // of a diagnostic with its place; about two lines

int Rank(std::string_view severity) {
  if (severity == "error") return 0;
  return severity == "warning" ? 1 : 2;
}

std::string DiagnosticText(const DiagnosticRow& row) {
  std::string text = std::to_string(row.count) + "x " + Printable(row.message);
  if (row.plane.empty() && row.line.empty()) return text;
  std::string place = row.count > 1 ? " (first: " : " (";
  place.append(Printable(row.plane));
  if (!row.line.empty()) {
    place.append(row.plane.empty() ? "line \"" : ", line \"").append(Printable(row.line));
    place.append("\"");
  }
  if (row.event) place.append(", event ").append(std::to_string(*row.event));
  place.append(")");
  // The place gives way to the message: JSON has it too.
  return DisplayWidth(text) + DisplayWidth(place) <= kPlacedWidth ? text + place : text;
}

}  // namespace

std::vector<DiagnosticLine> DiagnosticLines(const std::vector<DiagnosticRow>& rows, bool or_infos) {
  const bool infos = std::all_of(rows.begin(), rows.end(),
                                 [](const DiagnosticRow& row) { return Rank(row.severity) == 2; });
  std::vector<DiagnosticLine> lines;
  for (const int rank : {0, 1, 2}) {
    if (rank == 2 && !(infos && or_infos)) break;
    for (const DiagnosticRow& row : rows) {
      if (Rank(row.severity) == rank) lines.push_back({row.severity, DiagnosticText(row)});
    }
  }
  return lines;
}

std::string DiagnosticsTitle(const std::vector<DiagnosticLine>& lines) {
  return lines[0].severity == "info" ? "notes on this trace" : "suspicious in this trace";
}

std::string PercentText(double share) {
  constexpr double kAbsurd = 100;  // what so few samples say is nothing
  if (!(share < kAbsurd)) return "an unknown share";
  std::string text = FormatFixed(share * 100, std::abs(share) >= 0.0995 ? 1 : 2);
  while (text.ends_with('0')) text.pop_back();
  if (text.ends_with('.')) text.pop_back();
  return text + " %";
}

std::string ChangeText(double ratio) {
  constexpr double kMostDigits = 1e6;  // beyond it the size is all that is of use
  const double percent = (ratio - 1) * 100;
  const std::string text = std::abs(percent) >= kMostDigits
                               ? absl::StrFormat("%.1e", percent)
                               : FormatFixed(percent, std::abs(percent) >= 9.95 ? 1 : 2);
  return percent > 0 ? "+" + text : text;
}

std::string Render(const Output& output, const OutputOptions& options) {
  if (const auto other = output.others.find(options.format); other != output.others.end()) {
    return other->second();
  }
  switch (options.format) {
    case Format::kJson:
      return JsonText(output.result);
    case Format::kCsv:
      return CsvText(output.result.csv);
    case Format::kMarkdown:
      return MarkdownText(output.view(options), options);
    default:
      return TableText(output.view(options), options);
  }
}

absl::StatusOr<std::string> Render(const absl::StatusOr<Output>& output,
                                   const OutputOptions& options) {
  RETURN_IF_ERROR(output.status());
  return Render(*output, options);
}

}  // namespace xplane_time::output
