// Settings of the GPU as axes of a space: its locked clock and its power cap.
//
//   RETURN_IF_ERROR(AddSettings({.clock_mhz = {1410, 1980}}, &space));
//   // {"tile":64} of the space: now {"clock_mhz":1410,"tile":64} and {"clock_mhz":1980,"tile":64}
//   SettingsHarness settings({.measures = &with_sensors, .runs = &process, ...});
//   RETURN_IF_ERROR(settings.Open("gpu:0"));   // Unavailable: no NVIDIA GPU, ...
//
// A harness knows nothing of it: it is told the variants of the space as it was, each once. A
// round's slots are run setting by setting, in the order in which settings are first in it; what
// measures energy so sees one setting at a time. After each change the variant runs once for
// nothing, and the clock is waited for.
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

// Each that has values is an axis of its name.
struct SettingAxes {
  std::vector<int64_t> clock_mhz = {}, power_cap_w = {};
  bool any() const { return !clock_mhz.empty() || !power_cap_w.empty(); }
};

// Grid and listed variants are multiplied. Errors: InvalidArgument (a value twice; a parameter of
// that name).
absl::Status AddSettings(const SettingAxes& axes, SearchSpace* space);

class SettingsHarness : public Harness {
 public:
  struct Parts {
    Harness* measures = nullptr;  // what runs slots that count
    Harness* runs = nullptr;      // the same without sensors, for runs that do not
    SettingAxes axes;
    PowerSourceOptions from;
    power::SettingsGuard* guard = nullptr;
  };
  explicit SettingsHarness(Parts parts) : parts_(std::move(parts)) {}

  // Before all but Hello. Of the device that a harness calls so (energy_harness.h); changes
  // nothing. Errors: Unavailable (no NVIDIA GPU, no such setting), InvalidArgument (a value that it
  // does not take).
  absl::Status Open(std::string_view device);

  absl::StatusOr<HarnessInfo> Hello() override { return parts_.measures->Hello(); }
  // Sets something first: where that is not permitted, nothing need be compiled.
  absl::Status Prepare(std::span<const Configuration> variants, PreparedCallback done) override;
  absl::StatusOr<VariantState> Verify(const Configuration& variant) override;
  // Its notes have `device_settings`: of each the clock that was read at the end, and whether that
  // is the one that was set; and device_state, if it is known.
  absl::StatusOr<RoundTimes> RunRound(int64_t batch, int64_t round, std::string_view workload,
                                      std::span<const Configuration* const> order) override;

 private:
  // A variant as the harness knows it.
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
  power::GpuSetting settled_;           // at which something ran
  std::map<std::string, Known> known_;  // by the harness's id
  std::map<std::string, Own> own_;      // by id
};

}  // namespace xplane_time
