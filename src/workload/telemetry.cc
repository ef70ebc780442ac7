// The energy and memory of an answer, and the machine's description: from a recorder's log, or
// empty.
//
// While a recorder writes its log, RecorderTelemetry reads the same file. For each window it
// remembers a position kLeadBytes before the end of the log at the begin of the window. After the
// end, it waits for one more reading of each sensor, and summarizes the header and the part of the
// log from that position on. So the cost of a window does not depend on the length of the run.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>
#include <thread>
#include <utility>

#include "json/field.h"
#include "power/machine.h"
#include "power/sources.h"
#include "status.h"
#include "xplane_time/power_run.h"

namespace xplane_time {
namespace {

using json::Json;

// Bytes of the log to read before a window: half a minute of fast counters. The edge needs one
// reading.
constexpr std::streamoff kLeadBytes = 1 << 18;
// Maximum wait for a reading after the end.
constexpr std::chrono::milliseconds kAtMost(300);
// Maximum distance of a gauge reading that represents a window without readings.
constexpr int64_t kNearestNs = 1'000'000'000;

// `machine` is as in a log's header.
RunHardware HardwareOf(const Json& machine, const PowerInventory& inventory) {
  return {.label = HardwareLabel(inventory, json::TextOf(machine, "cpu").value_or("")),
          .system_info_json = json::Dump(machine)};
}

class NoTelemetry : public Telemetry {
 public:
  RunHardware Hardware() override {
    return HardwareOf(json::Parse(power::MachineJson(PowerRoots{}.procfs)), {});
  }
  absl::Status Begin(std::string_view /*name*/) override { return absl::OkStatus(); }
  absl::StatusOr<RunTelemetry> End(std::string_view name) override {
    RunTelemetry nothing = {.reason = PowerReason::kNotAsked};
    nothing.window.name = name;
    return nothing;
  }
  absl::StatusOr<RunTelemetry> Lap(std::string_view name) override { return End(name); }
};

// Summarizes a window from its part of the recorder's log and from the readings shortly before.
class RecorderTelemetry : public Telemetry {
 public:
  explicit RecorderTelemetry(std::unique_ptr<PowerRecorder> recorder)
      : recorder_(std::move(recorder)), log_(recorder_->log_path(), std::ios::binary) {
    std::getline(log_, header_);
    header_ += '\n';
  }

