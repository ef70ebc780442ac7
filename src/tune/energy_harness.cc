#include "tune/energy_harness.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace xplane_time {
namespace {

// What lies between these is unknown by less than a twentieth: the choice needs no more, since
// rounds repeat.
constexpr int64_t kShortestNs = 50'000'000;
constexpr double kMostDoubt = 0.05;

std::string WindowName(size_t slot) { return absl::StrCat("slot ", slot); }

// "gpu:1" and "cuda:1": 1. None of a CPU.
std::optional<int32_t> GpuOrdinal(std::string_view device) {
  for (const std::string_view kind : {"gpu:", "cuda:", "rocm:"}) {
    int32_t ordinal = 0;
    const std::string_view rest = device.substr(std::min(device.size(), kind.size()));
    if (device.starts_with(kind) &&
        absl::SimpleAtoi(absl::string_view(rest.data(), rest.size()), &ordinal)) {
      return ordinal;
    }
  }
  return std::nullopt;
}

bool IsEnergyOf(std::string_view harness_device, std::string_view source, std::string_view device,
                bool in_total, const PowerInventory& inventory) {
  if (!in_total) return false;
  if (source == "constant") return true;
  if (harness_device.starts_with("cpu")) return source == "rapl";
  const auto ordinal = GpuOrdinal(harness_device);
  return ordinal.has_value() && std::any_of(inventory.devices.begin(), inventory.devices.end(),
                                            [&](const PowerDevice& each) {
                                              return each.id == device && each.source == source &&
                                                     each.ordinal == ordinal;
                                            });
}

const WindowSummary* FindWindow(const PowerSummary& summary, const std::string& name) {
  const auto at = std::find_if(summary.windows.begin(), summary.windows.end(),
                               [&](const WindowSummary& each) { return each.name == name; });
  return at == summary.windows.end() ? nullptr : &*at;
}

}  // namespace

absl::StatusOr<HarnessInfo> EnergyHarness::Hello() {
  auto info = inner_->Hello();
  if (!info.ok()) return info.status();
  device_ = info->device;
  const PowerInventory inventory = ListPowerSources(from_);
  const bool any = std::any_of(
      inventory.channels.begin(), inventory.channels.end(), [&](const PowerChannel& each) {
        return IsPowerOrEnergy(each) &&
               IsEnergyOf(device_, each.source, each.device, each.in_total, inventory);
      });
  if (!any) {
    no_sensor_ = absl::StrCat("no sensor has the energy of ", device_,
                              " (xplane-time power sources says why)");
    tell_(absl::StrCat(no_sensor_,
                       ": unless the harness gives energy_uj, the first round ends this"));
  }
  return info;
}

absl::StatusOr<RoundTimes> EnergyHarness::RunRound(int64_t batch, int64_t round,
                                                   std::string_view workload,
                                                   std::span<const Configuration* const> order) {
  if (!gives_energy_.has_value()) {
    auto times = inner_->RunRound(batch, round, workload, order);
    if (!times.ok()) return times.status();
    const auto is_ok = [](const SlotTime& each) { return each.status == "ok"; };
    if (std::none_of(times->slots.begin(), times->slots.end(), is_ok)) return times;
    gives_energy_ = std::any_of(times->slots.begin(), times->slots.end(), [](const SlotTime& each) {
      return each.energy_uj.value_or(0) > 0;
    });
    if (*gives_energy_) return times;
  }
  if (*gives_energy_) return inner_->RunRound(batch, round, workload, order);
  if (!no_sensor_.empty()) {
    return absl::UnavailableError(
        absl::StrCat("the harness gives no energy_uj, and ", no_sensor_,
                     "; make one of them give it, or take --objective time"));
  }
  RoundTimes times;
  absl::Status status = MeasureSlots(batch, round, workload, order, &times);
  if (!status.ok()) return status;
  return times;
}

absl::Status EnergyHarness::MeasureSlots(int64_t batch, int64_t round, std::string_view workload,
                                         std::span<const Configuration* const> order,
                                         RoundTimes* times) {
  auto recorder = PowerRecorder::Start({.from = from_});
  if (!recorder.ok()) return absl::UnavailableError(recorder.status().message());
  for (size_t slot = 0; slot < order.size(); ++slot) {
    const std::string name = WindowName(slot);
    absl::Status status = (*recorder)->Begin(name);
    auto one = inner_->RunRound(batch, round, workload, order.subspan(slot, 1));
    if (status.ok()) status = (*recorder)->End(name);
    if (!one.ok()) return one.status();
    if (!status.ok()) return status;
    times->throttled |= one->throttled;
    times->notes_json = one->notes_json;
    times->slots.push_back(one->slots[0]);
  }
  if (absl::Status stopped = (*recorder)->Stop(); !stopped.ok()) return stopped;
  auto summary = SummarizePowerLog((*recorder)->log_path(), {.whole = false, .max_columns = 0});
  if (!summary.ok()) return summary.status();
  for (size_t slot = 0; slot < order.size(); ++slot) {
    if (times->slots[slot].status != "ok") continue;
    auto energy_uj = EnergyPerCall(*summary, slot, *order[slot]);
    if (!energy_uj.ok()) return energy_uj.status();
    times->slots[slot].energy_uj = *energy_uj;
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> EnergyHarness::EnergyPerCall(const PowerSummary& summary, size_t slot,
                                                     const Configuration& variant) const {
  const WindowSummary* window = FindWindow(summary, WindowName(slot));
  if (window == nullptr) return absl::InternalError("a slot without a window");
  double sum_j = 0, lo_j = 0, hi_j = 0;
  size_t parts = 0;
  bool known = true;
  for (const EnergyEstimate& each : window->energies) {
    if (!IsEnergyOf(device_, each.source, each.device, each.in_total, summary.inventory)) continue;
    ++parts;
    known &= each.energy_j.has_value() && each.coverage >= kNearlyWholeCoverage;
    sum_j += each.energy_j.value_or(0);
    lo_j += each.lo_j.value_or(0);
    hi_j += each.hi_j.value_or(0);
  }
  // What is around the calls in a window, a message there and back, is under a fiftieth of it.
  known &= window->end_ns - window->begin_ns >= kShortestNs;
  known &= parts > 0 && sum_j > 0 && hi_j - lo_j <= 2 * kMostDoubt * sum_j;
  if (!known) {
    constexpr double kNsPerMs = 1e6;
    return absl::UnavailableError(absl::StrCat(
        "the run of ", variant.id, " took ",
        std::llround(static_cast<double>(window->end_ns - window->begin_ns) / kNsPerMs),
        " ms, too short for its energy: ", sum_j, " J, between ", lo_j, " and ", hi_j,
        "; a larger --calls makes runs longer (now ", calls_, "), seconds are good"));
  }
  constexpr double kMicro = 1e6;
  return std::llround(sum_j * kMicro / static_cast<double>(calls_));
}

}  // namespace xplane_time
