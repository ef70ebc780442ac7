#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "json/json.h"
#include "power/machine.h"
#include "power/sources.h"
#include "power/summarizer.h"
#include "status.h"
#include "xplane_time/power_run.h"

namespace xplane_time {
namespace {

using json::Json;

// What is read before a window: half a minute of fast counters, of which the edge needs one.
constexpr size_t kLeadReadings = 8192;
// A reading after the end is waited for no longer.
constexpr std::chrono::milliseconds kAtMost(300);

// `machine`: as a log's header has it.
RunHardware HardwareOf(const std::string& machine_json, const PowerInventory& inventory) {
  const Json machine = json::Parse(machine_json);
  return {.label = HardwareLabel(inventory, json::TextOf(machine, "cpu").value_or("")),
          .system_info_json = json::Dump(machine)};
}

class NoTelemetry : public Telemetry {
 public:
  RunHardware Hardware() override {
    return HardwareOf(power::MachineJson(PowerRoots{}.procfs), {});
  }
  absl::Status Begin(std::string_view /*name*/) override { return absl::OkStatus(); }
  absl::StatusOr<RunTelemetry> End(std::string_view name) override {
    RunTelemetry nothing;
    nothing.window.name = name;
    return nothing;
  }
};

// Follows the recorder: what it reads goes into the summary of the window that is open, after
// what was read shortly before.
class RecorderTelemetry : public Telemetry, private power::LogSink {
 public:
  explicit RecorderTelemetry(std::unique_ptr<PowerRecorder> recorder)
      : recorder_(std::move(recorder)) {
    recorder_->Follow(this);
  }
  ~RecorderTelemetry() override { recorder_.reset(); }  // nobody calls a sink from here on

  RunHardware Hardware() override;
  absl::Status Begin(std::string_view name) override;
  absl::StatusOr<RunTelemetry> End(std::string_view name) override;

 private:
  struct Pass {
    size_t s = 0;
    int64_t t_ns = 0;
    std::vector<power::Reading> readings;
  };

  using power::LogSink::End;
  void Header(power::LogHeader header) override;
  void Readings(size_t s, int64_t t_ns, std::span<const power::Reading> readings) override;
  void ClocksAt(int64_t t_ns, const power::Clocks& clocks) override;
  void Mark(int64_t t_ns, std::string_view window, bool end) override;

  std::unique_ptr<PowerRecorder> recorder_;
  std::set<size_t> energy_sources_;  // `s` of readings that an edge waits for
  std::mutex mutex_;                 // of all below; taken under the recorder's own
  std::condition_variable changed_;
  power::LogHeader header_;  // its clocks: the last before lead_
  std::deque<std::variant<Pass, power::Clocks>> lead_;
  size_t lead_readings_ = 0;
  std::unique_ptr<power::Summarizer> window_;
  std::set<size_t> missing_;  // of energy_sources_, since the window's end
};

void RecorderTelemetry::Header(power::LogHeader header) {
  for (size_t s = 0; s < header.periods_ns.size(); ++s) {
    const auto& channels = header.inventory.channels;
    const bool has_energy =
        std::any_of(channels.begin(), channels.end(), [&](const PowerChannel& each) {
          return IsPowerOrEnergy(each) && each.source == header.periods_ns[s].first;
        });
    if (has_energy) energy_sources_.insert(s);
  }
  header_ = std::move(header);
}

void RecorderTelemetry::Readings(size_t s, int64_t t_ns, std::span<const power::Reading> readings) {
  const std::lock_guard lock(mutex_);
  if (window_ != nullptr) window_->Readings(s, t_ns, readings);
  lead_.push_back(Pass{s, t_ns, {readings.begin(), readings.end()}});
  lead_readings_ += readings.size();
  for (; lead_readings_ > kLeadReadings; lead_.pop_front()) {
    if (const Pass* pass = std::get_if<Pass>(&lead_.front()); pass != nullptr) {
      lead_readings_ -= pass->readings.size();
    } else {
      header_.clocks = std::get<power::Clocks>(lead_.front());
    }
  }
  missing_.erase(s);
  changed_.notify_all();
}

void RecorderTelemetry::ClocksAt(int64_t t_ns, const power::Clocks& clocks) {
  const std::lock_guard lock(mutex_);
  if (window_ != nullptr) window_->ClocksAt(t_ns, clocks);
  lead_.push_back(clocks);
}

void RecorderTelemetry::Mark(int64_t t_ns, std::string_view window, bool end) {
  const std::lock_guard lock(mutex_);
  if (window_ != nullptr) window_->Mark(t_ns, window, end);
  if (end) missing_ = energy_sources_;
}

RunHardware RecorderTelemetry::Hardware() {
  const PowerInventory& inventory = recorder_->inventory();
  RunHardware hardware = HardwareOf(header_.machine_json, inventory);
  Json gpus = Json::array();
  for (const PowerDevice& each : inventory.devices) {
    if (power::FactsOf(each.source).measures != power::Measures::kGpus) continue;
    gpus.push_back({{"name", each.name},
                    {"id", each.id},
                    {"driver", each.driver},
                    {"pci_bus_id", each.pci_bus_id},
                    {"shared_device", each.shared}});
  }
  if (!gpus.empty()) hardware.gpu_info_json = json::Dump(gpus);
  return hardware;
}

absl::Status RecorderTelemetry::Begin(std::string_view name) {
  {
    const std::lock_guard lock(mutex_);
    window_ =
        std::make_unique<power::Summarizer>(PowerSummaryOptions{.whole = false, .max_columns = 0});
    window_->Header(header_);
    for (const auto& each : lead_) {
      if (const Pass* pass = std::get_if<Pass>(&each); pass != nullptr) {
        window_->Readings(pass->s, pass->t_ns, pass->readings);
      } else {
        const auto& clocks = std::get<power::Clocks>(each);
        window_->ClocksAt(clocks.monotonic_ns, clocks);
      }
    }
  }
  return recorder_->Begin(name);
}

absl::StatusOr<RunTelemetry> RecorderTelemetry::End(std::string_view name) {
  RETURN_IF_ERROR(recorder_->End(name));
  std::unique_ptr<power::Summarizer> window;
  {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kAtMost, [&] { return missing_.empty(); });
    window = std::move(window_);
  }
  RETURN_IF_ERROR(recorder_->log_status());
  PowerSummary summary = window->Finish({});
  for (WindowSummary& each : summary.windows) {
    if (each.name != name) continue;
    return RunTelemetry{std::move(each), std::move(summary.inventory.channels),
                        std::move(summary.inventory.absences)};
  }
  return Internal("no window \"", std::string(name), "\"");
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
