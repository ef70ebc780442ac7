// Measures the energies of short runs by an experiment with many runs (energy_block.h).
//
// 1. Look runs the round once, to learn the duration of each slot.
// 2. NextPlan plans an experiment (energy/plan.h) in which each slot is a kernel. Each group of
//    runs is a round of the harness with the same variant.
// 3. Attribute attributes the recorded energy to the slots (energy/attribution.h). Untimed runs
//    before the groups count as extra kernels, if they are long enough to matter.
// 4. If an energy is less certain than 2 %, and time is left, the next plan continues. At the end,
//    5 % is sufficient; a worse slot makes the round unavailable.
#include "tune/energy_block.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "energy/attribution.h"
#include "energy/plan_sensor.h"
#include "energy/sensors.h"
#include "power/machine.h"
#include "stats/order_statistics.h"
#include "status.h"
#include "tune/device_state.h"

namespace xplane_time {
namespace {

using energy::BusyCurve;

// Half of the 95 % interval, as a share of the energy. A block that knows all energies to a
// fiftieth is as good a sample as rounds of times are. An energy that is uncertain by more than a
// twentieth at the end counts as unknown, as it does if slots are measured one by one.
constexpr double kGood = 0.02, kMaxBlockDoubt = 0.05;
constexpr double kMostBlockS = 120;
constexpr size_t kMostSlots = 1000;      // of one round of the harness
constexpr double kLeastUntimed = 0.005;  // share of a slot's time; a shorter untimed run changes no
                                         // energy by more than this
constexpr double kNsPerS = 1e9;

class Block {
 public:
  explicit Block(const EnergyBlock& of) : of_(of), slots_(of.order.size()) {}

  absl::StatusOr<RoundTimes> Run() {
    RETURN_IF_ERROR(Look());
    while (!Live().empty() && !times_.throttled) {
      ASSIGN_OR_RETURN(const energy::Plan plan, NextPlan());
      if (plan.steps.empty()) {
        if (plans_ == 1) why_ = Cat(kMostBlockS, " s are too short for that many slots");
        break;
      }
      RETURN_IF_ERROR(RunPlan(plan));
      RETURN_IF_ERROR(Attribute());
      if (!why_.empty() || Worst() <= kGood) break;
    }
    return Result();
  }

 private:
  // One slot of the order.
  struct Slot {
    SlotTime last;
    double spacing_s = 0;                 // from one run to the next
    std::vector<double> took_ns, t_ps;    // of successful runs
    std::vector<Interval> runs, untimed;  // since the origin
    double mean_w = 0, half_w = 0;
  };

  std::vector<size_t> Live() const {
    std::vector<size_t> live;
    for (size_t k = 0; k < slots_.size(); ++k) {
      if (slots_[k].last.status == "ok") live.push_back(k);
    }
    return live;
  }

  // The first round: durations of slots, and failures.
  absl::Status Look() {
    ASSIGN_OR_RETURN(times_, of_.harness->RunRound(of_.batch, of_.round, of_.workload, of_.order));
    for (size_t k = 0; k < slots_.size(); ++k) {
      const SlotTime& at = slots_[k].last = times_.slots[k];
      if (at.status != "ok") continue;
      if (!at.begin_ns.has_value()) {
        return Unavailable("the harness does not report the times of the timed calls of ",
                           of_.order[k]->id, " (t0_ns, t1_ns), so their energy is unknown");
      }
      const bool is_last = k + 1 == slots_.size() || !times_.slots[k + 1].begin_ns.has_value();
      const int64_t until_ns = is_last ? *at.end_ns : *times_.slots[k + 1].begin_ns;
      slots_[k].spacing_s = std::max(1e-6, static_cast<double>(until_ns - *at.begin_ns) / kNsPerS);
    }
    return absl::OkStatus();
  }

  double ElapsedS() const {
    return static_cast<double>(power::MonotonicNow() - origin_ns_) / kNsPerS;
  }

