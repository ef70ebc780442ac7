// Measures the energy of each slot with the machine's sensors (energy_harness.h).
//
// The first round shows whether the inner harness reports energies itself; then its rounds are
// passed on. Otherwise MeasureSlots runs the slots one by one, each with a window in the recorder's
// log, and takes the summary of the device's channels. If a slot is too short for the sensors,
// `attributes_` is set, and from then on each round is measured as a block (energy_block.h).
#include "tune/energy_harness.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "json/json.h"
#include "power/machine.h"
#include "power/sources.h"
#include "status.h"
#include "tune/device_state.h"
#include "tune/energy_block.h"
#include "tune/outcome_json.h"

namespace xplane_time {
namespace {

// In a slot at least this long, the part between the time stamps and the calls is below a
// twentieth. That is precise enough for the choice, because rounds repeat.
constexpr int64_t kShortestNs = 50'000'000;
constexpr double kMaxSlotDoubt = 0.05;
constexpr uint64_t kFewReadings = 20;  // readings of power that are needed if the energy has no
                                       // bounds

class EnergyHarness : public Harness {
 public:
  EnergyHarness(Harness* inner, PowerSourceOptions from, int64_t calls,
                std::function<void(const std::string&)> tell, EnergyNeed need)
      : inner_(inner), from_(std::move(from)), calls_(calls), tell_(std::move(tell)), need_(need) {}

  absl::StatusOr<HarnessInfo> Hello() override {
    ASSIGN_OR_RETURN(auto info, inner_->Hello());
    device_ = info.device;
    inventory_ = ListPowerSources(from_);
    const auto tells = [&](const PowerChannel& each) {
      return IsPowerOrEnergy(each) && IsOurs(each, inventory_);
    };
    if (std::ranges::none_of(inventory_.channels, tells)) {
      no_sensor_ = absl::StrCat("no sensor measures the energy of ", device_,
                                " (xplane-time power sources shows why)");
      tell_(need_ == EnergyNeed::kNeeded
                ? absl::StrCat(
                      no_sensor_,
                      "; unless the harness reports energy_uj, tuning ends after the first round")
                : no_sensor_);
    }
    return info;
  }

  absl::Status Prepare(std::span<const Configuration> variants, PreparedCallback done) override {
    return inner_->Prepare(variants, done);
  }

  absl::StatusOr<VariantState> Verify(const Configuration& variant) override {
    return inner_->Verify(variant);
  }

  absl::StatusOr<RoundTimes> RunRound(int64_t batch, int64_t round, std::string_view workload,
                                      std::span<const Configuration* const> order) override {
    const bool may_do_without = need_ != EnergyNeed::kNeeded && !no_sensor_.empty();
    if (gives_energy_.value_or(true) || may_do_without) {
      ASSIGN_OR_RETURN(auto times, inner_->RunRound(batch, round, workload, order));
      const auto gives = [](const SlotTime& each) { return each.energy_uj.value_or(0) > 0; };
      const bool any_ok = std::ranges::count(times.slots, "ok", &SlotTime::status) > 0;
      if (!gives_energy_ && any_ok) gives_energy_ = std::ranges::any_of(times.slots, gives);
      if (gives_energy_.value_or(true) || may_do_without) return times;
    }
    if (!no_sensor_.empty()) {
      return Unavailable("the harness reports no energy_uj, and ", no_sensor_,
                         "; provide one of them, or use --objective time");
    }
    if (!attributes_) {
      ASSIGN_OR_RETURN(auto measured, MeasureSlots(batch, round, workload, order));
      if (!attributes_) return measured;
    }
    ASSIGN_OR_RETURN(auto times, RunEnergyBlock({inner_, batch, round, workload, order, calls_,
                                                 from_, [this](const PowerChannel& each) {
                                                   return IsOfDevice(each, inventory_);
                                                 }}));
    times.notes_json = WithNote(times.notes_json, "energy_kinds", {"attributed"});
    return times;
  }

 private:
  // Whether the energy is measured or stated.
  std::set<std::string> KindsOf(const PowerSummary& summary) const {
    std::set<std::string> kinds;
    for (const WindowSummary& window : summary.windows) {
      for (const EnergyEstimate& each : window.energies) {
        if (IsOurs(each, summary.inventory)) kinds.insert(each.modelled ? "modelled" : "measured");
      }
    }
    return kinds;
  }

  // Whether a channel or an estimate is energy of the harness's device.
  bool IsOurs(const auto& each, const PowerInventory& inventory) const {
    return each.in_total && IsOfDevice(each, inventory);
  }

  bool IsOfDevice(const auto& each, const PowerInventory& inventory) const {
    const power::Measures measures = power::FactsOf(each.source).measures;
    if (measures == power::Measures::kWhateverIsAsked) return true;
    if (device_.starts_with("cpu")) return measures == power::Measures::kProcessors;
    return std::ranges::any_of(inventory.devices, [&](const PowerDevice& device) {
      return device.id == each.device && device.source == each.source && IsCalled(device, device_);
    });
  }

