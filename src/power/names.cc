#include <algorithm>
#include <array>
#include <utility>

#include "xplane_time/power.h"

namespace xplane_time {
namespace {

template <typename Enum, size_t n>
using Names = std::array<std::pair<Enum, std::string_view>, n>;

constexpr Names<PowerReason, 13> kReasons = {{
    {PowerReason::kKnown, "known"},
    {PowerReason::kPermissionDenied, "permission_denied"},
    {PowerReason::kUnsupported, "unsupported"},
    {PowerReason::kNoSamples, "no_samples"},
    {PowerReason::kReset, "reset"},
    {PowerReason::kGap, "gap"},
    {PowerReason::kDeviceLost, "device_lost"},
    {PowerReason::kDriverMismatch, "driver_mismatch"},
    {PowerReason::kResetRequired, "reset_required"},
    {PowerReason::kHung, "hung"},
    {PowerReason::kAbsent, "absent"},
    {PowerReason::kSuspended, "suspended"},
    {PowerReason::kImplausible, "implausible"},
}};
constexpr Names<ReadingKind, 4> kKinds = {{
    {ReadingKind::kCumulative, "cumulative"},
    {ReadingKind::kInstant, "instant"},
    {ReadingKind::kAverage, "average"},
    {ReadingKind::kGauge, "gauge"},
}};
constexpr Names<EnergyEstimator, 5> kEstimators = {{
    {EnergyEstimator::kBest, "best"},
    {EnergyEstimator::kCounter, "counter"},
    {EnergyEstimator::kHeld, "held"},
    {EnergyEstimator::kTrapezoid, "trapezoid"},
    {EnergyEstimator::kEndpointMean, "endpoint-mean"},
}};
constexpr Names<EnergyLimits, 4> kUnbounded = {{
    {EnergyLimits::kBetweenReadings, "between_readings"},
    {EnergyLimits::kBrokenCounter, "broken_counter"},
    {EnergyLimits::kFewUpdates, "few_updates"},
    {EnergyLimits::kCounterCoversPart, "counter_covers_part"},
}};

template <typename Enum, size_t n>
std::string_view NameIn(const Names<Enum, n>& names, Enum value) {
  const auto at = std::find_if(names.begin(), names.end(),
                               [&](const auto& each) { return each.first == value; });
  return at == names.end() ? "unknown" : at->second;
}

template <typename Enum, size_t n>
std::optional<Enum> ValueIn(const Names<Enum, n>& names, std::string_view name) {
  const auto at = std::find_if(names.begin(), names.end(),
                               [&](const auto& each) { return each.second == name; });
  return at == names.end() ? std::nullopt : std::optional(at->first);
}

}  // namespace

bool IsPowerOrEnergy(const PowerChannel& channel) {
  return channel.quantity == "power_mw" || channel.quantity == "energy_uj";
}

std::string_view PowerReasonName(PowerReason reason) { return NameIn(kReasons, reason); }
std::optional<PowerReason> PowerReasonOf(std::string_view name) { return ValueIn(kReasons, name); }
std::string_view ReadingKindName(ReadingKind kind) { return NameIn(kKinds, kind); }
std::optional<ReadingKind> ReadingKindOf(std::string_view name) { return ValueIn(kKinds, name); }
std::string_view EnergyEstimatorName(EnergyEstimator estimator) {
  return NameIn(kEstimators, estimator);
}
std::string_view UnboundedReasonName(EnergyLimits limits) { return NameIn(kUnbounded, limits); }
std::optional<EnergyEstimator> EnergyEstimatorOf(std::string_view name) {
  return ValueIn(kEstimators, name);
}

}  // namespace xplane_time