  // Plans the next runs; the recorder starts with the first plan. No steps if the time is used up.
  absl::StatusOr<energy::Plan> NextPlan() {
    std::vector<PowerChannel> ours;
    std::ranges::copy_if(ListPowerSources(of_.from).channels, std::back_inserter(ours),
                         of_.is_ours);
    const auto by = energy::SensorOfChip(ours);
    if (!by.ok()) return absl::UnavailableError(by.status().message());
    std::vector<energy::PlanKernel> kernels;
    for (const size_t k : Live()) kernels.push_back({of_.order[k]->id, slots_[k].spacing_s});
    const double left_s = kMostBlockS - (recorder_ == nullptr ? 0 : ElapsedS());
    const uint64_t seed = static_cast<uint64_t>(of_.batch) * 1'000'003 +
                          static_cast<uint64_t>(of_.round) * 101 + plans_++;
    energy::Plan plan = energy::PlanExperiment(
        kernels, by->sensor, {.precision = kGood, .seed = seed, .most_s = left_s});
    if (recorder_ == nullptr) {
      const auto period_ns = static_cast<int64_t>(plan.poll_s * kNsPerS);
      auto recorder = PowerRecorder::Start({.from = of_.from, .period_ns = period_ns});
      if (!recorder.ok()) return absl::UnavailableError(recorder.status().message());
      recorder_ = *std::move(recorder);
      origin_ns_ = power::MonotonicNow();
    }
    return plan;
  }

  absl::Status RunPlan(const energy::Plan& plan) {
    const std::vector<size_t> live = Live();
    const auto wait = [](double s) {
      std::this_thread::sleep_for(std::chrono::duration<double>(s));
    };
    wait(plan.steps[0].start_s);
    for (const energy::PlanStep& step : plan.steps) {
      const size_t k = live[step.kernel];
      for (size_t left = step.repetitions; left > 0 && slots_[k].last.status == "ok";) {
        const size_t now = std::min(left, kMostSlots);
        RETURN_IF_ERROR(RunGroup(k, now));
        if (times_.throttled) return absl::OkStatus();
        left -= now;
      }
      wait(step.pause_s);
    }
    wait(plan.steps[0].start_s);
    return absl::OkStatus();
  }

  Interval Since(int64_t begin_ns, int64_t end_ns) const {
    constexpr int64_t kPsPerNs = 1000;
    const int64_t begin_ps = (begin_ns - origin_ns_) * kPsPerNs;
    return {begin_ps, std::max(begin_ps, (end_ns - origin_ns_) * kPsPerNs)};
  }

  absl::Status RunGroup(size_t k, size_t runs) {
    Slot& slot = slots_[k];
    const std::vector<const Configuration*> order(runs, of_.order[k]);
    const int64_t begin_ns = power::MonotonicNow();
    ASSIGN_OR_RETURN(const RoundTimes times,
                     of_.harness->RunRound(of_.batch, of_.round, of_.workload, order));
    times_.throttled |= times.throttled;
    if (!times.slots.empty() && times.slots[0].begin_ns.has_value()) {
      slot.untimed.push_back(Since(begin_ns, *times.slots[0].begin_ns));
    }
    for (const SlotTime& each : times.slots) {
      if (slot.last.status == "ok") slot.last = each;
      if (!each.begin_ns.has_value()) continue;
      slot.runs.push_back(Since(*each.begin_ns, *each.end_ns));
      if (each.status != "ok" || !each.t_ps.has_value()) continue;
      slot.took_ns.push_back(static_cast<double>(*each.end_ns - *each.begin_ns));
      slot.t_ps.push_back(static_cast<double>(*each.t_ps));
    }
    return absl::OkStatus();
  }

  // The curves of all slots, then of the untimed runs that are long enough to matter.
  std::vector<BusyCurve> Curves() const {
    std::vector<BusyCurve> curves, untimed;
    for (const Slot& slot : slots_) {
      curves.emplace_back(slot.runs);
      BusyCurve before(slot.untimed);
      if (before.total_s() > kLeastUntimed * curves.back().total_s()) {
        untimed.push_back(std::move(before));
      }
    }
    std::ranges::move(untimed, std::back_inserter(curves));
    return curves;
  }

  // Attributes the energy, with the most informative sensor of each part of the device.
  absl::Status Attribute() {
    recorder_->AwaitReadings(std::chrono::seconds(1));
    RETURN_IF_ERROR(recorder_->log_status());
    ASSIGN_OR_RETURN(const energy::SensorLog log, energy::ReadSensorLog(recorder_->log_path()));
    using Part = std::array<std::string, 3>;
    std::map<Part, const energy::SensorReadings*> best;
    for (const energy::SensorReadings& each : log.sensors) {
      const PowerChannel& channel = each.channel;
      if (!channel.in_total || !of_.is_ours(channel)) continue;
      const energy::SensorReadings*& at = best[{channel.source, channel.device, channel.domain}];
      if (at == nullptr || channel.kind < at->channel.kind) at = &each;
    }
    ASSIGN_OR_RETURN(const DeviceState state, ReadDeviceState(recorder_->log_path(), of_.is_ours));
    times_.throttled |= state.throttled;
    times_.notes_json = WithDeviceState(times_.notes_json, state);
    why_ = best.empty() ? "no sensor of the device was read" : "";
    for (Slot& slot : slots_) slot.mean_w = slot.half_w = 0;
    const std::vector<BusyCurve> curves = Curves();
    for (const auto& [part, sensor] : best) Add(*sensor, log.LimitOf(sensor->channel), curves);
    return absl::OkStatus();
  }