  // Measures slot by slot. If a slot is too short, returns no energies and sets `attributes_`.
  absl::StatusOr<RoundTimes> MeasureSlots(int64_t batch, int64_t round, std::string_view workload,
                                          std::span<const Configuration* const> order) {
    RoundTimes times;
    auto recorder = PowerRecorder::Start({.from = from_});
    if (!recorder.ok()) return absl::UnavailableError(recorder.status().message());
    PowerSummaryOptions options = {.whole = false, .max_columns = 0};
    for (size_t slot = 0; slot < order.size(); ++slot) {
      const int64_t before_ns = power::MonotonicNow();
      ASSIGN_OR_RETURN(auto one, inner_->RunRound(batch, round, workload, order.subspan(slot, 1)));
      times.throttled |= one.throttled;
      times.notes_json = one.notes_json;
      times.slots.push_back(one.slots[0]);
      const SlotTime& at = times.slots.back();
      options.windows.push_back({absl::StrCat("slot ", slot), at.begin_ns.value_or(before_ns),
                                 at.end_ns.value_or(power::MonotonicNow())});
    }
    RETURN_IF_ERROR((*recorder)->Stop());
    ASSIGN_OR_RETURN(auto summary, SummarizePowerLog((*recorder)->log_path(), options));
    if (summary.windows.size() != order.size()) return Internal("a slot without a window");
    const std::set<std::string> kinds = KindsOf(summary);
    const auto is_ours = [this](const PowerChannel& each) { return IsOfDevice(each, inventory_); };
    ASSIGN_OR_RETURN(const auto state, ReadDeviceState((*recorder)->log_path(), is_ours));
    times.throttled |= state.throttled;
    times.notes_json = WithDeviceState(WithNote(times.notes_json, "energy_kinds", kinds), state);
    for (size_t slot = 0; slot < order.size(); ++slot) {
      if (times.slots[slot].status != "ok") continue;
      const WindowSummary& window = summary.windows[slot];
      auto energy_uj = EnergyPerCall(summary, window, *order[slot]);
      attributes_ = !energy_uj.ok() && kinds == std::set<std::string>{"measured"} &&
                    times.slots[slot].begin_ns.has_value() &&
                    static_cast<double>(window.end_ns - window.begin_ns) < kGoodNs;
      if (attributes_) break;
      RETURN_IF_ERROR(energy_uj.status());
      times.slots[slot].energy_uj = *energy_uj;
    }
    return times;
  }

  absl::StatusOr<int64_t> EnergyPerCall(const PowerSummary& summary, const WindowSummary& window,
                                        const Configuration& variant) const {
    constexpr double kMicro = 1e6, kNsPerSecond = 1e9;
    const auto took_ns = static_cast<double>(window.end_ns - window.begin_ns);
    double sum_j = 0, lo_j = 0, hi_j = 0;
    size_t parts = 0;
    bool all_stated = true;
    std::string unknown;
    for (const EnergyEstimate& each : window.energies) {
      if (!IsOurs(each, summary.inventory)) continue;
      ++parts;
      // A stated power also holds between its readings, even if they are late.
      const bool is_stated = each.modelled && each.mean_w.has_value();
      all_stated &= is_stated;
      const double energy_j =
          is_stated ? *each.mean_w * took_ns / kNsPerSecond : each.energy_j.value_or(0);
      const std::string readings = Cat("readings of ", each.source, " ", each.device);
      if (!is_stated && (!each.energy_j.has_value() || each.coverage < kNearlyWholeCoverage)) {
        unknown = Cat(readings, " cover ", std::floor(100 * each.coverage), " % of the run (",
                      PowerReasonName(each.reason), ")");
      } else if (IsUnbounded(each.limits) && each.readings < kFewReadings) {
        unknown = Cat(readings, " in the run: ", each.readings, " of at least ", kFewReadings,
                      " required");
      }
      sum_j += energy_j;
      lo_j += is_stated ? energy_j : each.lo_j.value_or(energy_j);
      hi_j += is_stated ? energy_j : each.hi_j.value_or(energy_j);
    }
    if (parts > 0 && all_stated && !(sum_j > 0)) {
      return Unavailable(
          "variants of 0 W cannot be distinguished; state another power than --power-source "
          "constant:0");
    }
    // Time stamps are within microseconds of the calls; sensor readings are not.
    if (took_ns < kShortestNs) {
      unknown = "an energy requires a run of at least 50 ms";
      if (parts > 0 && all_stated) {
        unknown +=
            "; shorter runs are measured in blocks, which requires a sensor instead of a stated "
            "power";
      }
    } else if (parts == 0) {
      unknown = "no sensor of the device was read";
    } else if (unknown.empty() && !(sum_j > 0)) {
      unknown = "its sensors report 0 J";
    } else if (unknown.empty() && hi_j - lo_j > 2 * kMaxSlotDoubt * sum_j) {
      unknown = absl::StrCat("its sensors report ", sum_j, " J, but the possible range is ", lo_j,
                             " to ", hi_j, " J");
    }
    if (!unknown.empty()) {
      // A stated power needs no time for readings.
      const bool needs_no_reading = parts > 0 && all_stated;
      return NoEnergy(variant, took_ns, calls_, unknown,
                      needs_no_reading ? 2 * kShortestNs : kGoodNs);
    }
    return std::llround(sum_j * kMicro / static_cast<double>(calls_));
  }

  Harness* inner_;
  PowerSourceOptions from_;
  int64_t calls_;
  std::function<void(const std::string&)> tell_;
  EnergyNeed need_;
  std::string device_;  // as the inner harness reports it
  PowerInventory inventory_;
  std::string no_sensor_;             // why there is no sensor; empty if there is one
  std::optional<bool> gives_energy_;  // whether the inner harness reports energy; empty: unknown so
                                      // far
  bool attributes_ = false;  // a slot was too short to measure: all energies are attributed
};

}  // namespace

std::unique_ptr<Harness> NewEnergyHarness(Harness* inner, PowerSourceOptions from, int64_t calls,
                                          std::function<void(const std::string&)> tell,
                                          EnergyNeed need) {
  return std::make_unique<EnergyHarness>(inner, std::move(from), calls, std::move(tell), need);
}

}  // namespace xplane_time
