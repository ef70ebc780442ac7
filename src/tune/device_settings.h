// Settings of the GPU as axes of a space: its locked clock and its power cap.
//
//   RETURN_IF_ERROR(AddSettings({.clock_mhz = {1410, 1980}}, &space));
//   // {"tile":64} of the space: now {"clock_mhz":1410,"tile":64} and {"clock_mhz":1980,"tile":64}
//   SettingsHarness settings({.measures = &with_sensors, .runs = &process, ...});
//   RETURN_IF_ERROR(settings.Open("gpu:0"));   // Unavailable: no NVIDIA GPU, ...
//
// The inner harness does not know the settings: it gets the variants of the original space, each
// once. The slots of a round run grouped by setting, in the order in which the settings first
// occur. So each energy measurement sees one setting at a time. After each change, the variant runs
// once without being measured, and the harness waits until the clock has settled.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "power/gpu_settings.h"
#include "xplane_time/power.h"
#include "xplane_time/tune.h"

namespace xplane_time {

// Each list that is not empty becomes an axis with its name.
struct SettingAxes {
  std::vector<int64_t> clock_mhz = {}, power_cap_w = {};
  bool any() const { return !clock_mhz.empty() || !power_cap_w.empty(); }
};

// Multiplies the grid and the listed variants with the axes. Errors: InvalidArgument (a repeated
// value; a parameter with the same name).
absl::Status AddSettings(const SettingAxes& axes, SearchSpace* space);

class SettingsHarness : public Harness {
 public:
  struct Parts {
    Harness* measures = nullptr;  // runs the slots that count
    Harness* runs = nullptr;      // the same harness without sensors, for unmeasured runs
    SettingAxes axes;
    PowerSourceOptions from;
    power::SettingsGuard* guard = nullptr;
  };
  explicit SettingsHarness(Parts parts) : parts_(std::move(parts)) {}

  // Opens the device that a harness calls by this name (energy_harness.h). Call it before all
  // methods except Hello. Changes no setting. Errors: Unavailable (no NVIDIA GPU, no such setting),
  // InvalidArgument (a value that the GPU does not accept).
  absl::Status Open(std::string_view device);

  absl::StatusOr<HarnessInfo> Hello() override { return parts_.measures->Hello(); }
  // Applies one setting first, so that missing permission is found before anything is compiled.
  absl::Status Prepare(std::span<const Configuration> variants, PreparedCallback done) override;
  absl::StatusOr<VariantState> Verify(const Configuration& variant) override;
  // The notes contain `device_settings`: for each setting, the clock that was read at the end and
  // whether it is the requested one; and device_state, if it is known.
  absl::StatusOr<RoundTimes> RunRound(int64_t batch, int64_t round, std::string_view workload,
                                      std::span<const Configuration* const> order) override;

 private:
  // A variant of the inner harness.
  struct Known {
    Configuration variant;
    std::optional<VariantState> verified = {};
  };
  struct Own {
    Known* known = nullptr;
    power::GpuSetting setting;
  };
  const Own& OwnOf(const Configuration& variant);
  absl::Status Take(const power::GpuSetting& setting, int64_t batch, int64_t round,
                    std::string_view workload, const Configuration& variant);

  Parts parts_;
  std::unique_ptr<power::GpuSettings> gpu_;
  power::GpuSetting settled_;           // setting at which a run has finished
  std::map<std::string, Known> known_;  // by the inner harness's id
  std::map<std::string, Own> own_;      // by id
};

}  // namespace xplane_time
