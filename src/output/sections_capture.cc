#include <algorithm>
#include <map>
#include <set>

#include "output/sections.h"
#include "output/text.h"
#include "output/units.h"

namespace xplane_time::output {
namespace {

constexpr size_t kBarWidth = 20;
constexpr size_t kDiagnosticWidth = 140;  // with the place; about two lines

// First start and last end of the devices of one input's axis.
struct Window {
  int64_t first_ps = INT64_MAX, last_ps = INT64_MIN;
  double length_ps() const {
    return last_ps > first_ps ? static_cast<double>(last_ps) - static_cast<double>(first_ps) : 0;
  }
};

// By capture: hosts of one run share an axis, repeated captures do not.
class Windows {
 public:
  explicit Windows(const Report& report) : report_(report) {
    for (const DeviceRow& row : report.devices) {
      if (!row.first_ps || !row.last_ps) continue;
      Window& window = windows_[CaptureOf(row)];
      window.first_ps = std::min(window.first_ps, *row.first_ps);
      window.last_ps = std::max(window.last_ps, *row.last_ps);
    }
  }
  // Busy time over the window; empty where there is no window.
  std::optional<double> Utilization(const DeviceRow& row) const {
    const auto it = windows_.find(CaptureOf(row));
    if (it == windows_.end() || it->second.length_ps() <= 0) return std::nullopt;
    return static_cast<double>(row.busy_ps) / it->second.length_ps();
  }
  std::optional<double> OnlyLengthPs() const {
    if (windows_.size() != 1) return std::nullopt;
    return windows_.begin()->second.length_ps();
  }

 private:
  uint32_t CaptureOf(const DeviceRow& row) const {
    const uint32_t input = row.device.input;
    return input < report_.inputs.size() ? report_.inputs[input].capture : input;
  }
  const Report& report_;
  std::map<uint32_t, Window> windows_;
};

std::string Bar(std::optional<double> share, const Signs& signs) {
  const double known = std::clamp(share.value_or(0), 0.0, 1.0);
  const auto full = static_cast<size_t>(known * static_cast<double>(kBarWidth) + 0.5);
  std::string bar;
  for (size_t i = 0; i < kBarWidth; ++i) bar.append(i < full ? signs.full : signs.empty);
  return bar;
}

// "GPU:1-3,7" from devices that differ in their ordinals only; else the names.
std::string IdleNames(const std::vector<const DeviceRow*>& idle, const DeviceNames& names) {
  std::map<std::string, std::set<int64_t>> ordinals;  // by name without the number
  std::vector<std::string> parts;
  for (const DeviceRow* row : idle) {
    const std::string name = names.Name(row->device);
    const std::string number = std::to_string(row->device.ordinal.value_or(-1));
    const size_t prefix = name.size() - std::min(name.size(), number.size());
    if (row->device.ordinal && name.substr(prefix) == number) {
      ordinals[name.substr(0, prefix)].insert(*row->device.ordinal);
    } else {
      parts.push_back(name);
    }
  }
  for (const auto& [prefix, numbers] : ordinals) {
    std::string part = prefix;
    for (auto it = numbers.begin(); it != numbers.end();) {
      auto last = it;
      for (auto next = std::next(it); next != numbers.end() && *next == *last + 1; ++next) {
        last = next;
      }
      if (part != prefix) part.push_back(',');
      part.append(std::to_string(*it));
      if (last != it) part.append("-").append(std::to_string(*last));
      it = std::next(last);
    }
    parts.push_back(part);
  }
  std::string text;
  for (const std::string& part : parts) text.append(text.empty() ? "" : ", ").append(part);
  return text;
}

Grid DeviceGrid(const std::vector<const DeviceRow*>& active, const DeviceNames& names,
                const Windows& windows, const OutputOptions& options) {
  const Signs signs = Signs::For(options);
  std::vector<std::string> name, kind, executions, bar, percent;
  std::vector<std::optional<double>> busy_ps;
  for (const DeviceRow* row : active) {
    const std::optional<double> share = windows.Utilization(*row);
    name.push_back(names.Name(row->device));
    kind.emplace_back(DeviceKindName(row->kind));
    executions.push_back(std::to_string(row->executions));
    busy_ps.push_back(static_cast<double>(row->busy_ps));
    percent.push_back(FormatPercent(share));
    bar.push_back(Bar(share, signs));
  }
  Grid grid;
  grid.columns.push_back(NameColumn("device", std::move(name), 12));
  grid.columns.push_back(TextColumn("kind", std::move(kind)));
  grid.columns.push_back(NumberColumn("executions", std::move(executions)));
  grid.columns.push_back(TimesColumn("busy", busy_ps, options.unit));
  grid.columns.push_back(NumberColumn("busy %", std::move(percent)));
  if (options.format == Format::kTable) {
    grid.columns.push_back(TextColumn("", std::move(bar)));
    grid.columns.back().drop = 1;
  }
  return grid;
}

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
  return DisplayWidth(text) + DisplayWidth(place) <= kDiagnosticWidth ? text + place : text;
}

}  // namespace