  void Add(const energy::SensorReadings& sensor, std::optional<double> limit_w,
           std::span<const BusyCurve> curves) {
    const energy::Attribution found =
        energy::Attribute(sensor.channel, energy::PollsSince(origin_ns_, {&sensor}), curves,
                          ElapsedS(), {.limit_w = limit_w});
    const std::string_view why = found.reason.empty() ? found.poor_fit : found.message;
    if (!why.empty()) {
      why_ = Cat(sensor.channel.source, " ", sensor.channel.device, ": ", why);
      return;
    }
    for (const size_t k : Live()) {
      const double busy_s = found.busy_s[static_cast<Eigen::Index>(k)];
      slots_[k].mean_w += found.energies.energy_j[static_cast<Eigen::Index>(k)] / busy_s;
      slots_[k].half_w += found.energies.HalfWidthJ(std::array{k}) / busy_s;
    }
  }

  static double DoubtOf(const Slot& slot) {
    return slot.mean_w > 0 ? slot.half_w / slot.mean_w : HUGE_VAL;
  }
  double Worst() const {
    double worst = 0;
    for (const size_t k : Live()) worst = std::max(worst, DoubtOf(slots_[k]));
    return worst;
  }

  absl::StatusOr<RoundTimes> Result() {
    for (size_t k = 0; k < slots_.size(); ++k) {
      Slot& slot = slots_[k];
      times_.slots[k] = slot.last;
      times_.slots[k].energy_uj.reset();
      if (slot.last.status == "ok" && times_.throttled) times_.slots[k].status = "throttled";
      if (times_.slots[k].status != "ok") continue;
      // The typical run: a run that the machine interrupted represents neither the time nor the
      // energy.
      const double took_ns =
          slot.took_ns.empty() ? slot.spacing_s * kNsPerS : stats::Median(slot.took_ns);
      RETURN_IF_ERROR(CheckKnown(k, took_ns));
      constexpr double kMicroPerNano = 1e-3;
      times_.slots[k].t_ps = std::llround(stats::Median(slot.t_ps));
      times_.slots[k].energy_uj =
          std::llround(slot.mean_w * took_ns * kMicroPerNano / static_cast<double>(of_.calls));
    }
    return times_;
  }

  absl::Status CheckKnown(size_t k, double took_ns) const {
    std::string why = why_;
    if (why.empty() && !(DoubtOf(slots_[k]) <= kMaxBlockDoubt)) {
      why =
          absl::StrFormat("after %d runs in %.0f s, its power is %.3g W +- %.2g W",
                          slots_[k].took_ns.size(), ElapsedS(), slots_[k].mean_w, slots_[k].half_w);
    }
    return why.empty() ? absl::OkStatus() : NoEnergy(*of_.order[k], took_ns, of_.calls, why);
  }

  const EnergyBlock& of_;
  std::vector<Slot> slots_;
  RoundTimes times_;
  std::unique_ptr<PowerRecorder> recorder_;
  int64_t origin_ns_ = 0;
  uint64_t plans_ = 0;
  std::string why_;  // why there are no numbers; empty if there are
};

}  // namespace

absl::StatusOr<RoundTimes> RunEnergyBlock(const EnergyBlock& block) { return Block(block).Run(); }

absl::Status NoEnergy(const Configuration& variant, double took_ns, int64_t calls,
                      std::string_view why, double good_ns) {
  constexpr double kNsPerMs = 1e6;
  constexpr double kMostCalls = 1e6;  // limit of --calls
  const double enough = std::ceil(static_cast<double>(calls) * good_ns / std::max(took_ns, 1.0));
  std::string advice = "; continue with --resume";
  if (took_ns < good_ns && enough <= kMostCalls) {
    advice = absl::StrFormat("; use runs of at least %g s: --calls %.0f (now %d)",
                             good_ns / kNsPerS, enough, calls);
  }
  return absl::UnavailableError(absl::StrFormat("the timed run of %s, %.3g ms, has no energy: %s%s",
                                                variant.id, took_ns / kNsPerMs, why, advice));
}

}  // namespace xplane_time
