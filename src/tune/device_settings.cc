// Clocks and power caps as axes of a search space.
//
// AddSettings adds the axes to the parameters of the space and multiplies the listed variants. The
// harness only sees the original variants: OwnOf maps a variant to the inner variant and its
// setting, and results are reported for each. RunRound groups the slots by setting, because a
// change takes time, and merges the results in the original order.
#include "tune/device_settings.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <set>
#include <thread>

#include "status.h"
#include "tune/device_state.h"
#include "tune/measuring.h"
#include "tune/outcome_json.h"
#include "tune/space_json.h"

namespace xplane_time {
namespace {

using power::GpuSetting;
using std::chrono::milliseconds;

struct Axis {
  const char *name, *option;
  std::vector<int64_t> SettingAxes::*values;
  std::optional<int64_t> GpuSetting::*value;
};
constexpr Axis kAxes[] = {
    {"clock_mhz", "--clock-mhz", &SettingAxes::clock_mhz, &GpuSetting::clock_mhz},
    {"power_cap_w", "--power-cap-w", &SettingAxes::power_cap_w, &GpuSetting::power_cap_w}};

constexpr milliseconds kLongestSettling(1000), kLook(5);
// A clock within 1/50 of the requested one counts as reached: some GPUs stay one step, about 1 %,
// below.
constexpr int64_t kSamePart = 50;

// A variant with a given id needs a separate id for each value of an axis; this is the suffix.
std::string Suffix(const Axis& axis, int64_t value) { return Cat(" ", axis.name, "=", value); }

absl::Status AddAxis(const Axis& axis, const std::vector<int64_t>& values, SearchSpace* space) {
  const auto taken = [&] {
    return InvalidArgument(space->source, ": the space already has a parameter \"", axis.name,
                           "\", the name that ", axis.option, " uses; rename it, or omit ",
                           axis.option);
  };
  if (std::set(values.begin(), values.end()).size() != values.size()) {
    return InvalidArgument(axis.option, ": a value occurs twice; remove one");
  }
  if (std::ranges::count(space->parameters, axis.name, &Parameter::name) > 0) return taken();
  std::vector<Configuration> listed;
  for (const Configuration& each : std::exchange(space->variants, {})) {
    tune::Json params = tune::Stored(each.params_json);
    if (params.contains(axis.name)) return taken();
    for (const int64_t value : values) {
      params[axis.name] = value;
      Configuration& with = listed.emplace_back(each);
      with.params_json = tune::CanonicalJson(params);
      const bool is_own_id = each.id == VariantId(each.params_json);
      with.id = is_own_id ? VariantId(with.params_json) : each.id + Suffix(axis, value);
    }
  }
  space->variants = std::move(listed);
  if (!space->parameters.empty()) {
    space->parameters.push_back({axis.name, ParameterType::kInt, {values.begin(), values.end()}});
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> UuidOf(std::string_view device, PowerSourceOptions from) {
  from.sources = {"nvml"};
  const PowerInventory inventory = ListPowerSources(from);
  for (const PowerDevice& each : inventory.devices) {
    if (!device.starts_with("rocm") && IsCalled(each, device)) return each.id;
  }
  std::string why;
  for (const PowerAbsence& each : inventory.absences) {
    if (why.empty()) why = Cat(" (", each.message, each.fix.empty() ? "" : "; ", each.fix, ")");
  }
  return Unavailable(
      "--clock-mhz and --power-cap-w require an NVIDIA GPU, but NVML does not find the harness's "
      "device ",
      device, why, "; omit them, or see xplane-time power sources");
}

// Groups the slots by setting: indices in `order`.
std::vector<std::pair<GpuSetting, std::vector<size_t>>> BySetting(
    const std::vector<GpuSetting>& order) {
  std::vector<std::pair<GpuSetting, std::vector<size_t>>> groups;
  for (size_t slot = 0; slot < order.size(); ++slot) {
    auto group =
        std::ranges::find_if(groups, [&](const auto& each) { return each.first == order[slot]; });
    if (group == groups.end()) group = groups.insert(group, {order[slot], {}});
    group->second.push_back(slot);
  }
  return groups;
}

bool IsSame(int64_t clock_mhz, int64_t set_mhz) {
  return kSamePart * std::abs(clock_mhz - set_mhz) <= set_mhz;
}

// Adds to a round's notes those of the part that ran at this setting.
std::string WithPart(const std::string& notes_json, const RoundTimes& part,
                     const GpuSetting& setting, std::optional<int64_t> clock_mhz) {
  json::Json notes = json::Parse(notes_json), own = json::Parse(part.notes_json);
  json::Json at = json::Json::object();
  for (const Axis& axis : kAxes) {
    if ((setting.*axis.value).has_value()) at[axis.name] = *(setting.*axis.value);
  }
  if (setting.clock_mhz.has_value() && clock_mhz.has_value()) {
    at["clock_sm_mhz"] = *clock_mhz;
    at["reached"] = IsSame(*clock_mhz, *setting.clock_mhz);
  }
  if (!own.is_object()) own = json::Json::object();
  std::set<std::string> kinds = EnergyKindsOf(notes_json);
  kinds.merge(EnergyKindsOf(part.notes_json));
  if (own.contains("device_state")) {
    at["device_state"] = own["device_state"];
    own.erase("device_state");
  }
  notes.update(own);
  if (!kinds.empty()) notes["energy_kinds"] = kinds;
  notes["device_settings"].push_back(std::move(at));
  return json::Dump(notes);
}

}  // namespace

absl::Status AddSettings(const SettingAxes& axes, SearchSpace* space) {
  for (const Axis& axis : kAxes) {
    const std::vector<int64_t>& values = axes.*axis.values;
    if (!values.empty()) RETURN_IF_ERROR(AddAxis(axis, values, space));
  }
  return absl::OkStatus();
}

absl::Status SettingsHarness::Open(std::string_view device) {
  ASSIGN_OR_RETURN(const std::string uuid, UuidOf(device, parts_.from));
  ASSIGN_OR_RETURN(gpu_, power::GpuSettings::Open(parts_.from.roots.nvml_library, uuid));
  if (!parts_.axes.clock_mhz.empty()) RETURN_IF_ERROR(gpu_->CheckClocks(parts_.axes.clock_mhz));
  if (parts_.axes.power_cap_w.empty()) return absl::OkStatus();
  return gpu_->CheckCaps(parts_.axes.power_cap_w);
}

const SettingsHarness::Own& SettingsHarness::OwnOf(const Configuration& variant) {
  const auto [at, is_new] = own_.try_emplace(variant.id);
  Own& own = at->second;
  if (!is_new) return own;
  Configuration inner = variant;
  tune::Json params = tune::Stored(variant.params_json);
  std::string suffix;
  for (const Axis& axis : kAxes) {
    if ((parts_.axes.*axis.values).empty()) continue;
    const auto value = params.at(axis.name).get<int64_t>();
    own.setting.*axis.value = value;
    suffix += Suffix(axis, value);
    params.erase(axis.name);
  }
  inner.params_json = tune::CanonicalJson(params);
  const bool is_own_id = variant.id == VariantId(variant.params_json);
  inner.id = is_own_id ? VariantId(inner.params_json)
                       : variant.id.substr(0, variant.id.size() - suffix.size());
  const std::string id = inner.id;
  own.known = &known_.try_emplace(id, Known{std::move(inner)}).first->second;
  return own;
}

absl::Status SettingsHarness::Prepare(std::span<const Configuration> variants,
                                      PreparedCallback done) {
  std::vector<Configuration> inner;
  std::map<std::string, std::vector<size_t>> places;  // by the inner harness's id
  for (size_t i = 0; i < variants.size(); ++i) {
    const Own& own = OwnOf(variants[i]);
    if (i == 0) RETURN_IF_ERROR(gpu_->Set(own.setting, parts_.guard));
    std::vector<size_t>& of = places[own.known->variant.id];
    if (of.empty()) inner.push_back(own.known->variant);
    of.push_back(i);
  }
  return parts_.measures->Prepare(inner, [&](size_t place, const VariantState& state) {
    for (const size_t i : places.at(inner[place].id)) {
      VariantState own = state;
      // The same program at two clocks is two variants.
      const GpuSetting& at = OwnOf(variants[i]).setting;
      for (const Axis& axis : kAxes) {
        const auto& value = at.*axis.value;
        if (value.has_value() && !own.fingerprint.empty()) own.fingerprint += Suffix(axis, *value);
      }
      done(i, own);
    }
  });
}

absl::StatusOr<VariantState> SettingsHarness::Verify(const Configuration& variant) {
  Known& known = *OwnOf(variant).known;
  if (!known.verified.has_value()) {
    ASSIGN_OR_RETURN(known.verified, parts_.measures->Verify(known.variant));
  }
  return *known.verified;
}

// If the slot of the unmeasured run fails, it fails again in the measured round. So its status is
// ignored here.
absl::Status SettingsHarness::Take(const GpuSetting& setting, int64_t batch, int64_t round,
                                   std::string_view workload, const Configuration& variant) {
  if (settled_ == setting) return absl::OkStatus();
  RETURN_IF_ERROR(gpu_->Set(setting, parts_.guard));
  const Configuration* const one = &variant;
  RETURN_IF_ERROR(parts_.runs->RunRound(batch, round, workload, {&one, 1}).status());
  settled_ = setting;
  if (!setting.clock_mhz.has_value()) return absl::OkStatus();
  const auto until = std::chrono::steady_clock::now() + kLongestSettling;
  while (std::chrono::steady_clock::now() < until) {
    const auto clock_mhz = gpu_->ReadClockMhz();
    if (!clock_mhz.has_value() || IsSame(*clock_mhz, *setting.clock_mhz)) break;
    std::this_thread::sleep_for(kLook);
  }
  return absl::OkStatus();
}

absl::StatusOr<RoundTimes> SettingsHarness::RunRound(int64_t batch, int64_t round,
                                                     std::string_view workload,
                                                     std::span<const Configuration* const> order) {
  std::vector<GpuSetting> settings;
  for (const Configuration* each : order) settings.push_back(OwnOf(*each).setting);
  RoundTimes all;
  all.slots.resize(order.size());
  for (const auto& [setting, slots] : BySetting(settings)) {
    std::vector<const Configuration*> inner;
    for (const size_t slot : slots) inner.push_back(&OwnOf(*order[slot]).known->variant);
    RETURN_IF_ERROR(Take(setting, batch, round, workload, *inner[0]));
    ASSIGN_OR_RETURN(const auto part, parts_.measures->RunRound(batch, round, workload, inner));
    for (size_t i = 0; i < slots.size(); ++i) all.slots[slots[i]] = part.slots[i];
    all.throttled |= part.throttled;
    all.notes_json = WithPart(all.notes_json, part, setting, gpu_->ReadClockMhz());
  }
  return all;
}

}  // namespace xplane_time