std::vector<std::string> InputLines(const std::vector<InputRow>& inputs, size_t most) {
  std::vector<std::string> lines;
  uint64_t bytes = 0;
  for (const InputRow& input : inputs) {
    bytes += input.bytes;
    if (lines.size() + 1 >= most && inputs.size() > most) continue;
    lines.push_back(Printable(input.path) + "  " + FormatBytes(input.bytes));
  }
  if (lines.size() < inputs.size()) {
    lines.push_back("... " + std::to_string(inputs.size() - lines.size()) +
                    " more files; all together " + FormatBytes(bytes));
  }
  return lines;
}

bool OneCapture(const std::vector<InputRow>& inputs) {
  return std::all_of(inputs.begin(), inputs.end(),
                     [&](const InputRow& input) { return input.capture == inputs[0].capture; });
}

std::vector<std::string> CaptureLines(const CaptureInfo& capture, bool one_capture) {
  const auto counted = [](uint64_t count, std::string_view what) {
    return std::to_string(count) + " " + std::string(what) + (count == 1 ? "" : "s");
  };
  std::string line = counted(capture.planes, "plane") + ", " + counted(capture.lines, "line") +
                     ", " + counted(capture.events, "event");
  if (capture.hostnames.size() == 1) line.append(", host " + Printable(capture.hostnames[0]));
  if (capture.hostnames.size() > 1) line.append(", " + counted(capture.hostnames.size(), "host"));
  std::vector<std::string> lines = {std::move(line)};
  if (capture.start_unix_ns) {
    std::string when = "captured " + FormatUtc(*capture.start_unix_ns);
    if (one_capture && capture.stop_unix_ns && *capture.stop_unix_ns > *capture.start_unix_ns) {
      const uint64_t length_ns = *capture.stop_unix_ns - *capture.start_unix_ns;
      when.append(", for " + FormatTime(static_cast<double>(length_ns) * 1e3, Unit::kAuto));
    }
    lines.push_back(std::move(when));
  }
  return lines;
}

Section DeviceSection(const Report& report, const OutputOptions& options, size_t most) {
  std::vector<const DeviceRow*> active, idle;
  std::vector<const DeviceRef*> refs;
  for (const DeviceRow& row : report.devices) {
    (row.executions > 0 ? active : idle).push_back(&row);
    refs.push_back(&row.device);
  }
  const DeviceNames names(refs);
  const Windows windows(report);
  if (active.size() > most) {
    std::stable_sort(active.begin(), active.end(), [](const DeviceRow* a, const DeviceRow* b) {
      return a->busy_ps > b->busy_ps;
    });
  }
  const size_t hidden = active.size() - std::min(active.size(), most);
  active.resize(active.size() - hidden);
  Section section;
  const std::optional<double> window_ps = windows.OnlyLengthPs();
  section.title = "devices";
  if (window_ps) section.title.append(" over " + FormatTime(*window_ps, options.unit));
  if (!active.empty()) section.grid = DeviceGrid(active, names, windows, options);
  if (hidden > 0) section.notes.push_back(MoreNote(hidden, "devices", "--format json"));
  if (!idle.empty()) section.notes.push_back("idle: " + IdleNames(idle, names));
  if (report.devices.empty()) section.notes.emplace_back("none");
  return section;
}

std::vector<DiagnosticLine> DiagnosticLines(const std::vector<DiagnosticRow>& rows, bool infos) {
  std::vector<const DiagnosticRow*> shown;
  for (const DiagnosticRow& row : rows) {
    if (infos || Rank(row.severity) < 2) shown.push_back(&row);
  }
  if (shown.empty()) {
    for (const DiagnosticRow& row : rows) shown.push_back(&row);
  }
  std::stable_sort(shown.begin(), shown.end(), [](const DiagnosticRow* a, const DiagnosticRow* b) {
    return Rank(a->severity) < Rank(b->severity);
  });
  std::vector<DiagnosticLine> lines;
  for (const DiagnosticRow* row : shown) lines.push_back({row->severity, DiagnosticText(*row)});
  return lines;
}

}  // namespace xplane_time::output
