#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "power/machine.h"
#include "power/whole_file.h"
#include "scratch.h"
#include "xplane_time/power_run.h"

namespace xplane_time {
namespace {

using Json = nlohmann::ordered_json;

// What is read before a window: half a minute of fast counters, of which the edge needs one.
constexpr std::streamoff kLeadBytes = 256 << 10;
// A reading after the end is waited for no longer.
constexpr std::chrono::milliseconds kAtMost(300), kEvery(10);

Json Parsed(std::string_view text) {
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

// `machine`: as a log's header has it.
RunHardware HardwareOf(const Json& machine, const PowerInventory& inventory) {
  const auto cpu = machine.find("cpu");
  const bool named = cpu != machine.end() && cpu->is_string();
  return {.label = HardwareLabel(inventory, named ? cpu->get<std::string>() : ""),
          .system_info_json = machine.dump(-1, ' ', false, Json::error_handler_t::replace)};
}

class NoTelemetry : public Telemetry {
 public:
  RunHardware Hardware() override {
    return HardwareOf(Parsed(power::MachineJson(PowerRoots{}.procfs)), {});
  }
  absl::Status Begin(std::string_view /*name*/) override { return absl::OkStatus(); }
  absl::StatusOr<RunTelemetry> End(std::string_view name) override {
    RunTelemetry nothing;
    nothing.window.name = name;
    return nothing;
  }
};

bool IsMark(std::string_view line) {
  return line.find("\"begin\":") != line.npos || line.find("\"end\":") != line.npos;
}
bool IsMarkOf(std::string_view line, const char* edge, std::string_view name) {
  if (!IsMark(line)) return false;
  const Json mark = Parsed(line);
  return mark.is_object() && mark.contains(edge) && mark[edge] == name;
}

class RecorderTelemetry : public Telemetry {
 public:
  explicit RecorderTelemetry(std::unique_ptr<PowerRecorder> recorder)
      : recorder_(std::move(recorder)), log_path_(recorder_->log_path()) {}

  RunHardware Hardware() override;
  absl::Status Begin(std::string_view name) override;
  absl::StatusOr<RunTelemetry> End(std::string_view name) override;

 private:
  bool ReadHeader();
  // The log's lines from `begin_` on; none is cut.
  std::vector<std::string> Lines() const;
  bool HasReadingsAfter(const std::vector<std::string>& lines, std::string_view name) const;
  absl::StatusOr<RunTelemetry> Summarize(const std::vector<std::string>& lines,
                                         std::string_view name) const;

  std::unique_ptr<PowerRecorder> recorder_;
  std::string log_path_, header_;
  Json machine_;
  std::set<size_t> energy_sources_;  // `s` of readings that an edge waits for
  std::streamoff begin_ = 0;
};

bool RecorderTelemetry::ReadHeader() {
  if (!header_.empty()) return true;
  std::ifstream log(log_path_, std::ios::binary);
  std::string line;
  if (!std::getline(log, line) || log.eof()) return false;
  const Json header = Parsed(line);
  if (!header.is_object()) return false;
  machine_ = header.value("machine", Json::object());
  std::set<std::string> sources;
  for (const PowerChannel& each : recorder_->inventory().channels) {
    if (IsPowerOrEnergy(each)) sources.insert(each.source);
  }
  std::set<std::string> names;  // of periods_ns: sorted, as `s` counts them
  const Json periods = header.value("periods_ns", Json::object());
  for (const auto& [name, period] : periods.items()) names.insert(name);
  for (const std::string& each : sources) {
    const auto at = names.find(each);
    if (at != names.end()) {
      energy_sources_.insert(static_cast<size_t>(std::distance(names.begin(), at)));
    }
  }
  header_ = std::move(line);
  return true;
}

RunHardware RecorderTelemetry::Hardware() {
  if (!ReadHeader()) return {};
  const PowerInventory& inventory = recorder_->inventory();
  RunHardware hardware = HardwareOf(machine_, inventory);
  Json gpus = Json::array();
  for (const PowerDevice& each : inventory.devices) {
    if (each.source != "nvml" && each.source != "hwmon") continue;
    gpus.push_back({{"name", each.name},
                    {"id", each.id},
                    {"driver", each.driver},
                    {"pci_bus_id", each.pci_bus_id},
                    {"shared_device", each.shared}});
  }
  if (!gpus.empty()) {
    hardware.gpu_info_json = gpus.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  return hardware;
}

absl::Status RecorderTelemetry::Begin(std::string_view name) {
  if (!ReadHeader()) return absl::DataLossError(absl::StrCat(log_path_, ": no header"));
  std::ifstream log(log_path_, std::ios::binary | std::ios::ate);
  const auto header_end = static_cast<std::streamoff>(header_.size() + 1);
  begin_ = header_end;
  if (const std::streamoff size = log.tellg(); size - kLeadBytes > header_end) {
    std::string rest;
    log.seekg(size - kLeadBytes);
    std::getline(log, rest);  // of a line that is cut
    begin_ = log.tellg();
  }
  return recorder_->Begin(name);
}

std::vector<std::string> RecorderTelemetry::Lines() const {
  std::vector<std::string> lines;
  std::ifstream log(log_path_, std::ios::binary);
  log.seekg(begin_);
  for (std::string line; std::getline(log, line) && !log.eof();) lines.push_back(std::move(line));
  return lines;
}

bool RecorderTelemetry::HasReadingsAfter(const std::vector<std::string>& lines,
                                         std::string_view name) const {
  std::set<size_t> missing = energy_sources_;
  for (auto line = lines.rbegin(); line != lines.rend() && !missing.empty(); ++line) {
    if (IsMarkOf(*line, "end", name)) return false;
    const Json reading = Parsed(*line);
    if (!reading.is_object() || !reading.contains("r") || !reading.contains("s")) continue;
    if (reading["s"].is_number_unsigned()) missing.erase(reading["s"].get<size_t>());
  }
  return missing.empty();
}

absl::StatusOr<RunTelemetry> RecorderTelemetry::Summarize(const std::vector<std::string>& lines,
                                                          std::string_view name) const {
  const auto begun = std::find_if(lines.rbegin(), lines.rend(), [&](const std::string& line) {
    return IsMarkOf(line, "begin", name);
  });
  const auto own = static_cast<size_t>(std::distance(begun, lines.rend()));  // its place, from 1
  std::string part = header_ + "\n";
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i + 1 < own && IsMark(lines[i])) continue;  // of windows before
    part += lines[i] + "\n";
  }
  const int fd = OpenScratchFile();
  if (fd < 0 || !power::WriteAll(fd, part)) {
    if (fd >= 0) close(fd);
    return absl::InternalError(absl::StrCat(ScratchFolder(), ": cannot write"));
  }
  PowerSummaryOptions options;
  options.whole = false;
  options.max_columns = 0;
  auto summary = SummarizePowerLog(absl::StrCat("/proc/self/fd/", fd), options);
  close(fd);
  if (!summary.ok()) return summary.status();
  for (WindowSummary& window : summary->windows) {
    if (window.name != name) continue;
    return RunTelemetry{std::move(window), std::move(summary->inventory.channels),
                        std::move(summary->inventory.absences)};
  }
  return absl::DataLossError(absl::StrCat(log_path_, ": no window \"", std::string(name), "\""));
}

absl::StatusOr<RunTelemetry> RecorderTelemetry::End(std::string_view name) {
  if (absl::Status status = recorder_->End(name); !status.ok()) return status;
  const auto deadline = std::chrono::steady_clock::now() + kAtMost;
  for (;;) {
    if (absl::Status status = recorder_->log_status(); !status.ok()) return status;
    const std::vector<std::string> lines = Lines();
    const bool late = std::chrono::steady_clock::now() + kEvery > deadline;
    if (late || HasReadingsAfter(lines, name)) return Summarize(lines, name);
    std::this_thread::sleep_for(kEvery);
  }
}

}  // namespace

std::string HardwareLabel(const PowerInventory& inventory, std::string_view processor) {
  for (const PowerDevice& device : inventory.devices) {
    const bool gpu = std::any_of(
        inventory.channels.begin(), inventory.channels.end(),
        [&](const PowerChannel& c) { return c.device == device.id && c.domain == "gpu"; });
    if (gpu && !device.name.empty()) return device.name;
  }
  return std::string(processor);
}

std::unique_ptr<Telemetry> NewNoTelemetry() { return std::make_unique<NoTelemetry>(); }

std::unique_ptr<Telemetry> NewRecorderTelemetry(std::unique_ptr<PowerRecorder> recorder) {
  return std::make_unique<RecorderTelemetry>(std::move(recorder));
}

}  // namespace xplane_time