  RunHardware Hardware() override {
    const PowerInventory& inventory = recorder_->inventory();
    const Json header = json::Parse(header_);
    const Json* const machine = json::Find(header, "machine");
    RunHardware hardware = HardwareOf(machine == nullptr ? Json() : *machine, inventory);
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

  absl::Status Begin(std::string_view name) override {
    if (std::exchange(is_open_, false)) RETURN_IF_ERROR(recorder_->End(name));
    RETURN_IF_ERROR(Open(name));
    begin_ns_ = power::MonotonicNow();
    return absl::OkStatus();
  }

  absl::StatusOr<RunTelemetry> End(std::string_view name) override {
    return EndAt(power::MonotonicNow(), name);
  }

  absl::StatusOr<RunTelemetry> Lap(std::string_view name) override {
    const int64_t end_ns = power::MonotonicNow();
    auto telemetry = EndAt(end_ns, name);
    RETURN_IF_ERROR(Open(name));
    begin_ns_ = end_ns;
    return telemetry;
  }

 private:
  absl::Status Open(std::string_view name) {
    log_.clear();
    log_.seekg(0, std::ios::end);
    const std::streamoff log_bytes = log_.tellg();
    from_ = std::max(static_cast<std::streamoff>(header_.size()), log_bytes - kLeadBytes);
    RETURN_IF_ERROR(recorder_->Begin(name));
    is_open_ = true;
    return absl::OkStatus();
  }

  absl::StatusOr<RunTelemetry> EndAt(int64_t end_ns, std::string_view name) {
    is_open_ = false;
    RETURN_IF_ERROR(recorder_->End(name));
    recorder_->AwaitReadings(kAtMost);
    RETURN_IF_ERROR(recorder_->log_status());
    log_.clear();
    // Begin at a line, and skip the incomplete one before it.
    log_.seekg(from_ - 1);
    log_.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
    const std::string text = header_ + std::string(std::istreambuf_iterator<char>(log_),
                                                   std::istreambuf_iterator<char>());
    ASSIGN_OR_RETURN(PowerSummary summary,
                     SummarizePowerLogText(text, "the power log",
                                           {.windows = {{std::string(name), begin_ns_, end_ns}},
                                            .whole = false,
                                            .nearest_within_ns = kNearestNs,
                                            .max_windows = 1,  // ignore the windows of the log
                                            .max_columns = 0}));
    return RunTelemetry{std::move(summary.windows[0]), std::move(summary.inventory.channels),
                        std::move(summary.inventory.absences)};
  }

  std::unique_ptr<PowerRecorder> recorder_;
  std::ifstream log_;
  std::string header_;       // first line of the log
  std::streamoff from_ = 0;  // position of the window's part in the log
  int64_t begin_ns_ = 0;
  bool is_open_ = false;
};

}  // namespace

std::string HardwareLabel(const PowerInventory& inventory, std::string_view processor) {
  for (const PowerDevice& device : inventory.devices) {
    const auto is_its_gpu = [&](const PowerChannel& each) {
      return each.device == device.id && each.domain == "gpu";
    };
    if (!device.name.empty() && std::ranges::any_of(inventory.channels, is_its_gpu)) {
      return device.name;
    }
  }
  return std::string(processor);
}

std::unique_ptr<Telemetry> NewNoTelemetry() { return std::make_unique<NoTelemetry>(); }

std::unique_ptr<Telemetry> NewRecorderTelemetry(std::unique_ptr<PowerRecorder> recorder) {
  return std::make_unique<RecorderTelemetry>(std::move(recorder));
}

// Memory and similar values can be read anywhere. They are not enough for a user who asks for
// energies, unless the user named a source that has no others.
absl::StatusOr<std::unique_ptr<Telemetry>> StartTelemetry(
    const PowerSourceOptions& from, const std::function<void(const std::string&)>& tell) {
  constexpr char kWithout[] =
      "; to run without energy, use --source process (memory of the command only) or --source none "
      "(no readings)";
  constexpr char kNone[] =
      "no power or energy sensor found (xplane-time power sources shows why, and how to enable "
      "one)";
  if (from.sources == std::vector<std::string>{"none"}) return NewNoTelemetry();
  PowerRecordOptions options;
  options.from = from;
  options.slow_period_ns = 100'000'000;  // so that an answer of 0.4 s has its own temperature
  auto recorder = PowerRecorder::Start(options);
  if (!recorder.ok()) {
    return absl::Status(recorder.status().code(), Cat(recorder.status().message(), kWithout));
  }
  if (std::ranges::none_of((*recorder)->inventory().channels, IsPowerOrEnergy)) {
    if (from.sources.empty()) return FailedPrecondition(kNone, kWithout);
    tell(Cat(kNone, "; energy is unknown"));
  }
  return NewRecorderTelemetry(*std::move(recorder));
}

RunHardware PrimeHardware(Telemetry* telemetry, const std::function<bool()>& stopped) {
  constexpr std::chrono::milliseconds kAtMost(2000), kEvery(50);
  const auto deadline = std::chrono::steady_clock::now() + kAtMost;
  for (;;) {
    RunHardware hardware = telemetry->Hardware();
    const bool late = std::chrono::steady_clock::now() + kEvery > deadline;
    if (!hardware.label.empty() || late || stopped()) return hardware;
    std::this_thread::sleep_for(kEvery);
  }
}

}  // namespace xplane_time
