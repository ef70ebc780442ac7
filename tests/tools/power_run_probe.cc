// power run with telemetry that is a function of the query's number: the real command, parser
// and loop, without sensors. `power_run_probe run ...` as `xplane-time power run ...`.
#include <csignal>
#include <cstdlib>
#include <memory>

#include "command.h"

namespace xplane_time::tools {
namespace {

EnergyEstimate Estimate(const char* source, const char* domain, double energy_j) {
  EnergyEstimate estimate;
  estimate.source = source;
  estimate.device = domain;
  estimate.domain = domain;
  estimate.in_total = true;
  estimate.energy_j = energy_j;
  estimate.lo_j = energy_j * 0.75;
  estimate.hi_j = energy_j * 1.5;
  estimate.coverage = 1;
  return estimate;
}

// The package's counter is not known in every fourth window. With FAKE_RESET the GPU's counter
// begins anew in the first.
class FakeTelemetry : public Telemetry {
 public:
  RunHardware Hardware() override {
    const char* label = std::getenv("FAKE_HARDWARE");
    return {.label = label == nullptr ? "Fake GPU (1)" : label};
  }
  absl::Status Begin(std::string_view /*name*/) override { return absl::OkStatus(); }
  absl::StatusOr<RunTelemetry> End(std::string_view name) override {
    RunTelemetry telemetry;
    WindowSummary& window = telemetry.window;
    window.name = name;
    window.number = windows_++;
    window.energies = {Estimate("nvml", "gpu", 2.5), Estimate("rapl", "package", 1.0)};
    if (windows_ == 1 && std::getenv("FAKE_RESET") != nullptr) {
      window.energies[0].coverage = 0.92;
      window.energies[0].reason = PowerReason::kReset;
    }
    if (windows_ % 4 == 0) {
      window.energies[1].energy_j.reset();
      window.energies[1].lo_j.reset();
      window.energies[1].hi_j.reset();
      window.energies[1].coverage = 0;
      window.energies[1].reason = PowerReason::kPermissionDenied;
    }
    GaugeSummary power;
    telemetry.channels.emplace_back();
    telemetry.channels[0].domain = "gpu";
    telemetry.channels[0].quantity = "power_mw";
    power.n = 3;
    power.avg = 100'000;
    power.max = 120'000;
    power.median = 99'000;
    power.min = 80'000;
    window.gauges.push_back(power);
    return telemetry;
  }
  absl::StatusOr<RunTelemetry> Lap(std::string_view name) override { return End(name); }

 private:
  uint64_t windows_ = 0;
};

int Main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  CommandLine line;
  AddPowerRun(&line, line.app(), [](const PowerSourceOptions&, bool) {
    return absl::StatusOr<std::unique_ptr<Telemetry>>(std::make_unique<FakeTelemetry>());
  });
  return line.Main(argc, argv);
}

}  // namespace
}  // namespace xplane_time::tools

int main(int argc, char** argv) { return xplane_time::tools::Main(argc, argv); }
