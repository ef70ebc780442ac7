// A harness whose energy comes from the machine's sensors, where it gives none itself: each slot
// runs by itself, and its timed calls (SlotTime) are a window of the power recorder's log. What
// was before them, the untimed run, is outside.
//
// Sensors update every 10 to 100 ms: a slot has to last many updates, which is what --calls is
// for. What is measured is all that the device used meanwhile, its idle power included. The
// device is that of HarnessInfo::device: "gpu:0" is the GPU that programs see as 0, "GPU-..." the
// one of that UUID, "cpu:0" all packages and their memory.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "xplane_time/power.h"
#include "xplane_time/tune.h"

namespace xplane_time {

class EnergyHarness : public Harness {
 public:
  // `inner` outlives this. `calls` of a slot: energy is that of one. `tell` is told at hello
  // where there is no sensor, before anything is compiled.
  EnergyHarness(Harness* inner, PowerSourceOptions from, int64_t calls,
                std::function<void(const std::string&)> tell)
      : inner_(inner), from_(std::move(from)), calls_(calls), tell_(std::move(tell)) {}

  absl::StatusOr<HarnessInfo> Hello() override;
  absl::Status Prepare(std::span<const Configuration> variants, PreparedCallback done) override {
    return inner_->Prepare(variants, done);
  }
  absl::StatusOr<VariantState> Verify(const Configuration& variant) override {
    return inner_->Verify(variant);
  }
  // Errors besides the inner one's: Unavailable where neither the harness nor a sensor has
  // the energy, or a slot has none: it is too short (50 ms at least), or its readings do not tell.
  absl::StatusOr<RoundTimes> RunRound(int64_t batch, int64_t round, std::string_view workload,
                                      std::span<const Configuration* const> order) override;

 private:
  absl::Status MeasureSlots(int64_t batch, int64_t round, std::string_view workload,
                            std::span<const Configuration* const> order, RoundTimes* times);
  absl::StatusOr<int64_t> EnergyPerCall(const PowerSummary& summary, const WindowSummary& window,
                                        const Configuration& variant) const;
  // Why there is no energy of a window that took so long.
  absl::Status NoEnergy(const Configuration& variant, double took_ns, std::string_view why) const;

  Harness* inner_;
  PowerSourceOptions from_;
  int64_t calls_;
  std::function<void(const std::string&)> tell_;
  std::string device_;                // as the inner harness says
  std::string no_sensor_;             // why there is none; empty: there is one
  std::optional<bool> gives_energy_;  // the inner harness does; empty: not known yet
};

}  // namespace xplane_time
